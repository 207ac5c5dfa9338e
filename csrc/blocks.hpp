// Blocks of series, as many as there are lanes, shared out to threads with a piece of memory each.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "parallel.hpp"
#include "scratch.hpp"

namespace siggpde {

// Runs work(block, memory) for every block of `width` of the n series; memory is `bytes` long, aligned to 64.
template <class Work>
void for_blocks(long n, int width, int threads, std::size_t bytes, const Work& work) {
    const long blocks = (n + width - 1) / width;
    threads = int(std::min<long>(threads, blocks));
    std::atomic<long> next{0};
    const std::size_t share = (bytes + 127) / 64 * 64;
    Scratch<char> memory(share * threads);
    parallel_for(threads, threads, [&](long thread) {
        for (long block = next++; block < blocks; block = next++) work(block, memory.get() + share * thread);
    });
}

}  // namespace siggpde
