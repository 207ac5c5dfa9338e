"""Levels of truncated signature kernels of pairs of series, by the native core.

The same numbers as `sequence_recursion.sequence_levels` of full order. The core goes from cell to cell, one lane per
pair of series, so that D has the pairs along its last axis.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import pad

from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.core import core
from siggpde.numerics.threads import usual_threads
from siggpde_paper.gpsig.lanes import lacking
from siggpde_paper.gpsig.static_kernels import Static, paired_increment_kernel, point_kernel

_TILE_CELLS = 2**19  # more leave the cache, fewer are mostly overhead
_MAX_BYTES = 2**28  # working memory of a thread in the reverse pass


def core_serves(x: Tensor, y: Tensor, level: int, order: int) -> bool:
    """Whether the core computes the levels of series x (n, l, channels) and y (m, l', channels).

    It has a few levels of full order, in float64 on the CPU, for series whose grid of cells it can hold.
    """
    if core is None or order != level or not core.least_pair_level <= level <= core.largest_pair_level:
        return False
    if core.sequence_levels_reverse_bytes(x.shape[1] - 1, y.shape[1] - 1, level) > _MAX_BYTES:
        return False
    return all(series.device.type == "cpu" and series.dtype == torch.float64 for series in (x, y))


def cells_of_tile(cells: int) -> int:
    """How many numbers D a tile of pairs with `cells` each has: at least those of one pair in every lane."""
    return max(_TILE_CELLS, core.lane_step * cells)


def rbf_pair_levels(x: Tensor, y: Tensor, level: int) -> Tensor:
    """k_1 .. k_level (level, n, m) of all pairs of series of x (n, l, channels) and y (m, l', channels).

    Of the static kernel "rbf"; `linear_pairs` has the linear one.
    """
    (n, rows, _), (m, columns, _) = x.shape, y.shape
    lanes = pad(y, (0, 0, 0, 0, 0, lacking(m))).transpose(0, 1)  # (l', m, channels), D of a series of zeros being zero
    values = point_kernel("rbf", x.flatten(0, 1), lanes.flatten(0, 1)).view(n, rows, columns, lanes.shape[1])
    levels: Tensor = _Levels.apply(values.diff(dim=1).diff(dim=2), level)  # pyright: ignore[reportAssignmentType]
    return levels[:, :, :m]


def compiled_paired_levels(static: Static, x: Tensor, level: int) -> Tensor:
    """k_1 .. k_level (level, n) of every series of x (n, l, channels) with itself."""
    values = paired_increment_kernel(static, x, x).permute(1, 2, 0)[None]
    levels: Tensor = _Levels.apply(pad(values, (0, lacking(len(x)))), level)  # pyright: ignore[reportAssignmentType]
    return levels[:, 0, : len(x)]


class _Levels(Function):
    """Levels (level, n, m) from D (n, s, t, m), with m a multiple of the core's step."""

    @staticmethod
    def forward(ctx: Any, d: Tensor, level: int) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        d = d.contiguous()
        ctx.save_for_backward(d)
        ctx.level = level
        values = d.new_empty(level, len(d), d.shape[3])
        core.sequence_levels(d.data_ptr(), *d.shape, level, values.data_ptr(), usual_threads())
        return values

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return once_differentiable(_pull_back, *ctx.saved_tensors, grad, ctx.level), None


def _pull_back(d: Tensor, grad: Tensor, level: int) -> Tensor:
    grad, result = grad.contiguous(), torch.empty_like(d)
    core.sequence_levels_reverse(d.data_ptr(), *d.shape, level, grad.data_ptr(), result.data_ptr(), usual_threads())
    return result
