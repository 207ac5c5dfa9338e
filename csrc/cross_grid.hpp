// k(X, y) for a vector of series X, one a lane, and one series y: the whole grid.
//
// With `log_norm` the result is k exp(-log_norm), and lanes whose U grows past 2^300 are multiplied by 2^-300 after a
// row: the problem is linear in its boundary values, of which `left`, U at the start of a row, is what is left.
#pragma once

#include <cmath>

#include "channel_products.hpp"
#include "goursat_loops.hpp"
#include "checkpoints.hpp"
#include "lifted_rows.hpp"

namespace siggpde::SIGGPDE_ISA {

template <class T, int M, int Cut>
struct CrossGrid {
    using V = vec<T>;
    using Step = Cell<T, M, Cut>;
    using Lifted = LiftedRows<T, SharedColumns<T>>;
    static constexpr int stored = 2 * M + 1;

    const GridTask<T>& task;
    const V* x;
    SharedColumns<T> y;
    long rows, columns;
    int channels;

    explicit CrossGrid(const GridTask<T>& task)
        : task(task), x(reinterpret_cast<const V*>(task.x)), y{task.y}, rows(task.rows), columns(task.columns),
          channels(task.channels) {}

    // U at the start of a row, the rescalings so far in units of 2^300, and the factor that each row was scaled by.
    struct Scaling {
        V left = broadcast<T>(1), shift{};
        V* of_rows = nullptr;  // null: no rescaling
    };

    // Rows [begin, end): advances `bottom`.
    template <bool Store>
    [[gnu::noinline]] void sweep(long begin, long end, V* bottom, V* rho, V* store, Lifted& lifted,
                                 Scaling& scaling) const {
        for (long i = begin; i < end; ++i) {
            const long turn = (i - begin) % rows_together;
            if (turn == 0) coefficients(i, end, rho, lifted);
            V a[M], b[M], c = scaling.left;
            for (int k = 0; k < M; ++k) a[k] = V{};
            for (long j = 0; j < columns; ++j) {
                for (int k = 0; k < M; ++k) b[k] = bottom[j * M + k];
                if constexpr (Store) {
                    for (int k = 0; k < M; ++k) store[k] = a[k], store[M + k] = b[k];
                    store[2 * M] = c;
                    store += stored;
                }
                const V right = c + b[0];
                Step::step(rho[turn * columns + j], c, a, b);
                for (int k = 0; k < M; ++k) bottom[j * M + k] = b[k];
                c = right;
            }
            if (none_finite<T>(c + a[0])) return;
            if (scaling.of_rows) rescale(i, bottom, scaling);
        }
    }

    void rescale(long i, V* bottom, Scaling& scaling) const {
        V c = scaling.left, largest{};
        for (long j = 0; j < columns; ++j) {
            c += bottom[j * M];
            largest = c > largest ? c : (-c > largest ? -c : largest);
        }
        const V one = broadcast<T>(1);
        const auto grown = largest > broadcast<T>(T(0x1p300));
        scaling.of_rows[i] = grown ? broadcast<T>(T(0x1p-300)) : one;
        bool any = false;
        for (int lane = 0; lane < width<T>; ++lane) any = any || grown[lane];
        if (!any) return;
        for (long j = 0; j < columns * M; ++j) bottom[j] *= scaling.of_rows[i];
        scaling.left *= scaling.of_rows[i];
        scaling.shift += grown ? one : V{};
    }

    // What a number on the scaled grid is to be multiplied with.
    V unscaled(const Scaling& scaling) const {
        V factor = broadcast<T>(1);
        if (task.log_norm)
            for (int lane = 0; lane < width<T>; ++lane)
                factor[lane] =
                    T(std::exp(double(scaling.shift[lane]) * (300 * 0.69314718055994530942) - task.log_norm[lane]));
        return factor;
    }

