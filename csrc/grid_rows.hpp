// Products over the channels of increments: the coefficients of some rows of cells, and their gradients.
//
// Several rows are taken at a time, because long paths do not fit the first cache: the columns' increments are then
// loaded once for all of these rows.
#pragma once

#include "cell.hpp"
#include "interrupt.hpp"
#include "lanes.hpp"
#include "memory.hpp"
#include "signature_kernel.hpp"
#include "static_kernel_lanes.hpp"

namespace siggpde::SIGGPDE_ISA {

inline constexpr int rows_together = 4;

// Calls body(Index<count>, first channel) for groups of at most Most channels, which stay in registers.
template <int Most, class Body>
[[gnu::always_inline]] inline void for_channels(int channels, const Body& body) {
    int first = 0;
    for (; channels - first >= Most; first += Most) body(Index<Most>{}, first);
    if constexpr (Most > 3)
        if (channels - first == 3) body(Index<3>{}, first);
    if constexpr (Most > 2)
        if (channels - first == 2) body(Index<2>{}, first);
    if (channels - first == 1) body(Index<1>{}, first);
}

// The increments along the columns: vectors (k(X, X)) or numbers shared by all lanes (k(X, y)).
template <class T>
struct VectorColumns {
    const vec<T>* data;
    static VectorColumns at(const T* numbers) { return {reinterpret_cast<const vec<T>*>(numbers)}; }
    [[gnu::always_inline]] vec<T> operator[](long i) const { return data[i]; }
};

template <class T>
struct SharedColumns {
    const T* data;
    static SharedColumns at(const T* numbers) { return {numbers}; }
    [[gnu::always_inline]] vec<T> operator[](long i) const { return broadcast<T>(data[i]); }
};

// rho[r * stride + j] = <x_r, y_j> for r < Rows and j in [begin, end).
template <class T, int Rows, class Columns>
[[gnu::noinline]] void products(const vec<T>* x, Columns y, int channels, long begin, long end, vec<T>* rho,
                                long stride) {
    for_channels<4>(channels, [&](auto count, int first) {
        vec<T> at[Rows][count];
        unroll<0, Rows>([&](auto r) {
            unroll<0, count>([&](auto c) { at[r][c] = x[r * channels + first + c]; });
        });
        for (long j = begin; j < end; ++j) {
            vec<T> sum[Rows];
            unroll<0, Rows>([&](auto r) { sum[r] = first ? rho[r * stride + j] : vec<T>{}; });
            unroll<0, count>([&](auto c) {
                const vec<T> other = y[j * channels + first + c];
                unroll<0, Rows>([&](auto r) { sum[r] += at[r][c] * other; });
            });
            unroll<0, Rows>([&](auto r) { rho[r * stride + j] = sum[r]; });
        }
    });
}

// gradient_x[r] += sum_j rho_bar[r, j] y_j, and, if wanted, gradient_y[j] += sum_r rho_bar[r, j] x_r.
template <class T, int Rows, bool WithY, class Columns>
[[gnu::noinline]] void pull_back(const vec<T>* x, Columns y, int channels, long begin, long end, const vec<T>* rho_bar,
                                 long stride, vec<T>* gradient_x, vec<T>* gradient_y) {
    for_channels<2>(channels, [&](auto count, int first) {
        vec<T> at[Rows][count], sum[Rows][count];
        unroll<0, Rows>([&](auto r) {
            unroll<0, count>([&](auto c) {
                at[r][c] = x[r * channels + first + c];
                sum[r][c] = gradient_x[r * channels + first + c];
            });
        });
        for (long j = begin; j < end; ++j) {
            vec<T> bar[Rows];
            unroll<0, Rows>([&](auto r) { bar[r] = rho_bar[r * stride + j]; });
            unroll<0, count>([&](auto c) {
                const long index = j * channels + first + c;
                const vec<T> other = y[index];
                vec<T> back{};
                if constexpr (WithY) back = gradient_y[index];
                unroll<0, Rows>([&](auto r) {
                    sum[r][c] += bar[r] * other;
                    if constexpr (WithY) back += bar[r] * at[r][c];
                });
                if constexpr (WithY) gradient_y[index] = back;
            });
        }
        unroll<0, Rows>([&](auto r) {
            unroll<0, count>([&](auto c) { gradient_x[r * channels + first + c] = sum[r][c]; });
        });
    });
}

// Both for a number of rows known only at run time, from one to rows_together.
template <class T, class Columns>
void products_of_rows(long rows, const vec<T>* x, Columns y, int channels, long begin, long end, vec<T>* rho,
                      long stride) {
    static_assert(rows_together == 4);
    if (rows == 4) return products<T, 4>(x, y, channels, begin, end, rho, stride);
    if (rows == 3) return products<T, 3>(x, y, channels, begin, end, rho, stride);
    if (rows == 2) return products<T, 2>(x, y, channels, begin, end, rho, stride);
    products<T, 1>(x, y, channels, begin, end, rho, stride);
}

template <class T, bool WithY, class Columns>
void pull_back_rows(long rows, const vec<T>* x, Columns y, int channels, long begin, long end, const vec<T>* rho_bar,
                    long stride, vec<T>* gradient_x, vec<T>* gradient_y) {
    if (rows == 4)
        return pull_back<T, 4, WithY>(x, y, channels, begin, end, rho_bar, stride, gradient_x, gradient_y);
    if (rows == 3)
        return pull_back<T, 3, WithY>(x, y, channels, begin, end, rho_bar, stride, gradient_x, gradient_y);
    if (rows == 2)
        return pull_back<T, 2, WithY>(x, y, channels, begin, end, rho_bar, stride, gradient_x, gradient_y);
    pull_back<T, 1, WithY>(x, y, channels, begin, end, rho_bar, stride, gradient_x, gradient_y);
}

// Points in rows of memory become increments in the lanes, and gradients in the lanes become gradients of points in
// memory, for series that are not split.

// The points of all lanes, [point][channel], the last one repeated after the end of a series; returns the number of
// points times channels. False in `finite` if a point is not finite.
template <class T>
long transpose_points(const LaneSeries<T>& lanes, T* points, bool& finite) {
    using V = vec<T>;
    constexpr int W = width<T>;
    V* out = reinterpret_cast<V*>(points);
    const int channels = lanes.channels;
    long longest = 0, common = lanes.points[0];
    for (int lane = 0; lane < W; ++lane) {
        longest = lanes.points[lane] > longest ? lanes.points[lane] : longest;
        common = lanes.points[lane] < common ? lanes.points[lane] : common;
    }
    const long size = longest * channels, whole = common * channels / W * W;
    for (long i = 0; i < whole; i += W) {
        V block[W];
        for (int row = 0; row < W; ++row) block[row] = load<T>(lanes.rows[row] + i);
        transpose<T>(block);
        for (int j = 0; j < W; ++j) out[i + j] = block[j];
    }
    for (int lane = 0; lane < W; ++lane) {
        const long own = lanes.points[lane] * channels;
        long i = whole;
        for (; i < own; ++i) points[i * W + lane] = lanes.rows[lane][i];
        for (; i < size; ++i) points[i * W + lane] = points[(i - channels) * W + lane];
    }
    V check{};  // becomes NaN where a point is not finite
    for (long i = 0; i < size; ++i) check += out[i] * T(0);
    finite = sum_of_lanes<T>(check) == 0;
    return size;
}

// Adds up the squared lengths of segments.
template <class T>
struct SizeSums {
    using V = vec<T>;
    V largest{}, sum{}, fourth{}, eighth{};

