"""Facts of series as they were handed in: what standardising, filling gaps and averaging take away.

Of every channel its level (the mean), its spread (the standard deviation) and its roughness (the mean absolute step
from one observed point to the next, over the spread); of the series its length, the time it spans and the share of
missing values. NaN stands for what a series does not tell: the roughness of a constant, the time span without time
stamps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from siggpde.paths.batch import SeriesBatch

OF_CHANNELS = ("level", "spread", "roughness")
_SMALLEST = 1e-300
OF_SERIES = ("length", "time span", "share of missing values")


def facts_of(batch: SeriesBatch) -> Tensor:
    """(n, 3 channels + 3), float64: channel by channel `OF_CHANNELS`, then `OF_SERIES`.

    The values of the batch are NaN where they are missing.

    Examples:
        >>> facts_of(SeriesBatch(torch.tensor([[[1.0], [3.0], [1.0], [3.0]]]).double()))
        tensor([[2., 1., 2., 4., nan, 0.]], dtype=torch.float64)
    """
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


def fact_names(channels: Sequence[str]) -> list[str]:
    """The names of the columns of `facts_of` for channels with these names."""
    return [f"{fact} of {channel}" for channel in channels for fact in OF_CHANNELS] + list(OF_SERIES)


def _steps(values: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
    """Of every series and channel: the sum of |dx| over steps from one observed point to the next, and their number."""
    if bool((observed[:, :-1] | ~observed[:, 1:]).all()):  # no gap but at the ends
        both = observed[:, 1:] & observed[:, :-1]
        return (torch.where(both, values.diff(dim=1).abs(), 0.0)).sum(1), both.sum(1)
    points = torch.arange(values.shape[1], device=values.device)[None, :, None].expand_as(values)
    latest = torch.where(observed, points, -1).cummax(1).values  # the last observed point up to every one
    before = latest[:, :-1]
    both = observed[:, 1:] & (before >= 0)
    jumps = (values[:, 1:] - values.gather(1, before.clamp_min(0))).abs()
    return torch.where(both, jumps, 0.0).sum(1), both.sum(1)
