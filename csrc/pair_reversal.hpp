// The reverse of the levels of pairs of series: gradients in D, cell by cell from the last one.
//
// `of` are the gradients in the sums that later cells see. A level of a cell takes from them, and from the gradient in R
// of the level above, the gradients in its own R and in D.
#pragma once

#include "pair_sweep.hpp"

namespace siggpde::SIGGPDE_ISA {

// The gradients in R of a level from those in what it adds to the sums and to its total. Then `of` steps back over the
// cell: the corner took sum_q C_q/q!.
inline __attribute__((always_inline)) void pull_sums(int count, V of_total, Sums& of, V (*of_r)[most]) {
#pragma GCC unroll 5
    for (int p = 0; p < count; ++p)
#pragma GCC unroll 5
        for (int q = 0; q < count; ++q)
            of_r[p][q] = (of.column[q] + of_total * inverse.of[q + 1]) * inverse.of[p + 1] +
                         of.row[p] * inverse.of[q + 1];
#pragma GCC unroll 5
    for (int q = 0; q < count; ++q) of.column[q] += of.corner * inverse.of[q + 1];
}

// The reverse of `next_level`, from the gradients in R of the level above, `of_up`; returns that in D.
inline __attribute__((always_inline)) V pull_next(V d, int then, const V (*of_up)[most], const V (*r)[most],
                                                  const Sums& sums, Sums& of, V (*of_r)[most]) {
    V of_d = of_up[0][0] * sums.corner;
    of.corner += of_up[0][0] * d;
#pragma GCC unroll 5
    for (int p = 1; p < then; ++p) {
        of_d += of_up[0][p] * sums.column[p - 1] + of_up[p][0] * sums.row[p - 1];
        of.column[p - 1] += of_up[0][p] * d;
        of.row[p - 1] += of_up[p][0] * d;
#pragma GCC unroll 5
        for (int q = 1; q < then; ++q) {
            of_d += of_up[p][q] * r[p - 1][q - 1];
            of_r[p - 1][q - 1] += of_up[p][q] * d;
        }
    }
    return of_d;
}

// The reverse of D times `last_factor`, from the gradient in the last level; returns that in D.
inline __attribute__((always_inline)) V pull_last(V d, int then, V of_total, const V (*r)[most], const Sums& sums,
                                                  Sums& of, V (*of_r)[most]) {
    const V down = of_total * d;
    of.corner += down;
#pragma GCC unroll 5
    for (int p = 1; p < then; ++p) {
        const V once = down * inverse.of[p + 1];
        of.column[p - 1] += once;
        of.row[p - 1] += once;
#pragma GCC unroll 5
        for (int q = 1; q < then; ++q) of_r[p - 1][q - 1] += once * inverse.of[q + 1];
    }
    return of_total * last_factor(then, r, sums);
}

// What the forward sweep recorded of a cell, and with it R of all levels but the last.
template <int n>
inline __attribute__((always_inline)) void recall(V d, const double* record, Sums* sums, V (*r)[most][most]) {
    r[0][0][0] = d;
#pragma GCC unroll 5
    for (int m = 0; m + 1 < n; ++m) {
#pragma GCC unroll 5
        for (int q = 0; q <= m; ++q) {
            sums[m].column[q] = load(record + 2 * q * W);
            sums[m].row[q] = load(record + (2 * q + 1) * W);
        }
        sums[m].corner = load(record + 2 * (m + 1) * W);
        record += (2 * m + 3) * W;
        if (m + 2 < n) next_level(d, m + 2, r[m], sums[m], r[m + 1]);
    }
}

template <int n>
inline __attribute__((always_inline)) void pairs_backward(const PairBatch& batch, long group, long first,
                                                          const double* grad, double* grad_d, double* scratch) {
    const long begin = group * batch.rows * batch.columns * batch.pairs + first, stride = long(PairBatch::sums(n)) * W;
    double *columns = scratch, *record = scratch + batch.columns * stride;
    V totals[n];
    sweep<n>(batch, batch.d + begin, totals, columns, record);
    record += batch.rows * batch.columns * PairBatch::state(n) * W;
    for (long at = 0; at < batch.columns * stride; at += W) store(columns + at, V{});
#pragma GCC unroll 5
    for (int m = 0; m < n; ++m) totals[m] = load(grad + (m * batch.groups + group) * batch.pairs + first);
    Sums sums[most], of[most];
    V r[most][most][most], of_r[most][most][most];
    for (long i = batch.rows - 1; i >= 0; --i) {
#pragma GCC unroll 5
        for (int m = 0; m + 1 < n; ++m) {
            of[m].corner = V{};
#pragma GCC unroll 5
            for (int p = 0; p <= m; ++p) of[m].row[p] = V{};
        }
        for (long j = batch.columns - 1; j >= 0; --j) {
            const long cell = begin + (i * batch.columns + j) * batch.pairs;
            const V d = load(batch.d + cell);
            V of_d = V{};
            record -= PairBatch::state(n) * W;
            recall<n>(d, record, sums, r);
            double* of_column = columns + (j + 1) * stride;
#pragma GCC unroll 5
            for (int m = n - 2; m >= 0; --m) {
                of_column -= (m + 1) * W;
#pragma GCC unroll 5
                for (int q = 0; q <= m; ++q) of[m].column[q] = load(of_column + q * W);
                pull_sums(m + 1, totals[m], of[m], of_r[m]);
                of_d += m + 2 < n ? pull_next(d, m + 2, of_r[m + 1], r[m], sums[m], of[m], of_r[m])
                                  : pull_last(d, m + 2, totals[n - 1], r[m], sums[m], of[m], of_r[m]);
#pragma GCC unroll 5
                for (int q = 0; q <= m; ++q) store(of_column + q * W, of[m].column[q]);
            }
            store(grad_d + cell, of_d + of_r[0][0][0]);
        }
    }
}

}  // namespace siggpde::SIGGPDE_ISA
