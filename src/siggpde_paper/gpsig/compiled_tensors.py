"""Levels of inducing tensors against series for the linear static kernel, by the native core.

The same numbers as `tensor_recursion.tensor_levels` of inner products of slots and increments: the products are those
of matrices, and the recursion over times runs in the core, one lane per tensor. Tiles of tensors share one workspace;
inner products are not stored, and the reverse pass computes them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.core import core
from siggpde.numerics.threads import usual_threads

_CELLS = 2**19  # inner products of a tile: more leave the cache


def core_serves(slots: Tensor, increments: Tensor, level: int) -> bool:
    """Whether the core computes these levels: it has no gradient in the series, and needs float64 on the CPU."""
    if core is None or increments.requires_grad or level > core.tensor_largest_level:
        return False
    return all(tensor.device.type == "cpu" and tensor.dtype == torch.float64 for tensor in (slots, increments))


def compiled_levels(slots: Tensor, increments: Tensor, level: int, order: int) -> Tensor:
    """Levels 1 .. level (level, M, n) of tensors with slots (M, slots, channels), in the order of `slot_index`, against
    series with increments (n, t, channels); differentiable in the slots."""
    return _Levels.apply(slots, increments, level, order)  # pyright: ignore[reportReturnType]


class _Levels(Function):
    @staticmethod
    def forward(ctx: Any, slots: Tensor, increments: Tensor, level: int, order: int) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(slots, increments)
        ctx.level, ctx.order = level, order
        values = slots.new_empty(level, len(increments), len(slots))
        for rows, tile in _tiles(slots, increments, level, order):
            values[:, :, rows] = tile.values()[:, :, : rows.stop - rows.start]
        return values.mT

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return once_differentiable(_pull_back, *ctx.saved_tensors, grad, ctx.level, ctx.order), None, None, None


def _pull_back(slots: Tensor, increments: Tensor, grad: Tensor, level: int, order: int) -> Tensor:
    result = torch.empty_like(slots)
    for rows, tile in _tiles(slots, increments, level, order):
        result[rows] = tile.pull_back(grad[:, rows].mT)[: rows.stop - rows.start]
    return result


def _tiles(slots: Tensor, increments: Tensor, level: int, order: int) -> Iterator[tuple[slice, _Tile]]:
    """Tiles of rows of slots, one after the other in the same memory."""
    step, per_row = core.lane_step, slots.shape[1] * increments.shape[0] * increments.shape[1]
    size = step * max(1, _CELLS // max(1, per_row * step))
    tile = _Tile(min(size, -(-len(slots) // step) * step), increments, slots.shape[1:], (level, order))
    for start in range(0, len(slots), size):
        rows = slice(start, min(start + size, len(slots)))
        tile.fill(slots[rows])
        yield rows, tile


class _Tile:
    """A few tensors and all series: `g` (n t, slots rows) are their inner products; rows that are too many are zero."""

    def __init__(self, rows: int, increments: Tensor, shape: torch.Size, settings: tuple[int, int]) -> None:
        self.n, self.times = increments.shape[:2]
        self.flat = increments.reshape(self.n * self.times, increments.shape[2]).contiguous()
        self.rows, self.shape, self.settings = rows, shape, settings
        self.left = increments.new_zeros(shape[1], shape[0], rows)  # (channels, slots, rows)
        self.g = increments.new_empty(len(self.flat), shape[0] * rows)

    def fill(self, slots: Tensor) -> None:
        """Takes the slots (rows, slots, channels)."""
        self.left[:, :, : len(slots)] = slots.permute(2, 1, 0)
        self.left[:, :, len(slots) :] = 0.0
        torch.mm(self.flat, self.left.view(self.shape[1], -1), out=self.g)

    def values(self) -> Tensor:
        """The levels, (level, n, rows)."""
        out = self.g.new_empty(self.settings[0], self.n, self.rows)
        core.tensor_levels(*self._arguments(), out.data_ptr(), usual_threads())
        return out

    def pull_back(self, grad: Tensor) -> Tensor:
        """The gradient in the slots (rows, slots, channels) from that in the levels (level, n, at most rows)."""
        padded = grad.new_zeros(*grad.shape[:2], self.rows)
        padded[:, :, : grad.shape[2]] = grad
        of_g = torch.empty_like(self.g)
        core.tensor_levels_reverse(*self._arguments(), padded.data_ptr(), of_g.data_ptr(), usual_threads())
        return (self.flat.T @ of_g).view(self.left.shape).permute(2, 1, 0)

    def _arguments(self) -> tuple[int, ...]:
        return (self.g.data_ptr(), self.n, self.times, self.rows, *self.settings)
