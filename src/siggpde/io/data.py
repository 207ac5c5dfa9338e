"""`SeriesData`, which reading returns and writing takes, with helpers for padding, labels, groups and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siggpde.utils.times import TimeFormat

Series = NDArray[Any] | list[NDArray[np.float64]]

_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MONDAY = 3 * 86400.0  # 1970 began on a Thursday
_SPAN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)")
_NUMBERED = re.compile(r"\bseries (\d+)(?: of X)?\b")
_RENAMED = (ValueError, OverflowError, FloatingPointError, ArithmeticError)


class BadCell(ValueError):
    """A cell of a table that cannot be read: `row` counts from 0, and `column` is None where the whole row is wrong."""

    def __init__(self, source: str, row: int, column: str | None, wrong: str) -> None:
        self.row, self.where, self.wrong = row, "" if column is None else f"column {column!r}, ", wrong
        super().__init__(f"{source}: {self.where}row {row}{wrong}")


class NotStreamable(ValueError):
    """A file that cannot be read block by block, only as a whole with `siggpde.io.read`."""


@dataclass(frozen=True, eq=False)
class SeriesData:
    """Series of one file, with their labels; estimators take it whole: `fit(data)`, `predict(data)`.

    Attributes
    ----------
    X : array (n_cases, n_channels, n_timepoints), or list of arrays (n_channels, n_timepoints_i)
        float64, an array where all series are equally long; NaN is a gap. A memory-mapped X keeps its dtype.
    y : array (n_cases,), optional
        Labels or targets as the file has them: strings, integers, bools or floats.
    ids : array (n_cases,), optional
        Names of the series in the file.
    channel_names : tuple of str
        One name a channel; a time channel comes first.
    time_channel : {0, None}
        0 where channel 0 of X has time stamps: numbers, or dates in seconds since 1970 (UTC where no zone is given).
    name : str
    groups : array (n_cases,), optional
        The group of each series, such as a person.
    sample_weight : array (n_cases,), optional
        The weight of each series.
    columns : tuple of str
        Of a wide table with one channel that has no name: the columns of its points.
    facts : dict of arrays (n_cases,), optional
        What is known beside the series, such as age: numbers with NaN for gaps, or text with None.
    time_format : TimeFormat, optional
        What the numbers of the time channel are: dates in a zone, or numbers with a unit.

    Examples
    --------
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
    columns: tuple[str, ...] = ()
    facts: Mapping[str, NDArray[Any]] | None = None
    time_format: TimeFormat | None = None

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
        for name, values in (self.facts or {}).items():
            if len(values) != len(self.X):
                raise ValueError(f"the fact {name!r} has {len(values)} values for {len(self.X)} series")

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: slice | Sequence[int] | NDArray[np.integer[Any]]) -> SeriesData:
        """Returns some of the series, with all that belongs to them."""
        chosen = np.arange(len(self))[rows]
        if chosen.ndim != 1:
            raise TypeError(f"rows must be a slice or a list of numbers of series; got {rows!r}")
        X = self.X[rows] if isinstance(self.X, np.ndarray) else [self.X[number] for number in chosen.tolist()]
        values = {key: getattr(self, key) for key in ("y", "ids", "groups", "sample_weight")}
        given = {key: value[rows] for key, value in values.items() if value is not None}
        facts = None if self.facts is None else {name: np.asarray(value)[rows] for name, value in self.facts.items()}
        return replace(self, X=X, **given, facts=facts)

    def __repr__(self) -> str:
        lengths = self.lengths
        shortest, longest = (int(lengths.min()), int(lengths.max())) if len(lengths) else (0, 0)
        length = f"length {longest}" if shortest == longest else f"lengths {shortest} to {longest}"
        items = [f"{len(self)} series", f"{self.n_channels} channels", length]
        items += ["time stamps"] * (self.time_channel is not None) + ["labels"] * (self.y is not None)
        items += [] if self.groups is None else [f"{len(np.unique(self.groups))} groups"]
        items += [f"facts {', '.join(self.facts)}"] if self.facts else []
        return f"SeriesData({self.name!r}: {', '.join(items)})"

    @property
    def n_channels(self) -> int:
        """Number of channels, the time channel included."""
        return len(self.channel_names)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of points of every series, (n_cases,)."""
        if isinstance(self.X, np.ndarray):
            return np.full(len(self.X), self.X.shape[2], dtype=np.int64)
        return np.array([series.shape[1] for series in self.X], dtype=np.int64)


def default_names(channels: int, time_channel: int | None = None) -> tuple[str, ...]:
    """Returns names for channels without names: ``channel 0``, ...; with a time channel ``time`` comes first."""
    front = () if time_channel is None else ("time",)
    return front + tuple(f"channel {i}" for i in range(channels - len(front)))


def stack(series: Sequence[NDArray[np.float64]]) -> Series:
    """Returns one array (n_cases, n_channels, n_timepoints) where all series are equally long, otherwise a list."""
    if len({one.shape for one in series}) == 1:
        return np.stack(series)
    return [np.ascontiguousarray(one) for one in series]


def cut(x: NDArray[Any], lengths: NDArray[Any]) -> Series:
    """Returns an array (n_cases, n_channels, longest) without its padding: series i keeps lengths[i] points."""
    if len(x) and (lengths == lengths[0]).all():
        return np.ascontiguousarray(x[:, :, : lengths[0]], dtype=np.float64)
    return [np.ascontiguousarray(one[:, :length], dtype=np.float64) for one, length in zip(x, lengths, strict=True)]


def pad(series: Series) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Returns (n_cases, n_channels, longest) with NaN after the end of short series, and the lengths (n_cases,)."""
    lengths = np.array([one.shape[1] for one in series], dtype=np.int64)
    padded = np.full((len(series), series[0].shape[0], lengths.max()), np.nan)
    for row, one, length in zip(padded, series, lengths, strict=True):
        row[:, :length] = one
    return padded, lengths


