// How the rows of a grid are cut for the reverse sweep: all states stored if they fit the cache, else checkpoints.
#pragma once

#include <cstddef>
#include <cstdlib>

#include "lanes.hpp"

namespace siggpde::SIGGPDE_ISA {

// Aligned memory for vectors; null if there is none.
template <class V>
struct Vectors {
    V* data;
    explicit Vectors(long count) : data(static_cast<V*>(std::aligned_alloc(64, (count * sizeof(V) + 127) / 64 * 64))) {}
    ~Vectors() { std::free(data); }
    Vectors(const Vectors&) = delete;
    Vectors& operator=(const Vectors&) = delete;
};

inline constexpr long cache_bytes = 1L << 20;

// Rows a segment, so that `store` vectors a row inside a segment and `keep` vectors a checkpoint take least memory.
inline long rows_per_segment(long rows, long store, long keep, long vector_bytes) {
    if (rows * store * vector_bytes <= cache_bytes) return rows > 0 ? rows : 1;
    long best = 1;
    while (best < rows && (best + 1) * best * store <= rows * keep) ++best;
    long cached = cache_bytes / (store * vector_bytes);
    return best > cached ? best : cached;
}

// At least one, so that the value of a grid without rows is written too.
inline long segments_of(long rows, long size) { return rows > size ? (rows + size - 1) / size : 1; }

}  // namespace siggpde::SIGGPDE_ISA
