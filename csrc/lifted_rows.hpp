// Coefficients of the cells for paths lifted by a static kernel kappa, and their gradients.
//
// The cell of a piece from x to x' of a row and a piece from y to y' of a column has the coefficient
//     rho = f g (kappa(x', y') - kappa(x, y') - kappa(x', y) + kappa(x, y)),
// f and g being one over the number of equal pieces that their segments are cut into. Where a piece starts at the point
// the piece before it ends at (`chained`), a point of a row meets every point of the columns once.
#pragma once

#include "channel_products.hpp"
#include "goursat_loops.hpp"
#include "radial.hpp"

namespace siggpde::SIGGPDE_ISA {

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

}  // namespace siggpde::SIGGPDE_ISA
