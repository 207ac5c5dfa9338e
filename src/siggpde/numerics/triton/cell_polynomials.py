r"""The coefficients of one cell of the Goursat problem as constants of compiled code: short polynomials in rho.

In orthonormal shifted Legendre polynomials a step of the cell is :math:`a' = E a + F b + g c`, :math:`b' = E b + F a +
g c`, with the exact power series of `siggpde.numerics.reference.cell`, :math:`\rho^n` for :math:`n` from 1 (E less the
identity). Two identities save work: the means of both edges grow alike, so that row 0 of E is row 0 of F, and
:math:`E_{kj} = (-1)^{j+k} E_{jk}`. Powers that do not matter beside the error of the degree at :math:`|\rho| \le 1` are
left out, as in the native core.
"""

from __future__ import annotations

from functools import cache
from math import factorial, sqrt
from typing import NamedTuple

from siggpde.numerics.reference.cell import cell_tables
from siggpde.numerics.triton.plan_constants import FINITE_DIFFERENCES, SCHEME_DEGREE

# The families of entries: E less the identity, F and g.
KEEP, SWAP, LIFT = 0, 1, 2


class Polynomial(NamedTuple):
    """coefficients[i] belongs to rho^(low + i); none: the entry is zero."""

    low: int
    coefficients: tuple[float, ...]


@cache
def entry(scheme: int, family: int, j: int, k: int) -> Polynomial:
    """Row j, column k of a matrix of the cell (k = 0 for g)."""
    if family == KEEP and j == 0:
        return entry(scheme, SWAP, 0, k)
    if family == KEEP and j > k:
        mirrored = entry(scheme, KEEP, k, j)
        sign = (-1) ** (j + k)
        return Polynomial(mirrored.low, tuple(sign * value for value in mirrored.coefficients))
    return _trimmed(scheme, family, j, k)


def _trimmed(scheme: int, family: int, j: int, k: int) -> Polynomial:
    numbers = _coefficients(scheme, family, j, k)
    low = next((n for n in range(1, len(numbers)) if numbers[n]), len(numbers))
    high = _high(scheme, family, j, k)
    if family == KEEP:  # an entry and its mirror image keep the same powers
        high = max(high, _high(scheme, family, k, j))
    return Polynomial(low, tuple(numbers[low : high + 1]))


def _coefficients(scheme: int, family: int, j: int, k: int) -> list[float]:
    degree = SCHEME_DEGREE[scheme]
    keep, swap, lift = cell_tables(degree, 2 * degree + 4)
    if family == LIFT:
        return [value / sqrt(2 * j + 1) for value in lift[:, j].tolist()]
    table = keep if family == KEEP else swap
    return [value * sqrt(2 * k + 1) / sqrt(2 * j + 1) for value in table[:, j, k].tolist()]


def _high(scheme: int, family: int, j: int, k: int) -> int:
    """The last power that matters."""
    degree = SCHEME_DEGREE[scheme]
    if scheme == FINITE_DIFFERENCES:
        return 2
    threshold = 0.1 * _edge_size(degree - 1) * _edge_size(degree) / (2 * (2 * degree - 1))
    size = _edge_size(j) * (1 if family == LIFT else _edge_size(k))
    order = j if family == LIFT else j + k + 1
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
        tuple(tuple(entry(scheme, family, j, k) for k in range(degree if family != LIFT else 1)) for j in range(degree))
        for family in (KEEP, SWAP, LIFT)
    )
    for scheme, degree in enumerate(SCHEME_DEGREE)
)
