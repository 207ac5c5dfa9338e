// k(X, y) for a vector of series X, one a lane, and one series y: the whole grid.
//
// With `log_norm` the result is k exp(-log_norm), and cells have scales of their own (cell.hpp), so that k itself
// may be out of range.
#pragma once

#include <cmath>

#include "cell.hpp"
#include "grid_rows.hpp"
#include "signature_kernel.hpp"

namespace siggpde::SIGGPDE_ISA {

template <class T, int M, int Cut>
struct CrossGrid {
    using V = vec<T>;
    using Step = Cell<T, M, Cut>;
    using Lifted = LiftedRows<T, SharedColumns<T>>;
    using Scales = CellScales<T, M>;
    static constexpr int stored = 2 * M + 1;

    const GridTask<T>& task;
    const V* x;
    SharedColumns<T> y;
    long rows, columns;
    int channels;

    explicit CrossGrid(const GridTask<T>& task)
        : task(task), x(reinterpret_cast<const V*>(task.x)), y{task.y}, rows(task.rows), columns(task.columns),
          channels(task.channels) {}

    // Rows [begin, end): advances `bottom`.
    template <bool Store>
    [[gnu::noinline]] void sweep(long begin, long end, V* bottom, V* rho, V* store, Scales scales, Lifted& lifted) const {
        for (long i = begin; i < end; ++i) {
            if ((i & rows_between_checks) == rows_between_checks) check_interrupt();
            const long turn = (i - begin) % rows_together;
            if (turn == 0) coefficients(i, end, rho, lifted);
            V a[M], b[M], c = broadcast<T>(1), scale{};
            for (int k = 0; k < M; ++k) a[k] = V{};
            for (long j = 0; j < columns; ++j) {
                for (int k = 0; k < M; ++k) b[k] = bottom[j * M + k];
                if (scales.active()) [[unlikely]] {
                    scales.align(j, a, b, c, scale);
                    if constexpr (Store) *scales.of_cells++ = scale;
                }
                if constexpr (Store) {
                    for (int k = 0; k < M; ++k) store[k] = a[k], store[M + k] = b[k];
                    store[2 * M] = c;
                    store += stored;
                }
                V right = c + b[0];
                Step::step(rho[turn * columns + j], c, a, b);
                if (scales.active()) [[unlikely]] {
                    Scales::shrink(right, a, b, scale);
                    scales.of_columns[j] = scale;
                }
                for (int k = 0; k < M; ++k) bottom[j * M + k] = b[k];
                c = right;
            }
            if (none_finite<T>(c + a[0])) return;
        }
    }

    // What a number of that scale is to be multiplied with.
    V unscaled(V scale) const {
        V factor = broadcast<T>(1);
        if (task.log_norm)
            for (int lane = 0; lane < width<T>; ++lane)
                factor[lane] = T(std::exp(double(scale[lane]) * scale_unit - task.log_norm[lane]));
        return factor;
    }

    // U at the far corner, as a sum along the top edge, which zero rows that pad a shorter lane do not change.
    void write_value(const V* bottom, const Scales& scales) const {
        V value = broadcast<T>(1), scale{};
        for (long j = 0; j < columns; ++j) {
            V edge = bottom[j * M];
            if (scales.active()) {
                const V other = scales.of_columns[j], larger = other > scale ? other : scale;
                value *= scale_factor<T>(scale - larger);
                edge *= scale_factor<T>(other - larger);
                scale = larger;
            }
            value += edge;
        }
        *reinterpret_cast<V*>(task.value) = value * unscaled(scale);
    }

    // The coefficients of rows i, i+1, .. as far as rows go together and `end` allows.
    void coefficients(long i, long end, V* rho, Lifted& lifted) const {
        const long count = end - i < rows_together ? end - i : rows_together;
        if (task.kernel.lifts()) lifted.coefficients(i, count, 0, columns, rho, columns);
        else products_of_rows<T>(count, x + i * channels, y, channels, 0, columns, rho, columns);
    }

    bool scaled() const { return sizeof(T) == 8 && task.log_norm; }

    bool solve() const {
        Vectors<V> memory(columns * (M + 1 + rows_together) + Lifted::size(task, columns, false));
        if (!memory.data) return false;
        V *bottom = memory.data, *rho = bottom + columns * M, *of_columns = rho + columns * rows_together;
        Lifted lifted(task, task.lifted_y, columns, of_columns + columns);
        const Scales scales{scaled() ? of_columns : nullptr};
        for (long j = 0; j < columns * M; ++j) bottom[j] = V{};
        for (long j = 0; j < columns; ++j) of_columns[j] = V{};
        sweep<false>(0, rows, bottom, rho, nullptr, scales, lifted);
        write_value(bottom, scales);
        return true;
    }

