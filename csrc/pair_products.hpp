// Inner products of increments of pairs of series, and their reverse.
#pragma once

#include "pair_sweep.hpp"

namespace siggpde::SIGGPDE_ISA {

// D of `count` rows from row i on.
template <int count>
inline __attribute__((always_inline)) void row_products(const Increments& of, const double* x, const double* y, long i,
                                                        double* d) {
    x += i * of.channels;
    d += i * of.columns * lane_step;
    for (long j = 0; j < of.columns; ++j, y += of.channels * lane_step, d += lane_step)
        for (long lane = 0; lane < lane_step; lane += W) {
            V sums[count] = {};
            for (long c = 0; c < of.channels; ++c) {
                const V value = load(y + c * lane_step + lane);
#pragma GCC unroll 4
                for (int k = 0; k < count; ++k) sums[k] += x[k * of.channels + c] * value;
            }
#pragma GCC unroll 4
            for (int k = 0; k < count; ++k) store(d + k * of.columns * lane_step + lane, sums[k]);
        }
}

// The gradients of `count` rows from row i on, added to those of x and y.
template <int count>
inline __attribute__((always_inline)) void pull_rows(const Increments& of, const double* x, const double* y, long i,
                                                     const double* grad_d, double* grad_x, double* grad_y) {
    const long channels = of.channels, line = of.columns * lane_step;
    x += i * channels;
    grad_d += i * line;
    grad_x += i * channels * lane_step;
    for (long lane = 0; lane < lane_step; lane += W) {
        for (long c = 0; c < channels; ++c) {
            V sums[count] = {};
            for (long j = 0; j < of.columns; ++j) {
                const V value = load(y + (j * channels + c) * lane_step + lane);
#pragma GCC unroll 4
                for (int k = 0; k < count; ++k) sums[k] += load(grad_d + k * line + j * lane_step + lane) * value;
            }
#pragma GCC unroll 4
            for (int k = 0; k < count; ++k) {
                double* at = grad_x + (k * channels + c) * lane_step + lane;
                store(at, load(at) + sums[k]);
            }
        }
        if (!grad_y) continue;
        for (long j = 0; j < of.columns; ++j) {
            V slopes[count];
#pragma GCC unroll 4
            for (int k = 0; k < count; ++k) slopes[k] = load(grad_d + k * line + j * lane_step + lane);
            for (long c = 0; c < channels; ++c) {
                double* at = grad_y + (j * channels + c) * lane_step + lane;
                V sum = load(at);
#pragma GCC unroll 4
                for (int k = 0; k < count; ++k) sum += x[k * channels + c] * slopes[k];
                store(at, sum);
            }
        }
    }
}

inline void products(const Increments& of, long series, long block, double* d) {
    const double *x = of.x + series * of.of_x(), *y = of.y + block * of.of_y();
    long i = 0;
    for (; i + 4 <= of.rows; i += 4) row_products<4>(of, x, y, i, d);
    for (; i < of.rows; ++i) row_products<1>(of, x, y, i, d);
}

inline void pull_products(const Increments& of, long series, long block, const double* grad_d, double* grad_x,
                          double* grad_y) {
    const double *x = of.x + series * of.of_x(), *y = of.y + block * of.of_y();
    long i = 0;
    for (; i + 4 <= of.rows; i += 4) pull_rows<4>(of, x, y, i, grad_d, grad_x, grad_y);
    for (; i < of.rows; ++i) pull_rows<1>(of, x, y, i, grad_d, grad_x, grad_y);
}

}  // namespace siggpde::SIGGPDE_ISA
