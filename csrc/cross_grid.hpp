// k(X, y) for a vector of series X, one a lane, and one series y: the whole grid.
#pragma once

#include "channel_products.hpp"
#include "goursat_loops.hpp"
#include "checkpoints.hpp"

namespace siggpde::SIGGPDE_ISA {

template <class T, int M, int Cut>
struct CrossGrid {
    using V = vec<T>;
    using Step = Cell<T, M, Cut>;
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
    [[gnu::noinline]] void sweep(long begin, long end, V* bottom, V* rho, V* store) const {
        for (long i = begin; i < end; ++i) {
            const long turn = (i - begin) % rows_together;
            if (turn == 0) coefficients(i, end, rho);
            V a[M], b[M], c = broadcast<T>(1);
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
        }
    }

    // U at the far corner, as a sum along the top edge, which zero rows that pad a shorter lane do not change.
    void write_value(const V* bottom) const {
        V value = broadcast<T>(1);
        for (long j = 0; j < columns; ++j) value += bottom[j * M];
        *reinterpret_cast<V*>(task.value) = value;
    }

    // The coefficients of rows i, i+1, .. as far as rows go together and `end` allows.
    void coefficients(long i, long end, V* rho) const {
        const long count = end - i < rows_together ? end - i : rows_together;
        products_of_rows<T>(count, x + i * channels, y, channels, 0, columns, rho, columns);
    }

    bool solve() const {
        Vectors<V> memory(columns * (M + rows_together));
        if (!memory.data) return false;
        V *bottom = memory.data, *rho = bottom + columns * M;
        for (long j = 0; j < columns * M; ++j) bottom[j] = V{};
        sweep<false>(0, rows, bottom, rho, nullptr);
        write_value(bottom);
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
        V *bottom, *bottom_bar, *rho, *rho_bar, *gradient_y, *store, *states, *gradient_x;
        V end_bar;

        static long size(long columns, int channels, const Checkpoints& checkpoints) {
            return columns * (2 * M + 2 * rows_together + channels) + checkpoints.leaf * columns * stored +
                   checkpoints.count() * columns * M;
        }

        Reversal(const CrossGrid& grid, const Checkpoints& checkpoints, V* memory) : grid(grid) {
            const long columns = grid.columns;
            bottom = memory, bottom_bar = bottom + columns * M, rho = bottom_bar + columns * M;
            rho_bar = rho + columns * rows_together, gradient_y = rho_bar + columns * rows_together;
            store = gradient_y + columns * grid.channels, states = store + checkpoints.leaf * columns * stored;
            gradient_x = reinterpret_cast<V*>(grid.task.gradient_x);
            end_bar = *reinterpret_cast<const V*>(grid.task.weight);
            for (long j = 0; j < columns * M; ++j) bottom[j] = bottom_bar[j] = V{};
            for (long j = 0; j < columns * grid.channels; ++j) gradient_y[j] = V{};
            for (long i = 0; i < grid.rows * grid.channels; ++i) gradient_x[i] = V{};
        }

        void save(long index, long) const {
            for (long j = 0; j < grid.columns * M; ++j) states[index * grid.columns * M + j] = bottom[j];
        }

        void restore(long index, long) const {
            for (long j = 0; j < grid.columns * M; ++j) bottom[j] = states[index * grid.columns * M + j];
        }

        bool forward(long begin, long end, bool) const {
            grid.template sweep<false>(begin, end, bottom, rho, nullptr);
            return true;
        }

        bool stored_rows(long begin, long end, bool fresh) {
            const long columns = grid.columns;
            grid.template sweep<true>(begin, end, bottom, rho, store);
            if (fresh) grid.write_value(bottom);
            for (long i = end - 1; i >= begin; --i) {
                const long turn = (i - begin) % rows_together, first = i - turn;
                const long count = (first + rows_together < end ? first + rows_together : end) - first;
                if (turn == count - 1) grid.coefficients(first, end, rho);
                grid.reverse_row(store + (i - begin) * columns * stored, rho + turn * columns, rho_bar + turn * columns,
                                 bottom_bar, end_bar);
                end_bar = V{};
                if (turn == 0)
                    pull_back_rows<T, true>(count, grid.x + i * grid.channels, grid.y, grid.channels, 0, columns, rho_bar,
                                            columns, gradient_x + i * grid.channels, gradient_y);
            }
            return true;
        }
    };

    bool differentiate() const {
        const Checkpoints checkpoints(rows, columns * stored * long(sizeof(V)));
        Vectors<V> memory(Reversal::size(columns, channels, checkpoints));
        if (!memory.data) return false;
        Reversal reversal(*this, checkpoints, memory.data);
        reverse_rows(reversal, checkpoints, checkpoints.levels, 0, rows, true);
        for (long j = 0; j < columns * channels; ++j) task.gradient_y[j] += sum_of_lanes<T>(reversal.gradient_y[j]);
        return true;
    }
};

template <class T, int M, int Cut>
bool solve_cross(const GridTask<T>& task) {
    const CrossGrid<T, M, Cut> grid(task);
    return task.gradient_x ? grid.differentiate() : grid.solve();
}

}  // namespace siggpde::SIGGPDE_ISA
