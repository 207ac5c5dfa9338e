"""SeriesBatch: series of unequal lengths in one tensor, float64, time before channels, made from arrays with channels
before time. NaN is a missing value, or at the end of a series in all channels its padding."""

from __future__ import annotations

import hashlib
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.distributed.ranks import Ranks
from siggpde.distributed.shard import Shard
from siggpde.numerics import inputs
from siggpde.numerics.inputs import averaged, check_max_points
from siggpde.numerics.signature_kernel import Lengths


@dataclass(frozen=True, eq=False)
class SeriesBatch:
    """Series of one number of channels, padded to the longest.

    Attributes
    ----------
    values
        (n, length, channels), float64; NaN where a value is missing.
    lengths
        (n,), int64; None when all series have all the points. Rows from lengths[i] on are never read.
    times
        (n, length), float64, the time stamps; None when points are evenly spaced.
    first
        The number of the first series, where this is part of a larger set: error messages count from it.
    statistics
        (n, statistics), float64, of the series as they were handed in (`statistics_of`); None where not known.
    facts
        (n, facts), float64, what is known beside the series (`siggpde.views.facts`), NaN for gaps; None without any.

    Examples
    --------
    >>> SeriesBatch(torch.zeros(2, 3, 1), lengths=torch.tensor([3, 2])).inside().tolist()
    [[True, True, True], [True, True, False]]
    """

    values: Tensor
    lengths: Tensor | None = None
    times: Tensor | None = None
    first: int = 0
    statistics: Tensor | None = None
    facts: Tensor | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice | Tensor) -> SeriesBatch:
        """The series of a slice, numbered as before (`first`), or those with the indices `rows` (m,), int64."""
        first = self.first + rows.indices(len(self.values))[0] if isinstance(rows, slice) else 0
        return self._with(itemgetter(rows), first)

    def _with(self, change: Callable[[Tensor], Tensor], first: int) -> SeriesBatch:
        parts = {**vars(self), "first": first}
        for name, part in parts.items():
            if isinstance(part, Tensor):
                parts[name] = change(part)
        return SeriesBatch(**parts)

    @property
    def described(self) -> Tensor | None:
        """The statistics of the series and then their facts, (n, columns), by which novelty is judged."""
        if self.statistics is None or self.facts is None:
            return self.statistics
        return torch.cat([self.statistics, self.facts], dim=1)

    def split(self, size: int, values: int | None = None) -> Iterator[SeriesBatch]:
        """Yields batches of at most `size` series and `values` numbers, but at least one series or the empty batch."""
        if values is not None:
            size = max(1, min(size, values // (self.values.shape[1] * self.channels)))
        for start in range(0, max(1, len(self)), size):
            yield self[start : start + size]

    @property
    def channels(self) -> int:
        return self.values.shape[2]

    def counts(self) -> Tensor:
        """Returns the length of every series, (n,), int64."""
        n, length, _ = self.values.shape
        return torch.full((n,), length, device=self.values.device) if self.lengths is None else self.lengths

    def inside(self) -> Tensor:
        """Returns which rows are points of a series and not padding, (n, length), bool."""
        return torch.arange(self.values.shape[1], device=self.values.device) < self.counts()[:, None]

    def hold_last(self) -> SeriesBatch:
        """Returns the batch with the last point of every series, and its time, repeated to the end."""
        if self.lengths is None:
            return self
        index = torch.arange(self.values.shape[1], device=self.values.device)
        index = torch.minimum(index, self.lengths[:, None] - 1)
        values = self.values.gather(1, index[:, :, None].expand_as(self.values))
        times = None if self.times is None else self.times.gather(1, index)
        return replace(self, values=values, times=times)

    def to(self, device: torch.device) -> SeriesBatch:
        """Returns the batch on a device: itself where it is there already."""
        if self.values.device == device:
            return self
        return self._with(methodcaller("to", device), self.first)


def as_series_batch(
    series: inputs.Series | SeriesBatch, lengths: Lengths = None, times: Tensor | None = None
) -> SeriesBatch:
    """Returns the batch of series (n, length, channels) with their lengths and times (n, length)."""
    if isinstance(series, SeriesBatch):
        if lengths is not None or times is not None:
            raise ValueError("a SeriesBatch has its own lengths and times; leave `lengths` and `times` out")
        return series
    values, counts = inputs.as_batch(series, lengths, "series")
    if times is not None and times.shape != values.shape[:2]:
        raise ValueError(f"times must have shape {tuple(values.shape[:2])}, got {tuple(times.shape)}")
    return SeriesBatch(values, counts, None if times is None else times.to(values.device))


def join(batches: Iterable[SeriesBatch], of: Any) -> SeriesBatch:
    """Returns the series of all the batches in one, for the len(of) series that `of` has, padded with NaN."""
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
    """Returns a tensor for `total` series of at least `points` points that begins with `values`."""
    if len(values) == total and values.shape[1] >= points:
        return values
    larger = values.new_full((total, max(points, values.shape[1]), *values.shape[2:]), math.nan)
    if len(values) == total:
        larger[:, : values.shape[1]] = values
    return larger


def collect(X: Any, name: str = "X") -> SeriesBatch:
    """Returns one batch of the series in `X`, checked; `X` is not modified and shares no memory with the batch.

    Parameters
    ----------
    X : array, tensor or list
        A numpy array or torch tensor (n_cases, n_channels, n_timepoints), or (n_cases, n_timepoints) for one channel;
        or a list of arrays (n_channels, n_timepoints_i) or (n_timepoints_i,); or nested lists of numbers.
    name : str
        What errors call it.

    Returns
    -------
    SeriesBatch

    Examples
    --------
    >>> batch = collect([[1, 2, 3], [4, 5]])
    >>> batch.values[..., 0]
    tensor([[1., 2., 3.],
            [4., 5., nan]], dtype=torch.float64)
    >>> batch.lengths
    tensor([3, 2])
    """
    return next(collect_chunks(X, name, max_values=None))


def collect_chunks(X: Any, name: str = "X", *, max_values: int | None) -> Iterator[SeriesBatch]:
    """Yields the batch of `collect` in chunks of at most `max_values` numbers, but at least one series."""
    if hasattr(X, "columns"):
        refuse_frames_of_sktime(X, name)
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1 and len(X) and np.ndim(X[0]) > 0:
        X = list(X)  # how numpy holds arrays of unequal lengths
    if isinstance(X, list | tuple):
        items = _items(X, name)
        for start, stop in _groups([item.shape for item in items], max_values):
            longest = max(item.shape[1] for item in items[start:stop])
            values = np.full((stop - start, longest, items[0].shape[0]), math.nan)
            for row, item in zip(values, items[start:stop], strict=True):
                row[: item.shape[1]] = item.T
            yield _batch(values, name, start)
        return
    array = _array(X, name)
    if array.ndim == 2:
        array = array[:, None, :]
    if array.ndim != 3:
        fix = {
            0: "pass one array or a list of arrays",
            1: "Reshape your data: for one series of one channel write X[None, None]",
        }
        raise ValueError(
            f"{name} must have shape (n_cases, n_channels, n_timepoints), or (n_cases, n_timepoints) for one channel, "
            f"got {array.shape}" + (f"; {fix[array.ndim]}" if array.ndim in fix else "")
        )
    n, channels, length = array.shape
    for what, number in (("series", n), ("channels", channels), ("time points", length)):
        if number == 0:
            kind = "sample" if what == "series" else "feature"
            raise ValueError(
                f"{name} has no {what}: its shape (n_cases, n_channels, n_timepoints) is {array.shape}; give at least "
                f"one of each (found 0 {kind}(s) (shape=({n}, {channels * length})) while a minimum of 1 is required)"
            )
    step = n if max_values is None else max(1, max_values // (channels * length))
    for start in range(0, n, step):
        chunk = array[start : start + step].transpose(0, 2, 1)
        yield _batch(np.array(chunk, dtype=np.float64, order="C", copy=True), name, start)


def refuse_frames_of_sktime(X: Any, name: str, series: str | None = None) -> None:
    """Raises ValueError, with the call that reads it, for a frame as sktime has them, without a column `series`."""
    pandas = sys.modules.get("pandas")  # whoever has a frame of pandas has imported it
    if pandas is None or not isinstance(X, pandas.DataFrame) or (series is not None and series in X.columns):
        return
    what = how = ""
    long, series, time = "long", "series", "time"
    if X.index.nlevels > 1:
        names = [f"level_{level}" if key is None else str(key) for level, key in enumerate(X.index.names)]
        what, long = "rows are points, with series and time in the index", f"{name}.reset_index()"
        series, time = names[-2:]
    elif len(X) and any(isinstance(cell, pandas.Series | np.ndarray) for cell in X.iloc[0]):
        what = "cells hold whole series"
        how = (
            f"long = pandas.concat({{i: pandas.DataFrame(dict(row)) for i, row in {name}.iterrows()}}, "
            f"names=['{series}', '{time}']).reset_index(); "
        )
    if what:
        raise ValueError(
            f"{name} is a frame of pandas whose {what}, as sktime has them. Read it with {how}"
            f"data = siggpde.io.from_frame({long}, series={series!r}, time={time!r}) and pass data.X, with "
            "time_channel=0"
        )


def _items(X: Sequence[Any], name: str) -> list[np.ndarray]:
    """Returns the arrays (n_channels, n_timepoints_i) of a list, all with the same channels."""
    if not X:
        raise ValueError(f"{name} is empty: there are no series in it; give at least one")
    items = []
    for number, given in enumerate(X):
        item = _array(given, f"series {number} of {name}")
        if item.ndim == 1:
            item = item[None]
        if item.ndim != 2 or 0 in item.shape:
            fix = "; a single series goes into a list of its own" if item.ndim == 0 else ""
            raise ValueError(
                f"series {number} of {name} must have shape (n_channels, n_timepoints), or (n_timepoints,) for one "
                f"channel, with at least one of each, got {item.shape}{fix}"
            )
        if item.shape[0] != (items or [item])[0].shape[0]:
            raise ValueError(
                f"series {number} of {name} has {item.shape[0]} channels and {item.shape[1]} time points, but series 0 "
                f"has {items[0].shape[0]} channels; all need the same channels, as (n_channels, n_timepoints): "
                "transpose series that have time first"
            )
        items.append(item)
    return items


def _array(x: Any, name: str) -> np.ndarray:
    """Returns an array of real numbers; without a copy where possible."""
    if isinstance(x, Tensor):
        if x.layout != torch.strided:
            raise ValueError(f"{name} is a sparse tensor; convert it with .to_dense()")
        x = x.detach().cpu()
        x = (x.double() if x.dtype == torch.bfloat16 else x).numpy()
    elif isinstance(x, np.ma.MaskedArray):  # what is masked is missing
        x = np.ma.filled(x.astype(np.float64), math.nan)
    elif hasattr(x, "toarray") and hasattr(x, "nnz"):
        raise TypeError(f"{name} is a sparse matrix, and sparse input is not supported; pass X.toarray()")
    try:
        array = np.asarray(x)
    except ValueError as trouble:
        raise ValueError(
            f"{name} is not an array of numbers ({trouble}); the channels of a series need equally many time points: "
            "put NaN where a value is missing"
        ) from None
    if array.dtype == object and array.ndim > 0:
        array = _numbers(array)
    if array.dtype.kind not in "fiub":
        fix = {
            "O": "pass series of unequal lengths as a list of arrays, and missing values as NaN, not None",
            "c": "pass the real and the imaginary part as two channels (Complex data not supported)",
            "M": "convert time stamps to numbers, such as seconds since the first",
        }.get(array.dtype.kind, "convert it to float")
        raise ValueError(f"{name} must hold real numbers, got {type(x).__name__} of dtype {array.dtype}; {fix}")
    return array


def _numbers(array: np.ndarray) -> np.ndarray:
    """Returns an array of objects as floats where all are numbers, None being missing; else as it is."""
    if any(isinstance(item, dict) for item in array.ravel()[:1000]):
        raise TypeError("X holds a dictionary; its argument must be a string or a number: pass an array of numbers")
    if any(isinstance(item, str | bytes) for item in array.ravel()):
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        return array


def _groups(shapes: Sequence[tuple[int, ...]], max_values: int | None) -> Iterator[tuple[int, int]]:
    """Yields ranges start:stop of series that take at most `max_values` numbers when padded together."""
    start, longest = 0, 0
    for number, (channels, length) in enumerate(shapes):
        padded = (number + 1 - start) * channels * max(longest, length)
        if max_values is not None and number > start and padded > max_values:
            yield start, number
            start, longest = number, 0
        longest = max(longest, length)
    yield start, len(shapes)


def _batch(values: np.ndarray, name: str, first: int) -> SeriesBatch:
    """Returns the batch of values (n, length, channels), whose lengths are read off the NaN at the ends."""
    finite: np.ndarray = np.isfinite(values)
    if finite.all():
        return SeriesBatch(torch.from_numpy(values), first=first)
    if np.isinf(values).any():
        series, channel, time = np.argwhere(np.isinf(values).transpose(0, 2, 1))[0].tolist()
        raise ValueError(
            f"series {first + series} of {name} is infinite ({values[series, time, channel]}) in channel {channel} at "
            f"time point {time}; put NaN there if the value is missing"
        )
    observed = np.any(finite, axis=2)
    empty = ~observed.any(axis=1)
    if empty.any():
        raise ValueError(
            f"series {first + int(empty.argmax())} of {name} is NaN everywhere; drop series without a single value"
        )
    lengths = values.shape[1] - observed[:, ::-1].argmax(axis=1)
    longest = int(lengths.max())
    values = np.ascontiguousarray(values[:, :longest])
    equal = bool((lengths == longest).all())
    return SeriesBatch(torch.from_numpy(values), None if equal else torch.from_numpy(lengths), first=first)


def pool(batch: SeriesBatch, max_points: int | None) -> SeriesBatch:
    """Returns the batch with every series of more than `max_points` points averaged down to `max_points`.

    A series is cut into bins of equally many consecutive points, but for rounding, whose values and time stamps are
    averaged. The first and the last point are averaged like all others: kept they would stick out of a smoothed path by
    their whole noise. A NaN makes its bin NaN: fill gaps first.

    Parameters
    ----------
    batch : SeriesBatch
        The series; shorter ones do not change.
    max_points : int or None
        The largest number of points; None changes nothing.

    Returns
    -------
    SeriesBatch

    Examples
    --------
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


def pad_to_longest(batch: SeriesBatch, ranks: Ranks) -> SeriesBatch:
    """Returns the series of this rank padded by their last points to the longest of all ranks, with lengths."""
    if ranks.alone:
        return batch
    points = batch.values.shape[1]
    longest, ragged = ranks.all_reduce_max(torch.tensor([points, int(batch.lengths is not None)])).tolist()
    shortest = -int(ranks.all_reduce_max(torch.tensor([-points])))
    lengths = batch.counts() if ragged or shortest < longest else batch.lengths
    times = None if batch.times is None else _with_last_repeated(batch.times, longest)
    return replace(batch, values=_with_last_repeated(batch.values, longest), lengths=lengths, times=times)


def _with_last_repeated(values: Tensor, longest: int) -> Tensor:
    """Returns values (n, length, ...) with the last point repeated up to `longest`."""
    missing = longest - values.shape[1]
    return torch.cat([values, values[:, -1:].expand(-1, missing, *values.shape[2:])], dim=1) if missing else values


def all_gather_series(shard: Shard, rows: Tensor, batch: SeriesBatch) -> SeriesBatch:
    """Returns the series at `rows`, numbered over all ranks, on all ranks; `batch` holds those of this rank's shard."""
    local = batch[shard.local_index(rows)]
    parts = {}
    for name in ("values", "lengths", "times", "facts"):
        part = getattr(local, name)
        parts[name] = None if part is None else shard.all_gather(rows, part)
    return SeriesBatch(**parts)


def fingerprint(shard: Shard, batch: SeriesBatch, *settings: Any) -> str:
    """Returns a hash of series, with time stamps, and of settings, the same whichever rank holds what."""
    columns = [column for column in (batch.values, batch.times) if column is not None]
    arrays = [column.detach().cpu().contiguous().numpy() for column in columns]
    counts = None if batch.lengths is None else batch.lengths.tolist()
    digests = bytearray()
    for row in range(shard.size):
        digest = hashlib.sha256((shard.first + row).to_bytes(8, "little"))
        for array in arrays:
            digest.update((array[row] if counts is None else array[row, : counts[row]]).data)
        if batch.facts is not None:
            digest.update(batch.facts[row].cpu().numpy().tobytes())
        digests += digest.digest()
    totals = torch.from_numpy(np.frombuffer(digests, dtype=np.int64).reshape(-1, 4).sum(axis=0))
    whole = hashlib.sha256(shard.ranks.all_gather_rows(totals[None]).sum(dim=0).numpy().tobytes())
    whole.update(repr([(array.dtype, array.shape[2:]) for array in arrays]).encode())
    for value in settings:
        whole.update(value.cpu().contiguous().numpy().tobytes() if isinstance(value, Tensor) else repr(value).encode())
    return whole.hexdigest()
