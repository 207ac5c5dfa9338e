// Series of unequal lengths in lanes: loaded, lifted, smoothed and held at their last value.
//
// Position p of channel c is at series[p * n_used + c]. What a lane holds depends on its own series only.
#pragma once

#include "chen.hpp"
#include "lanes.hpp"
#include "windows.hpp"

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

// The signature of the windows in the lanes, all words up to a depth, divided by its norm.

// A window in each lane: point j of channel c is at points[j * step + c].
template <class T>
struct LaneWindow {
    const vec<T>* points;
    long step;
};

// The increments of the path (time, channels of a group) through a window, times a scale.
template <class T>
struct WindowIncrements {
    using V = vec<T>;
    const V* points;
    long step;
    const int* channels;
    T scale, time;
    bool base_point;

    // Divided by 1, 2, .., depth, as Chen's step wants them: q[i * letters + c] = v_c / (i + 1).
    SIGGPDE_INLINE void table(int number, int letters, int depth, V* q) const {
        const bool from_origin = base_point && number == 0;
        const V* to = points + (base_point ? number : number + 1) * step;
        q[0] = from_origin ? V{} : broadcast<T>(time);
        for (int c = 1; c < letters; ++c) {
            const V at = to[channels[c - 1]];
            q[c] = (from_origin ? at : at - to[channels[c - 1] - step]) * scale;
        }
        for (int i = 1; i < depth; ++i)
            for (int c = 0; c < letters; ++c) q[i * letters + c] = q[c] * (T(1) / T(i + 1));
    }
};

template <class T>
WindowIncrements<T> increments_of(const WindowView& view, int group, T scale, LaneWindow<T> window) {
    return {window.points, window.step, view.group_channels + view.group_start[group], scale, scale / T(view.points - 1),
            view.base_point};
}

constexpr int words_below(int letters, int depth) {
    int words = 0;
    for (int k = 0, level = 1; k < depth; ++k) words += level *= letters;
    return words;
}

// One step of Chen's identity on all words but the empty one, depth first.
template <class T>
void any_step(vec<T>* s, const vec<T>* q, int letters, int depth, const vec<T>* ones) {
    switch (depth) {
#define SIGGPDE_CASE(levels) \
    case levels: Full<T, levels, 0, 1>::called(s, s, 0, q, 0, letters, ones, 0); break;
        SIGGPDE_CASE(1) SIGGPDE_CASE(2) SIGGPDE_CASE(3) SIGGPDE_CASE(4)
        SIGGPDE_CASE(5) SIGGPDE_CASE(6) SIGGPDE_CASE(7) SIGGPDE_CASE(8)
#undef SIGGPDE_CASE
    }
}

// Words divided by the norm of the signature, each to its column, those of time alone (column -1) to none. Returns
// zeros, or NaN in the lanes where the square of the norm is out of range.
template <class T>
SIGGPDE_INLINE vec<T> normalise(const vec<T>* s, int size, const int* column, vec<T>* out, long out_step) {
    using V = vec<T>;
    V even = broadcast<T>(T(1)), odd{};  // the empty word is 1
#pragma GCC unroll 128
    for (int i = 0; i < size; ++i) (i % 2 ? odd : even) += s[i] * s[i];
    const V square = even + odd, factor = T(1) / root_of_lanes<T>(square);
#pragma GCC unroll 128
    for (int i = 0; i < size; ++i)
        if (column[i] >= 0) out[column[i] * out_step] = s[i] * factor;
    return square * T(0);
}

// The same by way of the largest coefficient, for lanes where the square is out of range (beside it the empty word is
// nothing); others stay as they are.
template <class T>
void normalise_large(const vec<T>* s, int size, const int* column, vec<T> check, vec<T>* out, long out_step) {
    using V = vec<T>;
    V largest = broadcast<T>(T(1)), square{};
    for (int i = 0; i < size; ++i) {
        const V magnitude = s[i] < V{} ? -s[i] : s[i];
        largest = magnitude > largest ? magnitude : largest;
    }
    for (int i = 0; i < size; ++i) square += (s[i] / largest) * (s[i] / largest);
    const V factor = T(1) / root_of_lanes<T>(square);
    for (int i = 0; i < size; ++i)
        if (column[i] >= 0) {
            V& to = out[column[i] * out_step];
            to = check == V{} ? to : (s[i] / largest) * factor;
        }
}

// The normalised words of a group, with numbers of letters and levels known at compile time (fixed_letters > 0), where
// words are kept in registers as far as they go, or any, where words and a table of increments are in `memory`. Never
// inlined: a word is the same to the last bit wherever it is computed, and so on the same side of a threshold.
template <class T, int fixed_letters, int fixed_depth>
__attribute__((noinline)) vec<T> group_features(const WindowView& view, int group, T scale, LaneWindow<T> window,
                                                bool large, vec<T>* out, long out_step, vec<T>* memory) {
    using V = vec<T>;
    constexpr bool fixed = fixed_letters > 0;
    const int letters = fixed ? fixed_letters : view.letters(group), depth = fixed ? fixed_depth : view.depth;
    const int size = words_below(letters, depth), table = letters * depth;
    const WindowIncrements<T> increments = increments_of(view, group, scale, window);
    const int steps = view.points - 1 + view.base_point, *column = view.column + view.word_start[group];
    V ones[2 * WindowView::max_depth];
    for (V& one : ones) one = broadcast<T>(T(1));
    V words[fixed ? words_below(fixed_letters, fixed_depth) : 1], tables[fixed ? 2 * fixed_letters * fixed_depth : 1];
    V *s = fixed ? words : memory, *q = fixed ? tables : memory + size;
#pragma GCC unroll 128
    for (int i = 0; i < size; ++i) s[i] = V{};
    int j = 0;
    if constexpr (fixed)
        for (; j + 2 <= steps; j += 2) {
            increments.table(j, letters, depth, q);
            increments.table(j + 1, letters, depth, q + table);
            Full<T, fixed_depth, fixed_letters, 2>::inlined(s, s, 0, q, table, letters, ones, depth);
        }
    for (; j < steps; ++j) {
        increments.table(j, letters, depth, q);
        if constexpr (fixed)
            Full<T, fixed_depth, fixed_letters, 1>::inlined(s, s, 0, q, table, letters, ones, depth);
        else
            any_step<T>(s, q, letters, depth, ones);
    }
    const V check = normalise<T>(s, size, column, out, out_step);
    if (large) normalise_large<T>(s, size, column, check, out, out_step);
    return check;
}

// The normalised words of all groups for the windows in the lanes: out[column * out_step]. Returns zeros, or NaN in
// the lanes where a norm is out of range, whose words are right only if `large`.
template <class T>
vec<T> window_features(const WindowView& view, const T* path_scale, LaneWindow<T> window, bool large, vec<T>* out,
                       long out_step, vec<T>* memory) {
    vec<T> checks{};
    for (int group = 0; group < view.n_groups; ++group) {
        auto features = &group_features<T, 0, 0>;
        const int letters = view.letters(group);
        if (letters == 2 && view.depth == 3) features = &group_features<T, 2, 3>;
        if (letters == 2 && view.depth == 4) features = &group_features<T, 2, 4>;
        if (letters == 3 && view.depth == 3) features = &group_features<T, 3, 3>;
        if (letters == 4 && view.depth == 3) features = &group_features<T, 4, 3>;
        checks += features(view, group, path_scale[group], window, large, out, out_step, memory);
    }
    return checks;
}

}  // namespace siggpde::SIGGPDE_ISA