def parse_labels(texts: Sequence[str]) -> NDArray[Any]:
    """Labels from text: bools, integers or floats where every label is written plainly as one, otherwise strings.

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
    # Only Python takes 1_2 for a number; here it is a name.
    if any("_" in text or text.lstrip("+-")[:1] not in "0123456789.nNiI" for text in texts):
        return np.array(texts, dtype=str)
    try:
        return np.array([float(text) for text in texts])
    except ValueError:
        return np.array(texts, dtype=str)


def without_objects(values: np.ndarray, key: str) -> np.ndarray:
    """Returns labels or ids as strings where they are objects, which only pickle could save."""
    values = np.asarray(values)
    if values.dtype.kind == "O":
        if not all(isinstance(value, str) for value in values):
            raise ValueError(
                f"{key} holds objects that are not strings; convert it, for example with {key}.astype(str)"
            )
        return values.astype(str)
    return values


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


def span_of(text: str) -> tuple[float, str]:
    """Returns the length of a span such as "1d" or "30 min" and its unit; the unit is "" for a number alone.

    >>> span_of("36h"), span_of("250")
    ((129600.0, 'h'), (250.0, ''))
    """
    match = _SPAN.fullmatch(text.strip().lower())
    if not match or (match[2] and match[2] not in _SECONDS) or not float(match[1]) > 0:
        raise ValueError(
            f"a span of time is a number with one of the units {', '.join(_SECONDS)}, such as 1d, or a number alone, "
            f"in the unit of the time column; got {text!r}"
        )
    return float(match[1]) * _SECONDS.get(match[2], 1.0), match[2]


def groups_by_time(data: SeriesData, span: str) -> NDArray[np.int64]:
    """Returns for every series the number of the span of time in which it begins: groups of windows of a recording.

    Parameters
    ----------
    data : SeriesData
        With time stamps.
    span : str
        A number with a unit, s, min, h, d or w, such as "1d"; or a number in the unit of the time channel. Spans
        follow each other from 1970 in UTC, weeks from a Monday; for times that are numbers from 0, with numbers taken
        as seconds where `span` has a unit.

    Returns
    -------
    array (n_cases,) of int

    Examples
    --------
    >>> x = np.array([[[0.0, 40.0], [1, 2]], [[50.0, 90.0], [1, 2]], [[60.0, 99.0], [1, 2]]])
    >>> groups_by_time(SeriesData(x, time_channel=0), "1min")
    array([0, 0, 1])
    """
    length, unit = span_of(span)
    if data.time_channel is None:
        raise ValueError("groups by time need time stamps; name the column of times with time= (--time)")
    first = np.array([float(series[0, 0]) for series in data.X])
    if not np.isfinite(first).all():
        number = int(np.argmin(np.isfinite(first)))
        raise ValueError(f"series {number} has no time at its first point, which its span of time needs; drop it")
    return np.floor((first + (_MONDAY if unit == "w" else 0.0)) / length).astype(np.int64)


def named(message: str, ids: Sequence[Any] | NDArray[Any]) -> str:
    """Returns a message with ids for the numbers of series.

    >>> named("series 1 of X is NaN everywhere; drop it", ["ann", "bob"])
    'series bob is NaN everywhere; drop it'
    """

    def name(match: re.Match[str]) -> str:
        number = int(match[1])
        return f"series {ids[number]}" if number < len(ids) else match[0]

    return _NUMBERED.sub(name, message)


@contextmanager
def errors_by_id(ids: Sequence[Any] | NDArray[Any] | None) -> Iterator[None]:
    """Raises errors of the block with ids for the numbers of series, unless `ids` is None."""
    try:
        yield
    except _RENAMED as error:
        message = str(error)
        if ids is None or type(error) not in _RENAMED or named(message, ids) == message:
            raise
        raise type(error)(named(message, ids)) from error
