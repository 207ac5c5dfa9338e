"""Statistics of series: mean and spread of the channels of a data set, and statistics of every single series."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.series.batch import SeriesBatch

OF_CHANNELS = ("level", "spread", "roughness")
_SMALLEST = 1e-300
OF_SERIES = ("length", "time span", "share of missing values")


def mean_and_spread(chunks: Callable[[], Iterable[SeriesBatch]], ranks: Ranks = ALONE) -> tuple[Tensor, Tensor]:
    """Returns mean and spread (standard deviation), each (channels,), of all points of all `ranks`.

    `chunks()`, which is called twice, iterates over the series without gaps. A channel that varies by no more than
    rounding, relative to its largest value, has spread 1, so that dividing by it is harmless.

    >>> values = torch.tensor([[[1.0, 5.0], [2.0, 5.0]], [[6.0, 5.0], [0.0, 0.0]]])
    >>> batch = SeriesBatch(values, lengths=torch.tensor([2, 1]))
    >>> mean_and_spread(lambda: batch.split(1))
    (tensor([3., 5.], dtype=torch.float64), tensor([2.1602, 1.0000], dtype=torch.float64))
    """
    count, total, largest = 0, torch.zeros(1).double(), torch.zeros(1).double()
    for chunk in chunks():
        points = chunk.values[chunk.inside()].double()
        total, largest = total.to(points.device), largest.to(points.device)
        if len(points):
            count, total = count + len(points), total + points.sum(dim=0)
            largest = torch.maximum(largest, points.abs().amax(dim=0))
    largest = ranks.all_reduce_max(largest)
    total, number = ranks.all_reduce_sum(total, total.new_tensor(float(count)))
    mean = total / number
    # Exact powers of two, so that squares of the largest and smallest numbers stay in range and others do not change.
    unit = total.new_tensor(np.ldexp(1.0, np.frexp(largest.cpu().numpy())[1].clip(-1000, 1000)))
    centre, squares = mean / unit, torch.zeros_like(mean)
    for chunk in chunks():
        points = chunk.values[chunk.inside()].double()
        squares = squares + (points / unit - centre).square_().sum(dim=0)
    (squares,) = ranks.all_reduce_sum(squares)
    spread = (squares / number).sqrt() * unit
    return mean, torch.where(spread > 1e-12 * largest, spread, torch.ones_like(spread))


def statistics_of(batch: SeriesBatch) -> Tensor:
    """Returns the statistics (n, 3 channels + 3) of series as they were handed in, float64: of each channel mean,
    standard deviation and mean absolute step over that, then length, time span and share of missing values. NaN stands
    for what a series does not tell: the roughness of a constant, the span without time stamps."""
    inside = batch.inside()
    observed = torch.isfinite(batch.values) & inside[:, :, None]
    values = torch.where(observed, batch.values, 0.0)
    count = observed.sum(1)
    # In units of the largest value of a channel, whose square need not be a number.
    size = values.abs().amax(1).clamp_min(_SMALLEST)
    scaled = values / size[:, None]
    mean = scaled.sum(1) / count  # NaN where nothing was observed
    centred = torch.where(observed, scaled - mean[:, None], 0.0)
    step, steps = _steps(centred, observed)
    level, spread, step = mean * size, (centred.square().sum(1) / count).sqrt() * size, step * size
    # Rounding of the mean is no spread: a constant far from 0 has none.
    constant = spread <= 1e-12 * level.abs()
    spread = torch.where(constant, 0.0, spread)
    roughness = torch.where(constant | (steps == 0), math.nan, step / steps / spread)
    of_channels = torch.stack([level, spread, roughness], dim=2).flatten(1)
    lengths = batch.counts().double()
    span = torch.full_like(lengths, math.nan)
    if batch.times is not None:
        last = batch.times.gather(1, (batch.counts() - 1)[:, None])[:, 0]
        span = last - batch.times[:, 0]
    missing = 1 - observed.sum((1, 2)) / (lengths * batch.channels)
    return torch.cat([of_channels, torch.stack([lengths, span, missing], dim=1)], dim=1)


def statistic_names(channels: Sequence[str]) -> list[str]:
    """Returns the names of the columns of `statistics_of` for channels with these names."""
    return [f"{statistic} of {channel}" for channel in channels for statistic in OF_CHANNELS] + list(OF_SERIES)


def _steps(values: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the sum of |dx| over steps between neighbouring observed points, and their number, two (n, channels)."""
    if bool((observed[:, :-1] | ~observed[:, 1:]).all()):  # no gap but at the ends
        both = observed[:, 1:] & observed[:, :-1]
        return (torch.where(both, values.diff(dim=1).abs(), 0.0)).sum(1), both.sum(1)
    points = torch.arange(values.shape[1], device=values.device)[None, :, None].expand_as(values)
    latest = torch.where(observed, points, -1).cummax(1).values  # the last observed point up to every one
    before = latest[:, :-1]
    both = observed[:, 1:] & (before >= 0)
    jumps = (values[:, 1:] - values.gather(1, before.clamp_min(0))).abs()
    return torch.where(both, jumps, 0.0).sum(1), both.sum(1)
