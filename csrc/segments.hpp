// The reverse sweep over the rows of a grid: all states stored if they fit the cache, else computed again.
//
// Rows are cut into blocks, these into smaller blocks, and so on: at most `fan` to a level, `leaf` rows in the smallest,
// whose cells are stored. Of each level the states at the starts of at most fan - 1 blocks are kept at a time, and every
// row is computed once a level and once more: memory grows as length log length, time by a factor log length.
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

struct Cuts {
    static constexpr long cache_bytes = 4L << 20;  // states are stored whole, and no row computed twice, while they fit
    static constexpr long most_fan = 24, least_leaf = 4;

    long leaf, fan = 1;
    int levels = 0;

    // For rows of which the stored cells take `row_bytes` each.
    Cuts(long rows, long row_bytes) : leaf(rows > 0 ? rows : 1) {
        if (rows * row_bytes <= cache_bytes) return;
        const long fit = cache_bytes / row_bytes / least_leaf * least_leaf;
        leaf = fit > least_leaf ? fit : least_leaf;
        const long leaves = (rows + leaf - 1) / leaf;
        for (long reached = 1; reached < leaves; reached *= most_fan) ++levels;
        while (power(fan, levels) < leaves) ++fan;
    }

    long slots() const { return levels * (fan - 1); }
    long rows(int level) const { return leaf * power(fan, level); }
    static long power(long base, int exponent) { return exponent == 0 ? 1 : base * power(base, exponent - 1); }
};

// Rows [begin, end), a block of that level, the last row first. The grid is at the state of row `begin`; `fresh` says
// that no row of these was swept before. False as soon as nothing finite is left.
template <class Reversal>
bool reverse_rows(Reversal& grid, const Cuts& cuts, int level, long begin, long end, bool fresh) {
    if (level == 0) return grid.stored_rows(begin, end, fresh);
    const long size = cuts.rows(level - 1), slot = (level - 1) * (cuts.fan - 1);
    const long blocks = (end - begin + size - 1) / size;
    for (long b = 0; b + 1 < blocks; ++b) {
        grid.save(slot + b, begin + b * size);
        if (!grid.forward(begin + b * size, begin + (b + 1) * size, fresh)) return false;
    }
    for (long b = blocks - 1; b >= 0; --b) {
        const bool last = b + 1 == blocks;
        if (!last) grid.restore(slot + b, begin + b * size);
        const long stop = last ? end : begin + (b + 1) * size;
        if (!reverse_rows(grid, cuts, level - 1, begin + b * size, stop, fresh && last)) return false;
    }
    return true;
}

}  // namespace siggpde::SIGGPDE_ISA
