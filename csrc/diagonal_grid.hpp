// k(X, X): the solution is symmetric, so only the cells on and above the diagonal are solved.
//
// Row i starts at the diagonal cell, whose left edge mirrors its bottom edge, and runs to the right. Between rows the
// state is the bottom edge of every cell to come and the corner value U(i, i) on the diagonal, with their scales if log k
// is wanted (cell.hpp).
#pragma once

#include <cmath>

#include "cell.hpp"
#include "grid_rows.hpp"
#include "signature_kernel.hpp"

namespace siggpde::SIGGPDE_ISA {

template <class T, int M, int Cut>
struct DiagonalGrid {
    using V = vec<T>;
    using Step = Cell<T, M, Cut>;
    using Lifted = LiftedRows<T, VectorColumns<T>>;
    using Scales = CellScales<T, M>;
    static constexpr int stored = 2 * M + 1;  // vectors kept of a cell: a, b, c

    const GridTask<T>& task;
    const V* x;
    long rows;
    int channels;

    explicit DiagonalGrid(const GridTask<T>& task)
        : task(task), x(reinterpret_cast<const V*>(task.x)), rows(task.rows), channels(task.channels) {
        V* fall = reinterpret_cast<V*>(task.fall);
        fall[0] = fall[1] = broadcast<T>(1);
    }

    // fall[0] is the largest ratio so far of an earlier U(i, i) to a later one, fall[1] the largest U(i, i).
    [[gnu::always_inline]] void watch_fall(V corner) const {
        V* fall = reinterpret_cast<V*>(task.fall);
        fall[1] = corner > fall[1] ? corner : fall[1];
        const V ratio = fall[1] / corner;
        fall[0] = ratio > fall[0] ? ratio : fall[0];
    }

    [[gnu::always_inline]] static void keep(V* store, const V (&a)[M], const V (&b)[M], V c) {
        for (int k = 0; k < M; ++k) store[k] = a[k], store[M + k] = b[k];
        store[2 * M] = c;
    }

    // U(i, i) and its scale.
    struct Corner {
        V value = broadcast<T>(1), scale{};
    };

    // Row i: advances `bottom` and the corner, and returns U at the end of the row. `store` gets the inputs of every cell
    // of the row.
    template <bool Store>
    [[gnu::always_inline]] V row(long i, Corner& corner, V* bottom, const V* rho, V* store, const Scales& scales) const {
        V a[M], b[M], c = corner.value, scale = corner.scale;
        for (int k = 0; k < M; ++k) a[k] = V{}, b[k] = bottom[i * M + k];
        if (scales.active()) [[unlikely]] {
            scales.align(i, a, b, c, scale);
            if constexpr (Store) scales.of_cells[0] = scale;
        }
        for (int k = 0; k < M; ++k) a[k] = b[k];
        if constexpr (Store) keep(store, a, b, c);
        const V next = c + b[0];
        Step::step(rho[i], c, a, b);
        corner = {next + a[0], scale};
        c = next;
        if (scales.active()) [[unlikely]] Scales::shrink(c, a, b, scale);
        for (long j = i + 1; j < rows; ++j) {
            for (int k = 0; k < M; ++k) b[k] = bottom[j * M + k];
            if (scales.active()) [[unlikely]] {
                scales.align(j, a, b, c, scale);
                if constexpr (Store) scales.of_cells[j - i] = scale;
            }
            if constexpr (Store) keep(store + (j - i) * stored, a, b, c);
            V right = c + b[0];
            Step::step(rho[j], c, a, b);
            if (scales.active()) [[unlikely]] {
                Scales::shrink(right, a, b, scale);
                scales.of_columns[j] = scale;
            }
            for (int k = 0; k < M; ++k) bottom[j * M + k] = b[k];
            c = right;
        }
        return c;
    }

    // After a row: a corner past 2^300 goes to the next scale, and the largest one before it with it.
    void rescale(Corner& corner, V before) const {
        const V one = broadcast<T>(1), size = corner.value > V{} ? corner.value : -corner.value;
        const auto grown = size > broadcast<T>(T(0x1p300));
        corner.value *= grown ? broadcast<T>(T(0x1p-300)) : one;
        corner.scale += grown ? one : V{};
        reinterpret_cast<V*>(task.fall)[1] *= scale_factor<T>(before - corner.scale);
        // Below this the number has lost its digits: no number is better than a wrong one.
        const auto lost = size < broadcast<T>(T(0x1p-900));
        corner.value = lost ? broadcast<T>(T(NAN)) : corner.value;
    }

    template <bool Store>
    [[gnu::noinline]] void sweep(long begin, long end, Corner& corner, V* bottom, V* rho, V* store, Scales scales,
                                 Lifted& lifted) const {
        for (long i = begin; i < end; ++i) {
            if ((i & rows_between_checks) == rows_between_checks) check_interrupt();
            watch_fall(corner.value);
            const long turn = (i - begin) % rows_together;
            if (turn == 0) coefficients(i, end, rho, lifted);
            const V before = corner.scale;
            const V right = row<Store>(i, corner, bottom, rho + turn * rows, store, scales);
            if (scales.active()) rescale(corner, before);
            if constexpr (Store) {
                store += (rows - i) * stored;
                if (scales.active()) scales.of_cells += rows - i;
            }
            if (none_finite<T>(corner.value + right)) {
                corner.value = broadcast<T>(T(NAN));
                return;
            }
        }
    }

