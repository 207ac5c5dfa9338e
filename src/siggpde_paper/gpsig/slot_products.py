"""Levels of inducing tensors with each other for the linear static kernel, with a reverse pass written by hand.

Level m of two tensors is the product over positions k of the inner products G_k = <z_k, w_k> of their slots. The
gradient in G_k is that of the level times the product of the others, from products of the first and of the last ones.
All G are kept, (slots, M, M): that takes half the time of tiles whose numbers are computed again, and more memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from siggpde.numerics.autograd import once_differentiable
from siggpde_paper.gpsig.tensor_recursion import product_levels, slot_index


def slot_gram_levels(slots: Tensor, level: int) -> Tensor:
    """Levels 1 .. level (level, M, M) of tensors with slots (M, slots, channels), in the order of `slot_index`.

    Examples:
        >>> slot_gram_levels(torch.tensor([[[1.0], [2.0], [3.0]]]), 2).flatten()
        tensor([ 1., 36.])
    """
    return _GramLevels.apply(slots, level)  # pyright: ignore[reportReturnType]


class _GramLevels(Function):
    @staticmethod
    def forward(ctx: Any, slots: Tensor, level: int) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        by_slot = slots.transpose(0, 1).contiguous()
        grams = by_slot @ by_slot.mT
        ctx.save_for_backward(by_slot, grams)
        ctx.level = level
        return product_levels(grams, level)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return once_differentiable(_pull_back, *ctx.saved_tensors, grad, ctx.level), None


def _pull_back(by_slot: Tensor, grams: Tensor, grad: Tensor, level: int) -> Tensor:
    """G is symmetric, so the gradient in the slots is (D + D^T) z with D the gradient in G."""
    result = torch.empty_like(by_slot)
    for m in range(1, level + 1):
        places = [slot_index(k, m, level) for k in range(1, m + 1)]
        after = grad[m - 1] + grad[m - 1].T  # times all later slots
        later = []
        for place in reversed(places):
            later.append(after)
            after = after * grams[place]
        before: Tensor | None = None
        for place, rest in zip(places, reversed(later), strict=True):
            torch.mm(rest if before is None else rest * before, by_slot[place], out=result[place])
            before = grams[place] if before is None else before * grams[place]
    return result.transpose(0, 1)
