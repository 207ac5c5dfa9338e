"""Rows in blocks of lanes, as the native core takes them."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import pad

from siggpde.numerics.core import core


def in_lanes(rows: Tensor) -> Tensor:
    """Rows (n, k, channels) as (blocks, k, channels, lanes), with zeros in the last block where rows lack."""
    padded = pad(rows, (0, 0, 0, 0, 0, lacking(len(rows))))
    return padded.unflatten(0, (len(padded) // core.lane_step, core.lane_step)).movedim(1, 3).contiguous()


def lacking(rows: int) -> int:
    """How many rows are missing to fill all lanes."""
    return -rows % core.lane_step


def from_lanes(parts: Tensor, count: int) -> Tensor:
    """The first `count` rows (count, k, channels) of the sum of all parts."""
    return parts.sum(dim=0).movedim(3, 1).flatten(0, 1)[:count]
