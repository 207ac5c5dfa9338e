// The signature of the windows in the lanes, all words up to a depth, divided by its norm.
#pragma once

#include "chen_step.hpp"
#include "window_series.hpp"

namespace siggpde::SIGGPDE_ISA {

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
