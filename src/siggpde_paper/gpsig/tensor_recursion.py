"""Levels of rank-one tensors against series: the recursion of inducing tensors.

A tensor of `level` levels has in level m the rank-one tensor z_1 x .. x z_m, whose vectors are its slots. Slots are
ordered by position and then by level: first those at position 1 of levels 1 .. n, then those at position 2 of levels
2 .. n, and so on. So the slots of one position are consecutive, and one operation serves all levels that have it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from siggpde.numerics.autograd import once_differentiable
from siggpde_paper.gpsig.exclusive_sums import earlier, later


def slot_count(level: int) -> int:
    """The number of slots, level (level + 1)/2."""
    return level * (level + 1) // 2


def slot_index(position: int, of_level: int, level: int) -> int:
    """The index of the slot at `position` (from 1) of one level among the slots of a tensor of `level` levels.

    Examples:
        >>> [slot_index(position, 3, level=3) for position in (1, 2, 3)]
        [2, 4, 5]
    """
    if not 1 <= position <= of_level <= level:
        raise ValueError(f"level {of_level} of {level} has positions 1 to {of_level}, got position {position}")
    return sum(level - k for k in range(position - 1)) + of_level - position


def product_levels(grams: Tensor, level: int) -> Tensor:
    """Products over the slots of each level, (level, ...), of numbers for every slot (slots, ...)."""
    values, products = [], None
    for factors in _by_position(grams, level):
        products = factors if products is None else products[1:] * factors
        values.append(products[0])
    return torch.stack(values)


def tensor_levels(slots: Tensor, level: int, order: int) -> Tensor:
    """Levels 1 .. level (level, ...) of tensors against series, from G = <z, dx_t> of all slots (slots, ..., t).

    Let A_k(t) be the sum of products of G_1 .. G_k over times that end with t, and F_k its exclusive cumulative sum,
    F_0 = 1. Then A_k = G_k (F_{k-1} + G_{k-1}/2 (F_{k-2} + G_{k-2}/3 (F_{k-3} + ..))), with `order` terms at most,
    and level k is the sum of A_k over t.
    """
    return _TensorLevels.apply(slots, level, order)  # pyright: ignore[reportReturnType]


class _TensorLevels(Function):
    """All sums are kept for the reverse pass: callers give tiles of pairs, for which they stay in the cache."""

    @staticmethod
    def forward(ctx: Any, slots: Tensor, level: int, order: int) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        values, sums, nests = _run(slots, level, order)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(slots)
            ctx.sums, ctx.nests = sums, nests
        return values

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return once_differentiable(_pull_back, *ctx.saved_tensors, grad, ctx.sums, ctx.nests), None, None


def _run(slots: Tensor, level: int, order: int) -> tuple[Tensor, list[Tensor], list[list[Tensor | None]]]:
    """The levels, F_1 .. F_{level-1} and for every k >= 2 the nested sums H_1 .. H_q, where A_k = G_k H_1.

    H_q = F_{k-q} + G_{k-q}/(q+1) H_{q+1}; the innermost is F alone, and None stands for F_0 = 1.
    """
    g = _by_position(slots, level)
    sums: list[Tensor] = []
    nests: list[list[Tensor | None]] = []
    values = slots.new_empty(level, *slots.shape[1:-1])
    ends = g[0]
    torch.sum(ends[0], dim=-1, out=values[0])
    for k in range(2, level + 1):
        sums.append(earlier(ends[1:]))
        depth = min(k, order)
        nest: list[Tensor | None] = [None if depth == k else sums[k - depth - 1][depth - 1 :]]
        for q in range(depth - 1, 0, -1):
            total, factor, inner = sums[k - q - 1][q - 1 :], g[k - q - 1][q:], nest[0]
            if inner is None:
                nest.insert(0, torch.add(total, factor, alpha=1 / (q + 1)))
            else:
                nest.insert(0, torch.addcmul(total, factor, inner, value=1 / (q + 1)))
        outer = nest[0]
        assert outer is not None
        ends = g[k - 1] * outer
        torch.sum(ends[0], dim=-1, out=values[k - 1])
        nests.append(nest)
    return values, sums, nests


def _pull_back(slots: Tensor, grad: Tensor, sums: list[Tensor], nests: list[list[Tensor | None]]) -> Tensor:
    level, result = len(grad), torch.zeros_like(slots)
    g, slopes = _by_position(slots, level), _by_position(result, level)
    of_sums = [torch.zeros_like(total) for total in sums]
    for k in range(level, 0, -1):
        ends = slots.new_empty(g[k - 1].shape)
        ends[0] = grad[k - 1][..., None]
        if k < level:
            ends[1:] = later(of_sums[k - 1])
        if k == 1:
            slopes[0].add_(ends)
            break
        nest = nests[k - 2]
        outer = nest[0]
        assert outer is not None
        slopes[k - 1].addcmul_(ends, outer)
        down = ends.mul_(g[k - 1])
        for q in range(1, len(nest)):
            of_sums[k - q - 1][q - 1 :] += down
            inner, factor = nest[q], g[k - q - 1][q:]
            if inner is None:
                slopes[k - q - 1][q:].add_(down, alpha=1 / (q + 1))
                break
            slopes[k - q - 1][q:].addcmul_(down, inner, value=1 / (q + 1))
            down = (down * factor).mul_(1 / (q + 1))
        else:
            of_sums[k - len(nest) - 1][len(nest) - 1 :] += down
    return result


def _by_position(slots: Tensor, level: int) -> tuple[Tensor, ...]:
    """The slots of position 1 (level, ...), of position 2 (level - 1, ...), and so on."""
    return slots.split(list(range(level, 0, -1)))
