// The signature of one block of series, forward and backward, compiled once for each instruction set.
#include "lanes.hpp"
#include "chen_adjoint.hpp"
#include "chen_step.hpp"
#include "signature_layout.hpp"

namespace siggpde::SIGGPDE_ISA {

namespace {

// Vectors handed out from the caller's memory, or merely counted when there is none.
template <class T>
struct Memory {
    vec<T>* base;
    long used = 0;
    vec<T>* take(long count) {
        used += count;
        return base ? base + used - count : nullptr;
    }
};

// States kept for the backward pass: all of them where they fit the second-level cache, else one segment of about
// sqrt(steps) and a checkpoint at the start of each.
constexpr long kept_bytes = 512 * 1024;

long segment_of(long steps, long inner_size) {
    if (steps * inner_size * SIGGPDE_VECTOR_BYTES <= kept_bytes) return steps > 0 ? steps : 1;
    long segment = 1;
    while (segment * segment < steps) ++segment;
    return segment;
}

template <class T>
struct Forward {
    vec<T>*path, *state;
    Tables<T> tables;
    T* inverse;

    Forward(const TreeView& tree, const Batch<T>& batch, Memory<T>& memory) {
        path = memory.take(batch.length * tree.channels);
        state = memory.take(tree.max_size);
        const long q = long(tree.depth) * tree.channels, row = tree.depth + 2, rows = (tree.depth + 1) * row;
        tables = {tree.channels, memory.take(2 * q), q, memory.take(2 * rows), row, rows};
        inverse = reinterpret_cast<T*>(memory.take(tree.depth / width<T> + 1));
    }

    void prepare(const TreeView& tree, const Lanes<T>& lanes, const T* start) {
        for (int i = 0; i < tree.depth; ++i) inverse[i] = T(1) / T(i + 1);
        const vec<T> root = start ? load_column(lanes, start, tree.columns, tree.root_column) : broadcast<T>(1);
        for (long i = 0; i < tables.row_stride; ++i) tables.rows[i] = tables.rows[tables.rows_stride + i] = root;
    }

    // Fills the table of increment `at`, as the first or the second of two.
    void divide(const TreeView& tree, long at, int t = 0) {
        const vec<T>* v = path + at * tree.channels;
        vec<T>* q = tables.q + t * tables.q_stride;
        for (int i = 0; i < tree.depth; ++i)
            for (int c = 0; c < tree.channels; ++c) q[i * tree.channels + c] = v[c] * inverse[i];
    }
};

template <class T>
struct Backward : Forward<T> {
    long segment;
    vec<T>*bar, *rows_bar, *vbar, *grad_path, *states, *checkpoints, *root_bar;

    Backward(const TreeView& tree, const Batch<T>& batch, Memory<T>& memory) : Forward<T>(tree, batch, memory) {
        bar = memory.take(tree.max_size);
        rows_bar = memory.take(this->tables.rows_stride);
        vbar = memory.take(long(vbar_accumulators) * tree.channels);
        grad_path = memory.take(batch.length * tree.channels);
        root_bar = memory.take(1);
        segment = segment_of(batch.length, tree.max_inner);
        states = memory.take((segment + 1) * tree.max_inner);
        checkpoints = memory.take((batch.length / segment + 1) * tree.max_inner);
    }

