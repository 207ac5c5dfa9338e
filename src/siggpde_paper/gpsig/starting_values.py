"""Starting values of GPSig, drawn from the training series: lengthscales, inducing tensors, inducing sequences."""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.numerics import inputs
from siggpde_paper.gpsig.tensor_recursion import slot_count, slot_index

_NOISE = 0.4
_POINTS = 1000


def lengthscales(x: Tensor, lengths: Tensor, random: torch.Generator) -> Tensor:
    """max(1, sqrt(d E|x_i - x'_i|²)) of every channel i of d, over pairs of 1000 points drawn from all series."""
    points = x[inputs.row_mask(x, lengths)]
    drawn = points[torch.randperm(len(points), generator=random)[:_POINTS]]
    spread = 2 * drawn.var(dim=0, correction=0)
    return (x.shape[2] * spread).sqrt().clamp_min(1.0)


def chosen_series(y: Tensor, count: int, classes: int, random: torch.Generator) -> Tensor:
    """Indices (count,) of series: count // classes of every class, where it has as many, and the rest from all."""
    chosen: list[Tensor] = []
    for label in range(classes):
        members = (y == label).nonzero()[:, 0]
        chosen.append(members[torch.randperm(len(members), generator=random)[: count // classes]])
    missing = count - sum(len(indices) for indices in chosen)
    while missing > 0:
        chosen.append(torch.randperm(len(y), generator=random)[:missing])
        missing -= len(chosen[-1])
    return torch.cat(chosen)


def starting_tensors(x: Tensor, lengths: Tensor, level: int, random: torch.Generator) -> Tensor:
    """Inducing tensors as pairs of points (n, slots, 2, channels), one tensor for each series x, with noise added.

    The slots of level m are m steps of the series, at random times in order. A series with fewer than m steps is
    continued by its last point.
    """
    series = _at_least(x, level + 1)
    n, steps = len(series), series.shape[1] - 1
    values = series.new_empty(n, slot_count(level), 2, series.shape[2])
    rows = torch.arange(n)[:, None]
    for m in range(1, level + 1):
        keys = torch.rand(n, steps, dtype=torch.float64, generator=random)
        keys[torch.arange(steps) >= (lengths[:, None] - 1).clamp_min(m)] = 2.0  # after its end
        times = keys.argsort(dim=1)[:, :m].sort(dim=1).values
        for position in range(1, m + 1):
            time = times[:, position - 1 : position]
            values[:, slot_index(position, m, level)] = torch.cat([series[rows, time], series[rows, time + 1]], dim=1)
    return _noisy(values, random)


def starting_sequences(x: Tensor, lengths: Tensor, points: int, random: torch.Generator) -> Tensor:
    """Windows (n, points, channels) of consecutive points at a random start, one of every series, with noise added."""
    series = _at_least(x, points)
    starts = (lengths - points).clamp_min(0) + 1
    start = (torch.rand(len(series), dtype=torch.float64, generator=random) * starts).long()
    times = start[:, None] + torch.arange(points)
    return _noisy(series[torch.arange(len(series))[:, None], times], random)


def _at_least(x: Tensor, points: int) -> Tensor:
    """Series x continued by their last points where they have fewer than `points`."""
    missing = points - x.shape[1]
    return x if missing <= 0 else torch.cat([x, x[:, -1:].expand(-1, missing, -1)], dim=1)


def _noisy(values: Tensor, random: torch.Generator) -> Tensor:
    return values + _NOISE * torch.randn(values.shape, dtype=values.dtype, generator=random)
