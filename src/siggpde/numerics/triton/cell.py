"""One cell of the Goursat problem for a tile of grids: its coefficient rho, the step and the exact adjoint of the step.

In orthonormal Legendre polynomials a' = E a + F b + g c and b' = E b + F a + g c (docs/design.md), E less the identity.
Row 0 of E is row 0 of F, and E_kj = (-1)^(j+k) E_jk. Powers of rho that do not matter at |rho| <= 1 are left out.

Edges are tuples of tiles, one for each coefficient. Fields of a piece [field][step] are the channels of its increment;
if lifted by the RBF kernel, start and end of its segment over the bandwidth (`channels` fields each), amplitude over
number of pieces of the segment, and whether it is the last of them.
"""

# Triton's language is not quite Python, and Triton need not be installed to check the types of the rest.
# pyright: reportGeneralTypeIssues=false, reportMissingImports=false, reportPossiblyUnboundVariable=false
# pyright: reportOperatorIssue=false

from __future__ import annotations

from functools import cache
from math import factorial, sqrt
from typing import NamedTuple

import triton
import triton.language as tl

from siggpde.numerics.goursat import cell_tables
from siggpde.numerics.triton.plan import FINITE_DIFFERENCES, SCHEME_DEGREE

# The families of entries: E less the identity, F and g.
_KEEP, _SWAP, _LIFT = 0, 1, 2


class Polynomial(NamedTuple):
    """coefficients[i] belongs to rho^(low + i); none: the entry is zero."""

    low: int
    coefficients: tuple[float, ...]


@cache
def entry(scheme: int, family: int, j: int, k: int) -> Polynomial:
    """Row j, column k of a matrix of the cell (k = 0 for g)."""
    if family == _KEEP and j == 0:
        return entry(scheme, _SWAP, 0, k)
    if family == _KEEP and j > k:
        mirrored = entry(scheme, _KEEP, k, j)
        sign = (-1) ** (j + k)
        return Polynomial(mirrored.low, tuple(sign * value for value in mirrored.coefficients))
    numbers = _coefficients(scheme, family, j, k)
    low = next((n for n in range(1, len(numbers)) if numbers[n]), len(numbers))
    high = _high(scheme, family, j, k)
    if family == _KEEP:  # an entry and its mirror image keep the same powers
        high = max(high, _high(scheme, family, k, j))
    return Polynomial(low, tuple(numbers[low : high + 1]))


def _coefficients(scheme: int, family: int, j: int, k: int) -> list[float]:
    degree = SCHEME_DEGREE[scheme]
    keep, swap, lift = cell_tables(degree, 2 * degree + 4)
    if family == _LIFT:
        return [value / sqrt(2 * j + 1) for value in lift[:, j].tolist()]
    table = keep if family == _KEEP else swap
    return [value * sqrt(2 * k + 1) / sqrt(2 * j + 1) for value in table[:, j, k].tolist()]


def _high(scheme: int, family: int, j: int, k: int) -> int:
    """The last power that matters."""
    degree = SCHEME_DEGREE[scheme]
    if scheme == FINITE_DIFFERENCES:
        return 2
    threshold = 0.1 * _edge_size(degree - 1) * _edge_size(degree) / (2 * (2 * degree - 1))
    size = _edge_size(j) * (1 if family == _LIFT else _edge_size(k))
    order = j if family == _LIFT else j + k + 1
    numbers = _coefficients(scheme, family, j, k)
    kept = [
        n
        for n in range(1, len(numbers))
        if numbers[n] and (abs(numbers[n]) * size >= threshold or 2 * n + order <= 2 * degree + 1)
    ]
    return max(kept, default=0)


def _edge_size(k: int) -> float:
    """Of the k-th coefficient of an edge at unit segments; its weight in the final value is as large."""
    return factorial(k) / factorial(2 * k) / sqrt(2 * k + 1)


# [scheme][family][row][column], all of them: what compiled code is made from.
ENTRIES = tuple(
    tuple(
        tuple(
            tuple(entry(scheme, family, j, k) for k in range(degree if family != _LIFT else 1)) for j in range(degree)
        )
        for family in (_KEEP, _SWAP, _LIFT)
    )
    for scheme, degree in enumerate(SCHEME_DEGREE)
)


@triton.jit
def load_edge(memory, at, stride, active, M: tl.constexpr):
    edge = ()
    for k in tl.static_range(M):
        edge = edge + (tl.load(memory + at + k * stride, mask=active, other=0.0),)  # noqa: RUF005
    return edge


@triton.jit
def store_edge(memory, at, stride, active, edge, M: tl.constexpr):
    for k in tl.static_range(M):
        tl.store(memory + at + k * stride, edge[k], mask=active)


@triton.jit
def scaled(edge, factor, M: tl.constexpr):
    out = ()
    for k in tl.static_range(M):
        out = out + (edge[k] * factor,)  # noqa: RUF005
    return out


@triton.jit
def chosen(condition, edge, other, M: tl.constexpr):
    out = ()
    for k in tl.static_range(M):
        out = out + (tl.where(condition, edge[k], other[k]),)  # noqa: RUF005
    return out


@triton.jit
def zero_edge(like, M: tl.constexpr):
    out = ()
    for _ in tl.static_range(M):
        out = out + (tl.zeros(like.shape, like.dtype),)  # noqa: RUF005
    return out


@triton.jit
def power_of_two(exponent):
    """2^exponent for whole numbers: exact, and zero far below the range."""
    return tl.exp2(exponent.to(tl.float64)).to(exponent.dtype)


