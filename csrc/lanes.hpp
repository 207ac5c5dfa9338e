// One SIMD lane per series.
//
// This header is included only by the files compiled once for each instruction set. Everything in it lives in a
// namespace named after that instruction set, and nothing here may instantiate a template of the standard library:
// the linker keeps one copy of such a template, and it could be one that the CPU at hand cannot run.
#pragma once

#if !defined(SIGGPDE_ISA) || !defined(SIGGPDE_VECTOR_BYTES)
#error "compile with -DSIGGPDE_ISA=<name> -DSIGGPDE_VECTOR_BYTES=<16|32|64>"
#endif

namespace siggpde::SIGGPDE_ISA {

template <class T>
struct VectorOf {
    typedef T type __attribute__((vector_size(SIGGPDE_VECTOR_BYTES)));
};

// A vector of width<T> numbers, one for each of the series that advance together.
template <class T>
using vec = typename VectorOf<T>::type;

template <class T>
inline constexpr int width = SIGGPDE_VECTOR_BYTES / int(sizeof(T));

template <class T>
inline vec<T> broadcast(T value) {
    return value - vec<T>{};  // minus zero, not plus: the compiler may drop it
}

// Any address, aligned or not.
template <class T>
inline vec<T> load(const T* from) {
    vec<T> v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}

template <class T>
inline void store(T* to, vec<T> v) {
    __builtin_memcpy(to, &v, sizeof v);
}

// Whether no lane holds a finite number.
template <class T>
inline bool none_finite(vec<T> v) {
    const vec<T> difference = v - v;  // zero, or NaN
    for (int lane = 0; lane < width<T>; ++lane)
        if (difference[lane] == 0) return false;
    return true;
}

template <class T>
inline T sum_of_lanes(vec<T> v) {
    T total = 0;
    for (int lane = 0; lane < width<T>; ++lane) total += v[lane];
    return total;
}

// Square blocks of numbers between rows of series and lanes.
template <int... i>
struct Indices {};

template <int n, int... i>
struct CountTo : CountTo<n - 1, n - 1, i...> {};

template <int... i>
struct CountTo<0, i...> {
    using type = Indices<i...>;
};

// Swaps the off-diagonal halves of every 2 half x 2 half block on rows a, b (half apart).
template <class T, int half, int... i>
inline void swap_halves(vec<T>& a, vec<T>& b, Indices<i...>) {
    const vec<T> low = __builtin_shufflevector(a, b, (i & half ? width<T> + i - half : i)...);
    b = __builtin_shufflevector(a, b, (i & half ? width<T> + i : i + half)...);
    a = low;
}

template <class T, int half>
inline void transpose_from(vec<T>* block) {
    if constexpr (half < width<T>) {
#pragma GCC unroll 16
        for (int row = 0; row < width<T>; ++row)
            if (!(row & half))
                swap_halves<T, half>(block[row], block[row + half], typename CountTo<width<T>>::type{});
        transpose_from<T, 2 * half>(block);
    }
}

// Transposes width x width numbers in place.
template <class T>
inline void transpose(vec<T> (&block)[width<T>]) {
    transpose_from<T, 1>(block);
}

// columns [from, from + width) of `width` rows, `stride` numbers apart, to lanes, one vector for each column.
template <class T>
inline void load_block(const T* from, long stride, vec<T> (&block)[width<T>]) {
    for (int row = 0; row < width<T>; ++row) block[row] = load<T>(from + row * stride);
    transpose<T>(block);
}

// The inverse of load_block.
template <class T>
inline void store_block(T* to, long stride, vec<T> (&block)[width<T>]) {
    transpose<T>(block);
    for (int row = 0; row < width<T>; ++row) store<T>(to + row * stride, block[row]);
}

}  // namespace siggpde::SIGGPDE_ISA
