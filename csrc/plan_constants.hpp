// The constants that decide degree, splitting and warnings. They decide results, so the Triton path has the same ones:
// its copy, siggpde/numerics/triton/plan_constants.py, is compared with what the module exports by a test.
#pragma once

namespace siggpde {

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

}  // namespace siggpde
