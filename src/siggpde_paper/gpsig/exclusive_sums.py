"""Exclusive cumulative sums: over all earlier, or over all later times, without the time itself."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

# A product with a triangle of ones is faster than a cumulative sum along axes up to about this long, and exact
# where the difference of a total and a cumulative sum would round.
_SHORT = 64


def earlier(values: Tensor) -> Tensor:
    """At every time, along the last axis, the sum of all values before.

    Examples:
        >>> earlier(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[0., 1., 3.]])
    """
    if values.shape[-1] <= _SHORT:
        return values @ _triangle(values.shape[-1], values.dtype, values.device).T
    return values.cumsum(dim=-1).sub_(values)


def later(values: Tensor) -> Tensor:
    """At every time, along the last axis, the sum of all values after."""
    if values.shape[-1] <= _SHORT:
        return values @ _triangle(values.shape[-1], values.dtype, values.device)
    return values.sum(dim=-1, keepdim=True) - values.cumsum(dim=-1)


def earlier_rows(values: Tensor) -> Tensor:
    """Sums of earlier values along the last axis but two, of contiguous values (..., s, m, t)."""
    if values.shape[-3] <= _SHORT:
        triangle = _triangle(values.shape[-3], values.dtype, values.device)
        return (triangle @ values.flatten(-2)).view(values.shape)
    return values.cumsum(dim=-3).sub_(values)


def later_rows(values: Tensor) -> Tensor:
    """Sums of later values along the last axis but two, of contiguous values (..., s, m, t)."""
    if values.shape[-3] <= _SHORT:
        triangle = _triangle(values.shape[-3], values.dtype, values.device)
        return (triangle.T @ values.flatten(-2)).view(values.shape)
    return values.sum(dim=-3, keepdim=True) - values.cumsum(dim=-3)


@lru_cache(maxsize=64)
def _triangle(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return torch.ones(size, size, dtype=dtype, device=device).tril_(-1)
