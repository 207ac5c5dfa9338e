"""From the series that users hand in to a batch without gaps, from which `PathTransform` makes paths."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.numerics.inputs import check_max_points
from siggpde.numerics.words import as_integer
from siggpde.series.batch import SeriesBatch, collect, collect_chunks, join, pool
from siggpde.series.spectrogram import Spectrogram
from siggpde.series.statistics import statistics_of

log = logging.getLogger(__name__)
_CHUNK_VALUES = 2**20  # numbers prepared at a time: 8 MB


class Preparation:
    """Series in any layout to a batch without gaps; what comes of a series does not depend on the others.

    Series are padded to one batch, where NaN at the ends is padding and elsewhere a gap. Gaps are filled by straight
    lines in time; a channel never observed in a series takes its mean over the training series.

    Parameters
    ----------
    time_channel : int, optional
        The channel that holds the time stamps, and no values from here on; negative numbers count from the last.
    mask : bool, default False
        Append as many channels, 1 where a channel of 2 was observed and 0 where not.
    max_points : int or None, default 1000
        Longer series, and the mask, are averaged down to so many points.
    spectrogram : Spectrogram, optional
        Makes a channel for each bin of every channel first, time in seconds; steps with a gap are missing.

    Attributes
    ----------
    raw_channels : int
        The number of channels handed in to `fit`.
    fill : Tensor (channels,)
        The mean of every channel over all observed points, 0 for a channel never observed.
    gap_share : float
        The share of missing values.

    Examples
    --------
    >>> prepare = Preparation(time_channel=0, mask=True)
    >>> x = [[[0.0, 1.0, 4.0], [2.0, float("nan"), 6.0]], [[0.0, 2.0], [5.0, 7.0]]]
    >>> batch = prepare.fit(x)(x)
    >>> batch.values[0]
    tensor([[2., 1.],
            [3., 0.],
            [6., 1.]], dtype=torch.float64)
    >>> prepare.names(["day", "level"]), prepare.gap_share
    (('level', 'level observed'), 0.2)
    """

    def __init__(
        self,
        *,
        time_channel: int | None = None,
        mask: bool = False,
        max_points: int | None = 1000,
        spectrogram: Spectrogram | None = None,
    ) -> None:
        if time_channel is not None:
            index = as_integer(time_channel)
            if index is None:
                raise ValueError(f"time_channel must be a whole number or None, got {time_channel!r}")
            time_channel = index
            if spectrogram is not None:
                raise ValueError("a spectrogram is of evenly sampled series; leave time_channel out")
        check_max_points(max_points)
        if spectrogram is not None and not isinstance(spectrogram, Spectrogram):
            raise ValueError(f"spectrogram must be a Spectrogram or None, got {type(spectrogram).__name__}")
        self.time_channel: Final = time_channel
        self.mask: Final = bool(mask)
        self.max_points: Final = None if max_points is None else int(max_points)
        self.spectrogram: Final = spectrogram
        self.raw_channels: int | None = None
        self.fill: Tensor | None = None
        self.gap_share: float | None = None

    def fit(self, X: Any, name: str = "X", *, ranks: Ranks = ALONE) -> Preparation:
        """Learns from the training series: `fit_transform` without the batch."""
        self.fit_transform(X, name, ranks=ranks)
        return self

    def fit_transform(self, X: Any, name: str = "X", *, ranks: Ranks = ALONE) -> SeriesBatch:
        """Learns from the training series, of all `ranks` the same, and returns their batch; X is read once."""
        learned = _Sums(torch.zeros(1).double(), torch.zeros(1).double())
        with ranks.together():
            batch, unobserved = self._collected(X, name, learned)
        ranks.check_same("number of channels", learned.channels)
        gaps = torch.tensor([learned.missing, learned.points], dtype=torch.float64)
        total, count, gaps = ranks.all_reduce_sum(learned.total, learned.count, gaps)
        self.raw_channels, self.fill = learned.channels, total / count.clamp_min(1)
        if ranks.leads and bool((count == 0).any()):
            time = None if self.time_channel is None else self.time_channel % learned.channels
            kept = [channel for channel in range(learned.channels) if channel != time]
            empty = kept[int((count == 0).nonzero()[0]) * len(kept) // len(count)]
            log.warning(
                "channel %d of %s has not a single value; nothing is learned from it: leave it out", empty, name
            )
        self.gap_share = float(gaps[0] / gaps[1])
        return _with_fill(batch, unobserved, self.fill) if bool(unobserved.any()) else batch

    def __call__(self, X: Any, name: str = "X") -> SeriesBatch:
        """Returns the batch of `X`, all finite: rows after the end of a short series repeat its last point."""
        if self.fill is None:
            raise ValueError("this preparation has not seen training series yet; call fit first")
        batch, unobserved = self._collected(X, name)
        return _with_fill(batch, unobserved, self.fill) if bool(unobserved.any()) else batch

    def names(self, channel_names: Sequence[str]) -> tuple[str, ...]:
        """Returns the names of the channels that come out, given those of the channels that go in."""
        if self.raw_channels is not None and len(channel_names) != self.raw_channels:
            raise ValueError(f"got {len(channel_names)} names for series of {self.raw_channels} channels")
        kept = list(channel_names)
        if self.time_channel is not None:
            del kept[self._time_index(len(kept), "channel_names")]
        values = kept
        if self.spectrogram is not None:
            values = [f"{name} {hertz:g} Hz" for name in kept for hertz in self.spectrogram.frequencies()]
        return (*values, *(f"{name} observed" for name in kept if self.mask))

    def state(self) -> dict[str, Any]:
        """Returns settings and everything learned, as plain values."""
        return {
            "options": {
                **{name: getattr(self, name) for name in ("time_channel", "mask", "max_points")},
                "spectrogram": None if self.spectrogram is None else self.spectrogram.state(),
            },
            "raw_channels": self.raw_channels,
            "fill": None if self.fill is None else self.fill.tolist(),
            "gap_share": self.gap_share,
        }

    @staticmethod
    def from_state(state: dict[str, Any]) -> Preparation:
        options = dict(state["options"])
        if options["spectrogram"] is not None:
            options["spectrogram"] = Spectrogram(**options["spectrogram"])
        preparation = Preparation(**options)
        preparation.raw_channels = state["raw_channels"]
        preparation.fill = None if state["fill"] is None else torch.tensor(state["fill"], dtype=torch.float64)
        preparation.gap_share = state["gap_share"]
        return preparation

    def _collected(self, X: Any, name: str, learned: _Sums | None = None) -> tuple[SeriesBatch, Tensor]:
        """Returns the batch, and which channels (n, channels), set to 0, have no observation; `learned` takes sums."""
        unobserved: list[Tensor] = []
        statistics: list[Tensor] = []

        def chunks() -> Iterator[SeriesBatch]:
            for raw in collect_chunks(X, name, max_values=_CHUNK_VALUES):
                if learned is not None:
                    learned.channels = raw.channels
                elif raw.channels != self.raw_channels:
                    raise ValueError(
                        f"the series of {name} have {raw.channels} channels, but those of fit had {self.raw_channels}; "
                        "hand in the same channels in the same order, as (n_cases, n_channels, n_timepoints)"
                    )
                split = raw if self.time_channel is None else self._split(raw, name)
                statistics.append(statistics_of(split))
                batch = split if self.spectrogram is None else self.spectrogram(split)
                observed = torch.isfinite(batch.values)
                known = observed & batch.inside()[:, :, None]
                if learned is not None:
                    learned.add(split, batch, known)
                unobserved.append(~known.any(dim=1))
                if not bool(observed.all()):
                    batch = fill_gaps(batch, torch.zeros(batch.channels))
                if self.mask:
                    observed = observed[:, :, :: batch.channels // split.channels]
                    batch = replace(batch, values=torch.cat([batch.values, observed.double()], dim=2))
                yield pool(batch, self.max_points)

        batch = join(chunks(), X).hold_last()
        return replace(batch, statistics=torch.cat(statistics)), torch.cat(unobserved)

    def readings(self, X: Any) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """Returns the values (channels, points) of each series as they were handed in, NaN for gaps, and its stamps
        (points,) or None."""
        raw, readings = collect(X), []
        for series, count in zip(raw.values.numpy(), raw.counts().tolist(), strict=True):
            values = series[:count].T
            if self.time_channel is None:
                readings.append((values, None))
            else:
                readings.append((np.delete(values, self.time_channel, axis=0), values[self.time_channel]))
        return readings

    def _split(self, batch: SeriesBatch, name: str) -> SeriesBatch:
        """Takes the time channel out of the values."""
        time = self._time_index(batch.channels, name)
        if batch.channels == 1:
            raise ValueError(f"the only channel of {name} is the time channel; there must be values too")
        kept = [channel for channel in range(batch.channels) if channel != time]
        times = batch.values[:, :, time].contiguous()
        split = replace(batch, values=batch.values[:, :, kept], times=times)
        _check_times(split, times)
        empty = (~(torch.isfinite(split.values) & split.inside()[:, :, None]).any(dim=2).any(dim=1)).nonzero()
        if len(empty):
            raise ValueError(
                f"series {batch.first + int(empty[0])} of {name} has time stamps but not a single value; drop it"
            )
        return split

    def _time_index(self, channels: int, name: str) -> int:
        assert self.time_channel is not None
        if not -channels <= self.time_channel < channels:
            raise ValueError(
                f"time_channel is {self.time_channel}, but {name} has {channels} channels: it must be between "
                f"{-channels} and {channels - 1}"
            )
        return self.time_channel % channels


@dataclass
class _Sums:
    """Sums over training series, chunk by chunk: observed values and their number for each channel; missing values."""

    total: Tensor
    count: Tensor
    missing: int = 0
    points: int = 0
    channels: int = 0

    def add(self, split: SeriesBatch, batch: SeriesBatch, known: Tensor) -> None:
        """Adds a chunk: series as they were handed in, what they became, and which of its values are observed."""
        inside = split.inside()[:, :, None]
        self.points += int(inside.sum()) * split.channels
        self.missing += int((split.values.isnan() & inside).sum())
        self.total = self.total + torch.where(known, batch.values, 0.0).sum(dim=(0, 1))
        self.count = self.count + known.sum(dim=(0, 1))


def _with_fill(batch: SeriesBatch, unobserved: Tensor, fill: Tensor) -> SeriesBatch:
    """Returns the batch with `fill` (channels,) in the channels of series (n, channels) that have no observation."""
    values = batch.values.clone()
    channels = unobserved.shape[1]
    values[:, :, :channels] = torch.where(unobserved[:, None, :], fill, values[:, :, :channels])
    return replace(batch, values=values)


def fill_gaps(batch: SeriesBatch, fill: Tensor | Sequence[float], *, mask: bool = False) -> SeriesBatch:
    """Returns the batch with every NaN inside its series filled, channel by channel.

    A gap is filled by the straight line on `batch.times`, or on the index; before the first and after the last observed
    value the nearest is held.

    Parameters
    ----------
    batch : SeriesBatch
        The series.
    fill : array of float (channels,)
        The value of a channel without a single observation in a series.
    mask : bool
        Whether as many channels again are appended: 1 where the value was observed, 0 where it was filled.

    Returns
    -------
    SeriesBatch

    Examples
    --------
    >>> values = torch.tensor([[[0.0], [torch.nan], [torch.nan], [8.0]]]).double()
    >>> times = torch.tensor([[0.0, 1.0, 3.0, 4.0]]).double()
    >>> fill_gaps(SeriesBatch(values, times=times), fill=[0.0]).values.flatten()
    tensor([0., 2., 6., 8.], dtype=torch.float64)
    """
    means = np.asarray(fill, dtype=np.float64)
    if means.shape != (batch.channels,) or not np.isfinite(means).all():
        raise ValueError(f"fill must be {batch.channels} finite numbers, one a channel, got {fill}")
    if batch.times is not None:
        _check_times(batch, batch.times)
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


def _check_times(batch: SeriesBatch, times: Tensor) -> None:
    """Raises ValueError for the first time stamp that is missing or lies before the one of the point before."""
    inside = batch.inside()
    missing = (~torch.isfinite(times) & inside).nonzero()
    if len(missing):
        series, time = missing[0].tolist()
        raise ValueError(
            f"series {batch.first + series} has no finite time stamp at time point {time} "
            f"({times[series, time].item()}); only values may be missing: drop the point or give its time"
        )
    back = ((times.diff(dim=1) < 0) & inside[:, 1:]).nonzero()
    if len(back):
        series, time = back[0].tolist()
        before, after = times[series, time : time + 2].tolist()
        raise ValueError(
            f"series {batch.first + series} goes back in time at time point {time + 1}, from {before} to {after}; "
            "sort its points by time"
        )


def _filled(values: np.ndarray, times: np.ndarray | None, counts: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Returns values (n, length, channels) without the NaN of its first counts[i] points."""
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
