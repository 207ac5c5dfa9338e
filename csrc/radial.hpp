// The static kernels on vectors, as functions of z = |x - y|^2 / bandwidth^2.
//
// less_one is c - 1: constants cancel in the second differences that make the coefficients, and without the 1 their
// digits are kept where points are near each other beside the bandwidth. slope is 2 dc/dz = c'(r) / r.
#pragma once

#include "lane_math.hpp"
#include "static_kernel.hpp"

namespace siggpde::SIGGPDE_ISA {

template <class T>
struct Rbf {
    using V = vec<T>;
    [[gnu::always_inline]] V less_one(V z) const { return expm1_negative<T>(z * T(-0.5)); }
    [[gnu::always_inline]] V slope(V z) const { return -(less_one(z) + T(1)); }
};

template <class T>
struct Matern12 {
    using V = vec<T>;
    [[gnu::always_inline]] V less_one(V z) const { return expm1_negative<T>(-square_root<T>(z)); }
    // Not differentiable where points coincide: zero there.
    [[gnu::always_inline]] V slope(V z) const {
        const V r = square_root<T>(z);
        return r > V{} ? -(expm1_negative<T>(-r) + T(1)) / r : V{};
    }
};

template <class T>
struct Matern32 {
    using V = vec<T>;
    [[gnu::always_inline]] V less_one(V z) const {
        const V s = square_root<T>(z * T(3)), e = expm1_negative<T>(-s);
        return e + s * (e + T(1));
    }
    [[gnu::always_inline]] V slope(V z) const { return (expm1_negative<T>(-square_root<T>(z * T(3))) + T(1)) * T(-3); }
};

template <class T>
struct Matern52 {
    using V = vec<T>;
    [[gnu::always_inline]] V less_one(V z) const {
        const V s = square_root<T>(z * T(5)), e = expm1_negative<T>(-s);
        return e + (s + s * s * T(1.0 / 3)) * (e + T(1));
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
    [[gnu::always_inline]] V power(V z, T exponent) const {  // (1 + z / (2 alpha))^-exponent - 1
        return expm1_negative<T>(log1p_positive<T>(z * (T(0.5) / alpha)) * -exponent);
    }
    [[gnu::always_inline]] V less_one(V z) const { return power(z, alpha); }
    [[gnu::always_inline]] V slope(V z) const { return -(power(z, alpha + T(1)) + T(1)); }
};

// The rational quadratic kernel with alpha = 1, which needs neither a logarithm nor an exponential.
template <class T>
struct InverseQuadratic {
    using V = vec<T>;
    // Beyond this z the kernel is zero to rounding, and nothing overflows.
    [[gnu::always_inline]] static V half(V z) {
        const V highest = broadcast<T>(T(sizeof(T) == 8 ? 1e150 : 1e18));
        return (z < highest ? z : highest) * T(0.5);
    }
    [[gnu::always_inline]] V less_one(V z) const {
        const V q = half(z);
        return -q / (q + T(1));
    }
    [[gnu::always_inline]] V slope(V z) const {
        const V inverse = T(1) / (half(z) + T(1));
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