    [[gnu::always_inline]] void add(V squared) {
        largest = squared > largest ? squared : largest;
        sum += squared;
        const V power = squared * squared;
        fourth += power;
        eighth += power * power;
    }

    void write(LaneSizes<T>* sizes) const {
        if (!sizes) return;
        store<T>(sizes->largest, largest);
        store<T>(sizes->sum, sum);
        store<T>(sizes->fourth, fourth);
        store<T>(sizes->eighth, eighth);
    }
};

// Points become increments, zero after the end of a series; sizes are summed up on the way. False if a point is not
// finite.
template <class T>
bool load_increments(const LaneSeries<T>& lanes, T* increments, LaneSizes<T>* sizes) {
    using V = vec<T>;
    V* out = reinterpret_cast<V*>(increments);
    const int channels = lanes.channels;
    // The points are written to the same memory first: one row more than there will be increments.
    bool finite;
    const long size = transpose_points(lanes, increments, finite);
    SizeSums<T> sums;
    for (long i = 0; i + channels < size; i += channels) {
        V squared{};
        for (int c = 0; c < channels; ++c) {
            V d = out[i + channels + c] - out[i + c];
            if (lanes.scale) d *= lanes.scale[c];
            out[i + c] = d;
            squared += d * d;
        }
        sums.add(squared);
    }
    sums.write(sizes);
    return finite;
}

// Points for a static kernel, scaled; sizes are those of the lifted segments. False if a point is not finite.
template <class T>
bool load_points(const LaneSeries<T>& lanes, const StaticKernel& kernel, T* points, LaneSizes<T>* sizes) {
    using V = vec<T>;
    V* out = reinterpret_cast<V*>(points);
    const int channels = lanes.channels;
    bool finite;
    const long size = transpose_points(lanes, points, finite);
    // Scaled points start at the origin, so that an offset costs no digits; scales are for k(X, X) only.
    if (lanes.scale)
        for (int c = 0; c < channels; ++c) {
            const V first = out[c];
            for (long i = 0; i < size; i += channels) out[i + c] = (out[i + c] - first) * lanes.scale[c];
        }
    if (!sizes) return finite;
    SizeSums<T> sums;
    const T inverse = T(1 / kernel.bandwidth), twice = T(-2 * kernel.square_amplitude());
    with_radial<T>(kernel, [&](auto radial) {
        for (long i = 0; i + channels < size; i += channels) {
            V squared{};
            for (int c = 0; c < channels; ++c) {
                const V d = (out[i + channels + c] - out[i + c]) * inverse;
                squared += d * d;
            }
            sums.add(radial.less_one(radial.limited(squared)) * twice);
        }
    });
    sums.write(sizes);
    return finite;
}

// Gradients of increments, [steps + 1][channel] with the last row free, become gradients of points, in place, and go to
// the rows of memory, `row_points` each; zero after the end of a series.
template <class T>
void store_point_gradients(const LaneSeries<T>& lanes, T* gradient, long steps, T* const* rows, long row_points) {
    using V = vec<T>;
    constexpr int W = width<T>;
    const int channels = lanes.channels;
    const long size = (steps + 1) * channels, whole = size / W * W;
    for (int lane = 0; lane < W; ++lane)  // increments after the end of a series have no gradient
        for (long i = (lanes.points[lane] - 1) * channels; i < size; ++i) gradient[i * W + lane] = 0;
    V* g = reinterpret_cast<V*>(gradient);
    for (long i = size - 1; i >= channels; --i) g[i] = g[i - channels] - g[i];
    for (int c = 0; c < channels; ++c) g[c] = -g[c];
    for (long i = 0; i < whole; i += W) {
        V block[W];
        for (int j = 0; j < W; ++j) block[j] = g[i + j];
        transpose<T>(block);
        for (int lane = 0; lane < lanes.count; ++lane) store<T>(rows[lane] + i, block[lane]);
    }
    for (int lane = 0; lane < lanes.count; ++lane) {
        for (long i = whole; i < size; ++i) rows[lane][i] = gradient[i * W + lane];
        for (long i = size; i < row_points * channels; ++i) rows[lane][i] = 0;
    }
}

// Coefficients of the cells for paths lifted by a static kernel kappa, and their gradients.
//
// The cell of a piece from x to x' of a row and a piece from y to y' of a column has the coefficient
//     rho = f g (kappa(x', y') - kappa(x, y') - kappa(x', y) + kappa(x, y)),
// f and g being one over the number of equal pieces that their segments are cut into. Where a piece starts at the point
// the piece before it ends at (`chained`), a point of a row meets every point of the columns once.
template <class T, class Columns>
class LiftedRows {
    using V = vec<T>;

public:
    // `memory` has size() vectors.
    LiftedRows(const GridTask<T>& task, const LiftedPath<T>& columns, long count, V* memory)
        : kernel_(task.kernel), x_(task.lifted_x), y_(columns), count_(count), channels_(task.channels),
          inverse_(T(1 / task.kernel.bandwidth)), square_(T(task.kernel.square_amplitude())),
          differences_(memory), carried_(memory + count), bars_(memory + 2 * count) {}

