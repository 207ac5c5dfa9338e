"""Windows of weather: some hours of readings, and the rain of the hour after them.

A station's file holds one row of readings every ten minutes, with gaps, repeated stamps and sentinels. A window is
`length` rows that follow each other and `ahead` more, of which only the rain is looked at; all of them lie in one run
of exact steps, so that no window crosses a gap. Windows in which a reading is missing are dropped and counted: it is a
few dozen of a year.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from siggpde.datasets import find_dataset

_NO_READING = -999.0  # readings below it are missing: they are written as -9999
_KEYS = ("data", "columns", "time_minutes")
_DAY = 24 * 60


@dataclass(frozen=True)
class Station:
    """Readings (rows, columns), NaN where missing; names of the columns; minutes and segment of every row (rows,)."""

    readings: np.ndarray
    columns: tuple[str, ...]
    minutes: np.ndarray
    segment: np.ndarray

    def columns_of(self, names: Sequence[str]) -> np.ndarray:
        """The readings of the columns with these names, units left out: "p" for "p (mbar)"."""
        short = [column.split(" (")[0] for column in self.columns]
        unknown = [name for name in names if name not in short]
        if unknown:
            raise ValueError(f"the station has no column {unknown[0]!r}; its columns are {', '.join(short)}")
        return self.readings[:, [short.index(name) for name in names]]


@dataclass(frozen=True)
class Windows:
    """n windows of one station.

    `readings` (rows, channels) are the station's; window i is rows start[i] to start[i] + length - 1. `minutes` (n,) is
    the stamp of its last reading, when the forecast is made; `rain` (n,) what falls in the time ahead, in mm; `wet`
    (n,) whether that is more than the threshold. `crossing` and `missing` count the windows that were dropped.
    """

    readings: np.ndarray
    start: np.ndarray
    minutes: np.ndarray
    rain: np.ndarray
    wet: np.ndarray
    length: int
    crossing: int = 0
    missing: int = 0

    def __len__(self) -> int:
        return len(self.start)

    @property
    def day(self) -> np.ndarray:
        """The day of the forecast, a number, (n,)."""
        return self.minutes // _DAY

    @property
    def x(self) -> np.ndarray:
        """The series, (n, channels, length)."""
        rows = self.start[:, None] + np.arange(self.length)
        return np.ascontiguousarray(self.readings[rows].swapaxes(1, 2))

    def take(self, rows: np.ndarray) -> Windows:
        """The windows of a mask, or with these indices."""
        columns = (self.start[rows], self.minutes[rows], self.rain[rows], self.wet[rows])
        return Windows(self.readings, *columns, self.length, self.crossing, self.missing)

    def every(self, minutes: int) -> Windows:
        """The windows whose forecast is made when the clock shows a multiple of `minutes`."""
        return self.take(self.minutes % minutes == 0)


def load_station(name: str) -> Station:
    """A station's file, ``<name>.npz`` in the folders of `siggpde.datasets`, with readings below -999 as NaN."""
    try:
        path = find_dataset(name)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error}\nThe weather experiment needs the file: put it there, or set SIGGPDE_DATA"
        ) from error
    with np.load(path, allow_pickle=False) as file:
        absent = [key for key in _KEYS if key not in file.files]
        if absent:
            raise ValueError(f"{path} has no array {absent[0]!r}; a station's file has {', '.join(_KEYS)}")
        data, columns, minutes = (file[key] for key in _KEYS)
        segment = file["segment"] if "segment" in file.files else np.zeros(len(minutes), dtype=np.int64)
    if data.ndim != 2 or data.shape != (len(minutes), len(columns)) or segment.shape != minutes.shape:
        raise ValueError(f"{path}: data {data.shape}, {len(columns)} columns and {len(minutes)} stamps do not fit")
    readings = data.astype(np.float64)
    readings[readings < _NO_READING] = np.nan
    return Station(readings, tuple(map(str, columns)), minutes.astype(np.int64), segment)


def cut_windows(
    station: Station,
    channels: Sequence[str],
    rain: str,
    *,
    length: int = 36,
    ahead: int = 6,
    more_than: float = 1.0,
    step: int = 10,
) -> Windows:
    """All windows of `length` readings of these channels followed by `ahead` of rain, `step` minutes apart.

    A window is wet where the rain of the rows ahead sums to more than `more_than` mm (tenths are what the gauge reads,
    so sums are rounded to thousandths before they are compared).
    """
    if length < 1 or ahead < 1:
        raise ValueError(f"length and ahead must be at least 1, got {length} and {ahead}")
    readings, drops = station.columns_of(channels), station.columns_of([rain])[:, 0]
    whole = length + ahead
    start = np.arange(max(0, len(readings) - whole + 1))
    broken = np.logical_or(np.diff(station.minutes) != step, np.diff(station.segment) != 0)
    crosses = _any_within(broken, start, whole - 1)
    dry_unknown = np.isnan(drops)
    missing = _any_within(np.isnan(readings).any(axis=1), start, length)
    missing |= _any_within(dry_unknown, start + length, ahead)
    fallen = np.concatenate([[0.0], np.where(dry_unknown, 0.0, drops).cumsum()])
    amount = (fallen[start + whole] - fallen[start + length]).round(3)
    kept = ~crosses & ~missing
    return Windows(
        readings,
        start[kept],
        station.minutes[start[kept] + length - 1],
        amount[kept],
        amount[kept] > more_than,
        length,
        int(crosses.sum()),
        int((missing & ~crosses).sum()),
    )


def thin(wet: np.ndarray, ratio: float, seed: int) -> np.ndarray:
    """Sorted indices of all wet windows and of `ratio` times as many dry ones, drawn without replacement.

    Examples:
        >>> thin(np.array([True, False, False, False, False]), 2, seed=0)
        array([0, 3, 4])
    """
    rainy, dry = np.flatnonzero(wet), np.flatnonzero(~wet)
    wanted = round(ratio * len(rainy))
    if len(rainy) == 0 or not 0 < wanted <= len(dry):
        raise ValueError(
            f"{len(rainy)} wet windows want {wanted} dry ones at the ratio {ratio}, and there are {len(dry)}; "
            "give a longer record or a smaller ratio"
        )
    kept = np.random.default_rng(seed).choice(dry, wanted, replace=False)
    return np.sort(np.concatenate([rainy, kept]))


def _any_within(flags: Any, start: np.ndarray, count: int) -> np.ndarray:
    """Whether any of flags[start : start + count] is set, for every start."""
    total = np.concatenate([[0], flags.cumsum()])
    return total[start + count] > total[start]
