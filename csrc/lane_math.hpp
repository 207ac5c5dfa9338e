// Elementary functions of vectors, for arguments of static kernels only: expm1 of numbers <= 0, log1p of numbers >= 0.
#pragma once

#include "cell.hpp"

namespace siggpde::SIGGPDE_ISA {

template <class T>
struct FloatLayout;

template <>
struct FloatLayout<double> {
    typedef long long bits __attribute__((vector_size(SIGGPDE_VECTOR_BYTES)));
    static constexpr int mantissa = 52;
    static constexpr long long one = 0x3ff0000000000000, root_half = 0x3fe6a09e667f3bcd;
    static constexpr double rounder = 0x1.8p52;  // adding it rounds to an integer, which is then in the low bits
    static constexpr double log2_high = 0x1.62e42fefa0000p-1, log2_low = 0x1.cf79abc9e3b3ap-40;
    static constexpr double lowest = -700, highest = 1e300;
    static constexpr int exp_terms = 13, log_terms = 10;
};

template <>
struct FloatLayout<float> {
    typedef int bits __attribute__((vector_size(SIGGPDE_VECTOR_BYTES)));
    static constexpr int mantissa = 23;
    static constexpr int one = 0x3f800000, root_half = 0x3f3504f3;
    static constexpr float rounder = 0x1.8p23f;
    static constexpr float log2_high = 0x1.62e4p-1f, log2_low = 0x1.7f7d1cp-20f;
    static constexpr float lowest = -80, highest = 1e30f;
    static constexpr int exp_terms = 8, log_terms = 5;
};

template <class T>
[[gnu::always_inline]] inline vec<T> square_root(vec<T> v) {
    alignas(SIGGPDE_VECTOR_BYTES) T number[width<T>];
    __builtin_memcpy(number, &v, sizeof v);
    for (int lane = 0; lane < width<T>; ++lane)
        number[lane] = sizeof(T) == 8 ? T(__builtin_sqrt(double(number[lane]))) : T(__builtin_sqrtf(float(number[lane])));
    __builtin_memcpy(&v, number, sizeof v);
    return v;
}

// e^x - 1 for x <= 0, to about two roundings of the result: x = n log 2 + r, e^x - 1 = 2^n (e^r - 1) + (2^n - 1).
template <class T>
[[gnu::always_inline]] inline vec<T> expm1_negative(vec<T> x) {
    using V = vec<T>;
    using L = FloatLayout<T>;
    using Bits = typename L::bits;
    const V lowest = broadcast<T>(L::lowest);
    x = x < lowest ? lowest : x;  // NaN stays
    const V rounded = x * T(1.4426950408889634) + L::rounder;
    const V n = rounded - L::rounder;
    const V r = (x - n * L::log2_high) - n * L::log2_low;
    constexpr double last = 1 / factorial(L::exp_terms);
    V sum = broadcast<T>(T(last));
    unroll<2, L::exp_terms>([&](auto k) __attribute__((always_inline)) {
        constexpr double term = 1 / factorial(L::exp_terms + 1 - k);
        sum = sum * r + T(term);
    });
    const V small = r + r * r * sum;
    const V power = (V)(((Bits)rounded << L::mantissa) + L::one);
    return power * small + (power - T(1));
}

// log(1 + f) for f >= 0: 1 + f = 2^k m with m near 1, log m = 2 atanh((m - 1) / (m + 1)).
template <class T>
[[gnu::always_inline]] inline vec<T> log1p_positive(vec<T> f) {
    using V = vec<T>;
    using L = FloatLayout<T>;
    using Bits = typename L::bits;
    const V highest = broadcast<T>(L::highest);
    f = f > highest ? highest : f;
    const V u = f + T(1);
    const Bits exponent = ((Bits)u - L::root_half) >> L::mantissa;
    const V m = (V)((Bits)u - (exponent << L::mantissa));
    const V rounder = broadcast<T>(L::rounder);
    const V k = (V)((Bits)rounder + exponent) - rounder;
    const auto near = f < broadcast<T>(T(0.4));  // where 1 + f has lost digits of f
    const V s = near ? f / (f + T(2)) : (m - T(1)) / (m + T(1));
    const V square = s * s;
    V sum = broadcast<T>(T(1.0 / (2 * L::log_terms + 1)));
    unroll<1, L::log_terms + 1>([&](auto j) __attribute__((always_inline)) {
        constexpr double term = 1.0 / (2 * (L::log_terms - j) + 1);
        sum = sum * square + T(term);
    });
    const V close = s * sum * T(2);
    return near ? close : close + k * T(0.69314718055994530942);
}

}  // namespace siggpde::SIGGPDE_ISA