    static long size(const GridTask<T>& task, long count, bool gradient) {
        return task.kernel.lifts() ? count * (gradient ? 3 : 1) : 0;
    }

    // rho[r * stride + j] of rows i + r, r < rows, and columns j in [begin, end).
    void coefficients(long i, long rows, long begin, long end, V* rho, long stride) {
        with_radial<T>(kernel_, [&](auto radial) {
            for (long r = 0; r < rows; ++r) {
                const long p = i + r;
                if (!(held_ + 1 == p && chained(x_, p))) difference_row(radial, point(x_.from, p), begin, end);
                coefficient_row(radial, point(x_.to, p), row_factor(p), begin, end, rho + r * stride);
                held_ = p;
            }
        });
    }

    // Where gradients go: at the ends and at the starts of pieces. For k(X, X) rows and columns share them.
    struct Gradients {
        V *of_row_ends, *of_row_starts, *of_column_ends, *of_column_starts;
        V bandwidth{}, amplitude{};  // in the logarithms

        void write(const GridTask<T>& task) const {
            if (!task.kernel.lifts()) return;
            V* parameters = reinterpret_cast<V*>(task.parameters);
            parameters[0] = bandwidth, parameters[1] = amplitude;
        }
    };

    void start_gradients() {
        for (long j = 0; j < count_; ++j) carried_[j] = V{};
    }

