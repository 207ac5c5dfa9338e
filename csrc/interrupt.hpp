// Ctrl-C while the core computes. The thread that called asks Python now and then whether a signal has come; all threads
// of the call leave by an exception if a handler of Python raised one. What is computed does not depend on it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace siggpde {

// Python's error is set already.
struct Interrupted {};

// A call from Python, which has released the interpreter's lock.
class Call {
public:
    void check() {
        if (stopped_.load(std::memory_order_relaxed)) throw Interrupted();
        if (ticks() - asked_.load(std::memory_order_relaxed) > interval && std::this_thread::get_id() == caller_) ask();
    }

private:
    static constexpr std::uint64_t interval = 50'000'000;  // some 20 ms

    static std::uint64_t ticks() {
#if defined(__x86_64__)
        return __builtin_ia32_rdtsc();
#else
        return std::uint64_t(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
#endif
    }
    void ask();  // in module.cpp

    const std::thread::id caller_ = std::this_thread::get_id();
    std::atomic<std::uint64_t> asked_{ticks()};
    std::atomic<bool> stopped_{false};
};

// The call that this thread works for, or null.
extern thread_local constinit Call* current_call;

// To be called every few milliseconds of work, and not more often than every microsecond.
inline void check_interrupt() {
    if (Call* call = current_call) call->check();
}

}  // namespace siggpde
