"""Windows of a series as shares of its length, so that series of any length have the same number of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.estimators.settings import at_least
from siggpde.series import SeriesBatch

KINDS = ("whole", "sliding", "dyadic", "expanding")
_DEFAULT_SHARE = 0.25


@dataclass(frozen=True)
class Interval:
    """From point `start` to point `stop`, both included, of a series whose points are numbered from 0 to `last`.

    In a series of another length these are the points nearest to the same shares of it; neighbours that share a point
    still do.
    """

    start: int
    stop: int
    last: int

    def points(self, counts: Tensor) -> tuple[Tensor, Tensor]:
        """The first and the last point, (n,) each, in series of `counts` points (n,); two points where there are two.

        Examples:
            >>> Interval(1, 2, 4).points(torch.tensor([5, 9, 2, 1]))
            (tensor([1, 2, 0, 0]), tensor([2, 4, 1, 0]))
        """
        ends = counts - 1
        first, last = ((2 * point * ends + self.last) // (2 * self.last) for point in (self.start, self.stop))
        last = torch.minimum(torch.maximum(last, first + 1), ends)
        return torch.minimum(first, (last - 1).clamp_min(0)), last

    def cut(self, batch: SeriesBatch) -> SeriesBatch:
        """The part of every series in the window, as a series of its own."""
        first, last = self.points(batch.counts())
        if batch.lengths is None:  # all have the same points
            start, stop = (int(end[0]) if len(batch) else 0 for end in (first, last))
            times = None if batch.times is None else batch.times[:, start : stop + 1]
            return SeriesBatch(batch.values[:, start : stop + 1], None, times, batch.first)
        lengths = last - first + 1
        index = first[:, None] + torch.arange(int(lengths.amax()), device=first.device)
        index = torch.minimum(index, last[:, None])
        values = batch.values.gather(1, index[:, :, None].expand(-1, -1, batch.channels))
        times = None if batch.times is None else batch.times.gather(1, index)
        return SeriesBatch(values, lengths, times, batch.first)

    def __str__(self) -> str:
        return f"{100 * self.start / self.last:.4g}–{100 * self.stop / self.last:.4g} %"


def intervals(kind: Any, length: Any, step: Any, depth: Any, points: int) -> tuple[Interval, ...]:
    """The windows of a kind in series of `points` points, with the settings of `SignatureTransformer`."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"window must be one of {', '.join(map(repr, KINDS))}, got {kind!r}")
    if kind not in ("sliding", "expanding"):
        for name, value in (("window_length", length), ("window_step", step)):
            if value is not None:
                raise ValueError(f"{name} is for sliding and expanding windows, not for window={kind!r}; leave it out")
    if kind != "dyadic" and depth is not None:
        raise ValueError(f"window_depth is for dyadic windows, not for window={kind!r}; leave it out")
    if kind == "whole":
        return (Interval(0, 1, 1),)
    if kind == "dyadic":
        return _dyadic(2 if depth is None else at_least("window_depth", depth, 1), points)
    wide = _steps("window_length", _DEFAULT_SHARE if length is None else length, points)
    stride = _stride(kind, wide, step, points)
    last = points - 1
    stops = [*range(wide, last, stride), last]  # the last window ends with the series
    return tuple(Interval(stop - wide if kind == "sliding" else 0, stop, last) for stop in stops)


def _dyadic(depth: int, points: int) -> tuple[Interval, ...]:
    """The whole, its halves, their halves, ..: `depth` times."""
    if 2**depth > points - 1:
        raise ValueError(
            f"window_depth={depth} cuts a series into {2**depth} parts, but those of fit have {points} points (the "
            f"median); the most is {max(points - 1, 1).bit_length() - 1}"
        )
    return tuple(Interval(i, i + 1, 2**level) for level in range(depth + 1) for i in range(2**level))


def _steps(name: str, value: Any, points: int) -> int:
    """A length in points, or a share of the series, as a number of steps from point to point."""
    if isinstance(value, float | np.floating):
        if not 0 < value <= 1:
            raise ValueError(f"{name} must be a number of points or a share between 0 and 1, got {value!r}")
        steps = max(1, round(float(value) * (points - 1)))
    else:
        steps = at_least(name, value, 2) - 1
    if steps > points - 1:
        raise ValueError(
            f"{name}={value} is longer than the series of fit, which have {points} points (the median); "
            "give fewer points, or a share such as 0.25"
        )
    return steps


def _stride(kind: str, wide: int, step: Any, points: int) -> int:
    """How many points a window is ahead of the one before: half a sliding window, a whole expanding one."""
    if step is None:
        return max(1, wide // 2) if kind == "sliding" else wide
    if isinstance(step, float | np.floating):
        return _steps("window_step", step, points)
    return at_least("window_step", step, 1)
