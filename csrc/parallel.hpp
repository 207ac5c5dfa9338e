// Tasks shared out to threads that live for one call.
//
// There is no pool: nothing survives a call, so a fork between two calls is harmless, and starting a thread costs
// little beside the work it is given. What a task computes does not depend on the thread that runs it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "interrupt.hpp"
#include "memory.hpp"

namespace siggpde {

// Calls work(task) for every task in [0, tasks) on at most `threads` threads, this one included.
template <class Work>
void parallel_for(int threads, long tasks, const Work& work) {
    threads = int(std::min<long>(threads, tasks));
    if (threads <= 1) {
        for (long task = 0; task < tasks; ++task) {
            check_interrupt();
            work(task);
        }
        return;
    }
    std::atomic<long> next{0};
    std::exception_ptr failure;
    std::mutex guard;
    std::condition_variable done;
    int working = 0;
    const auto kept = [&](const auto& attempt) {
        try {
            attempt();
        } catch (...) {
            const std::lock_guard lock(guard);
            failure = std::current_exception();
        }
    };
    const auto loop = [&] {
        for (long task = next++; task < tasks; task = next++) {
            check_interrupt();
            work(task);
        }
    };
    const auto help = [&, call = current_call] {
        current_call = call;
        kept(loop);
        const std::lock_guard lock(guard);
        --working;
        done.notify_one();
    };
    std::vector<std::thread> helpers;
    helpers.reserve(threads - 1);
    try {
        for (int i = 1; i < threads; ++i) {
            {
                const std::lock_guard lock(guard);
                ++working;
            }
            helpers.emplace_back(help);
        }
    } catch (const std::system_error&) {
        // No more threads to be had: those there are do the work.
        const std::lock_guard lock(guard);
        --working;
    }
    kept(loop);
    kept([&] {  // Ctrl-C is seen by this thread only, while it waits too
        std::unique_lock lock(guard);
        while (working > 0) {
            done.wait_for(lock, std::chrono::milliseconds(20));
            lock.unlock();
            check_interrupt();
            lock.lock();
        }
    });
    for (auto& helper : helpers) helper.join();
    if (failure) std::rethrow_exception(failure);
}

// As many threads as are allowed and worth starting: each should have at least ~50 microseconds of work.
inline int useful_threads(int allowed, double operations) {
    return int(std::clamp(operations / 4e5, 1.0, double(std::max(allowed, 1))));
}

// Blocks of series, as many as there are lanes, shared out to threads with a piece of memory each.

// Runs work(block, memory) for every block of `width` of the n series; memory is `bytes` long, aligned to 64.
template <class Work>
void for_blocks(long n, int width, int threads, std::size_t bytes, const Work& work) {
    const long blocks = (n + width - 1) / width;
    threads = int(std::min<long>(threads, blocks));
    std::atomic<long> next{0};
    const std::size_t share = (bytes + 127) / 64 * 64;
    Scratch<char> memory(share * threads);
    parallel_for(threads, threads, [&](long thread) {
        for (long block = next++; block < blocks; block = next++) {
            check_interrupt();
            work(block, memory.get() + share * thread);
        }
    });
}

}  // namespace siggpde