# Powers of the series of e^x - 1 for x in [-1/2, 0] that rounding leaves.
TERMS_F64, TERMS_F32 = tl.constexpr(15), tl.constexpr(9)
INVERSE_FACTORIALS = tuple(1 / factorial(k) for k in range(TERMS_F64.value + 1))


@triton.constexpr_function
def inverse_factorial(k):
    return INVERSE_FACTORIALS[k]


@triton.jit
def inner_product(x, y, x_at, y_at, x_steps, y_steps, channels, active):
    """rho of the cells; x_at and y_at are the offsets of channel 0."""
    total = tl.load(x + x_at, mask=active, other=0.0) * tl.load(y + y_at, mask=active, other=0.0)
    for channel in range(1, channels):
        of_x = tl.load(x + x_at + channel * x_steps, mask=active, other=0.0)
        total += of_x * tl.load(y + y_at + channel * y_steps, mask=active, other=0.0)
    return total


@triton.jit
def less_one(z):
    """exp(-z/2) - 1 for z >= 0, to about two roundings of the result: near points keep their digits."""
    x = -0.5 * z
    terms: tl.constexpr = TERMS_F64 if z.dtype == tl.float64 else TERMS_F32
    total = tl.full(z.shape, inverse_factorial(terms), z.dtype)
    for k in tl.static_range(1, terms):
        total = total * x + inverse_factorial(terms - k)
    return tl.where(x > -0.5, total * x, tl.exp(x) - 1.0)


@triton.jit
def kappa_less_one(x, y, x_at, y_at, x_steps, y_steps, channels, active):
    """The RBF kernel of two points, less one: x_at and y_at are the offsets of their channel 0."""
    apart = tl.load(x + x_at, mask=active, other=0.0) - tl.load(y + y_at, mask=active, other=0.0)
    z = apart * apart
    for channel in range(1, channels):
        of_x = tl.load(x + x_at + channel * x_steps, mask=active, other=0.0)
        apart = of_x - tl.load(y + y_at + channel * y_steps, mask=active, other=0.0)
        z += apart * apart
    return less_one(z)


KEEP, SWAP, LIFT = tl.constexpr(_KEEP), tl.constexpr(_SWAP), tl.constexpr(_LIFT)


@triton.constexpr_function
def degree(scheme):
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
def coefficient(scheme, family, j, k, n, slope):
    """The coefficient of power lowest + n, or that of power lowest + n - 1 of the derivative."""
    low, coefficients = ENTRIES[scheme][family][j][k]
    return (low + n) * coefficients[n] if slope else coefficients[n]


@triton.jit
def powers_of(rho, SCHEME: tl.constexpr):
    """rho^0, rho, rho^2, .. as far as an entry may begin."""
    powers = (tl.full(rho.shape, 1.0, rho.dtype), rho)
    for n in tl.static_range(2, 2 * degree(SCHEME) + 2):
        powers = powers + (powers[n // 2] * powers[n - n // 2],)  # noqa: RUF005 - what the compiler knows
    return powers


@triton.jit
def value(powers, SCHEME: tl.constexpr, FAMILY: tl.constexpr, J: tl.constexpr, K: tl.constexpr, SLOPE: tl.constexpr):
    """An entry at rho, or its derivative in rho if SLOPE, by Horner's rule."""
    count: tl.constexpr = terms(SCHEME, FAMILY, J, K)
    low: tl.constexpr = lowest(SCHEME, FAMILY, J, K) - SLOPE
    rho = powers[1]
    total = tl.full(rho.shape, coefficient(SCHEME, FAMILY, J, K, count - 1, SLOPE), rho.dtype)
    for n in tl.static_range(1, count):
        total = total * rho + coefficient(SCHEME, FAMILY, J, K, count - 1 - n, SLOPE)
    if low > 0:
        total = total * powers[low]
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
            grown = value(powers, SCHEME, LIFT, j, 0, False) * c
        of_a = grown
        of_b = grown
        for k in tl.static_range(degree(SCHEME)):
            if terms(SCHEME, SWAP, j, k) > 0:
                swap = value(powers, SCHEME, SWAP, j, k, False)
                of_a += swap * b[k]
                of_b += swap * a[k]
            if terms(SCHEME, KEEP, j, k) > 0:
                keep = value(powers, SCHEME, KEEP, j, k, False)
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
            of_c += value(powers, SCHEME, LIFT, j, 0, False) * both
            of_rho += value(powers, SCHEME, LIFT, j, 0, True) * (c * both)
    left = ()
    bottom = ()
    for k in tl.static_range(degree(SCHEME)):
        of_a = la[k]
        of_b = lb[k]
        for j in tl.static_range(degree(SCHEME)):
            if terms(SCHEME, SWAP, j, k) > 0:
                swap = value(powers, SCHEME, SWAP, j, k, False)
                of_a += swap * lb[j]
                of_b += swap * la[j]
                of_rho += value(powers, SCHEME, SWAP, j, k, True) * (b[k] * la[j] + a[k] * lb[j])
            if terms(SCHEME, KEEP, j, k) > 0:
                keep = value(powers, SCHEME, KEEP, j, k, False)
                of_a += keep * la[j]
                of_b += keep * lb[j]
                of_rho += value(powers, SCHEME, KEEP, j, k, True) * (a[k] * la[j] + b[k] * lb[j])
        left = left + (of_a,)  # noqa: RUF005
        bottom = bottom + (of_b,)  # noqa: RUF005
    return of_c, left, bottom, of_rho
