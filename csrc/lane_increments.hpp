// Points in rows of memory become increments in the lanes, and gradients in the lanes become gradients of points in
// memory, for series that are not split.
#pragma once

#include "goursat_loops.hpp"
#include "radial.hpp"
#include "transpose.hpp"

namespace siggpde::SIGGPDE_ISA {

// The points of all lanes, [point][channel], the last one repeated after the end of a series; returns the number of
// points times channels. False in `finite` if a point is not finite.
template <class T>
long transpose_points(const LaneSeries<T>& lanes, T* points, bool& finite) {
    using V = vec<T>;
    constexpr int W = width<T>;
    V* out = reinterpret_cast<V*>(points);
    const int channels = lanes.channels;
    long longest = 0, common = lanes.points[0];
    for (int lane = 0; lane < W; ++lane) {
        longest = lanes.points[lane] > longest ? lanes.points[lane] : longest;
        common = lanes.points[lane] < common ? lanes.points[lane] : common;
    }
    const long size = longest * channels, whole = common * channels / W * W;
    for (long i = 0; i < whole; i += W) {
        V block[W];
        for (int row = 0; row < W; ++row) block[row] = load<T>(lanes.rows[row] + i);
        transpose<T>(block);
        for (int j = 0; j < W; ++j) out[i + j] = block[j];
    }
    for (int lane = 0; lane < W; ++lane) {
        const long own = lanes.points[lane] * channels;
        long i = whole;
        for (; i < own; ++i) points[i * W + lane] = lanes.rows[lane][i];
        for (; i < size; ++i) points[i * W + lane] = points[(i - channels) * W + lane];
    }
    V check{};  // becomes NaN where a point is not finite
    for (long i = 0; i < size; ++i) check += out[i] * T(0);
    finite = sum_of_lanes<T>(check) == 0;
    return size;
}

// Adds up the squared lengths of segments.
template <class T>
struct SizeSums {
    using V = vec<T>;
    V largest{}, sum{}, fourth{}, eighth{};

    [[gnu::always_inline]] void add(V squared) {
        largest = squared > largest ? squared : largest;
        sum += squared;
        const V power = squared * squared;
        fourth += power;
        eighth += power * power;
    }

    void write(LaneSizes<T>* sizes) const {
        if (!sizes) return;
        store<T>(sizes->largest, largest);
        store<T>(sizes->sum, sum);
        store<T>(sizes->fourth, fourth);
        store<T>(sizes->eighth, eighth);
    }
};

// Points become increments, zero after the end of a series; sizes are summed up on the way. False if a point is not
// finite.
template <class T>
bool load_increments(const LaneSeries<T>& lanes, T* increments, LaneSizes<T>* sizes) {
    using V = vec<T>;
    V* out = reinterpret_cast<V*>(increments);
    const int channels = lanes.channels;
    // The points are written to the same memory first: one row more than there will be increments.
    bool finite;
    const long size = transpose_points(lanes, increments, finite);
    SizeSums<T> sums;
    for (long i = 0; i + channels < size; i += channels) {
        V squared{};
        for (int c = 0; c < channels; ++c) {
            V d = out[i + channels + c] - out[i + c];
            if (lanes.scale) d *= lanes.scale[c];
            out[i + c] = d;
            squared += d * d;
        }
        sums.add(squared);
    }
    sums.write(sizes);
    return finite;
}

// Points for a static kernel, scaled; sizes are those of the lifted segments. False if a point is not finite.
template <class T>
bool load_points(const LaneSeries<T>& lanes, const StaticKernel& kernel, T* points, LaneSizes<T>* sizes) {
    using V = vec<T>;
    V* out = reinterpret_cast<V*>(points);
    const int channels = lanes.channels;
    bool finite;
    const long size = transpose_points(lanes, points, finite);
    // Scaled points start at the origin, so that an offset costs no digits; scales are for k(X, X) only.
    if (lanes.scale)
        for (int c = 0; c < channels; ++c) {
            const V first = out[c];
            for (long i = 0; i < size; i += channels) out[i + c] = (out[i + c] - first) * lanes.scale[c];
        }
    if (!sizes) return finite;
    SizeSums<T> sums;
    const T inverse = T(1 / kernel.bandwidth), twice = T(-2 * kernel.square_amplitude());
    with_radial<T>(kernel, [&](auto radial) {
        for (long i = 0; i + channels < size; i += channels) {
            V squared{};
            for (int c = 0; c < channels; ++c) {
                const V d = (out[i + channels + c] - out[i + c]) * inverse;
                squared += d * d;
            }
            sums.add(radial.less_one(radial.limited(squared)) * twice);
        }
    });
    sums.write(sizes);
    return finite;
}

// Gradients of increments, [steps + 1][channel] with the last row free, become gradients of points, in place, and go to
// the rows of memory, `row_points` each; zero after the end of a series.
template <class T>
void store_point_gradients(const LaneSeries<T>& lanes, T* gradient, long steps, T* const* rows, long row_points) {
    using V = vec<T>;
    constexpr int W = width<T>;
    const int channels = lanes.channels;
    const long size = (steps + 1) * channels, whole = size / W * W;
    for (int lane = 0; lane < W; ++lane)  // increments after the end of a series have no gradient
        for (long i = (lanes.points[lane] - 1) * channels; i < size; ++i) gradient[i * W + lane] = 0;
    V* g = reinterpret_cast<V*>(gradient);
    for (long i = size - 1; i >= channels; --i) g[i] = g[i - channels] - g[i];
    for (int c = 0; c < channels; ++c) g[c] = -g[c];
    for (long i = 0; i < whole; i += W) {
        V block[W];
        for (int j = 0; j < W; ++j) block[j] = g[i + j];
        transpose<T>(block);
        for (int lane = 0; lane < lanes.count; ++lane) store<T>(rows[lane] + i, block[lane]);
    }
    for (int lane = 0; lane < lanes.count; ++lane) {
        for (long i = whole; i < size; ++i) rows[lane][i] = gradient[i * W + lane];
        for (long i = size; i < row_points * channels; ++i) rows[lane][i] = 0;
    }
}

}  // namespace siggpde::SIGGPDE_ISA
