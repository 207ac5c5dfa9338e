// The cells of pairs of series, one after the other: levels, and the sums that every cell sees.
#include "gpsig.hpp"
#include "lanes.hpp"

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

// Inner products of increments of pairs of series, and their reverse.

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

// The reverse of the levels of pairs of series: gradients in D, cell by cell from the last one.
//
// `of` are the gradients in the sums that later cells see. A level of a cell takes from them, and from the gradient in R
// of the level above, the gradients in its own R and in D.

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

// The levels of pairs of series, compiled once for each instruction set: one lane per pair.
namespace {

template <int n>
void forward(const PairBatch& batch, long group, long first, double* values, double* scratch) {
    for (long lane = 0; lane < lane_step; lane += W) pairs_forward<n>(batch, group, first + lane, values, scratch);
}

template <int n>
void backward(const PairBatch& batch, long group, long first, const double* grad, double* grad_d, double* scratch) {
    for (long lane = 0; lane < lane_step; lane += W)
        pairs_backward<n>(batch, group, first + lane, grad, grad_d, scratch);
}

}  // namespace

extern const PairLoops pair_loops;
const PairLoops pair_loops = {
    {forward<2>, forward<3>, forward<4>, forward<5>},
    {backward<2>, backward<3>, backward<4>, backward<5>},
    products,
    pull_products,
};

}  // namespace siggpde::SIGGPDE_ISA
