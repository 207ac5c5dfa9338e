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

#include "isa.hpp"

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

// Levels of truncated signature kernels of pairs of series, for the kernel of GPSig with full order, and their reverse.
//
// With D_ij of two series, R_pq of level m is the sum of products of m factors D that end with time i, p times, and with
// time j, q times, multiplied by p! q!. Level 1 has R_11 = D, and at every cell (i, j) one level gives the next by
//
//     R'_11 = D P,    R'_1,q+1 = D C_q,    R'_p+1,1 = D H_p,    R'_p+1,q+1 = D R_pq,
//
// with sums over earlier cells: C_q of sum_p R_pq/p! over the column above, H_p of sum_q R_pq/q! over the row to the
// left, and P of sum_q C_q/q! over the columns to the left. The level is the sum of sum_pq R_pq/(p! q!) over all cells.
constexpr int least_pair_level = 2, largest_pair_level = 5;  // compiled one by one

// d (groups, rows, columns, pairs), with `pairs` a multiple of `lane_step`; values, gradients (level, groups, pairs).
struct PairBatch {
    const double* d;
    long groups, rows, columns, pairs;
    int level;

    // How many C, or H, all levels but the last have; and how many C, H and P.
    static constexpr int sums(int level) { return level * (level - 1) / 2; }
    static constexpr int state(int level) { return 2 * sums(level) + level - 1; }
    long forward_scratch() const { return columns * sums(level); }
    long backward_scratch() const { return (rows * state(level) + sums(level)) * columns; }
};

// Increments x (series, rows, channels) and y (blocks, columns, channels, lane_step): D are their inner products.
struct Increments {
    const double *x, *y;
    long rows, columns, channels;

    long of_x() const { return rows * channels; }
    long of_y() const { return columns * channels * lane_step; }
    long cells() const { return rows * columns * lane_step; }
};

// For every level: of `lane_step` pairs from `first` on of a group. Scratch is aligned, with as many numbers for each
// pair as the batch says.
struct PairLoops {
    static constexpr int levels = largest_pair_level - least_pair_level + 1;
    void (*forward[levels])(const PairBatch& batch, long group, long first, double* values, double* scratch);
    void (*backward[levels])(const PairBatch& batch, long group, long first, const double* grad, double* grad_d,
                             double* scratch);
    // D (rows, columns, lane_step) of a series and a block.
    void (*products)(const Increments& of, long series, long block, double* d);
    // From the gradients in D those in the increments, added: x (rows, channels, lane_step), of which the lanes are to
    // be summed, and y (columns, channels, lane_step), or null.
    void (*pull_products)(const Increments& of, long series, long block, const double* grad_d, double* grad_x,
                          double* grad_y);
};

// Those of the instruction set at hand.
const PairLoops& pair_loops();

}  // namespace siggpde
