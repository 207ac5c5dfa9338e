// Static kernels kappa(x, y) = amplitude^2 c(|x - y| / bandwidth) of points. A path is lifted by them to a piecewise-linear
// path in the kernel's Hilbert space, where a segment from x to x' has the squared length 2 amplitude^2 (1 - c).
#pragma once

#include <cmath>

namespace siggpde {

// The numbers are Python's too: siggpde/numerics/static_kernel.py.
enum class StaticKind { linear = 0, rbf = 1, matern12 = 2, matern32 = 3, matern52 = 4, rational_quadratic = 5 };

struct StaticKernel {
    StaticKind kind = StaticKind::linear;
    double bandwidth = 1, amplitude = 1, alpha = 1;  // the linear kernel <x, y> has none of them

    bool lifts() const { return kind != StaticKind::linear; }
    double square_amplitude() const { return amplitude * amplitude; }

    // c - 1 at z = |x - y|^2 / bandwidth^2.
    double less_one(double z) const {
        const double r = std::fmin(std::sqrt(z), 300);  // beyond, exponentials are zero; products stay in range
        switch (kind) {
            case StaticKind::linear: break;
            case StaticKind::rbf: return std::expm1(-z / 2);
            case StaticKind::matern12: return std::expm1(-r);
            case StaticKind::matern32: {
                const double s = std::sqrt(3.0) * r;
                return std::expm1(-s) + s * std::exp(-s);
            }
            case StaticKind::matern52: {
                const double s = std::sqrt(5.0) * r;
                return std::expm1(-s) + (s + s * s / 3) * std::exp(-s);
            }
            case StaticKind::rational_quadratic: return std::expm1(-alpha * std::log1p(z / (2 * alpha)));
        }
        return 0;
    }

    // |x' - x|^2 in the Hilbert space, for points at this squared distance in bandwidths.
    double squared_segment(double z) const { return lifts() ? -2 * square_amplitude() * less_one(z) : z; }
};

}  // namespace siggpde
