"""Missing values: filled by straight lines on real time, for a path is a straight line between its points anyway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from siggpde.paths.batch import SeriesBatch


def fill_gaps(batch: SeriesBatch, fill: Tensor | Sequence[float], *, mask: bool = False) -> SeriesBatch:
    """The batch with every NaN inside its series filled, channel by channel.

    Between two observed values a gap is filled by the straight line on `batch.times` (on the index without them);
    before the first and after the last the nearest observed value is held. A channel without a single observation in
    a series takes its value of `fill` (channels,). With `mask`, as many channels again are appended: 1 where the value
    was observed, 0 where it was filled.

    Examples:
        >>> values = torch.tensor([[[0.0], [torch.nan], [torch.nan], [8.0]]]).double()
        >>> times = torch.tensor([[0.0, 1.0, 3.0, 4.0]]).double()
        >>> fill_gaps(SeriesBatch(values, times=times), fill=[0.0]).values.flatten()
        tensor([0., 2., 6., 8.], dtype=torch.float64)
    """
    means = np.asarray(fill, dtype=np.float64)
    if means.shape != (batch.channels,) or not np.isfinite(means).all():
        raise ValueError(f"fill must be {batch.channels} finite numbers, one a channel, got {fill}")
    check_times(batch)
    observed = torch.isfinite(batch.values)
    broken = (~observed & batch.inside()[:, :, None]).any(dim=2).any(dim=1).nonzero()[:, 0]
    values = batch.values
    if len(broken):
        values = values.clone()
        times = None if batch.times is None else batch.times[broken].numpy()
        filled = _filled(values[broken].numpy(), times, batch.counts()[broken].numpy(), means)
        values[broken] = torch.from_numpy(filled)
    if mask:
        values = torch.cat([values, observed.double()], dim=2)
    return replace(batch, values=values)


def check_times(batch: SeriesBatch) -> None:
    """Raises ValueError for the first time stamp that is missing or lies before the one of the point before."""
    if batch.times is None:
        return
    inside = batch.inside()
    missing = (~torch.isfinite(batch.times) & inside).nonzero()
    if len(missing):
        series, time = missing[0].tolist()
        raise ValueError(
            f"series {batch.first + series} has no finite time stamp at time point {time} "
            f"({batch.times[series, time].item()}); only values may be missing: drop the point or give its time"
        )
    back = ((batch.times.diff(dim=1) < 0) & inside[:, 1:]).nonzero()
    if len(back):
        series, time = back[0].tolist()
        before, after = batch.times[series, time : time + 2].tolist()
        raise ValueError(
            f"series {batch.first + series} goes back in time at time point {time + 1}, from {before} to {after}; "
            "sort its points by time"
        )


def _filled(values: np.ndarray, times: np.ndarray | None, counts: np.ndarray, means: np.ndarray) -> np.ndarray:
    """values (n, length, channels) without the NaN of its first counts[i] points."""
    _, length, _ = values.shape
    observed = np.isfinite(values)
    index = np.arange(length)[None, :, None]
    before = np.maximum.accumulate(np.where(observed, index, -1), axis=1)
    after = np.minimum.accumulate(np.where(observed, index, length)[:, ::-1], axis=1)[:, ::-1]
    series, time, channel = np.nonzero(~observed & (index < counts[:, None, None]))
    left, right = before[series, time, channel], after[series, time, channel]
    never = (left < 0) & (right == length)
    # Where one side has nothing, both sides are the other one, and the line between them is level.
    left, right = np.where(left < 0, right, left), np.where(right == length, left, right)
    left, right = np.where(never, 0, left), np.where(never, 0, right)
    if times is None:
        start, end, now = left.astype(np.float64), right.astype(np.float64), time.astype(np.float64)
    else:
        start, end, now = times[series, left], times[series, right], times[series, time]
    # A gap between two points of the same time is part of a jump: the value before it is held.
    width = np.where(end > start, end - start, 1.0)
    share = np.where(end > start, (now - start) / width, 0.0)
    low, high = values[series, left, channel], values[series, right, channel]
    values[series, time, channel] = np.where(never, means[channel], low + share * (high - low))
    return values
