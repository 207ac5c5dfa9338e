"""`SeriesData`, which reading returns and writing takes, and helpers for arrays of series and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Series = NDArray[Any] | list[NDArray[np.float64]]


class NotStreamable(ValueError):
    """A file that cannot be read block by block, only as a whole with `siggpde.io.read`."""


@dataclass(frozen=True, eq=False)
class SeriesData:
    """Series of one file, with their labels.

    - X: (n_cases, n_channels, n_timepoints), float64, where all series are equally long; otherwise a list of arrays
      (n_channels, n_timepoints_i). NaN is a gap. (A memory-mapped X keeps the number type of its file.)
    - y: (n_cases,), labels or targets as the file has them: strings, integers, bools or floats; None without.
    - ids: (n_cases,), what the file calls its series; None without.
    - groups: (n_cases,), what each series is part of, such as a person; None without.
    - sample_weight: (n_cases,), what each series counts; None without.
    - channel_names: one a channel; a time channel comes first.
    - time_channel: 0 where the file has time stamps: channel 0 of X then holds them, dates as seconds since 1970 (UTC
      where no zone is given), numbers as they are. None without.

    Examples:
        >>> SeriesData(np.zeros((3, 2, 5)), y=np.array(["a", "b", "a"]), channel_names=("x", "y"), name="small")
        SeriesData('small': 3 series, 2 channels, length 5, labels)
    """

    X: Series
    y: NDArray[Any] | None = None
    ids: NDArray[Any] | None = None
    channel_names: tuple[str, ...] = ()
    time_channel: int | None = None
    name: str = "series"
    groups: NDArray[Any] | None = None
    sample_weight: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        channels = _check_series(self.X)
        if not self.channel_names:
            object.__setattr__(self, "channel_names", default_names(channels, self.time_channel))
        if len(self.channel_names) != channels or len(set(self.channel_names)) != channels:
            raise ValueError(
                f"channel_names must be {channels} different names, one a channel; got {self.channel_names!r}"
            )
        if self.time_channel not in (None, 0):
            raise ValueError(f"time_channel must be None or 0 (time comes first); got {self.time_channel!r}")
        for key in ("y", "ids", "groups", "sample_weight"):
            values = getattr(self, key)
            if values is not None and np.shape(values) != (len(self.X),):
                raise ValueError(f"{key} must have shape ({len(self.X)},), one a series; got {np.shape(values)}")

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        lengths = self.lengths
        shortest, longest = (int(lengths.min()), int(lengths.max())) if len(lengths) else (0, 0)
        length = f"length {longest}" if shortest == longest else f"lengths {shortest} to {longest}"
        items = [f"{len(self)} series", f"{self.n_channels} channels", length]
        items += ["time stamps"] * (self.time_channel is not None) + ["labels"] * (self.y is not None)
        items += [] if self.groups is None else [f"{len(np.unique(self.groups))} groups"]
        return f"SeriesData({self.name!r}: {', '.join(items)})"

    @property
    def n_channels(self) -> int:
        """Number of channels, the time channel included."""
        return len(self.channel_names)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(n_cases,), the number of points of every series."""
        if isinstance(self.X, np.ndarray):
            return np.full(len(self.X), self.X.shape[2], dtype=np.int64)
        return np.array([series.shape[1] for series in self.X], dtype=np.int64)


def default_names(channels: int, time_channel: int | None = None) -> tuple[str, ...]:
    """Names for channels that have none: ``channel 0``, ...; with a time channel ``time`` comes first."""
    front = () if time_channel is None else ("time",)
    return front + tuple(f"channel {i}" for i in range(channels - len(front)))


def stack(series: Sequence[NDArray[np.float64]]) -> Series:
    """One array (n_cases, n_channels, n_timepoints) where all series are equally long, otherwise a list."""
    if len({one.shape for one in series}) == 1:
        return np.stack(series)
    return [np.ascontiguousarray(one) for one in series]


def cut(x: NDArray[Any], lengths: NDArray[Any]) -> Series:
    """Removes the padding at the end of an array (n_cases, n_channels, longest): a series i keeps lengths[i] points."""
    if len(x) and (lengths == lengths[0]).all():
        return np.ascontiguousarray(x[:, :, : lengths[0]], dtype=np.float64)
    return [np.ascontiguousarray(one[:, :length], dtype=np.float64) for one, length in zip(x, lengths, strict=True)]


def pad(series: Series) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The inverse of `cut`: (n_cases, n_channels, longest) with NaN after the end of short series, and the lengths."""
    lengths = np.array([one.shape[1] for one in series], dtype=np.int64)
    padded = np.full((len(series), series[0].shape[0], lengths.max()), np.nan)
    for row, one, length in zip(padded, series, lengths, strict=True):
        row[:, :length] = one
    return padded, lengths


def parse_labels(texts: Sequence[str]) -> NDArray[Any]:
    """Labels from text: bools, integers or floats where every label is written as one, otherwise strings.

    Integers must be written plainly: ``007`` is a name, for as a number it would lose its zeros.

    Examples:
        >>> parse_labels(["1", "-2"]), parse_labels(["007", "008"]), parse_labels(["True", "false"])
        (array([ 1, -2]), array(['007', '008'], dtype='<U3'), array([ True, False]))
    """
    if {text.lower() for text in texts} <= {"true", "false"}:
        return np.array([text.lower() == "true" for text in texts])
    try:
        whole = [int(text) for text in texts]
        if all(str(number) == text for number, text in zip(whole, texts, strict=True)):
            return np.array(whole, dtype=np.int64)
        return np.array(texts, dtype=str)
    except (ValueError, OverflowError):
        pass
    # Underscores are Python's own way to write numbers; a word such as 1_2 is a name.
    if any("_" in text or text.lstrip("+-")[:1] not in "0123456789.nNiI" for text in texts):
        return np.array(texts, dtype=str)
    try:
        return np.array([float(text) for text in texts])
    except ValueError:
        return np.array(texts, dtype=str)


def _check_series(x: Any) -> int:
    """Checks the series of a `SeriesData` and returns their number of channels."""
    if isinstance(x, np.ndarray):
        if x.ndim != 3:
            raise ValueError(f"X must have shape (n_cases, n_channels, n_timepoints) or be a list; got {x.shape}")
        if x.dtype.kind not in "fiub":
            raise ValueError(f"X must hold numbers; got {x.dtype}")
        return x.shape[1]
    if not isinstance(x, list) or not x:
        raise ValueError(f"X must be an array or a list with at least one series; got {type(x).__name__}")
    for index, one in enumerate(x):
        if not isinstance(one, np.ndarray) or one.ndim != 2 or one.dtype.kind not in "fiub":
            raise ValueError(f"X[{index}] must be an array of numbers (n_channels, n_timepoints); got {np.shape(one)}")
        if one.shape[0] != x[0].shape[0]:
            raise ValueError(f"X[{index}] has {one.shape[0]} channels, but X[0] has {x[0].shape[0]}")
    return x[0].shape[0]
