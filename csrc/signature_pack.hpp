// From rows of series to lanes and back: paths, coefficients and their gradients.
#pragma once

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

    Lanes(const Batch<T>& batch, long block) : first(block * width<T>) {
        const long left = batch.n - first;
        count = left < width<T> ? int(left) : width<T>;
        for (int lane = 0; lane < count; ++lane) {
            rows[lane] = batch.lengths ? long(batch.lengths[first + lane]) : batch.length;
            const long mine = batch.increments ? rows[lane] : rows[lane] - 1;
            if (mine > steps) steps = mine;
        }
    }
};

// Fills path[step * channels + channel] with increments, zero where a series has ended. False if one of the numbers
// that count is not finite.
template <class T>
bool pack(const Batch<T>& batch, int channels, const Lanes<T>& lanes, vec<T>* path) {
    T* flat = reinterpret_cast<T*>(path);
    const long size = (batch.increments ? lanes.steps : lanes.steps + 1) * channels;
    for (int lane = 0; lane < width<T>; ++lane) {
        long i = 0;
        if (lane < lanes.count) {
            const T* row = batch.x + (lanes.first + lane) * batch.length * channels;
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

// Writes the wanted coefficients of a tile to their columns. Returns NaN in lanes where one is not finite, else zero.
template <class T>
vec<T> unpack(const Lanes<T>& lanes, const TileView& tile, const vec<T>* state, T* out, long columns) {
    vec<T> check{};
    for (int i = 0; i < tile.size; ++i) check += state[i] * T(0);
    const T* flat = reinterpret_cast<const T*>(state);
    for (int lane = 0; lane < lanes.count; ++lane) {
        T* row = out + (lanes.first + lane) * columns;
        for (int i = 0; i < tile.size; ++i)
            if (tile.column[i] >= 0) row[tile.column[i]] = flat[long(i) * width<T> + lane];
    }
    return check;
}

// The derivative with respect to each coefficient of a tile, zero for those that no column takes from it.
template <class T>
void load_bar(const Lanes<T>& lanes, const TileView& tile, const T* grad_out, long columns, vec<T>* bar) {
    T* flat = reinterpret_cast<T*>(bar);
    if (lanes.count < width<T>)
        for (int i = 0; i < tile.size; ++i) bar[i] = vec<T>{};
    for (int lane = 0; lane < lanes.count; ++lane) {
        const T* row = grad_out + (lanes.first + lane) * columns;
        for (int i = 0; i < tile.size; ++i)
            flat[long(i) * width<T> + lane] = tile.column[i] >= 0 ? row[tile.column[i]] : T(0);
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
void unpack_gradient(const Batch<T>& batch, int channels, const Lanes<T>& lanes, const vec<T>* grad_path, T* grad_x) {
    const T* flat = reinterpret_cast<const T*>(grad_path);
    for (int lane = 0; lane < lanes.count; ++lane) {
        T* row = grad_x + (lanes.first + lane) * batch.length * channels;
        const long size = lanes.rows[lane] * channels;
        for (long i = 0; i < size; ++i) {
            if (batch.increments) {
                row[i] = flat[i * width<T> + lane];
            } else {
                T before = i >= channels ? flat[(i - channels) * width<T> + lane] : T(0);
                T after = i + channels < size ? flat[i * width<T> + lane] : T(0);
                row[i] = before - after;
            }
        }
        for (long i = size; i < batch.length * channels; ++i) row[i] = 0;
    }
}

}  // namespace siggpde::SIGGPDE_ISA
