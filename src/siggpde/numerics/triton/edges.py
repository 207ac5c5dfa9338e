"""Edges of cells as tuples of tiles, one for each coefficient: loaded, stored, scaled and chosen."""

# Triton's language is not quite Python, and Triton need not be installed to check the types of the rest.
# pyright: reportGeneralTypeIssues=false, reportMissingImports=false, reportPossiblyUnboundVariable=false
# pyright: reportOperatorIssue=false

from __future__ import annotations

import triton
import triton.language as tl


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
