// Tasks shared out to threads that live for one call.
//
// There is no pool: nothing survives a call, so a fork between two calls is harmless, and starting a thread costs
// little beside the work it is given. What a task computes does not depend on the thread that runs it.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace siggpde {

// Calls work(task) for every task in [0, tasks) on at most `threads` threads, this one included.
template <class Work>
void parallel_for(int threads, long tasks, const Work& work) {
    threads = int(std::min<long>(threads, tasks));
    if (threads <= 1) {
        for (long task = 0; task < tasks; ++task) work(task);
        return;
    }
    std::atomic<long> next{0};
    std::exception_ptr failure;
    std::mutex guard;
    auto loop = [&] {
        try {
            for (long task = next++; task < tasks; task = next++) work(task);
        } catch (...) {
            const std::lock_guard lock(guard);
            failure = std::current_exception();
        }
    };
    std::vector<std::thread> helpers;
    helpers.reserve(threads - 1);
    try {
        for (int i = 1; i < threads; ++i) helpers.emplace_back(loop);
    } catch (const std::system_error&) {
        // No more threads to be had: those there are do the work.
    }
    loop();
    for (auto& helper : helpers) helper.join();
    if (failure) std::rethrow_exception(failure);
}

// As many threads as are allowed and worth starting: each should have at least ~50 microseconds of work.
inline int useful_threads(int allowed, double operations) {
    return int(std::clamp(operations / 4e5, 1.0, double(std::max(allowed, 1))));
}

}  // namespace siggpde
