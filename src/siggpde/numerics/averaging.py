"""Long series shortened to a number of points by averaging consecutive ones: the work of a kernel is their square."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor

from siggpde.numerics import inputs
from siggpde.numerics.words import as_integer

log = logging.getLogger(__name__)

Side = tuple[Tensor, Tensor | None]  # what `inputs.as_batch` returns: (n, length, channels), and (n,) or None


def average_points(x: inputs.Series, max_points: int | None, *, lengths: Any = None) -> Side:
    """The series with more than `max_points` points averaged down to `max_points`, and the lengths of all.

    A series of l points is cut into `max_points` bins of l / max_points consecutive points, rounded up or down, and
    each bin becomes its mean, whatever the other series are. Series with at most `max_points` points are not touched.
    The points of a straight line stay on it, and a constant stays constant; ends are averaged like all other points.

    x (n, length, channels) or a list of (length_i, channels), and `lengths`, as for `signature_kernel`. Returns
    (x (n, at most max_points, channels), lengths (n,)), the lengths None where all series have all the points.
    Gradients flow through. How many series were shortened is said in the log; None for `max_points` changes nothing.

    Examples:
        >>> values, lengths = average_points([torch.arange(6.0)[:, None], torch.ones(2, 1)], 3)
        >>> values[0].flatten(), lengths
        (tensor([0.5000, 2.5000, 4.5000]), tensor([3, 2]))
    """
    return average_sides(max_points, inputs.as_batch(x, lengths))[0]


def average_sides(max_points: int | None, *sides: Side) -> tuple[Side, ...]:
    """`average_points` of x and, where there is one, y, checked batches, with one line in the log for both."""
    check_max_points(max_points)
    if max_points is None:
        return sides
    done, shortened, longest = [], 0, 0
    for name, (values, lengths) in zip(("x", "y"), sides, strict=False):
        counts = _counts(values, lengths)
        long = counts > max_points
        if bool(long.any()):
            inputs.check_finite(values, lengths, name)  # an error names the point as it was given
            shortened += int(long.sum())
            longest = max(longest, int(counts.max()))
            done.append(averaged(values, lengths, max_points))
        else:
            done.append((values, lengths))
    if shortened:
        total = sum(len(values) for values, _ in sides)
        log.info("%d of %d series, of up to %d points, averaged to %d", shortened, total, longest, max_points)
    return tuple(done)


def averaged(values: Tensor, lengths: Tensor | None, max_points: int) -> Side:
    """`average_points` of a checked batch, copied up to the end of its longest series, without a word."""
    counts = _counts(values, lengths)
    shorter = counts.clamp(max=max_points)
    longest = int(shorter.max())
    means = values[:, :longest].clone()
    for count in counts[counts > max_points].unique().tolist():
        rows = counts == count
        series = values[:, :count] if bool(rows.all()) else values[rows, :count]  # a slice is no copy
        sizes = (torch.arange(max_points + 1, device=values.device) * count // max_points).diff()
        sizes = sizes.expand(len(series), max_points).contiguous()
        bins = torch.segment_reduce(series.double().contiguous(), "mean", lengths=sizes, axis=1)
        means[rows] = bins.to(values.dtype)
    return means, None if bool((shorter == longest).all()) else shorter


def check_max_points(max_points: Any) -> None:
    """Raises a ValueError for what is no number of points."""
    points = 1 if max_points is None else as_integer(max_points)
    if points is None or points < 1:
        raise ValueError(f"max_points must be a positive whole number, or None for never, got {max_points!r}")


def _counts(values: Tensor, lengths: Tensor | None) -> Tensor:
    n, length, _ = values.shape
    return torch.full((n,), length, device=values.device) if lengths is None else lengths