    // The coefficients of rows i, i+1, .. as far as rows go together and `end` allows, from column i on.
    void coefficients(long i, long end, V* rho, Lifted& lifted) const {
        const long count = end - i < rows_together ? end - i : rows_together;
        if (task.kernel.lifts()) lifted.coefficients(i, count, i, rows, rho, rows);
        else products_of_rows<T>(count, x + i * channels, VectorColumns<T>{x}, channels, i, rows, rho, rows);
    }

    // log(corner 2^doublings): the same to the last bit however often the number was rescaled on the way.
    static double logarithm(double corner, int doublings) {
        int exponent;
        const double fraction = std::frexp(corner, &exponent);
        if (exponent + doublings < 1000) return std::log(std::ldexp(corner, doublings));
        return std::log(fraction) + double(exponent + doublings) * 0.69314718055994530942;
    }

    void write_value(const Corner& corner) const {
        watch_fall(corner.value);
        for (int lane = 0; lane < width<T>; ++lane) {
            const double value = double(corner.value[lane]);
            task.value[lane] = task.log ? T(logarithm(value, 300 * int(corner.scale[lane]))) : corner.value[lane];
        }
    }

    bool scaled() const { return sizeof(T) == 8 && task.log; }

    bool solve() const {
        Vectors<V> memory(rows * (M + 1 + rows_together) + Lifted::size(task, rows, false));
        if (!memory.data) return false;
        V *bottom = memory.data, *rho = bottom + rows * M, *of_columns = rho + rows * rows_together;
        Lifted lifted(task, task.lifted_x, rows, of_columns + rows);
        for (long j = 0; j < rows * M; ++j) bottom[j] = V{};
        for (long j = 0; j < rows; ++j) of_columns[j] = V{};
        Corner corner;
        sweep<false>(0, rows, corner, bottom, rho, nullptr, Scales{scaled() ? of_columns : nullptr}, lifted);
        write_value(corner);
        return true;
    }

    // The reverse of row i: turns the sensitivities of its outputs into those of its inputs and of its coefficients. Each
    // has the inverse of its number's scale: `cells` are the scales of the row, `held` those of bottom_bar, if scaled.
    [[gnu::noinline]] Corner reverse_row(long i, const V* store, const V* rho, V* rho_bar, V* bottom_bar,
                                         Corner diagonal_bar, const V* cells, V* held) const {
        V la[M], lb[M], lc{}, a[M], b[M];
        for (int k = 0; k < M; ++k) la[k] = V{};
        for (long j = rows - 1; j > i; --j) {
            const V* cell = store + (j - i) * stored;
            for (int k = 0; k < M; ++k) a[k] = cell[k], b[k] = cell[M + k], lb[k] = bottom_bar[j * M + k];
            if (cells) [[unlikely]] {
                to_scale(la, lc, cells[j - i], j + 1 < rows ? cells[j + 1 - i] : cells[j - i]);
                const V factor = scale_factor<T>(cells[j - i] - held[j]);
                for (int k = 0; k < M; ++k) lb[k] *= factor;
                held[j] = cells[j - i];
            }
            const V right_bar = lc;
            rho_bar[j] = Step::adjoint(rho[j], cell[2 * M], a, b, la, lb, lc);
            lb[0] += right_bar;
            for (int k = 0; k < M; ++k) bottom_bar[j * M + k] = lb[k];
        }
        for (int k = 0; k < M; ++k) a[k] = store[k], b[k] = store[M + k], lb[k] = V{};
        if (cells) [[unlikely]] {
            if (i + 1 < rows) to_scale(la, lc, cells[0], cells[1]);
            diagonal_bar.value *= scale_factor<T>(cells[0] - diagonal_bar.scale);
            diagonal_bar.scale = held[i] = cells[0];
        }
        la[0] += diagonal_bar.value;
        const V next_bar = lc + diagonal_bar.value;
        lc = next_bar;
        rho_bar[i] = Step::adjoint(rho[i], store[2 * M], a, b, la, lb, lc);
        lb[0] += next_bar;
        for (int k = 0; k < M; ++k) bottom_bar[i * M + k] = la[k] + lb[k];
        return {lc, diagonal_bar.scale};
    }

    [[gnu::always_inline]] static void to_scale(V (&la)[M], V& lc, V own, V next) {
        if (!any_differs<T>(own, next)) return;
        const V factor = scale_factor<T>(own - next);
        for (int k = 0; k < M; ++k) la[k] *= factor;
        lc *= factor;
    }

    // Gradients of rows i .. i + count - 1 in the increments, or in the scales.
    void pull_back(long i, long count, const V* rho_bar, V* of_rows, V* gradient) const {
        const VectorColumns<T> columns{x};
        const V* first = x + i * channels;
        for (long c = 0; c < count * channels; ++c) of_rows[c] = V{};
        if (task.scales) {
            pull_back_rows<T, false>(count, first, columns, channels, i, rows, rho_bar, rows, of_rows, nullptr);
            for (long r = 0; r < count; ++r)
                for (int c = 0; c < channels; ++c)
                    gradient[c] += of_rows[r * channels + c] * first[r * channels + c] * T(2);
        } else {
            pull_back_rows<T, true>(count, first, columns, channels, i, rows, rho_bar, rows, of_rows, gradient);
            for (long c = 0; c < count * channels; ++c) gradient[i * channels + c] += of_rows[c];
        }
    }

    bool differentiate() const;
};

// The reverse sweep of k(X, X): rows from the last to the first, their cells stored or computed again from checkpoints.

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
            if ((i & rows_between_checks) == rows_between_checks) check_interrupt();
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
