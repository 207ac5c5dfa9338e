"""From series to paths: time, the channels themselves, and what is appended to them, in this order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.numerics import inputs
from siggpde.numerics.signature_kernel import Lengths
from siggpde.series.batch import SeriesBatch, as_series_batch
from siggpde.series.statistics import mean_and_spread

Append = Literal["none", "variation", "arc"]
Clock = Literal["span", "points"]
Scale = Literal["set", "series"]
_CHUNK_VALUES = 2**18  # numbers handled at a time: 2 MB, which stay in the processor's cache
_LEARNED = ("mean", "spread", "appended_spread", "duration")


@dataclass(frozen=True)
class PathOptions:
    """How a series becomes a path.

    Parameters
    ----------
    time
        A channel that rises evenly, from 0 to sqrt(12) over the whole series (unit spread); where time stamps
        are given it is these, from 0 to sqrt(12) over the median duration of a training series. Without it only
        the order of values counts, not their timing.
    base_point
        The path starts at 0, so that positions count and not only changes.
    append
        `"variation"`, for every channel the running sum of its absolute changes, which a path hides; `"arc"`,
        one channel with the running length of the path; both divided by their spread over the training set.
    lead_lag
        Every channel twice, one a step behind the other, which brings in quadratic variation.
    difference
        How many times the series is replaced by its changes from point to point, before all else.
    clock
        `"span"`, the time above, or `"points"`: time has a standard deviation of 1 over the points of a path, or, where
        time stamps are given, over the points of all training series.
    scale
        Channels have mean 0 and standard deviation 1 over the training `"set"`, or in every single `"series"`.

    Examples
    --------
    >>> PathOptions(lead_lag=True).channels(2)  # two of each, and time
    5
    """

    time: bool = True
    base_point: bool = True
    append: Append = "none"
    lead_lag: bool = False
    difference: int = 0
    clock: Clock = "span"
    scale: Scale = "set"

    def __post_init__(self) -> None:
        if not isinstance(self.difference, int) or not 0 <= self.difference <= 5:
            raise ValueError(f"difference must be an integer from 0 to 5, got {self.difference!r}")
        if self.append not in ("none", "variation", "arc"):
            raise ValueError(f"append must be 'none', 'variation' or 'arc', got {self.append!r}")
        if self.clock not in ("span", "points"):
            raise ValueError(f"clock must be 'span' or 'points', got {self.clock!r}")
        if self.scale not in ("set", "series"):
            raise ValueError(f"scale must be 'set' or 'series', got {self.scale!r}")

    def channels(self, channels: int) -> int:
        """The number of channels of the path of a series with `channels` channels."""
        appended = {"none": 0, "variation": channels, "arc": 1}[self.append]
        return int(self.time) + (2 if self.lead_lag else 1) * (channels + appended)


class PathTransform:
    """Series to paths with `options`, standardised with the means and spreads that `fit` learned for each channel, or
    that each series has itself.

    Parameters
    ----------
    options : PathOptions, optional
        How a series becomes a path; `PathOptions()` by default.

    Examples
    --------
    >>> series = torch.tensor([[[1.0], [3.0]]]).double()
    >>> paths, lengths = PathTransform(PathOptions(base_point=False)).fit(series)(series)
    >>> paths
    tensor([[[ 0.0000, -1.0000],
             [ 3.4641,  1.0000]]], dtype=torch.float64)
    """

    def __init__(self, options: PathOptions | None = None) -> None:
        self.options = options or PathOptions()
        self.mean: Tensor | None = None
        self.spread: Tensor | None = None
        self.appended_spread: Tensor | None = None
        self.duration: Tensor | None = None

    def fit(
        self,
        series: inputs.Series | SeriesBatch,
        *,
        lengths: Lengths = None,
        times: Tensor | None = None,
        ranks: Ranks = ALONE,
    ) -> PathTransform:
        """Learns means and spreads from the training series (n, length, channels), of all `ranks` the same, and the
        duration of a usual series where `times` (n, length) are given; a `SeriesBatch` brings its own lengths and
        times."""
        with ranks.together():
            batch = self._checked(as_series_batch(series, lengths, times))
            if len(batch) == 0:
                raise ValueError("there are no series to learn means and spreads from")

        def appended() -> Iterator[SeriesBatch]:
            for chunk in self._chunks(batch):
                standard = replace(chunk, values=self._standardised(chunk)).hold_last()
                yield replace(chunk, values=self._running_sums(standard.values))

        if self.options.scale == "set":
            self.mean, self.spread = mean_and_spread(partial(self._chunks, batch), ranks)
        else:
            self.mean = torch.zeros(batch.channels, dtype=torch.float64, device=batch.values.device)
            self.spread = torch.ones_like(self.mean)
        self.duration = None
        if batch.times is not None:
            self.duration = self._duration(batch, ranks)
            if not self.duration > 0:
                self.duration = torch.ones((), dtype=torch.float64)
        if self.options.append != "none":
            self.appended_spread = mean_and_spread(appended, ranks)[1]
        return self

    def __call__(
        self, series: inputs.Series, *, lengths: Lengths = None, times: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Returns paths (n, length', channels') in float64, and their lengths (None when all are equally long)."""
        paths = self.paths(as_series_batch(series, lengths, times))
        return paths.values, paths.lengths

    def paths(self, batch: SeriesBatch) -> SeriesBatch:
        """Returns the paths (n, length', channels') of a batch of series, float64, without time stamps."""
        if self.mean is None:
            raise ValueError("this transform has not seen training series yet; call fit first")
        batch = self._checked(batch)
        if batch.channels != len(self.mean):
            raise ValueError(f"the series have {batch.channels} channels, but those of fit had {len(self.mean)}")
        if (batch.times is None) != (self.duration is None) and self.options.time:
            had = "had none" if self.duration is None else "had them"
            raise ValueError(f"time stamps must be given as in fit, and the series of fit {had}")
        values, lengths, start = None, [], 0
        for chunk in self._chunks(batch):
            paths = self._path(chunk)
            if len(paths) == len(batch):
                return paths
            values = paths.values.new_empty(len(batch), *paths.values.shape[1:]) if values is None else values
            values[start : start + len(paths)] = paths.values
            lengths.append(paths.lengths)
            start += len(paths)
        assert values is not None
        return SeriesBatch(values, None if batch.lengths is None else torch.cat(lengths), first=batch.first)

    def _duration(self, batch: SeriesBatch, ranks: Ranks) -> Tensor:
        """Returns the median duration of the series, or that of even times with the spread of all their times."""
        if self.options.clock == "points":

            def elapsed() -> Iterator[SeriesBatch]:
                for chunk in self._chunks(batch):
                    assert chunk.times is not None
                    yield replace(chunk, values=(chunk.times - chunk.times[:, :1])[:, :, None])

            return 12**0.5 * mean_and_spread(elapsed, ranks)[1][0]
        held = [chunk.hold_last().times for chunk in self._chunks(batch)]
        durations = [stamps[:, -1] - stamps[:, 0] for stamps in held if stamps is not None]
        return ranks.all_gather_rows(torch.cat(durations)).median()

    def _path(self, series: SeriesBatch) -> SeriesBatch:
        """Returns the paths of one chunk."""
        series = replace(series, values=self._standardised(series)).hold_last()
        path, counts = series.values, series.lengths
        clock = None if series.times is None else (series.times - series.times[:, :1])[:, :, None]
        if self.options.base_point:
            path = torch.cat([torch.zeros_like(path[:, :1]), path], dim=1)
            clock = None if clock is None else torch.cat([clock[:, :1], clock], dim=1)
            counts = None if counts is None else counts + 1
        if self.options.append != "none":
            assert self.appended_spread is not None
            path = torch.cat([path, self._running_sums(path) / self.appended_spread.to(path.device)], dim=2)
        if self.options.lead_lag:  # of two copies the first moves first, the second follows
            twice = path.repeat_interleave(2, dim=1)
            path = torch.cat([twice[:, 1:], twice[:, :-1]], dim=2)
            clock = None if clock is None else clock.repeat_interleave(2, dim=1)[:, 1:]
            counts = None if counts is None else 2 * counts - 1
        if self.options.time:
            if clock is None:
                clock = _even_times(path, counts, self.options.clock)
            else:
                assert self.duration is not None
                clock = clock * (12**0.5 / self.duration.to(clock.device))
            path = torch.cat([clock, path], dim=2)
        return SeriesBatch(path, counts, first=series.first)

    def to(self, device: torch.device | str) -> PathTransform:
        """Moves what was learned to a device, in place; it is used on whichever device series are."""
        for name in _LEARNED:
            value = getattr(self, name)
            setattr(self, name, None if value is None else value.to(device))
        return self

    def names(self, channels: Sequence[str]) -> tuple[str, ...]:
        """Returns the names of the channels of the path, from those of the series."""
        change = "change of " * self.options.difference
        return self._with_appended([change + name for name in channels], "variation of {}", "{} before")

    def origins(self, channels: Sequence[str]) -> tuple[str, ...]:
        """Returns for every channel of the path its channel of the series; "time" and "path length" are their own."""
        return self._with_appended(list(channels), "{}", "{}")

    def _with_appended(self, names: list[str], variation: str, before: str) -> tuple[str, ...]:
        """Returns time, the channels, what is appended, and all but time again where channels are doubled."""
        if self.options.append == "variation":
            names = [*names, *map(variation.format, names)]
        elif self.options.append == "arc":
            names = [*names, "path length"]
        if self.options.lead_lag:
            names = [*names, *map(before.format, names)]
        return ("time", *names) if self.options.time else tuple(names)

    def _checked(self, batch: SeriesBatch) -> SeriesBatch:
        """Returns the batch with contiguous values; a ValueError where values, times or lengths cannot be used."""
        values, lengths = inputs.as_batch(batch.values, batch.lengths, "series")
        inputs.check_finite(values, lengths, "series")
        times = batch.times
        if times is not None:
            bad = (~torch.isfinite(times) & inputs.row_mask(values, lengths)).nonzero()
            if len(bad):
                series, index = bad[0].tolist()
                value = times[series, index].item()
                raise ValueError(f"times is not finite ({value}) in series {series}, at time index {index}")
        shortest = values.shape[1] if lengths is None or len(lengths) == 0 else int(lengths.amin())
        if shortest <= self.options.difference:
            series = 0 if lengths is None else int(lengths.argmin())
            raise ValueError(
                f"series {series} has too few points to take differences {self.options.difference} times; "
                "give longer series or a smaller difference"
            )
        return SeriesBatch(values, lengths, times, batch.first)

    def _chunks(self, batch: SeriesBatch) -> Iterator[SeriesBatch]:
        """Yields chunks that fit the processor's cache: float64, differenced, 0 after the end of a series."""
        for piece in batch.split(len(batch) or 1, _CHUNK_VALUES):
            times = None if piece.times is None else piece.times.detach().to(torch.float64)
            chunk = replace(piece, values=piece.values.detach().to(torch.float64), times=times)
            if chunk.lengths is not None:
                chunk = _zero_padding(chunk)
            for _ in range(self.options.difference):  # each change is at the time of the later point
                lengths = None if chunk.lengths is None else chunk.lengths - 1
                times = None if chunk.times is None else chunk.times[:, 1:]
                chunk = SeriesBatch(chunk.values.diff(dim=1), lengths, times, chunk.first)
            yield _zero_padding(chunk) if self.options.difference else chunk

    def state(self) -> dict[str, Any]:
        """Returns everything learned, as plain numbers."""
        learned = {name: getattr(self, name) for name in _LEARNED}
        values = {name: None if value is None else value.tolist() for name, value in learned.items()}
        return {"options": vars(self.options).copy(), **values}

    @staticmethod
    def from_state(state: dict[str, Any]) -> PathTransform:
        transform = PathTransform(PathOptions(**state["options"]))
        for name in _LEARNED:
            value = state.get(name)
            setattr(transform, name, None if value is None else torch.tensor(value, dtype=torch.float64))
        return transform

    def _standardised(self, chunk: SeriesBatch) -> Tensor:
        mean, spread = (self.mean, self.spread) if self.options.scale == "set" else _of_each(chunk)
        assert mean is not None and spread is not None
        return (chunk.values - mean.to(chunk.values.device)) / spread.to(chunk.values.device)

    def _running_sums(self, path: Tensor) -> Tensor:
        """Returns running sums of changes (n, length, channels), or of lengths (n, length, 1), of paths."""
        steps = path.diff(dim=1)
        size = steps.abs() if self.options.append == "variation" else steps.norm(dim=2, keepdim=True)
        return torch.nn.functional.pad(size.cumsum(dim=1), (0, 0, 1, 0))


