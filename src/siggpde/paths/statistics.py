"""Means and spreads of points that come piece by piece."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks


def mean_and_spread(pieces: Callable[[], Iterable[Tensor]], ranks: Ranks = ALONE) -> tuple[Tensor, Tensor]:
    """Mean and spread (channels,) of all the points; each call of `pieces` gives them anew, in parts (n, channels).

    With `ranks`, of the points of all of them.

    The spread is 1 where nothing but rounding moves a channel, for dividing by 1 keeps it still. Channels are judged by
    their own size: one in small units is not constant.

    Examples:
        >>> parts = torch.tensor([[1.0, 5.0], [2.0, 5.0]]).double(), torch.tensor([[6.0, 5.0]]).double()
        >>> mean_and_spread(lambda: parts)
        (tensor([3., 5.], dtype=torch.float64), tensor([2.1602, 1.0000], dtype=torch.float64))
    """
    count, total, largest = 0, torch.zeros(1).double(), torch.zeros(1).double()
    for part in pieces():
        total, largest = total.to(part.device), largest.to(part.device)
        if len(part):
            count, total = count + len(part), total + part.sum(dim=0)
            largest = torch.maximum(largest, part.abs().amax(dim=0))
    largest = ranks.all_reduce_max(largest)
    total, number = ranks.all_reduce_sum(total, total.new_tensor(float(count)))
    mean = total / number
    # Exact powers of two, so that squares of the largest and smallest numbers stay in range and others do not change.
    powers = [math.ldexp(1.0, max(-1000, min(1000, math.frexp(x)[1]))) for x in largest.tolist()]
    unit = total.new_tensor(powers)
    centre, squares = mean / unit, torch.zeros_like(mean)
    for part in pieces():
        squares = squares + (part / unit - centre).square_().sum(dim=0)
    (squares,) = ranks.all_reduce_sum(squares)
    spread = (squares / number).sqrt() * unit
    return mean, torch.where(spread > 1e-12 * largest, spread, torch.ones_like(spread))
