r"""The coefficient rho of a cell: the inner product of two increments, of a path or of one that a static kernel lifts.

A piece of a path is a column of fields [field][step]. Of a path itself these are the channels of its increment. Of a
path lifted by the RBF kernel :math:`a^2 \exp(-|x-y|^2/2h^2)` they are the start and the end of its segment, x/h, both
(`channels` fields each); a over the number of equal pieces of that segment; and whether it is the last of them.
"""

# Triton's language is not quite Python, and Triton need not be installed to check the types of the rest.
# pyright: reportGeneralTypeIssues=false, reportMissingImports=false, reportPossiblyUnboundVariable=false
# pyright: reportOperatorIssue=false

from __future__ import annotations

from math import factorial

import triton
import triton.language as tl

# Powers of the series of e^x - 1 for x in [-1/2, 0] that rounding leaves.
TERMS_F64, TERMS_F32 = tl.constexpr(15), tl.constexpr(9)
INVERSE_FACTORIALS = tuple(1 / factorial(k) for k in range(TERMS_F64.value + 1))


@triton.constexpr_function
def inverse_factorial(k):
    return INVERSE_FACTORIALS[k]


@triton.jit
def inner_product(x, y, x_at, y_at, x_steps, y_steps, channels, active):
    """rho of the cells: x_at and y_at are the offsets of channel 0."""
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