    // Rows i .. i + rows - 1, the last one first; later rows come before.
    void pull_back(long i, long rows, long begin, long end, const V* rho, const V* rho_bar, long stride,
                   Gradients& gradients) {
        with_radial<T>(kernel_, [&](auto radial) {
            for (long r = rows - 1; r >= 0; --r) {
                const long p = i + r;
                const V factor = row_factor(p);
                V amplitude{};
                for (long j = begin; j < end; ++j) {
                    const V bar = rho_bar[r * stride + j], own = bar * factor * column_factor(j);
                    amplitude += bar * rho[r * stride + j];
                    bars_[j] = own - carried_[j];
                    carried_[j] = own;
                }
                gradients.amplitude += amplitude * T(2);
                pull_back_point(radial, point(x_.to, p), begin, end, gradients.of_row_ends + p * channels_, gradients);
                if (p > 0 && chained(x_, p)) continue;
                for (long j = begin; j < end; ++j) bars_[j] = -carried_[j], carried_[j] = V{};
                pull_back_point(radial, point(x_.from, p), begin, end, gradients.of_row_starts + p * channels_, gradients);
            }
        });
    }

private:
    static bool chained(const LiftedPath<T>& path, long step) { return !path.chained || path.chained[step]; }
    const V* point(const T* points, long step) const { return reinterpret_cast<const V*>(points) + step * channels_; }
    static Columns columns_of(const T* data) { return Columns::at(data); }

    V row_factor(long p) const {
        const V square = broadcast<T>(square_);
        return x_.factor ? square * reinterpret_cast<const V*>(x_.factor)[p] : square;
    }
    V column_factor(long j) const { return y_.factor ? columns_of(y_.factor)[j] : broadcast<T>(1); }

    // The difference of two points in a channel, in bandwidths: first the difference, so that offsets cost no digits, then
    // the division, so that squares stay in range.
    [[gnu::always_inline]] V difference(const V* point, Columns others, long j, int c) const {
        return (point[c] - others[j * channels_ + c]) * inverse_;
    }

    template <class Radial>
    [[gnu::always_inline]] V squared_distance(const Radial& radial, const V* point, Columns others, long j) const {
        V sum{};
        for (int c = 0; c < channels_; ++c) {
            const V d = difference(point, others, j, c);
            sum += d * d;
        }
        return radial.limited(sum);
    }

