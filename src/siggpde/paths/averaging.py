"""Long series shortened by averaging consecutive points, their time stamps alike."""

from __future__ import annotations

from dataclasses import replace

from siggpde.numerics.averaging import averaged, check_max_points
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
        >>> import torch
        >>> values = torch.arange(6.0).double().reshape(1, 6, 1)
        >>> pool(SeriesBatch(values), 3).values.flatten()
        tensor([0.5000, 2.5000, 4.5000], dtype=torch.float64)
    """
    check_max_points(max_points)
    if max_points is None or batch.values.shape[1] <= max_points:
        return batch
    values, lengths = averaged(batch.values, batch.lengths, max_points)
    times = None
    if batch.times is not None:
        times = averaged(batch.times[:, :, None], batch.lengths, max_points)[0][:, :, 0]
    return replace(batch, values=values, lengths=lengths, times=times)
