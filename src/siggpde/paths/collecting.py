"""From whatever holds series to one batch of them.

Users hand in series as scikit-learn and aeon have them, channels before time: (n_cases, n_channels, n_timepoints), or
a list of (n_channels, n_timepoints_i). The rest of this package wants time before channels, float64 and one tensor.
NaN is a missing value, except at the end of a series in all its channels: that is the padding of a shorter one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.paths.batch import SeriesBatch


def collect(X: Any, name: str = "X") -> SeriesBatch:
    """One batch of the series in `X`, checked; `X` is not modified and shares no memory with the batch.

    `X` is a numpy array or torch tensor (n_cases, n_channels, n_timepoints), or (n_cases, n_timepoints) for one
    channel; or a list of arrays (n_channels, n_timepoints_i) or (n_timepoints_i,); or nested lists of numbers.

    Examples:
        >>> batch = collect([[1, 2, 3], [4, 5]])
        >>> batch.values[..., 0]
        tensor([[1., 2., 3.],
                [4., 5., nan]], dtype=torch.float64)
        >>> batch.lengths
        tensor([3, 2])
    """
    return next(collect_chunks(X, name, max_values=None))


def collect_chunks(X: Any, name: str = "X", *, max_values: int | None) -> Iterator[SeriesBatch]:
    """The batch of `collect` in chunks of at most `max_values` numbers (but at least one series); None: one chunk.

    Long series that are shortened afterwards, or stored in a file larger than memory, are then never in memory at once.
    """
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1 and len(X) and np.ndim(X[0]) > 0:
        X = list(X)  # how numpy holds arrays of unequal lengths
    if isinstance(X, list | tuple):
        items = _items(X, name)
        for start, stop in _groups([item.shape for item in items], max_values):
            yield _batch(_padded(items[start:stop]), name, start)
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


def _items(X: Sequence[Any], name: str) -> list[np.ndarray]:
    """The arrays (n_channels, n_timepoints_i) of a list, all with the same channels."""
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
    """An array of real numbers; without a copy where possible."""
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
    """An array of objects as floats where all are numbers, None being missing; else as it is."""
    if any(isinstance(item, dict) for item in array.ravel()[:1000]):
        raise TypeError("X holds a dictionary; its argument must be a string or a number: pass an array of numbers")
    if any(isinstance(item, str | bytes) for item in array.ravel()):
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        return array


def _groups(shapes: Sequence[tuple[int, ...]], max_values: int | None) -> Iterator[tuple[int, int]]:
    """Ranges start:stop of series that take at most `max_values` numbers when padded together."""
    start, longest = 0, 0
    for number, (channels, length) in enumerate(shapes):
        padded = (number + 1 - start) * channels * max(longest, length)
        if max_values is not None and number > start and padded > max_values:
            yield start, number
            start, longest = number, 0
        longest = max(longest, length)
    yield start, len(shapes)


def _padded(items: Sequence[np.ndarray]) -> np.ndarray:
    longest = max(item.shape[1] for item in items)
    values = np.full((len(items), longest, items[0].shape[0]), math.nan)
    for row, item in zip(values, items, strict=True):
        row[: item.shape[1]] = item.T
    return values


def _batch(values: np.ndarray, name: str, first: int) -> SeriesBatch:
    """The batch of values (n, length, channels), whose lengths are read off the NaN at the ends."""
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
