"""Slow references that share no code with any library measured here.

The signature kernel solves U_st = p U on every cell of the grid of segments, p = <dx_i, dy_j>. Here each cell is
solved by its power series. With U = sum b_i s^i / i! on the bottom edge and sum l_j t^j / j! on the left edge, the top
edge has

    T_i = sum_{j <= i} b_{i-j} p^j / j!  +  p^i sum_{k >= 1} l_k / (k + i)!

and the right edge the same with b and l exchanged. `DEGREE` terms are exact to rounding for the paths used here. All
cells of an anti-diagonal are solved at once; gradients come from autograd with one checkpoint a diagonal.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

DEGREE = 24  # 16 where every |p| is below 0.5


def _root(squared: Tensor) -> Tensor:
    """The distance, with gradient zero where points coincide."""
    apart = squared > 0
    return torch.where(apart, torch.where(apart, squared, 1.0).sqrt(), 0.0)


def _matern52(squared: Tensor) -> Tensor:
    s = math.sqrt(5) * _root(squared)
    return (1 + s + s * s / 3) * torch.exp(-s)


STATIC_KERNELS = {
    "rbf": lambda squared: torch.exp(-squared / 2),
    "matern12": lambda squared: torch.exp(-_root(squared)),
    "matern52": _matern52,
    "rational_quadratic": lambda squared: 1 / (1 + squared / 2),
}


def kernel_pairs(x: Tensor, y: Tensor, static: str = "linear") -> Tensor:
    """k(x_i, y_i) of paths x (n, length, d) and y (n, length', d), lifted by a static kernel of bandwidth 1 -> (n,)."""
    if static == "linear":
        p = torch.einsum("nid,njd->nij", x.diff(dim=1), y.diff(dim=1))
    else:
        squared = (x[:, :, None] - y[:, None]).square().sum(-1)
        p = STATIC_KERNELS[static](squared).diff(dim=1).diff(dim=2)
    n, rows, cols = p.shape
    degree = DEGREE if p.detach().abs().max() > 0.5 else 16
    one = p.new_zeros(n, 1, degree)
    one[..., 0] = 1.0
    bottom = left = top = one
    for diagonal in range(rows + cols - 1):
        first, last = max(0, diagonal - cols + 1), min(rows - 1, diagonal)
        i = torch.arange(first, last + 1)
        top, right = checkpoint(_solve_cells, p[:, i, diagonal - i], bottom, left, use_reentrant=False)
        # Row i of the next diagonal sits on the top of row i and to the right of row i - 1; outer edges are constant 1.
        grows, shrinks = last < rows - 1, diagonal + 1 >= cols
        bottom = torch.cat([top, one], 1) if grows else top
        bottom = bottom[:, 1:] if shrinks else bottom
        left = right if shrinks else torch.cat([one, right], 1)
        left = left if grows else left[:, :-1]
    return (top[:, 0] * _inverse_factorials(degree, p)).sum(-1)


def _solve_cells(p: Tensor, bottom: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
    """Top and right edges of cells with coefficients p (n, c) and edges (n, c, degree)."""
    degree = bottom.shape[-1]
    order = torch.arange(degree)
    inverse = _inverse_factorials(2 * degree, p)
    power = p[..., None] ** order
    lag = order[:, None] - order
    convolve = torch.where(lag >= 0, (power * inverse[:degree])[..., lag.clamp(min=0)], 0.0)
    couple = torch.where(order > 0, inverse[order[:, None] + order], 0.0)

    def across(along: Tensor, other: Tensor) -> Tensor:
        return (convolve @ along[..., None])[..., 0] + power * (other @ couple.T)

    return across(bottom, left), across(left, bottom)


def _inverse_factorials(count: int, like: Tensor) -> Tensor:
    return like.new_tensor([1.0 / math.factorial(i) for i in range(count)])


def kernel_and_gradient(x: Tensor, static: str = "linear") -> tuple[Tensor, Tensor]:
    """k(x_i, x_i) (n,) and the gradient of its sum with respect to the path (n, length, d)."""
    x = x.detach().clone().requires_grad_()
    k = kernel_pairs(x, x, static)
    return k.detach(), torch.autograd.grad(k.sum(), x)[0]


def signature(x: Tensor, depth: int) -> Tensor:
    """Words of length 1 to `depth` of paths x (n, length, d), by Chen's identity step by step in plain torch."""
    levels: list[Tensor] = []
    for step in x.diff(dim=1).unbind(1):
        segment = [step]
        for k in range(2, depth + 1):
            segment.append(_outer(segment[-1], step) / k)
        if not levels:
            levels = segment
            continue
        levels = [
            levels[k] + segment[k] + sum(_outer(levels[j], segment[k - 1 - j]) for j in range(k)) for k in range(depth)
        ]
    return torch.cat(levels, 1)


def _outer(a: Tensor, b: Tensor) -> Tensor:
    return (a[:, :, None] * b[:, None, :]).flatten(1)


def crude_kernel(x: Tensor, parts: int = 1) -> Tensor:
    """k(x_i, x_i) -> (n,) by finite differences, segments cut in `parts`: good to percents, to choose scales."""
    dx = x.diff(dim=1).repeat_interleave(parts, 1) / parts
    p = dx @ dx.mT
    size = p.shape[1]
    before = now = p.new_ones(len(p), 1)
    for diagonal in range(2 * size - 1):
        first, last = max(0, diagonal - size + 1), min(size - 1, diagonal)
        i = torch.arange(first, last + 1)
        q = p[:, i, diagonal - i]
        old = now
        if diagonal < size:  # while diagonals grow, their nodes lie between two of the constant boundary
            edge = p.new_ones(len(p), 1)
            old = torch.cat([edge, now, edge] if diagonal else [edge, edge], 1)
        corner = before if diagonal < size else before[:, 1:-1]
        new = (old[:, 1:] + old[:, :-1]) * (1 + q / 2 + q * q / 12) - corner * (1 - q * q / 12)
        before, now = old, new
    return now[:, 0]


def truncation_gap(x: Tensor, depth: int) -> float:
    """Largest relative gap between `kernel_pairs` and inner products of signatures truncated at `depth`."""
    s, k = signature(x, depth), kernel_pairs(x, x)
    return float(((1 + (s * s).sum(1) - k) / k).abs().max())


def median_error(got: Tensor, want: Tensor) -> float:
    """Median over the first axis of |got - want| / |want|, the norm being taken over all other axes."""
    want = want.reshape(len(want), -1)
    got = got.detach().to(want.dtype).reshape(want.shape)
    return float(((got - want).norm(dim=1) / want.norm(dim=1)).median())