    template <class Radial>
    [[gnu::always_inline]] V value(const Radial& radial, const V* point, Columns others, long j) const {
        return radial.less_one(squared_distance(radial, point, others, j));
    }

    // Calls body(j, c at the end less c at the start of column j).
    template <class Radial, class Body>
    [[gnu::always_inline]] void each_difference(const Radial& radial, const V* point, long begin, long end,
                                                const Body& body) const {
        const Columns ends = columns_of(y_.to), starts = columns_of(y_.from);
        V before{};
        for (long j = begin; j < end; ++j) {
            if (j == begin || !chained(y_, j)) before = value(radial, point, starts, j);
            const V after = value(radial, point, ends, j);
            body(j, after - before);
            before = after;
        }
    }

    template <class Radial>
    [[gnu::noinline]] void difference_row(const Radial& radial, const V* point, long begin, long end) const {
        each_difference(radial, point, begin, end, [&](long j, V difference) { differences_[j] = difference; });
    }

    template <class Radial>
    [[gnu::noinline]] void coefficient_row(const Radial& radial, const V* point, V factor, long begin, long end,
                                           V* rho) const {
        each_difference(radial, point, begin, end, [&](long j, V difference) {
            rho[j] = (difference - differences_[j]) * factor;
            differences_[j] = difference;
        });
        if (y_.factor)
            for (long j = begin; j < end; ++j) rho[j] *= column_factor(j);
    }

    // The gradient of sum_j bars_j (c at the end less c at the start of column j), times the squared amplitude, which the
    // bars have.
    template <class Radial>
    [[gnu::noinline]] void pull_back_point(const Radial& radial, const V* point, long begin, long end, V* of_point,
                                           Gradients& gradients) const {
        const Columns ends = columns_of(y_.to), starts = columns_of(y_.from);
        for (long j = begin; j < end; ++j) {
            const bool shared = j + 1 < end && chained(y_, j + 1);
            const V bar = shared ? bars_[j] - bars_[j + 1] : bars_[j];
            meet(radial, point, ends, j, bar, of_point, gradients.of_column_ends, gradients.bandwidth);
            if (j == begin || !chained(y_, j))
                meet(radial, point, starts, j, -bars_[j], of_point, gradients.of_column_starts, gradients.bandwidth);
        }
    }

    template <class Radial>
    [[gnu::always_inline]] void meet(const Radial& radial, const V* point, Columns others, long j, V bar, V* of_point,
                                     V* of_others, V& bandwidth) const {
        const V z = squared_distance(radial, point, others, j), pull = bar * radial.slope(z);
        bandwidth -= pull * z;
        for (int c = 0; c < channels_; ++c) {
            const V along = difference(point, others, j, c) * pull * inverse_;
            of_point[c] += along;
            of_others[j * channels_ + c] -= along;
        }
    }

    const StaticKernel kernel_;
    const LiftedPath<T>&x_, &y_;
    const long count_;
    const int channels_;
    const T inverse_, square_;
    V *const differences_, *const carried_, *const bars_;
    long held_ = -2;  // the row whose end point differences_ belongs to
};

// Checkpoints of the reverse sweep over the rows of a grid: all states are stored if they fit the cache, else
// computed again from the nearest checkpoint.
//
// Rows are cut into blocks, these into smaller blocks, and so on: at most `fan` to a level, `leaf` rows in the smallest,
// whose cells are stored. Of each level the states at the starts of at most fan - 1 blocks are kept at a time, and every
// row is computed once a level and once more: memory grows as length log length, time by a factor log length.

// Aligned memory for vectors; null if the allocation failed.
template <class V>
struct Vectors {
    V* data;
    explicit Vectors(long count) : data(static_cast<V*>(acquire_memory(count * sizeof(V)))) {}
    ~Vectors() { release_memory(data); }
    Vectors(const Vectors&) = delete;
    Vectors& operator=(const Vectors&) = delete;
};

constexpr long rows_between_checks = 7;  // of Ctrl-C, one less: rows that are short are none

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
