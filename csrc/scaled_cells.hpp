// Numbers of a grid beyond the range of their type: every cell has a scale of its own, in units of 2^300.
//
// The problem is linear in its boundary values, so that the inputs of a cell, its left edge, bottom edge and corner, may
// be multiplied by one power of two; outputs then have the same scale, and are brought to the scale of the next cell, which
// is never smaller. U(s, t) of a straight path is I_0(2 sqrt(s t)): along a row it grows by more than a type holds,
// so no scale common to a row, or to a column, would do.
#pragma once

#include "lanes.hpp"

namespace siggpde::SIGGPDE_ISA {

inline constexpr double scale_unit = 300 * 0.69314718055994530942;  // the logarithm of 2^300

template <class T>
[[gnu::always_inline]] inline bool any_differs(vec<T> a, vec<T> b) {
    const auto differs = a != b;
    bool any = false;
    for (int lane = 0; lane < width<T>; ++lane) any = any || differs[lane];
    return any;
}

// 2^(300 d) for whole d <= 0, and zero below -3, where the number would be out of range; one for positive d.
template <class T>
[[gnu::always_inline]] inline vec<T> scale_factor(vec<T> d) {
    using V = vec<T>;
    const V zero{};
    V factor = d < zero ? broadcast<T>(T(0x1p-300)) : broadcast<T>(1);
    factor = d < broadcast<T>(-1) ? broadcast<T>(T(0x1p-600)) : factor;
    factor = d < broadcast<T>(-2) ? broadcast<T>(T(0x1p-900)) : factor;
    return d < broadcast<T>(-3) ? zero : factor;
}

// The scales of one sweep over a grid. Single precision has none.
template <class T, int M>
struct CellScales {
    using V = vec<T>;
    V* of_columns = nullptr;  // the scale of every bottom edge to come; null: nothing is ever scaled
    V* of_cells = nullptr;    // if the cells are stored: their scales, in the same order

    [[gnu::always_inline]] bool active() const { return sizeof(T) == 8 && of_columns; }

    // Brings the edge `b` of column j, and a and c, which have the scale `own`, to the larger scale of both.
    [[gnu::always_inline]] void align(long j, V (&a)[M], V (&b)[M], V& c, V& own) const {
        const V other = of_columns[j];
        if (!any_differs<T>(other, own)) return;
        const V larger = other > own ? other : own;
        const V of_left = scale_factor<T>(own - larger), of_bottom = scale_factor<T>(other - larger);
        for (int k = 0; k < M; ++k) a[k] *= of_left, b[k] *= of_bottom;
        c *= of_left;
        own = larger;
    }

    // After a cell: where U at its right corner has grown past 2^300, all its outputs go to the next scale.
    [[gnu::always_inline]] static void shrink(V& right, V (&a)[M], V (&b)[M], V& own) {
        const V limit = broadcast<T>(T(0x1p300));
        const V size = right > V{} ? right : -right;
        const auto grown = size > limit;
        bool any = false;
        for (int lane = 0; lane < width<T>; ++lane) any = any || grown[lane];
        if (!any) return;
        const V one = broadcast<T>(1), factor = grown ? broadcast<T>(T(0x1p-300)) : one;
        for (int k = 0; k < M; ++k) a[k] *= factor, b[k] *= factor;
        right *= factor;
        own += grown ? one : V{};
    }
};

}  // namespace siggpde::SIGGPDE_ISA
