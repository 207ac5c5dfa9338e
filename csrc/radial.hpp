// The static kernels on vectors, as functions of z = |x - y|^2 / bandwidth^2.
//
// less_one is c - 1: constants cancel in the second differences that make the coefficients, and without the 1 their
// digits are kept where points are near each other beside the bandwidth. slope is 2 dc/dz = c'(r) / r. Both, and products
// with z, are asked for at limited(z): beyond it c is zero to rounding, and nothing overflows. NaN stays NaN.
#pragma once

#include "lane_math.hpp"
#include "static_kernel.hpp"

namespace siggpde::SIGGPDE_ISA {

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
