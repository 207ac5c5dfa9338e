"""SeriesBatch: series of unequal lengths in one tensor, the form in which all of this package passes series around."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.numerics import inputs
from siggpde.numerics.signature_kernel import Lengths


@dataclass(frozen=True, eq=False)
class SeriesBatch:
    """Series of one number of channels, padded to the longest.

    - `values`: (n, length, channels), float64; NaN where a value is missing.
    - `lengths`: (n,), int64; None when all series have all the points. Rows from lengths[i] on are never read.
    - `times`: (n, length), float64, the time stamps; None when points are evenly spaced.
    - `first`: the number of the first series, where this is part of a larger set: error messages count from it.
    - `facts`: (n, facts), float64, of the series as they were handed in (`paths.facts`); None where not known.
    """

    values: Tensor
    lengths: Tensor | None = None
    times: Tensor | None = None
    first: int = 0
    facts: Tensor | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice | Tensor) -> SeriesBatch:
        """The series of a slice, numbered as before (`first`), or those with the indices `rows` (m,), int64."""
        lengths, times, facts = (None if x is None else x[rows] for x in (self.lengths, self.times, self.facts))
        first = self.first + rows.indices(len(self))[0] if isinstance(rows, slice) else 0
        return SeriesBatch(self.values[rows], lengths, times, first, facts)

    def split(self, size: int) -> Iterator[SeriesBatch]:
        """Consecutive batches of at most `size` series each; a single empty one where there are no series."""
        for start in range(0, max(1, len(self)), size):
            yield self[start : start + size]

    @property
    def channels(self) -> int:
        return self.values.shape[2]

    def counts(self) -> Tensor:
        """The length of every series, (n,), int64."""
        n, length, _ = self.values.shape
        return torch.full((n,), length, device=self.values.device) if self.lengths is None else self.lengths

    def inside(self) -> Tensor:
        """Which rows are points of a series and not padding, (n, length), bool."""
        return torch.arange(self.values.shape[1], device=self.values.device) < self.counts()[:, None]

    def hold_last(self) -> SeriesBatch:
        """The batch with the last point of every series, and its time, repeated to the end."""
        if self.lengths is None:
            return self
        index = torch.arange(self.values.shape[1], device=self.values.device)
        index = torch.minimum(index, self.lengths[:, None] - 1)
        values = self.values.gather(1, index[:, :, None].expand_as(self.values))
        times = None if self.times is None else self.times.gather(1, index)
        return SeriesBatch(values, self.lengths, times, self.first, self.facts)

    def to(self, device: torch.device) -> SeriesBatch:
        """The batch on a device: itself where it is there already."""
        if self.values.device == device:
            return self
        lengths, times, facts = (None if x is None else x.to(device) for x in (self.lengths, self.times, self.facts))
        return SeriesBatch(self.values.to(device), lengths, times, self.first, facts)


def as_series_batch(
    series: inputs.Series | SeriesBatch, lengths: Lengths = None, times: Tensor | None = None
) -> SeriesBatch:
    """The batch of series (n, length, channels) with their lengths and times (n, length); a SeriesBatch as it is."""
    if isinstance(series, SeriesBatch):
        if lengths is not None or times is not None:
            raise ValueError("a SeriesBatch has its own lengths and times; leave `lengths` and `times` out")
        return series
    values, counts = inputs.as_batch(series, lengths, "series")
    if times is not None and times.shape != values.shape[:2]:
        raise ValueError(f"times must have shape {tuple(values.shape[:2])}, got {tuple(times.shape)}")
    return SeriesBatch(values, counts, None if times is None else times.to(values.device))


def join(batches: Iterable[SeriesBatch], of: Any) -> SeriesBatch:
    """The series of all the batches in one, padded with NaN to the longest; `of` is what they were made of.

    len(of) is the number of series of all batches together, so that the result is allocated once and filled batch by
    batch, without a second copy in memory.
    """
    batches = iter(batches)
    first = next(batches)
    # After the first batch is there: anything that is no set of series, and may have no length, was refused before.
    total = len(of) if isinstance(of, Sized) else len(np.asarray(of))
    if len(first) == total:
        return first
    values = _enlarged(first.values, total, first.values.shape[1])
    times = None if first.times is None else _enlarged(first.times, total, first.times.shape[1])
    counts, start = [], 0
    for batch in itertools.chain([first], batches):
        rows, points = slice(start, start + len(batch)), batch.values.shape[1]
        values = _enlarged(values, total, points)
        values[rows, :points] = batch.values
        values[rows, points:] = math.nan
        if times is not None:
            assert batch.times is not None
            times = _enlarged(times, total, points)
            times[rows, :points] = batch.times
            times[rows, points:] = math.nan
        counts.append(batch.counts())
        start += len(batch)
    lengths = torch.cat(counts)
    return SeriesBatch(values, None if bool((lengths == values.shape[1]).all()) else lengths, times, first.first)


def _enlarged(values: Tensor, total: int, points: int) -> Tensor:
    """A tensor for `total` series of at least `points` points that begins with `values`; itself if large enough."""
    if len(values) == total and values.shape[1] >= points:
        return values
    larger = values.new_full((total, max(points, values.shape[1]), *values.shape[2:]), math.nan)
    if len(values) == total:
        larger[:, : values.shape[1]] = values
    return larger
