// Series of unequal lengths in lanes: loaded, lifted, smoothed and held at their last value.
//
// Position p of channel c is at series[p * n_used + c]. What a lane holds depends on its own series only.
#pragma once

#include "transpose.hpp"
#include "window_view.hpp"

namespace siggpde::SIGGPDE_ISA {

inline float root(float x) { return __builtin_sqrtf(x); }
inline double root(double x) { return __builtin_sqrt(x); }

template <class T>
inline vec<T> root_of_lanes(vec<T> v) {
    T lanes[width<T>];
    store<T>(lanes, v);
    for (int lane = 0; lane < width<T>; ++lane) lanes[lane] = root(lanes[lane]);
    return load<T>(lanes);
}

template <class T>
struct LaneWindows {
    long stride[width<T>];  // of the starts of its windows
    long count[width<T>];   // of its windows
    bool alike;             // all lanes have the same
};

template <class T>
struct WindowSeries {
    using V = vec<T>;
    static constexpr int W = width<T>;

    const WindowView& view;
    V* series;
    long length[W];
    long longest = 0;
    int d;

    WindowSeries(const WindowView& view_, const WindowLanes<T>& lanes, V* memory)
        : view(view_), series(memory), d(view_.n_used) {
        for (int lane = 0; lane < W; ++lane) {
            length[lane] = lanes.lengths[lane];
            longest = length[lane] > longest ? length[lane] : longest;
        }
    }

    // Positions that memory is needed for.
    static long positions(const WindowView& view, long longest) {
        long most = view.span();
        if (view.smoothing > most) most = view.smoothing;
        return longest > most ? longest : most;
    }

    // False if a number is not finite.
    bool load_rows(const WindowLanes<T>& lanes) {
        long common = longest;
        for (int lane = 0; lane < W; ++lane) common = length[lane] < common ? length[lane] : common;
        // All channels are used: rows of memory are rows of the series, and square blocks can be turned.
        const long whole = d == view.channels ? common * d / W * W : 0;
        for (long i = 0; i < whole; i += W) {
            V block[W];
            for (int row = 0; row < W; ++row) block[row] = load<T>(lanes.rows[row] + i);
            transpose<T>(block);
            for (int j = 0; j < W; ++j) series[i + j] = block[j];
        }
        T* numbers = reinterpret_cast<T*>(series);
        for (int lane = 0; lane < W; ++lane) {
            const T* row = lanes.rows[lane];
            if (d == view.channels)
                for (long i = whole; i < length[lane] * d; ++i) numbers[i * W + lane] = row[i];
            else
                for (long p = 0; p < length[lane]; ++p)
                    for (int c = 0; c < d; ++c) numbers[(p * d + c) * W + lane] = row[p * view.channels + view.used[c]];
        }
        hold(longest);
        V check{};  // becomes NaN where a number is not finite
        for (long i = 0; i < longest * d; ++i) check += series[i] * T(0);
        return sum_of_lanes<T>(check) == 0;
    }

    // The last value of every lane, repeated up to `positions`.
    void hold(long positions) {
        T* numbers = reinterpret_cast<T*>(series);
        for (int lane = 0; lane < W; ++lane)
            for (long i = length[lane] * d; i < positions * d; ++i) numbers[i * W + lane] = numbers[(i - d) * W + lane];
    }

    void lift(const T* factor) {
        if (view.lift == Lift::differences) {
            for (long i = 0; i < longest * d; ++i)
                series[i] = i + d < longest * d ? (series[i + d] - series[i]) * factor[i % d] : V{};
            shorten(1);
        }
        if (view.lift != Lift::cumulated && view.lift != Lift::standardised) return;
        V counts;
        for (int lane = 0; lane < W; ++lane) counts[lane] = T(length[lane]);
        for (int c = 0; c < d; ++c) {
            V mean{};
            for (int twice = 0; twice < 2; ++twice)  // the second round takes off what the first has lost to rounding
                mean += sum_inside(c, counts, [mean](V x) { return x - mean; }) / counts;
            if (view.lift == Lift::standardised) {
                const V variance = sum_inside(c, counts, [mean](V x) { return (x - mean) * (x - mean); }) / counts;
                const V scale = T(1) / (root_of_lanes<T>(variance) + T(1e-3));
                for (long p = 0; p < longest; ++p) series[p * d + c] = (series[p * d + c] - mean) * scale;
                continue;
            }
            V total{};
            for (long p = 0; p < longest; ++p) {
                const V x = series[p * d + c] - mean;
                total += broadcast<T>(T(p)) < counts ? x : V{};
                series[p * d + c] = total * factor[c];
            }
        }
    }

    // Means of `smoothing` consecutive values, by sums of 2, 4, 8, ... of them: few operations and little rounding.
    void smooth(V* sums) {
        const long s = view.smoothing;
        if (s == 1) return;
        const long held = longest > s ? longest : s, size = (held - s + 1) * d;
        hold(held);
        long taken = 0;
        for (long power = 1;; power *= 2) {
            if (s & power) {
                for (long i = 0; i < size; ++i) sums[i] = (taken ? sums[i] : V{}) + series[i + taken * d];
                taken += power;
            }
            if (taken == s) break;
            for (long i = 0; i + power * d < held * d; ++i) series[i] += series[i + power * d];
        }
        for (long i = 0; i < size; ++i) series[i] = sums[i] * (T(1) / T(s));
        shorten(s - 1);
    }

    LaneWindows<T> windows() {
        LaneWindows<T> out;
        const long span = view.span();
        hold(longest > span ? longest : span);
        out.alike = true;
        for (int lane = 0; lane < W; ++lane) {
            const long starts = length[lane] > span ? length[lane] - span + 1 : 1;
            out.stride[lane] = (starts + view.max_windows - 1) / view.max_windows;
            out.count[lane] = (starts + out.stride[lane] - 1) / out.stride[lane];
            out.alike = out.alike && out.count[lane] == out.count[0] && out.stride[lane] == out.stride[0];
        }
        return out;
    }

private:
    void shorten(long by) {
        longest = longest > by ? longest - by : 1;
        for (int lane = 0; lane < W; ++lane) length[lane] = length[lane] > by ? length[lane] - by : 1;
    }

    template <class Term>
    V sum_inside(int c, V counts, Term term) const {
        V total{};
        for (long p = 0; p < longest; ++p) {
            const V x = term(series[p * d + c]);
            total += broadcast<T>(T(p)) < counts ? x : V{};
        }
        return total;
    }
};

}  // namespace siggpde::SIGGPDE_ISA
