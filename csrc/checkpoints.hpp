// Checkpoints of the reverse sweep over the rows of a grid: all states are stored if they fit the cache, else
// computed again from the nearest checkpoint.
//
// Rows are cut into blocks, these into smaller blocks, and so on: at most `fan` to a level, `leaf` rows in the smallest,
// whose cells are stored. Of each level the states at the starts of at most fan - 1 blocks are kept at a time, and every
// row is computed once a level and once more: memory grows as length log length, time by a factor log length.
#pragma once

#include "lanes.hpp"
#include "memory.hpp"

namespace siggpde::SIGGPDE_ISA {

// Aligned memory for vectors; null if the allocation failed.
template <class V>
struct Vectors {
    V* data;
    explicit Vectors(long count) : data(static_cast<V*>(acquire_memory(count * sizeof(V)))) {}
    ~Vectors() { release_memory(data); }
    Vectors(const Vectors&) = delete;
    Vectors& operator=(const Vectors&) = delete;
};

struct Checkpoints {
    static constexpr long cache_bytes = 4L << 20;  // states are stored whole, and no row computed twice, while they fit
    static constexpr long max_fan = 24, min_leaf = 4;

    long leaf, fan = 1;
    int levels = 0;

    // For rows of which the stored cells take `row_bytes` each.
    Checkpoints(long rows, long row_bytes) : leaf(rows > 0 ? rows : 1) {
        if (rows * row_bytes <= cache_bytes) return;
        const long fit = cache_bytes / row_bytes / min_leaf * min_leaf;
        leaf = fit > min_leaf ? fit : min_leaf;
        const long leaves = (rows + leaf - 1) / leaf;
        for (long reached = 1; reached < leaves; reached *= max_fan) ++levels;
        while (power(fan, levels) < leaves) ++fan;
    }

    long count() const { return levels * (fan - 1); }
    long rows(int level) const { return leaf * power(fan, level); }
    static long power(long base, int exponent) { return exponent == 0 ? 1 : base * power(base, exponent - 1); }
};

// Rows [begin, end), a block of that level, the last row first. The grid is at the state of row `begin`; `fresh` says
// that no row of these was swept before. False as soon as nothing finite is left.
template <class Reversal>
bool reverse_rows(Reversal& grid, const Checkpoints& checkpoints, int level, long begin, long end, bool fresh) {
    if (level == 0) return grid.stored_rows(begin, end, fresh);
    const long size = checkpoints.rows(level - 1), index = (level - 1) * (checkpoints.fan - 1);
    const long blocks = (end - begin + size - 1) / size;
    for (long b = 0; b + 1 < blocks; ++b) {
        grid.save(index + b, begin + b * size);
        if (!grid.forward(begin + b * size, begin + (b + 1) * size, fresh)) return false;
    }
    for (long b = blocks - 1; b >= 0; --b) {
        const bool last = b + 1 == blocks;
        if (!last) grid.restore(index + b, begin + b * size);
        const long stop = last ? end : begin + (b + 1) * size;
        if (!reverse_rows(grid, checkpoints, level - 1, begin + b * size, stop, fresh && last)) return false;
    }
    return true;
}

}  // namespace siggpde::SIGGPDE_ISA
