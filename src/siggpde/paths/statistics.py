"""Mean and standard deviation of points that come in chunks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks


def mean_and_spread(chunks: Callable[[], Iterable[Tensor]], ranks: Ranks = ALONE) -> tuple[Tensor, Tensor]:
    """Mean and spread (standard deviation), each (channels,), of all points of all `ranks`.

    `chunks()` iterates over the points in chunks (n, channels); it is called twice, for two passes.

    A channel that varies by no more than rounding has spread 1, so that dividing by it is harmless. What is rounding is
    relative to the largest value of the channel: one in small units is not constant.

    Examples:
        >>> chunks = torch.tensor([[1.0, 5.0], [2.0, 5.0]]).double(), torch.tensor([[6.0, 5.0]]).double()
        >>> mean_and_spread(lambda: chunks)
        (tensor([3., 5.], dtype=torch.float64), tensor([2.1602, 1.0000], dtype=torch.float64))
    """
    count, total, largest = 0, torch.zeros(1).double(), torch.zeros(1).double()
    for chunk in chunks():
        total, largest = total.to(chunk.device), largest.to(chunk.device)
        if len(chunk):
            count, total = count + len(chunk), total + chunk.sum(dim=0)
            largest = torch.maximum(largest, chunk.abs().amax(dim=0))
    largest = ranks.all_reduce_max(largest)
    total, number = ranks.all_reduce_sum(total, total.new_tensor(float(count)))
    mean = total / number
    # Exact powers of two, so that squares of the largest and smallest numbers stay in range and others do not change.
    powers = [math.ldexp(1.0, max(-1000, min(1000, math.frexp(x)[1]))) for x in largest.tolist()]
    unit = total.new_tensor(powers)
    centre, squares = mean / unit, torch.zeros_like(mean)
    for chunk in chunks():
        squares = squares + (chunk / unit - centre).square_().sum(dim=0)
    (squares,) = ranks.all_reduce_sum(squares)
    spread = (squares / number).sqrt() * unit
    return mean, torch.where(spread > 1e-12 * largest, spread, torch.ones_like(spread))
