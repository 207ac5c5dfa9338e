// From rows of series to lanes and back: paths, coefficients and their gradients.
#pragma once

#include "lanes.hpp"
#include "signature_loops.hpp"
#include "transpose.hpp"

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

}  // namespace siggpde::SIGGPDE_ISA
