"""Long series shortened by averaging consecutive points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from siggpde.paths.batch import SeriesBatch


def pool(batch: SeriesBatch, max_points: int | None) -> SeriesBatch:
    """The batch with every series of more than `max_points` points shortened to `max_points`; None changes nothing.

    A series of l points is cut into `max_points` bins of l / max_points consecutive points, rounded up or down, whose
    values and time stamps are averaged, whatever the other series are. Shorter series are untouched. The points of a
    straight line stay on it, and a constant stays constant.

    The first and the last point are averaged like all others: kept as they are they would stick out of a smoothed
    path by their whole noise, and a signature sees every such step. So a path runs from the mean of its first bin to
    the mean of its last. A NaN makes its bin NaN: fill gaps first.

    Examples:
        >>> values = torch.arange(6.0).double().reshape(1, 6, 1)
        >>> pool(SeriesBatch(values), 3).values.flatten()
        tensor([0.5000, 2.5000, 4.5000], dtype=torch.float64)
    """
    if max_points is not None and (type(max_points) is not int or max_points < 1):
        raise ValueError(f"max_points must be a positive whole number, or None for never, got {max_points!r}")
    length = batch.values.shape[1]
    if max_points is None or length <= max_points:
        return batch
    values = batch.values.numpy()
    times = None if batch.times is None else batch.times.numpy()[:, :, None]
    counts = batch.counts().numpy()
    shorter = np.minimum(counts, max_points)
    longest = int(shorter.max())
    pooled = values[:, :longest].copy()
    pooled_times = None if times is None else times[:, :longest].copy()
    for count in np.unique(counts[counts > max_points]).tolist():
        rows = counts == count
        pooled[rows] = _averages(values, rows, count, max_points)
        if times is not None and pooled_times is not None:
            pooled_times[rows] = _averages(times, rows, count, max_points)
    return replace(
        batch,
        values=torch.from_numpy(pooled),
        lengths=None if bool((shorter == longest).all()) else torch.from_numpy(shorter),
        times=None if pooled_times is None else torch.from_numpy(pooled_times[:, :, 0]),
    )


def _averages(values: np.ndarray, rows: np.ndarray, count: int, bins: int) -> np.ndarray:
    """Means of the bins of the series in `rows`, which all have `count` points: (n, bins, channels)."""
    edges = np.arange(bins + 1) * count // bins
    series = values[:, :count] if rows.all() else values[rows, :count]
    return np.add.reduceat(series, edges[:-1], axis=1) / np.diff(edges)[:, None]
