// The functions that solve the Goursat problem on a grid, compiled once for each instruction set.
#pragma once

#include "isa.hpp"
#include "plan_constants.hpp"
#include "static_kernel.hpp"

namespace siggpde {

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

namespace baseline {
extern const GoursatLoops goursat_loops;
}
#if defined(SIGGPDE_X86)
namespace avx2 {
extern const GoursatLoops goursat_loops;
}
namespace avx512 {
extern const GoursatLoops goursat_loops;
}
#endif

inline const GoursatLoops& goursat_loops() { SIGGPDE_PICK(goursat_loops) }

}  // namespace siggpde
