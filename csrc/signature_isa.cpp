// From rows of series to lanes and back: paths, coefficients and their gradients.
#include "chen.hpp"
#include "interrupt.hpp"
#include "lanes.hpp"
#include "signature.hpp"

namespace siggpde::SIGGPDE_ISA {

// Which series a block holds. Lanes past `count` are empty and stay zero.
template <class T>
struct Lanes {
    long first;
    int count;
    long rows[width<T>];  // rows of each series that count
    long steps = 0;       // increments of the longest one
    long common = 0;      // rows that every lane has

    Lanes(const Batch<T>& batch, long block) : first(block * width<T>) {
        const long left = batch.n - first;
        count = left < width<T> ? int(left) : width<T>;
        for (int lane = 0; lane < count; ++lane) {
            rows[lane] = batch.lengths ? long(batch.lengths[first + lane]) : batch.length;
            const long mine = batch.increments ? rows[lane] : rows[lane] - 1;
            if (mine > steps) steps = mine;
            if (lane == 0 || rows[lane] < common) common = rows[lane];
        }
        if (count < width<T>) common = 0;
    }
};

// Fills path[step * channels + channel] with increments, zero where a series has ended. False if one of the numbers
// that count is not finite.
template <class T>
bool pack(const Batch<T>& batch, int channels, const Lanes<T>& lanes, vec<T>* path) {
    T* flat = reinterpret_cast<T*>(path);
    const long size = (batch.increments ? lanes.steps : lanes.steps + 1) * channels;
    const long stride = batch.length * channels, whole = lanes.common * channels / width<T> * width<T>;
    const T* x = batch.x + lanes.first * stride;
    for (long i = 0; i < whole; i += width<T>) {
        vec<T> block[width<T>];
        load_block<T>(x + i, stride, block);
        for (int j = 0; j < width<T>; ++j) path[i + j] = block[j];
    }
    for (int lane = 0; lane < width<T>; ++lane) {
        long i = whole;
        if (lane < lanes.count) {
            const T* row = x + lane * stride;
            for (; i < lanes.rows[lane] * channels; ++i) flat[i * width<T> + lane] = row[i];
            if (!batch.increments)  // stay at the last point
                for (; i < size; ++i) flat[i * width<T> + lane] = flat[(i - channels) * width<T> + lane];
        }
        for (; i < size; ++i) flat[i * width<T> + lane] = 0;
    }
    vec<T> check{};  // becomes NaN where a number is not finite
    for (long i = 0; i < size; ++i) check += path[i] * T(0);
    if (!batch.increments)
        for (long i = 0; i + channels < size; ++i) path[i] = path[i + channels] - path[i];
    return sum_of_lanes<T>(check) == 0;
}

// One column of a (n, columns) matrix, a lane for each row.
template <class T>
vec<T> load_column(const Lanes<T>& lanes, const T* matrix, long columns, int column) {
    vec<T> v{};
    for (int lane = 0; lane < lanes.count; ++lane) v[lane] = matrix[(lanes.first + lane) * columns + column];
    return v;
}

template <class T>
void store_column(const Lanes<T>& lanes, T* matrix, long columns, int column, vec<T> v) {
    for (int lane = 0; lane < lanes.count; ++lane) matrix[(lanes.first + lane) * columns + column] = v[lane];
}

// Coefficients before the first increment, of the words in columns which[0], which[1], ... of `start`, or zero.
template <class T>
void load_start(const Lanes<T>& lanes, const int* which, int count, const T* start, long columns, vec<T>* state) {
    for (int i = 0; i < count; ++i) state[i] = start ? load_column(lanes, start, columns, which[i]) : vec<T>{};
}

// Whether columns i, i + 1, .. of those a tile fills are next to each other for a whole block of full lanes.
template <class T>
inline bool is_run(const Lanes<T>& lanes, const TileView& tile, int i) {
    constexpr int w = width<T>;
    return lanes.count == w && i + w <= tile.n_filled && tile.filled[i + w - 1] - tile.filled[i] == w - 1;
}

// Writes the wanted coefficients of a tile to their columns. Returns NaN in lanes where one is not finite, else zero.
template <class T>
vec<T> unpack(const Lanes<T>& lanes, const TileView& tile, const vec<T>* state, T* out, long columns) {
    vec<T> check{};
    for (int i = 0; i < tile.size; ++i) check += state[i] * T(0);
    for (int i = 0; i < tile.n_filled;) {
        if (is_run(lanes, tile, i)) {
            vec<T> block[width<T>];
            for (int j = 0; j < width<T>; ++j) block[j] = state[tile.position[i + j]];
            store_block<T>(out + lanes.first * columns + tile.filled[i], columns, block);
            i += width<T>;
        } else {
            store_column<T>(lanes, out, columns, tile.filled[i], state[tile.position[i]]);
            ++i;
        }
    }
    return check;
}

// The derivative with respect to each coefficient of a tile, zero for those that no column takes from it.
template <class T>
void load_bar(const Lanes<T>& lanes, const TileView& tile, const T* grad_out, long columns, vec<T>* bar) {
    if (tile.n_filled < tile.size)
        for (int i = 0; i < tile.size; ++i) bar[i] = vec<T>{};
    for (int i = 0; i < tile.n_filled;) {
        if (is_run(lanes, tile, i)) {
            vec<T> block[width<T>];
            load_block<T>(grad_out + lanes.first * columns + tile.filled[i], columns, block);
            for (int j = 0; j < width<T>; ++j) bar[tile.position[i + j]] = block[j];
            i += width<T>;
        } else {
            bar[tile.position[i]] = load_column<T>(lanes, grad_out, columns, tile.filled[i]);
            ++i;
        }
    }
}

// Adds the derivative with respect to the start; tiles that repeat a word each hold a part of it.
template <class T>
void add_start_gradient(const Lanes<T>& lanes, const TileView& tile, const vec<T>* bar, T* grad_start, long columns) {
    for (int lane = 0; lane < lanes.count; ++lane) {
        T* row = grad_start + (lanes.first + lane) * columns;
        for (int i = 0; i < tile.size; ++i) row[tile.start[i]] += bar[i][lane];
    }
}

// From the gradient with respect to increments, v_t = x_(t+1) - x_t, to that with respect to the rows given.
template <class T>
void unpack_gradient(const Batch<T>& batch, int channels, const Lanes<T>& lanes, vec<T>* grad_path, T* grad_x) {
    T* flat = reinterpret_cast<T*>(grad_path);
    const long stride = batch.length * channels, last = lanes.steps * channels;
    if (!batch.increments) {
        for (int lane = 0; lane < lanes.count; ++lane)  // past the end of a series there is nothing to move
            for (long i = (lanes.rows[lane] - 1) * channels; i < last; ++i) flat[i * width<T> + lane] = 0;
        for (long i = 0; i < channels; ++i) grad_path[last + i] = vec<T>{};
        for (long i = last + channels - 1; i >= channels; --i) grad_path[i] = grad_path[i - channels] - grad_path[i];
        for (long i = 0; i < channels; ++i) grad_path[i] = -grad_path[i];
    }
    T* x = grad_x + lanes.first * stride;
    const long whole = lanes.common * channels / width<T> * width<T>;
    for (long i = 0; i < whole; i += width<T>) {
        vec<T> block[width<T>];
        for (int j = 0; j < width<T>; ++j) block[j] = grad_path[i + j];
        store_block<T>(x + i, stride, block);
    }
    for (int lane = 0; lane < lanes.count; ++lane) {
        const long size = lanes.rows[lane] * channels;
        for (long i = whole; i < size; ++i) x[lane * stride + i] = flat[i * width<T> + lane];
        for (long i = size; i < stride; ++i) x[lane * stride + i] = 0;
    }
}

// The signature of one block of series, forward and backward, compiled once for each instruction set.
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
            if ((at & 63) == 63) check_interrupt();
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
                if ((at & 31) == 31) check_interrupt();
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
            if ((at & 63) == 62) check_interrupt();
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