def _zero_padding(batch: SeriesBatch) -> SeriesBatch:
    """Returns the batch with 0 after the end of every series, for a NaN there would spread."""
    return replace(batch, values=torch.where(batch.inside()[:, :, None], batch.values, 0.0))


def _of_each(batch: SeriesBatch) -> tuple[Tensor, Tensor]:
    """Returns the mean and the spread of every channel of each series, (n, 1, channels); of a constant one it is 1."""
    inside, counts = batch.inside()[:, :, None], batch.counts()[:, None, None]
    values = torch.where(inside, batch.values, 0.0)
    unit = values.abs().amax(dim=1, keepdim=True)
    unit = torch.where(unit > 0, unit, 1.0)  # squares of numbers near the ends of the range would leave it
    mean = (values / unit).sum(dim=1, keepdim=True) / counts
    centred = torch.where(inside, values / unit - mean, 0.0)
    spread = (centred.square().sum(dim=1, keepdim=True) / counts).sqrt()
    return mean * unit, torch.where(spread > 1e-12, spread * unit, 1.0)


def _even_times(path: Tensor, counts: Tensor | None, clock: Clock) -> Tensor:
    """Returns even times (n, length, 1), to sqrt(12) at the last point, or with spread 1 over the points of a path."""
    n, length, _ = path.shape
    index = torch.arange(length, dtype=path.dtype, device=path.device).expand(n, length)
    last = torch.full((n,), length - 1, device=path.device) if counts is None else counts - 1
    share = torch.minimum(index, last[:, None]) / last.clamp_min(1)[:, None]
    if clock == "points":
        share = share * (last / (last + 2).to(share)).sqrt()[:, None]
    return share[:, :, None] * 12**0.5