    // U at the far corner, as a sum along the top edge, which zero rows that pad a shorter lane do not change.
    void write_value(const V* bottom, const Scaling& scaling) const {
        V value = scaling.left;
        for (long j = 0; j < columns; ++j) value += bottom[j * M];
        *reinterpret_cast<V*>(task.value) = value * unscaled(scaling);
    }

    // The coefficients of rows i, i+1, .. as far as rows go together and `end` allows.
    void coefficients(long i, long end, V* rho, Lifted& lifted) const {
        const long count = end - i < rows_together ? end - i : rows_together;
        if (task.kernel.lifts()) lifted.coefficients(i, count, 0, columns, rho, columns);
        else products_of_rows<T>(count, x + i * channels, y, channels, 0, columns, rho, columns);
    }

    bool solve() const {
        const long scales = task.log_norm ? rows : 0;
        Vectors<V> memory(columns * (M + rows_together) + scales + Lifted::size(task, columns, false));
        if (!memory.data) return false;
        V *bottom = memory.data, *rho = bottom + columns * M, *scale = rho + columns * rows_together;
        Lifted lifted(task, task.lifted_y, columns, scale + scales);
        Scaling scaling;
        if (task.log_norm) scaling.of_rows = scale;
        for (long j = 0; j < columns * M; ++j) bottom[j] = V{};
        sweep<false>(0, rows, bottom, rho, nullptr, lifted, scaling);
        write_value(bottom, scaling);
        return true;
    }

    [[gnu::noinline]] void reverse_row(const V* store, const V* rho, V* rho_bar, V* bottom_bar, V end_bar) const {
        V la[M], lb[M], lc = end_bar, a[M], b[M];
        for (int k = 0; k < M; ++k) la[k] = V{};
        la[0] = end_bar;
        for (long j = columns - 1; j >= 0; --j) {
            const V* cell = store + j * stored;
            for (int k = 0; k < M; ++k) a[k] = cell[k], b[k] = cell[M + k], lb[k] = bottom_bar[j * M + k];
            const V right_bar = lc;
            rho_bar[j] = Step::adjoint(rho[j], cell[2 * M], a, b, la, lb, lc);
            lb[0] += right_bar;
            for (int k = 0; k < M; ++k) bottom_bar[j * M + k] = lb[k];
        }
    }

    // Where the reverse sweep is, and its memory; `reverse_rows` moves it.
    struct Reversal {
        const CrossGrid& grid;
        V *bottom, *bottom_bar, *rho, *rho_bar, *scale, *gradient_y, *store, *states, *gradient_x;
        V end_bar;
        Scaling scaling;
        Lifted lifted;
        typename Lifted::Gradients lifted_gradients;

        // Numbers of a gradient for each step: a lifted path has one for both ends of a piece.
        static long per_step(const GridTask<T>& task) { return task.channels * (task.kernel.lifts() ? 2 : 1); }

        static long size(const GridTask<T>& task, const Checkpoints& checkpoints) {
            const long columns = task.columns;
            return columns * (2 * M + 2 * rows_together + per_step(task)) + task.rows +
                   checkpoints.leaf * columns * stored + checkpoints.count() * columns * M +
                   Lifted::size(task, columns, true);
        }

        Reversal(const CrossGrid& grid, const Checkpoints& checkpoints, V* memory)
            : grid(grid), lifted(grid.task, grid.task.lifted_y, grid.columns,
                                 memory + size(grid.task, checkpoints) - Lifted::size(grid.task, grid.columns, true)) {
            const long columns = grid.columns, of_step = per_step(grid.task), rows = grid.rows;
            bottom = memory, bottom_bar = bottom + columns * M, rho = bottom_bar + columns * M;
            rho_bar = rho + columns * rows_together, scale = rho_bar + columns * rows_together;
            gradient_y = scale + rows, store = gradient_y + columns * of_step;
            states = store + checkpoints.leaf * columns * stored;
            gradient_x = reinterpret_cast<V*>(grid.task.gradient_x);
            if (grid.task.log_norm) scaling.of_rows = scale;
            for (long j = 0; j < columns * M; ++j) bottom[j] = bottom_bar[j] = V{};
            for (long j = 0; j < columns * of_step; ++j) gradient_y[j] = V{};
            for (long i = 0; i < rows * of_step; ++i) gradient_x[i] = V{};
            if (!grid.task.kernel.lifts()) return;
            lifted.start_gradients();
            lifted_gradients = {gradient_x, gradient_x + rows * grid.channels, gradient_y,
                                gradient_y + columns * grid.channels};
        }

