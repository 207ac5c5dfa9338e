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

}  // namespace siggpde::SIGGPDE_ISA
