// Static kernels kappa(x, y) = amplitude^2 c(|x - y| / bandwidth) of points. A path is lifted by them to a piecewise-linear
// path in the kernel's Hilbert space, where a segment from x to x' has the squared length 2 amplitude^2 (1 - c).
#pragma once

#include <cmath>

#include "isa.hpp"

namespace siggpde {

// The numbers are Python's too: siggpde/numerics/static_kernels.py.
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

// The constants that decide degree, splitting and warnings. They decide results, so the Triton path has the same ones:
// its copy, siggpde/numerics/triton/plan.py, is compared with what the module exports by a test.

// Schemes, in order of cost: finite differences, then edges of so many Legendre coefficients.
inline constexpr int schemes = 7;
inline constexpr int scheme_degree[schemes] = {1, 2, 3, 4, 5, 6, 8};
inline constexpr int finite_differences = 0;
inline constexpr int first_legendre_scheme = 1;

// Floating-point operations of one cell, approximately; the planner only compares them.
inline constexpr double cell_work[schemes] = {14, 36, 80, 150, 245, 375, 760};

// No piece of a segment is longer than this, and pieces of this length divided by each of the factors are tried.
inline constexpr double longest_piece = 1.5;
inline constexpr int cut_factors[] = {1, 2, 3, 4, 6, 8, 12, 16};

// More work than this on one series, and this many times that of its segments as they are, is refused: some seconds.
inline constexpr double most_work = 1.5e10;
inline constexpr double most_times_segments = 100;

// A segment longer than this makes k of a part of the path exceed the range of the type, or of log k.
inline constexpr double overflowing_segment_f64 = 700;
inline constexpr double overflowing_segment_f32 = 87;
inline constexpr double overflowing_segment_log = 1e4;

// A path that goes out and comes back has U(i, i) fall along the diagonal. The error of a cell relative to k is then
// larger by up to the square of that fall, and the tolerance is divided by as much. Above max_inflation rounding errors
// dominate anyway.
inline constexpr double max_inflation = 1e12;
inline constexpr int max_passes = 6;
// Falls as small as those of a random walk are within the slack of the bound.
inline constexpr double ordinary_fall = 10;
// Measured on paths that come back: up to about five roundings, times the square of the fall.
inline constexpr double roundings = 5;
// The relative rounding error above which a result counts as inaccurate.
inline constexpr double inaccurate_above_f64 = 1e-6;
inline constexpr double inaccurate_above_f32 = 1e-2;
// The tolerance of the first, rough solution that tells where a path comes back, for Gram matrices.
inline constexpr double rough_tol = 1e-2;

// The functions that solve the Goursat problem on a grid, compiled once for each instruction set.

// The pieces of a path that a static kernel lifts, packed as increments are: [step][channel][lane] for the rows of a grid.
template <class T>
struct LiftedPath {
    const T *from = nullptr, *to = nullptr;  // the end points of the segment that each piece is a part of
    const T* factor = nullptr;               // [step][lane]: one over the pieces of that segment; null: one
    const unsigned char* chained = nullptr;  // [step]: its segment starts, in all lanes, where the last one ends; null: yes
};

// One grid for a vector of series, or its derivative. Increments are packed [step][channel][lane].
template <class T>
struct GridTask {
    StaticKernel kernel;               // linear: paths are increments x and y; else lifted_x and lifted_y
    LiftedPath<T> lifted_x, lifted_y;  // lifted_y: the same for all lanes, [step][channel]; unused for k(X, X)
    const T* x = nullptr;
    long rows = 0;
    int channels = 0;
    const T* y = nullptr;       // the other series [step][channel], the same for all lanes; null for k(X, X)
    long columns = 0;           // equals rows for k(X, X)
    bool log = false;           // k(X, X) only: return log k, rescaling on the way
    const double* log_norm = nullptr;  // k(X, y) only, float64: [lane], k is divided by its exponential, rescaling on the way
    T* value = nullptr;         // [lane]
    T* fall = nullptr;          // [2][lane], k(X, X) only: how far U(i, i) falls along the diagonal, as a ratio
    const T* weight = nullptr;  // [lane]: sensitivity of the value, for the gradient with y
    T* gradient_x = nullptr;    // null: value only. [step][channel][lane], or [channel][lane] if `scales`; for a lifted
                                // path twice that, at the ends and at the starts of the pieces' segments
    bool scales = false;        // k(X, X) of increments only: gradient in the logarithms of the channel scales
    T* gradient_y = nullptr;    // [step][channel], or twice that, summed over lanes and added to what is there
    T* parameters = nullptr;    // [2][lane], lifted paths: gradient in the logarithms of bandwidth and amplitude
};

inline constexpr int max_lanes = 16;

// The series of a vector's lanes, by address. Lanes past `count` repeat lane 0.
template <class T>
struct LaneSeries {
    const T* rows[max_lanes];
    long points[max_lanes];
    int count = 0;
    int channels = 0;
    const T* scale = nullptr;  // [channel], or null
};

// Sums over the segments, lifted if they are, of each lane: the largest |dx|^2, the sum of |dx|^2, of |dx|^4 and of |dx|^8.
template <class T>
struct LaneSizes {
    T largest[max_lanes], sum[max_lanes], fourth[max_lanes], eighth[max_lanes];
};

// diagonal and cross return false if memory ran out, load_increments and load_points if a point is not finite.
template <class T>
struct GridFunctions {
    bool (*load_increments)(const LaneSeries<T>&, T* increments, LaneSizes<T>*);  // a buffer of steps + 1
    bool (*load_points)(const LaneSeries<T>&, const StaticKernel&, T* points, LaneSizes<T>*);  // [point][channel][lane]
    void (*store_point_gradients)(const LaneSeries<T>&, T* gradient, long steps, T* const* rows, long row_points);
    bool (*diagonal[schemes])(const GridTask<T>&);
    bool (*cross[schemes])(const GridTask<T>&);
};

struct GoursatLoops {
    int width64, width32;
    GridFunctions<double> f64;
    GridFunctions<float> f32;

    template <class T>
    int width() const {
        return sizeof(T) == 8 ? width64 : width32;
    }
    template <class T>
    const GridFunctions<T>& of() const {
        if constexpr (sizeof(T) == 8) return f64;
        else return f32;
    }
};

SIGGPDE_DECLARE(GoursatLoops, goursat_loops)

inline const GoursatLoops& goursat_loops() { SIGGPDE_PICK(goursat_loops) }

}  // namespace siggpde
