// The reverse sweep of k(X, X): rows from the last to the first, their cells stored or computed again from checkpoints.
#pragma once

#include "diagonal_grid.hpp"

namespace siggpde::SIGGPDE_ISA {

// Where the reverse sweep is, and its memory; `reverse_rows` moves it.
template <class T, int M, int Cut>
struct DiagonalReversal {
    using Grid = DiagonalGrid<T, M, Cut>;
    using V = vec<T>;
    using Corner = typename Grid::Corner;
    using Lifted = typename Grid::Lifted;
    using Scales = typename Grid::Scales;
    static constexpr int stored = Grid::stored;

    const Grid& grid;
    V *bottom, *bottom_bar, *rho, *rho_bar, *of_columns, *held, *of_cells, *of_rows, *store, *states, *gradient;
    Corner corner, corner_bar;
    Lifted lifted;
    typename Lifted::Gradients lifted_gradients;

    static long state_size(long rows) { return rows * (M + 1) + 2; }

    static long size(const GridTask<T>& task, const Checkpoints& checkpoints) {
        const long rows = task.rows;
        return rows * (2 * M + 2 + 2 * rows_together) + rows_together * task.channels +
               checkpoints.leaf * rows * (stored + 1) + checkpoints.count() * state_size(rows) +
               Lifted::size(task, rows, true);
    }

    DiagonalReversal(const Grid& grid, const Checkpoints& checkpoints, V* memory)
        : grid(grid), lifted(grid.task, grid.task.lifted_x, grid.rows,
                             memory + size(grid.task, checkpoints) - Lifted::size(grid.task, grid.rows, true)) {
        const long rows = grid.rows;
        bottom = memory, bottom_bar = bottom + rows * M, rho = bottom_bar + rows * M;
        rho_bar = rho + rows * rows_together, of_columns = rho_bar + rows * rows_together;
        held = of_columns + rows, of_rows = held + rows, store = of_rows + rows_together * grid.channels;
        of_cells = store + checkpoints.leaf * rows * stored, states = of_cells + checkpoints.leaf * rows;
        gradient = reinterpret_cast<V*>(grid.task.gradient_x);
        for (long j = 0; j < rows * M; ++j) bottom[j] = bottom_bar[j] = V{};
        for (long j = 0; j < rows; ++j) of_columns[j] = held[j] = V{};
        const bool lifts = grid.task.kernel.lifts();
        for (long c = 0; c < (grid.task.scales ? 1 : lifts ? 2 * rows : rows) * grid.channels; ++c) gradient[c] = V{};
        if (!lifts) return;
        lifted.start_gradients();
        V* starts = gradient + rows * grid.channels;
        lifted_gradients = {gradient, starts, gradient, starts};
    }

    void save(long index, long row) const {
        V *state = states + index * state_size(grid.rows), *scales = state + grid.rows * M;
        for (long j = row * M; j < grid.rows * M; ++j) state[j] = bottom[j];
        for (long j = row; j < grid.rows; ++j) scales[j] = of_columns[j];
        scales[grid.rows] = corner.value, scales[grid.rows + 1] = corner.scale;
    }

    void restore(long index, long row) {
        const V *state = states + index * state_size(grid.rows), *scales = state + grid.rows * M;
        for (long j = row * M; j < grid.rows * M; ++j) bottom[j] = state[j];
        for (long j = row; j < grid.rows; ++j) of_columns[j] = scales[j];
        corner = {scales[grid.rows], scales[grid.rows + 1]};
    }

    // Rows [begin, end). The fall of U is recorded only in the first sweep over them (`fresh`).
    template <bool Store>
    void advance(long begin, long end, bool fresh) {
        V* fall = reinterpret_cast<V*>(grid.task.fall);
        const V ratio = fall[0], largest = fall[1];
        const Scales scales{grid.scaled() ? of_columns : nullptr, of_cells};
        grid.template sweep<Store>(begin, end, corner, bottom, rho, store, scales, lifted);
        if (!fresh) fall[0] = ratio, fall[1] = largest;
    }

    bool forward(long begin, long end, bool fresh) {
        advance<false>(begin, end, fresh);
        if (!fresh || !none_finite<T>(corner.value)) return true;
        grid.write_value(corner);
        return false;
    }

    bool stored_rows(long begin, long end, bool fresh) {
        const long rows = grid.rows;
        advance<true>(begin, end, fresh);
        if (fresh) {  // the last rows of all
            grid.write_value(corner);
            if (none_finite<T>(corner.value)) return false;
            corner_bar.scale = corner.scale;
            if (grid.task.log) corner_bar.value = corner_bar.value / corner.value;
        }
        const V *cells = store, *scales = of_cells;
        for (long i = begin; i < end; ++i) cells += (rows - i) * stored, scales += rows - i;
        for (long i = end - 1; i >= begin; --i) {
            const long turn = (i - begin) % rows_together, first = i - turn;
            const long count = (first + rows_together < end ? first + rows_together : end) - first;
            if (turn == count - 1) grid.coefficients(first, end, rho, lifted);
            cells -= (rows - i) * stored, scales -= rows - i;
            corner_bar = grid.reverse_row(i, cells, rho + turn * rows, rho_bar + turn * rows, bottom_bar, corner_bar,
                                          grid.scaled() ? scales : nullptr, held);
            if (turn == 0) pull_back(i, count);
        }
        return true;
    }

    // Gradients of rows i .. i + count - 1. Cells left of the diagonal have sensitivity zero.
    void pull_back(long i, long count) {
        const long rows = grid.rows;
        for (long r = 0; r < count; ++r)
            for (long j = i; j < i + r; ++j) rho_bar[r * rows + j] = V{};
        if (grid.task.kernel.lifts()) lifted.pull_back(i, count, i, rows, rho, rho_bar, rows, lifted_gradients);
        else grid.pull_back(i, count, rho_bar, of_rows, gradient);
    }
};

template <class T, int M, int Cut>
bool DiagonalGrid<T, M, Cut>::differentiate() const {
    using Reversal = DiagonalReversal<T, M, Cut>;
    const Checkpoints checkpoints(rows, rows * stored * long(sizeof(V)));
    Vectors<V> memory(Reversal::size(task, checkpoints));
    if (!memory.data) return false;
    Reversal reversal(*this, checkpoints, memory.data);
    reverse_rows(reversal, checkpoints, checkpoints.levels, 0, rows, true);
    reversal.lifted_gradients.write(task);
    return true;
}

template <class T, int M, int Cut>
bool solve_diagonal(const GridTask<T>& task) {
    const DiagonalGrid<T, M, Cut> grid(task);
    return task.gradient_x ? grid.differentiate() : grid.solve();
}

}  // namespace siggpde::SIGGPDE_ISA
