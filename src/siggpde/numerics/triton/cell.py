"""One cell of the Goursat problem for a tile of grids: the step and its exact adjoint.

Edges are tuples of tiles, one for each Legendre coefficient; loops over them are unrolled by the compiler. The
coefficients of the cell are constants of the compiled code, in the precision of rho.
"""

# Triton's language is not quite Python, and Triton need not be installed to check the types of the rest.
# pyright: reportGeneralTypeIssues=false, reportMissingImports=false, reportPossiblyUnboundVariable=false
# pyright: reportOperatorIssue=false

from __future__ import annotations

import triton
import triton.language as tl

from siggpde.numerics.triton import cell_polynomials
from siggpde.numerics.triton.plan_constants import SCHEME_DEGREE

KEEP = tl.constexpr(cell_polynomials.KEEP)
SWAP = tl.constexpr(cell_polynomials.SWAP)
LIFT = tl.constexpr(cell_polynomials.LIFT)
ENTRIES = cell_polynomials.ENTRIES


@triton.constexpr_function
def degree(scheme):
    """Coefficients of an edge."""
    return SCHEME_DEGREE[scheme]


@triton.constexpr_function
def terms(scheme, family, j, k):
    """How many powers of rho an entry has."""
    return len(ENTRIES[scheme][family][j][k].coefficients)


@triton.constexpr_function
def lowest(scheme, family, j, k):
    """The lowest of them."""
    return ENTRIES[scheme][family][j][k].low


@triton.constexpr_function
def coefficient(scheme, family, j, k, n):
    """The coefficient of power lowest + n."""
    return ENTRIES[scheme][family][j][k].coefficients[n]


@triton.constexpr_function
def slope_coefficient(scheme, family, j, k, n):
    """The coefficient of power lowest + n - 1 of the derivative."""
    low, coefficients = ENTRIES[scheme][family][j][k]
    return (low + n) * coefficients[n]


@triton.jit
def powers_of(rho, SCHEME: tl.constexpr):
    """rho^0, rho, rho^2, .. as far as an entry may begin."""
    powers = (tl.full(rho.shape, 1.0, rho.dtype), rho)
    for n in tl.static_range(2, 2 * degree(SCHEME) + 2):
        powers = powers + (powers[n // 2] * powers[n - n // 2],)  # noqa: RUF005 - what the compiler knows
    return powers


@triton.jit
def value(powers, SCHEME: tl.constexpr, FAMILY: tl.constexpr, J: tl.constexpr, K: tl.constexpr):
    """An entry at rho, by Horner's rule."""
    count: tl.constexpr = terms(SCHEME, FAMILY, J, K)
    rho = powers[1]
    total = tl.full(rho.shape, coefficient(SCHEME, FAMILY, J, K, count - 1), rho.dtype)
    for n in tl.static_range(1, count):
        total = total * rho + coefficient(SCHEME, FAMILY, J, K, count - 1 - n)
    return total * powers[lowest(SCHEME, FAMILY, J, K)]


@triton.jit
def slope(powers, SCHEME: tl.constexpr, FAMILY: tl.constexpr, J: tl.constexpr, K: tl.constexpr):
    """Its derivative in rho."""
    count: tl.constexpr = terms(SCHEME, FAMILY, J, K)
    rho = powers[1]
    total = tl.full(rho.shape, slope_coefficient(SCHEME, FAMILY, J, K, count - 1), rho.dtype)
    for n in tl.static_range(1, count):
        total = total * rho + slope_coefficient(SCHEME, FAMILY, J, K, count - 1 - n)
    if lowest(SCHEME, FAMILY, J, K) > 1:
        total = total * powers[lowest(SCHEME, FAMILY, J, K) - 1]
    return total


@triton.jit
def step(rho, c, a, b, SCHEME: tl.constexpr):
    """The right and the top edge (a', b') of the cell with corner c, left edge a and bottom edge b."""
    powers = powers_of(rho, SCHEME)
    right = ()
    top = ()
    for j in tl.static_range(degree(SCHEME)):
        grown = tl.zeros(rho.shape, rho.dtype)
        if terms(SCHEME, LIFT, j, 0) > 0:
            grown = value(powers, SCHEME, LIFT, j, 0) * c
        of_a = grown
        of_b = grown
        for k in tl.static_range(degree(SCHEME)):
            if terms(SCHEME, SWAP, j, k) > 0:
                swap = value(powers, SCHEME, SWAP, j, k)
                of_a += swap * b[k]
                of_b += swap * a[k]
            if terms(SCHEME, KEEP, j, k) > 0:
                keep = value(powers, SCHEME, KEEP, j, k)
                of_a += keep * a[k]
                of_b += keep * b[k]
        right = right + (a[j] + of_a,)  # noqa: RUF005
        top = top + (b[j] + of_b,)  # noqa: RUF005
    return right, top


@triton.jit
def adjoint(rho, c, a, b, la, lb, SCHEME: tl.constexpr):
    """The sensitivities of c, a, b and rho from those of the outputs, la of a' and lb of b'."""
    powers = powers_of(rho, SCHEME)
    of_c = tl.zeros(rho.shape, rho.dtype)
    of_rho = tl.zeros(rho.shape, rho.dtype)
    for j in tl.static_range(degree(SCHEME)):
        if terms(SCHEME, LIFT, j, 0) > 0:
            both = la[j] + lb[j]
            of_c += value(powers, SCHEME, LIFT, j, 0) * both
            of_rho += slope(powers, SCHEME, LIFT, j, 0) * (c * both)
    left = ()
    bottom = ()
    for k in tl.static_range(degree(SCHEME)):
        of_a = la[k]
        of_b = lb[k]
        for j in tl.static_range(degree(SCHEME)):
            if terms(SCHEME, SWAP, j, k) > 0:
                swap = value(powers, SCHEME, SWAP, j, k)
                of_a += swap * lb[j]
                of_b += swap * la[j]
                of_rho += slope(powers, SCHEME, SWAP, j, k) * (b[k] * la[j] + a[k] * lb[j])
            if terms(SCHEME, KEEP, j, k) > 0:
                keep = value(powers, SCHEME, KEEP, j, k)
                of_a += keep * la[j]
                of_b += keep * lb[j]
                of_rho += slope(powers, SCHEME, KEEP, j, k) * (a[k] * la[j] + b[k] * lb[j])
        left = left + (of_a,)  # noqa: RUF005
        bottom = bottom + (of_b,)  # noqa: RUF005
    return of_c, left, bottom, of_rho
