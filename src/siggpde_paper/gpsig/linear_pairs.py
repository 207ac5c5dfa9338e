"""Levels of all pairs of two sets of series for the linear static kernel, by the native core.

The same numbers as `sequence_recursion.sequence_levels` of full order. The core takes eight pairs at a time, from inner
products of increments to levels, and in the reverse pass from gradients of levels to those of increments. Nothing of a
pair is stored.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.core import core
from siggpde.numerics.threads import usual_threads
from siggpde_paper.gpsig.lanes import from_lanes, in_lanes

_PARTS, _MAX_BYTES = 16, 2**26  # of the rows, for threads; and what their gradients in the other series may take


def linear_pair_levels(x: Tensor, y: Tensor | None, level: int) -> Tensor:
    """k_1 .. k_level (level, n, m) of series with increments x (n, s, channels) and y (m, t, channels), or x again.

    Of full order, for what `compiled_sequences.core_serves`.
    """
    if y is not None and x.shape[2] != y.shape[2]:
        raise ValueError(f"x has {x.shape[2]} channels and y {y.shape[2]}; they must have the same")
    return _LinearPairs.apply(x, y, level)  # pyright: ignore[reportReturnType]


class _LinearPairs(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor | None, level: int) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(x, y)
        ctx.level = level
        others = x if y is None else y
        x, lanes = x.contiguous(), in_lanes(others)
        values = x.new_empty(level, len(x), len(others))
        core.linear_pair_levels(*_arguments(x, lanes, others, level, y is None), values.data_ptr(), usual_threads())
        return values

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, y = ctx.saved_tensors
        return *once_differentiable(_pull_back, x, y, grad, ctx.level, ctx.needs_input_grad[1]), None


def _pull_back(x: Tensor, y: Tensor | None, grad: Tensor, level: int, with_y: bool) -> tuple[Tensor, Tensor | None]:
    others, same = x if y is None else y, y is None
    x, lanes, grad = x.contiguous(), in_lanes(others), grad.contiguous()
    of_x = torch.empty_like(x)
    of_lanes = lanes.new_zeros(_parts(x, lanes), *lanes.shape) if same or with_y else None
    core.linear_pair_levels_reverse(
        *_arguments(x, lanes, others, level, same),
        grad.data_ptr(),
        of_x.data_ptr(),
        0 if of_lanes is None else of_lanes.data_ptr(),
        usual_threads(),
    )
    if of_lanes is None:
        return of_x, None
    of_others = from_lanes(of_lanes, len(others))
    return (of_x + of_others, None) if same else (of_x, of_others)


def _arguments(x: Tensor, lanes: Tensor, others: Tensor, level: int, same: bool) -> tuple[int | bool, ...]:
    return x.data_ptr(), lanes.data_ptr(), len(x), x.shape[1], *others.shape, level, same, _parts(x, lanes)


def _parts(x: Tensor, lanes: Tensor) -> int:
    """In how many parts the rows of x are shared out, whatever the threads, for sums of gradients depend on it."""
    return max(1, min(_PARTS, len(x), _MAX_BYTES // max(1, 8 * lanes.numel())))
