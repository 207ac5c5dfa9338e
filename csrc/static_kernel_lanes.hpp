// Elementary functions of vectors, for arguments of static kernels only: expm1 of numbers <= 0, log1p of numbers >= 0.
#pragma once

#include "cell.hpp"
#include "signature_kernel.hpp"

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

// The static kernels on vectors, as functions of z = |x - y|^2 / bandwidth^2.
//
// less_one is c - 1: constants cancel in the second differences that make the coefficients, and without the 1 their
// digits are kept where points are near each other beside the bandwidth. slope is 2 dc/dz = c'(r) / r. Both, and products
// with z, are asked for at limited(z): beyond it c is zero to rounding, and nothing overflows. NaN stays NaN.
template <class T>
[[gnu::always_inline]] inline vec<T> at_most(vec<T> z, double most) {
    const vec<T> limit = broadcast<T>(T(most));
    return z > limit ? limit : z;
}

template <class T>
struct Rbf {
    using V = vec<T>;
    [[gnu::always_inline]] static V limited(V z) { return at_most<T>(z, 1400); }
    [[gnu::always_inline]] V less_one(V z) const { return expm1_negative<T>(z * T(-0.5)); }
    [[gnu::always_inline]] V slope(V z) const { return -(less_one(z) + T(1)); }
};

template <class T>
struct Matern12 {
    using V = vec<T>;
    [[gnu::always_inline]] static V limited(V z) { return at_most<T>(z, 490000); }
    [[gnu::always_inline]] V less_one(V z) const { return expm1_negative<T>(-square_root<T>(z)); }
    // Not differentiable where points coincide: zero there.
    [[gnu::always_inline]] V slope(V z) const {
        const V r = square_root<T>(z);
        return r > V{} ? -(expm1_negative<T>(-r) + T(1)) / r : V{};
    }
};

// The power series of c - 1 in s = sqrt(2 nu) r, from s^2 on, for s below near_s, where the closed form cancels.
inline constexpr double near_s = 0.25;
inline constexpr int last_power = 13;

// (1 + s) e^-s and (1 + s + s^2 / 3) e^-s: the coefficient of s^k.
constexpr double matern32_term(int k) { return (k % 2 ? 1 : -1) * (k - 1) / factorial(k); }
constexpr double matern52_term(int k) { return (k % 2 ? -1 : 1) * (1 - k + k * (k - 1) / 3.0) / factorial(k); }

template <class T, double (*term)(int)>
[[gnu::always_inline]] inline vec<T> near_series(vec<T> s) {
    constexpr double last = term(last_power);
    vec<T> sum = broadcast<T>(T(last));
    unroll<1, last_power - 1>([&](auto k) __attribute__((always_inline)) {
        constexpr double next = term(last_power - k);
        sum = sum * s + T(next);
    });
    return sum * s * s;
}

template <class T>
struct Matern32 {
    using V = vec<T>;
    [[gnu::always_inline]] static V limited(V z) { return at_most<T>(z, 160000); }
    [[gnu::always_inline]] V less_one(V z) const {
        const V s = square_root<T>(z * T(3)), e = expm1_negative<T>(-s);
        return s < broadcast<T>(T(near_s)) ? near_series<T, matern32_term>(s) : e + s * (e + T(1));
    }
    [[gnu::always_inline]] V slope(V z) const { return (expm1_negative<T>(-square_root<T>(z * T(3))) + T(1)) * T(-3); }
};

template <class T>
struct Matern52 {
    using V = vec<T>;
    [[gnu::always_inline]] static V limited(V z) { return at_most<T>(z, 97000); }
    [[gnu::always_inline]] V less_one(V z) const {
        const V s = square_root<T>(z * T(5)), e = expm1_negative<T>(-s);
        const V far = e + (s + s * s * T(1.0 / 3)) * (e + T(1));
        return s < broadcast<T>(T(near_s)) ? near_series<T, matern52_term>(s) : far;
    }
    [[gnu::always_inline]] V slope(V z) const {
        const V s = square_root<T>(z * T(5));
        return (s + T(1)) * (expm1_negative<T>(-s) + T(1)) * T(-5.0 / 3);
    }
};

template <class T>
struct RationalQuadratic {
    using V = vec<T>;
    T alpha;
    [[gnu::always_inline]] static V limited(V z) { return at_most<T>(z, sizeof(T) == 8 ? 1e290 : 1e28); }
    [[gnu::always_inline]] V less_one(V z) const {
        return expm1_negative<T>(log1p_positive<T>(z * (T(0.5) / alpha)) * -alpha);
    }
    [[gnu::always_inline]] V slope(V z) const { return -(less_one(z) + T(1)) / (z * (T(0.5) / alpha) + T(1)); }
};

// The rational quadratic kernel with alpha = 1, which needs neither a logarithm nor an exponential.
template <class T>
struct InverseQuadratic {
    using V = vec<T>;
    [[gnu::always_inline]] static V limited(V z) { return at_most<T>(z, sizeof(T) == 8 ? 1e150 : 1e18); }
    [[gnu::always_inline]] V less_one(V z) const {
        const V q = z * T(0.5);
        return -q / (q + T(1));
    }
    [[gnu::always_inline]] V slope(V z) const {
        const V inverse = T(1) / (z * T(0.5) + T(1));
        return -inverse * inverse;
    }
};

// Calls body(kernel) with the static kernel as a type.
template <class T, class Body>
[[gnu::always_inline]] inline void with_radial(const StaticKernel& kernel, const Body& body) {
    switch (kernel.kind) {
        case StaticKind::linear: return;
        case StaticKind::rbf: return body(Rbf<T>{});
        case StaticKind::matern12: return body(Matern12<T>{});
        case StaticKind::matern32: return body(Matern32<T>{});
        case StaticKind::matern52: return body(Matern52<T>{});
        case StaticKind::rational_quadratic:
            if (kernel.alpha == 1) return body(InverseQuadratic<T>{});
            return body(RationalQuadratic<T>{T(kernel.alpha)});
    }
}

}  // namespace siggpde::SIGGPDE_ISA