    // Sensitivities have the inverse of their number's scale: `cells` are the scales of the row, `held` those of
    // bottom_bar, if scaled.
    [[gnu::noinline]] void reverse_row(const V* store, const V* rho, V* rho_bar, V* bottom_bar, V end_bar, const V* cells,
                                       V* held) const {
        V la[M], lb[M], lc = end_bar, a[M], b[M];
        for (int k = 0; k < M; ++k) la[k] = V{};
        la[0] = end_bar;
        for (long j = columns - 1; j >= 0; --j) {
            const V* cell = store + j * stored;
            for (int k = 0; k < M; ++k) a[k] = cell[k], b[k] = cell[M + k], lb[k] = bottom_bar[j * M + k];
            if (cells) [[unlikely]] {
                if (j + 1 < columns && any_differs<T>(cells[j], cells[j + 1])) {
                    const V factor = scale_factor<T>(cells[j] - cells[j + 1]);
                    for (int k = 0; k < M; ++k) la[k] *= factor;
                    lc *= factor;
                }
                const V factor = scale_factor<T>(cells[j] - held[j]);
                for (int k = 0; k < M; ++k) lb[k] *= factor;
                held[j] = cells[j];
            }
            const V right_bar = lc;
            rho_bar[j] = Step::adjoint(rho[j], cell[2 * M], a, b, la, lb, lc);
            lb[0] += right_bar;
            for (int k = 0; k < M; ++k) bottom_bar[j * M + k] = lb[k];
        }
    }

    // Where the reverse sweep is, and its memory; `reverse_rows` moves it.
    struct Reversal {
        const CrossGrid& grid;
        V *bottom, *bottom_bar, *rho, *rho_bar, *of_columns, *held, *of_cells, *gradient_y, *store, *states, *gradient_x;
        V end_bar{};
        Lifted lifted;
        typename Lifted::Gradients lifted_gradients;

        // Numbers of a gradient for each step: a lifted path has one for both ends of a piece.
        static long per_step(const GridTask<T>& task) { return task.channels * (task.kernel.lifts() ? 2 : 1); }

        static long size(const GridTask<T>& task, const Checkpoints& checkpoints) {
            const long columns = task.columns;
            return columns * (2 * M + 2 + 2 * rows_together + per_step(task)) +
                   checkpoints.leaf * columns * (stored + 1) + checkpoints.count() * columns * (M + 1) +
                   Lifted::size(task, columns, true);
        }

        Reversal(const CrossGrid& grid, const Checkpoints& checkpoints, V* memory)
            : grid(grid), lifted(grid.task, grid.task.lifted_y, grid.columns,
                                 memory + size(grid.task, checkpoints) - Lifted::size(grid.task, grid.columns, true)) {
            const long columns = grid.columns, of_step = per_step(grid.task), rows = grid.rows;
            bottom = memory, bottom_bar = bottom + columns * M, rho = bottom_bar + columns * M;
            rho_bar = rho + columns * rows_together, of_columns = rho_bar + columns * rows_together;
            held = of_columns + columns, gradient_y = held + columns, store = gradient_y + columns * of_step;
            of_cells = store + checkpoints.leaf * columns * stored, states = of_cells + checkpoints.leaf * columns;
            gradient_x = reinterpret_cast<V*>(grid.task.gradient_x);
            for (long j = 0; j < columns * M; ++j) bottom[j] = bottom_bar[j] = V{};
            for (long j = 0; j < columns; ++j) of_columns[j] = held[j] = V{};
            for (long j = 0; j < columns * of_step; ++j) gradient_y[j] = V{};
            for (long i = 0; i < rows * of_step; ++i) gradient_x[i] = V{};
            if (!grid.task.kernel.lifts()) return;
            lifted.start_gradients();
            lifted_gradients = {gradient_x, gradient_x + rows * grid.channels, gradient_y,
                                gradient_y + columns * grid.channels};
        }

        void save(long index, long) const {
            V* state = states + index * grid.columns * (M + 1);
            for (long j = 0; j < grid.columns * M; ++j) state[j] = bottom[j];
            for (long j = 0; j < grid.columns; ++j) state[grid.columns * M + j] = of_columns[j];
        }

        void restore(long index, long) const {
            const V* state = states + index * grid.columns * (M + 1);
            for (long j = 0; j < grid.columns * M; ++j) bottom[j] = state[j];
            for (long j = 0; j < grid.columns; ++j) of_columns[j] = state[grid.columns * M + j];
        }

        Scales scales() const { return {grid.scaled() ? of_columns : nullptr, of_cells}; }

        bool forward(long begin, long end, bool) {
            grid.template sweep<false>(begin, end, bottom, rho, store, scales(), lifted);
            return true;
        }

        bool stored_rows(long begin, long end, bool fresh) {
            const long columns = grid.columns;
            grid.template sweep<true>(begin, end, bottom, rho, store, scales(), lifted);
            if (fresh) {  // the last rows of all
                grid.write_value(bottom, scales());
                const bool any = grid.scaled() && end > begin && columns > 0;
                const V last = any ? of_cells[(end - begin) * columns - 1] : V{};
                end_bar = *reinterpret_cast<const V*>(grid.task.weight) * grid.unscaled(last);
            }
            for (long i = end - 1; i >= begin; --i) {
                const long turn = (i - begin) % rows_together, first = i - turn, row = (i - begin) * columns;
                const long count = (first + rows_together < end ? first + rows_together : end) - first;
                if (turn == count - 1) grid.coefficients(first, end, rho, lifted);
                grid.reverse_row(store + row * stored, rho + turn * columns, rho_bar + turn * columns, bottom_bar, end_bar,
                                 grid.scaled() ? of_cells + row : nullptr, held);
                end_bar = V{};
                if (turn == 0) pull_back(i, count);
                if ((i & rows_between_checks) == rows_between_checks) check_interrupt();
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
        reversal.lifted_gradients.write(task);
        return true;
    }
};

template <class T, int M, int Cut>
bool solve_cross(const GridTask<T>& task) {
    const CrossGrid<T, M, Cut> grid(task);
    return task.gradient_x ? grid.differentiate() : grid.solve();
}

}  // namespace siggpde::SIGGPDE_ISA
