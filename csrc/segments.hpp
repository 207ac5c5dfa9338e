// How the rows of a grid are cut for the reverse sweep: all states stored if they fit the cache, else checkpoints.
#pragma once

#include "lanes.hpp"
#include "memory.hpp"

namespace siggpde::SIGGPDE_ISA {

// Aligned memory for vectors; null if there is none.
template <class V>
struct Vectors {
    V* data;
    explicit Vectors(long count) : data(static_cast<V*>(take_memory(count * sizeof(V)))) {}
    ~Vectors() { return_memory(data); }
    Vectors(const Vectors&) = delete;
    Vectors& operator=(const Vectors&) = delete;
};

// States are stored whole, and no row computed twice, while they fit here.
inline constexpr long cache_bytes = 4L << 20;

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
