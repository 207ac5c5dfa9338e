// Square blocks of numbers between rows of series and lanes.
#pragma once

#include "lanes.hpp"

namespace siggpde::SIGGPDE_ISA {

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
