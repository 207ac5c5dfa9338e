// Levels of rank-one tensors against series, for the inducing tensors of GPSig, and their reverse.
//
// Level m of a tensor has slots z_1 .. z_m. With g_k(t) = <z_k, dx_t> and exclusive cumulative sums F_k, F_0 = 1,
//
//     A_k(t) = g_k (F_{k-1} + g_{k-1}/2 (F_{k-2} + g_{k-2}/3 (F_{k-3} + ..)))    with `order` factors g at most,
//     F_k(t + 1) = F_k(t) + A_k(t),
//
// and the level is F_m at the end. Slots are ordered by position k, then by level: first z_1 of levels 1 .. n, then z_2 of
// levels 2 .. n, and so on.
#pragma once

#include "lane_step.hpp"

namespace siggpde {

constexpr int largest_level = 12;

// g (series, times, slots, rows); `rows` is a multiple of `lane_step`. Values and their gradients (level, series, rows).
struct TensorBatch {
    const double* g;
    long series, times, rows;
    int level, order;

    int slots() const { return level * (level + 1) / 2; }
    // The slot at position k of level m, both from 1.
    int slot(int k, int m) const { return (k - 1) * level - (k - 1) * (k - 2) / 2 + m - k; }
};

struct TensorLoops {
    // Values of one series.
    void (*forward)(const TensorBatch& batch, long series, double* values);
    // Gradients in g of one series, from those in the values; scratch has times * level * lane_step numbers, aligned.
    void (*backward)(const TensorBatch& batch, long series, const double* grad, double* grad_g, double* scratch);
};

}  // namespace siggpde