        void save(long index, long) const {
            for (long j = 0; j < grid.columns * M; ++j) states[index * grid.columns * M + j] = bottom[j];
        }

        void restore(long index, long row) {
            for (long j = 0; j < grid.columns * M; ++j) bottom[j] = states[index * grid.columns * M + j];
            scaling.left = broadcast<T>(1);
            if (scaling.of_rows)
                for (long i = 0; i < row; ++i) scaling.left *= scale[i];
        }

        template <bool Store>
        void advance(long begin, long end, bool fresh) {
            const V shift = scaling.shift;
            grid.template sweep<Store>(begin, end, bottom, rho, store, lifted, scaling);
            if (!fresh) scaling.shift = shift;
        }

        bool forward(long begin, long end, bool fresh) {
            advance<false>(begin, end, fresh);
            return true;
        }

        bool stored_rows(long begin, long end, bool fresh) {
            const long columns = grid.columns;
            advance<true>(begin, end, fresh);
            if (fresh) {  // the last rows of all
                grid.write_value(bottom, scaling);
                end_bar = *reinterpret_cast<const V*>(grid.task.weight) * grid.unscaled(scaling);
            }
            for (long i = end - 1; i >= begin; --i) {
                const long turn = (i - begin) % rows_together, first = i - turn;
                const long count = (first + rows_together < end ? first + rows_together : end) - first;
                if (turn == count - 1) grid.coefficients(first, end, rho, lifted);
                if (scaling.of_rows) {
                    end_bar *= scale[i];
                    for (long j = 0; j < columns * M; ++j) bottom_bar[j] *= scale[i];
                }
                grid.reverse_row(store + (i - begin) * columns * stored, rho + turn * columns, rho_bar + turn * columns,
                                 bottom_bar, end_bar);
                end_bar = V{};
                if (turn == 0) pull_back(i, count);
            }
            return true;
        }

        void pull_back(long i, long count) {
            const long columns = grid.columns;
            if (grid.task.kernel.lifts())
                return lifted.pull_back(i, count, 0, columns, rho, rho_bar, columns, lifted_gradients);
            pull_back_rows<T, true>(count, grid.x + i * grid.channels, grid.y, grid.channels, 0, columns, rho_bar, columns,
                                    gradient_x + i * grid.channels, gradient_y);
        }
    };

    bool differentiate() const {
        const Checkpoints checkpoints(rows, columns * stored * long(sizeof(V)));
        Vectors<V> memory(Reversal::size(task, checkpoints));
        if (!memory.data) return false;
        Reversal reversal(*this, checkpoints, memory.data);
        reverse_rows(reversal, checkpoints, checkpoints.levels, 0, rows, true);
        for (long j = 0; j < columns * Reversal::per_step(task); ++j)
            task.gradient_y[j] += sum_of_lanes<T>(reversal.gradient_y[j]);
        if (task.kernel.lifts()) {
            V* parameters = reinterpret_cast<V*>(task.parameters);
            parameters[0] = reversal.lifted_gradients.bandwidth;
            parameters[1] = reversal.lifted_gradients.amplitude;
        }
        return true;
    }
};

template <class T, int M, int Cut>
bool solve_cross(const GridTask<T>& task) {
    const CrossGrid<T, M, Cut> grid(task);
    return task.gradient_x ? grid.differentiate() : grid.solve();
}

}  // namespace siggpde::SIGGPDE_ISA
