"""Series for methods that need them equally long and without gaps: linear interpolation to a common length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LEAST_POINTS = 10  # kernels of nine points, of the differences too


def take(X: Any, rows: np.ndarray) -> Any:
    """The series of these rows, from an array (n_cases, n_channels, n_timepoints) or a list of arrays."""
    return X[rows] if isinstance(X, np.ndarray) else [X[row] for row in rows.tolist()]


def join(X: Any, other: Any) -> Any:
    """All series of both: an array where all are equally long, otherwise a list."""
    if isinstance(X, np.ndarray) and isinstance(other, np.ndarray) and X.shape[2] == other.shape[2]:
        return np.concatenate([X, other])
    return [*X, *other]


def common_length(X: Any) -> int:
    """The number of points of the longest series, or `LEAST_POINTS` where that is more."""
    return max(LEAST_POINTS, *(np.shape(one)[1] for one in X))


def equal_lengths(X: Any, length: int, time_channel: int | None = None) -> np.ndarray:
    """(n_cases, n_channels, length): every series at `length` even steps from its first point to its last.

    Values between points are interpolated linearly, and so are gaps (NaN); before the first number of a channel and
    behind the last these are repeated, and a channel of nothing but gaps is 0. Steps are even in the time stamps of
    `time_channel`, which is left out of the result, and without it in the number of the point.

    Examples:
        >>> equal_lengths([np.array([[0.0, 2.0]]), np.array([[5.0, np.nan, 7.0]])], 3)
        array([[[0., 1., 2.]],
        <BLANKLINE>
               [[5., 6., 7.]]])
    """
    if _is_even(X, length, time_channel):
        return X
    return np.stack([_resampled(np.asarray(one, dtype=np.float64), length, time_channel) for one in X])


def _is_even(X: Any, length: int, time_channel: int | None) -> bool:
    return isinstance(X, np.ndarray) and X.shape[2] == length and time_channel is None and not np.isnan(X).any()


def _resampled(one: np.ndarray, length: int, time_channel: int | None) -> np.ndarray:
    times = np.arange(one.shape[1], dtype=np.float64)
    if time_channel is not None:
        times = np.maximum.accumulate(np.nan_to_num(one[time_channel], nan=-np.inf))
        one = np.delete(one, time_channel, axis=0)
        one, times = one[:, np.isfinite(times)], times[np.isfinite(times)]
    if not len(times):
        return np.zeros((len(one), length))
    return np.stack([_interpolated(np.linspace(times[0], times[-1], length), times, channel) for channel in one])


def _interpolated(at: np.ndarray, times: Sequence[float] | np.ndarray, values: np.ndarray) -> np.ndarray:
    there = ~np.isnan(values)
    return np.interp(at, np.asarray(times)[there], values[there]) if there.any() else np.zeros(len(at))
