"""The constants that decide degree, splitting and warnings: those of the native core, `csrc/signature_kernel.hpp`.

They are written out here because Triton must work without the core; a test compares each with `_core.plan_constants`.
"""

from __future__ import annotations

# Coefficients of the edges of each scheme, in order of cost. Scheme 0 is finite differences: two powers of rho.
SCHEME_DEGREE = (1, 2, 3, 4, 5, 6, 8)
FINITE_DIFFERENCES, FIRST_LEGENDRE_SCHEME = 0, 1
# Floating-point operations of one cell of each scheme, approximately; the planner only compares them.
CELL_WORK = (14, 36, 80, 150, 245, 375, 760)

# No piece of a segment is longer than this, and pieces of this length divided by each of the factors are tried.
LONGEST_PIECE = 1.5
CUT_FACTORS = (1, 2, 3, 4, 6, 8, 12, 16)

# A segment longer than this makes k of a part of the path exceed the range of the type, or of log k.
OVERFLOWING_SEGMENT_F64 = 700.0
OVERFLOWING_SEGMENT_F32 = 87.0
OVERFLOWING_SEGMENT_LOG = 1e4

# A path that goes out and comes back has U(i, i) fall along the diagonal. The error of a cell relative to k is then
# larger by up to the square of that fall, and the tolerance is divided by as much. Above MAX_INFLATION rounding errors
# dominate anyway.
MAX_INFLATION = 1e12
MAX_PASSES = 6
# Falls as small as those of a random walk are within the slack of the bound.
ORDINARY_FALL = 10.0
# Measured on paths that come back: up to about five roundings, times the square of the fall.
ROUNDINGS = 5.0
# The relative rounding error above which a result counts as inaccurate.
INACCURATE_ABOVE_F64 = 1e-6
INACCURATE_ABOVE_F32 = 1e-2
# The tolerance of the first, rough solution that tells where a path comes back, for Gram matrices.
ROUGH_TOL = 1e-2