    // Adds one tile's part of the gradient, from `bar` (derivative of the result) back to `bar` (of the start).
    void run(const TreeView& tree, const TileView& tile, long steps) {
        const int d = tree.channels;
        const long row = this->tables.row_stride;
        const long n = tile.inner_size;
        int accumulators = 4;
        for (int o = 0; o < tile.n_ops; ++o) {
            const int needed = tile.ops[o].kind == TreeOp::full ? tile.ops[o].levels + 3 : 0;
            if (needed > accumulators) accumulators = needed;
        }
        for (long i = 0; i < n; ++i) checkpoints[i] = this->state[i];
        const long final_segment = (steps - 1) / segment * segment;
        for (long at = 0; at < final_segment; ++at) {
            this->divide(tree, at);
            step<T, 1>(tile.inner, tile.n_inner, this->state, this->state, this->tables);
            if ((at + 1) % segment == 0)
                for (long i = 0; i < n; ++i) checkpoints[(at + 1) / segment * n + i] = this->state[i];
        }
        for (long first = final_segment; first >= 0; first -= segment) {
            const long last = first + segment < steps ? first + segment : steps;
            for (long i = 0; i < n; ++i) states[i] = checkpoints[first / segment * n + i];
            for (long at = first; at + 1 < last; ++at) {
                this->divide(tree, at);
                vec<T>* in = states + (at - first) * n;
                step<T, 1>(tile.inner, tile.n_inner, in, in + n, this->tables);
            }
            for (long at = last - 1; at >= first; --at) {
                this->divide(tree, at);
                for (int i = 0; i < accumulators * d; ++i) vbar[i] = vec<T>{};
                for (long i = 0; i < row; ++i) rows_bar[i] = vec<T>{};
                Walk<T> walk{states + (at - first) * n, bar, this->tables.q, this->inverse, vbar, d, d < 8 ? 3 : 0};
                step_adjoint<T>(walk, tile.ops, 0, tile.n_ops, this->tables.rows, rows_bar, row);
                for (long i = 0; i < row; ++i) *root_bar += rows_bar[i];
                vec<T>* out = grad_path + at * d;
                for (int c = 0; c < d; ++c) {
                    vec<T> total = vbar[c];
                    for (int i = 1; i < accumulators; ++i) total += vbar[i * d + c];
                    out[c] += total;
                }
            }
        }
    }
};

template <class T>
long forward_memory(const TreeView& tree, const Batch<T>& batch) {
    Memory<T> memory{nullptr};
    Forward<T> counted(tree, batch, memory);
    return memory.used;
}

template <class T>
long backward_memory(const TreeView& tree, const Batch<T>& batch) {
    Memory<T> memory{nullptr};
    Backward<T> counted(tree, batch, memory);
    return memory.used;
}

template <class T>
Status forward(const TreeView& tree, const Batch<T>& batch, long block, const T* start, T* out, void* base) {
    Memory<T> memory{static_cast<vec<T>*>(base)};
    Forward<T> f(tree, batch, memory);
    const Lanes<T> lanes(batch, block);
    if (!pack(batch, tree.channels, lanes, f.path)) return input_not_finite;
    f.prepare(tree, lanes, start);
    if (tree.root_column >= 0) store_column(lanes, out, tree.columns, tree.root_column, f.tables.rows[0]);
    vec<T> check{};
    for (const TileView* tile = tree.tiles; tile < tree.tiles + tree.n_tiles; ++tile) {
        load_start(lanes, tile->start, tile->size, start, tree.columns, f.state);
        long at = 0;
        for (; at + 1 < lanes.steps; at += 2) {
            f.divide(tree, at, 0);
            f.divide(tree, at + 1, 1);
            step<T, 2>(tile->ops, tile->n_ops, f.state, f.state, f.tables);
        }
        if (at < lanes.steps) {
            f.divide(tree, at);
            step<T, 1>(tile->ops, tile->n_ops, f.state, f.state, f.tables);
        }
        check += unpack(lanes, *tile, f.state, out, tree.columns);
    }
    for (int lane = 0; lane < lanes.count; ++lane)
        if (check[lane] != 0) return overflow;
    return ok;
}

template <class T>
void backward(const TreeView& tree, const Batch<T>& batch, long block, const T* start, const T* grad_out, T* grad_x,
              T* grad_start, void* base) {
    Memory<T> memory{static_cast<vec<T>*>(base)};
    Backward<T> b(tree, batch, memory);
    const Lanes<T> lanes(batch, block);
    pack(batch, tree.channels, lanes, b.path);
    b.prepare(tree, lanes, start);
    *b.root_bar = tree.root_column >= 0 ? load_column(lanes, grad_out, tree.columns, tree.root_column) : vec<T>{};
    for (long i = 0; i < lanes.steps * tree.channels; ++i) b.grad_path[i] = vec<T>{};
    for (const TileView* tile = tree.tiles; tile < tree.tiles + tree.n_tiles; ++tile) {
        load_start(lanes, tile->inner_start, tile->inner_size, start, tree.columns, b.state);
        load_bar(lanes, *tile, grad_out, tree.columns, b.bar);
        if (lanes.steps) b.run(tree, *tile, lanes.steps);
        if (grad_start) add_start_gradient(lanes, *tile, b.bar, grad_start, tree.columns);
    }
    if (grad_start) store_column(lanes, grad_start, tree.columns, tree.root_column, *b.root_bar);
    unpack_gradient(batch, tree.channels, lanes, b.grad_path, grad_x);
}

template <class T>
constexpr SignatureLoops<T> loops{width<T>,    SIGGPDE_VECTOR_BYTES, forward_memory<T>, backward_memory<T>,
                                  forward<T>, backward<T>};

}  // namespace

const SignatureLoops<float> signature_float = loops<float>;
const SignatureLoops<double> signature_double = loops<double>;

}  // namespace siggpde::SIGGPDE_ISA
