// The cells of pairs of series, one after the other: levels, and the sums that every cell sees.
#pragma once

#include "lanes.hpp"
#include "sequence_levels.hpp"

namespace siggpde::SIGGPDE_ISA {

using V = vec<double>;
constexpr int W = width<double>;
constexpr int most = largest_pair_level - 1;  // p and q of R: that of the last level is not formed

constexpr double inverse_factorial(int n) { return n < 2 ? 1.0 : inverse_factorial(n - 1) / n; }

constexpr struct InverseFactorials {
    double of[most + 3];
    constexpr InverseFactorials() : of{} {
        for (int n = 0; n < most + 3; ++n) of[n] = inverse_factorial(n);
    }
} inverse;

// The sums over earlier cells that a cell of one level sees: C_q of its column, H_p of its row, and P.
struct Sums {
    V column[most], row[most], corner;
};

// What one level of a cell adds to them, from its R.
inline __attribute__((always_inline)) void add_up(int count, const V (*r)[most], V* columns, V* rows, V& plain) {
    plain = V{};
#pragma GCC unroll 5
    for (int p = 0; p < count; ++p) columns[p] = rows[p] = V{};
#pragma GCC unroll 5
    for (int p = 0; p < count; ++p)
#pragma GCC unroll 5
        for (int q = 0; q < count; ++q) {
            columns[q] += r[p][q] * inverse.of[p + 1];
            rows[p] += r[p][q] * inverse.of[q + 1];
        }
#pragma GCC unroll 5
    for (int p = 0; p < count; ++p) plain += rows[p] * inverse.of[p + 1];
}

// R of the next level.
inline __attribute__((always_inline)) void next_level(V d, int then, const V (*r)[most], const Sums& sums,
                                                      V (*up)[most]) {
    up[0][0] = d * sums.corner;
#pragma GCC unroll 5
    for (int p = 1; p < then; ++p) {
        up[0][p] = d * sums.column[p - 1];
        up[p][0] = d * sums.row[p - 1];
#pragma GCC unroll 5
        for (int q = 1; q < then; ++q) up[p][q] = d * r[p - 1][q - 1];
    }
}

// The last level's sum over p and q, divided by D.
inline __attribute__((always_inline)) V last_factor(int then, const V (*r)[most], const Sums& sums) {
    V factor = sums.corner;
#pragma GCC unroll 5
    for (int p = 1; p < then; ++p) {
        V inner = sums.row[p - 1];
#pragma GCC unroll 5
        for (int q = 1; q < then; ++q) inner += r[p - 1][q - 1] * inverse.of[q + 1];
        factor += (inner + sums.column[p - 1]) * inverse.of[p + 1];
    }
    return factor;
}

// All cells of W pairs; `totals` are the n levels. Where there is a `record`, the sums that every cell sees go there.
template <int n>
inline __attribute__((always_inline)) void sweep(const PairBatch& batch, const double* d, V* totals, double* columns,
                                                 double* record) {
    const long line = batch.pairs, stride = long(PairBatch::sums(n)) * W;
    for (long at = 0; at < batch.columns * stride; at += W) store(columns + at, V{});
#pragma GCC unroll 5
    for (int m = 0; m < n; ++m) totals[m] = V{};
    Sums sums[most];
    V r[most][most][most];
    for (long i = 0; i < batch.rows; ++i) {
#pragma GCC unroll 5
        for (int m = 0; m + 1 < n; ++m) {
            sums[m].corner = V{};
#pragma GCC unroll 5
            for (int p = 0; p < m + 1; ++p) sums[m].row[p] = V{};
        }
        double* column = columns;
        for (long j = 0; j < batch.columns; ++j, column += stride, d += line) {
            const V here = load(d);
            r[0][0][0] = here;
            double* of_level = column;
#pragma GCC unroll 5
            for (int m = 0; m + 1 < n; ++m) {
                const int count = m + 1;
#pragma GCC unroll 5
                for (int q = 0; q < count; ++q) sums[m].column[q] = load(of_level + q * W);
                if (record) {
#pragma GCC unroll 5
                    for (int q = 0; q < count; ++q) {
                        store(record + 2 * q * W, sums[m].column[q]);
                        store(record + (2 * q + 1) * W, sums[m].row[q]);
                    }
                    store(record + 2 * count * W, sums[m].corner);
                    record += (2 * count + 1) * W;
                }
                if (m + 2 < n)
                    next_level(here, m + 2, r[m], sums[m], r[m + 1]);
                else
                    totals[m + 1] += here * last_factor(m + 2, r[m], sums[m]);
                V of_columns[most], of_rows[most], plain;
                add_up(count, r[m], of_columns, of_rows, plain);
                totals[m] += plain;
#pragma GCC unroll 5
                for (int q = 0; q < count; ++q) {
                    sums[m].corner += sums[m].column[q] * inverse.of[q + 1];
                    store(of_level + q * W, sums[m].column[q] + of_columns[q]);
                    sums[m].row[q] += of_rows[q];
                }
                of_level += count * W;
            }
        }
    }
}

template <int n>
inline __attribute__((always_inline)) void pairs_forward(const PairBatch& batch, long group, long first, double* values,
                                                         double* scratch) {
    V totals[n];
    sweep<n>(batch, batch.d + group * batch.rows * batch.columns * batch.pairs + first, totals, scratch, nullptr);
    for (int m = 0; m < n; ++m) store(values + (m * batch.groups + group) * batch.pairs + first, totals[m]);
}

}  // namespace siggpde::SIGGPDE_ISA
