"""How the numbers of a time channel are told to people: as dates, as durations with units, or as numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

TimeAs = Literal["auto", "dates", "elapsed"]
SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "days": 86400.0}
"""The units of time stamps and durations."""

_UNIT = re.compile(r"(?:.*[\W_])?(ms|s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?|d|days?)[)\]]?", re.I)
_OFFSET = re.compile(r".*:\d\d(?:\.\d+)?([+-]\d\d):?(\d\d)")
_SINCE_1970 = (5e8, 4.2e9)  # seconds of the years 1985 to 2103, which other clocks hardly show
_CALENDAR = (-6.2e10, 2.5e11)  # seconds of the years 1 to 9892


class TimeFormat(NamedTuple):
    """What the numbers of a time channel are, and how they are told.

    Attributes
    ----------
    unit : {"ms", "s", "min", "h", "days", None}
        The unit of the numbers; None where it is not known.
    dates : bool
        Whether they count from 1970 in UTC.
    zone : str or None
        The time zone of dates, or their offset from UTC; None where the data names none.
    elapsed : bool
        Whether the time after the start of its series is told.
    start : float
        The number at which the series starts.

    Examples
    --------
    >>> stay = TimeFormat("s", dates=True, start=1743942600)
    >>> stay.when(1743949800, 1743961200)
    '2025-04-06 14:30 to 17:40'
    >>> stay._replace(elapsed=True).when(1743949800, 1743961200)
    '2 h to 5 h 10 min after the start'
    """

    unit: str | None = None
    dates: bool = False
    zone: str | None = None
    elapsed: bool = False
    start: float = 0.0

    @classmethod
    def of_state(cls, state: Any) -> TimeFormat:
        """Returns the format whose `_asdict` a file holds; ValueError for anything else."""
        kinds: dict[str, Any] = {"unit": str | None, "dates": bool, "zone": str | None, "elapsed": bool, "start": float}
        right = isinstance(state, dict) and all(isinstance(state.get(key), kind) for key, kind in kinds.items())
        if not right or len(state) > len(kinds) or state["unit"] not in (*SECONDS, None):
            raise ValueError(f"a time format has {', '.join(kinds)}, and units {', '.join(SECONDS)}; got {state!r:.99}")
        return cls(**state)

    @property
    def as_dates(self) -> bool:
        """Whether dates are told."""
        return self.dates and not self.elapsed

    @property
    def _size(self) -> float:
        return SECONDS[self.unit or "s"]

    def when(self, start: float, end: float) -> str:
        """Returns a moment, or a stretch of time, in words."""
        start, end = float(start), float(end)  # of numpy they may be
        origin, after = (self.start, " after the start") if self.elapsed else (0.0, "")
        if self.as_dates:
            first, last = self._dates(start, end)
        elif self.unit is None:
            first, last = (f"{one - origin:.6g}" for one in (start, end))
        else:
            first, last = (duration((one - origin) * self._size, (end - start) * self._size) for one in (start, end))
        if end > start:
            return f"{first} to {last}{after}"
        return f"{first}{after}" if after else f"at {first}"

    @property
    def words(self) -> str:
        """What time stamps are, in words."""
        number = "numbers" if self.unit is None else f"in {self.unit}"
        what = (f"dates in {self.zone}" if self.zone else "dates") if self.dates else number
        return f"{what}, counted from the start of each series" if self.elapsed else what

    def moment(self, value: float) -> datetime:
        """Returns the date of a number."""
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value * self._size)).astimezone(self.tz)

    def iso(self, value: float) -> str:
        """Returns a date as programs read it, without a zone where the data names none."""
        return self.moment(value).isoformat()[: None if self.zone else -6]

    @property
    def tz(self) -> tzinfo:
        """The zone of dates: UTC where none is named, or where this machine does not know it."""
        if self.zone and self.zone[0] in "+-":
            return datetime.fromisoformat(f"1970-01-01T00:00{self.zone}").tzinfo or UTC
        try:
            return ZoneInfo(self.zone or "UTC")
        except (KeyError, ValueError, OSError):
            return UTC

    def axis(self, first: float, last: float) -> tuple[float, float, str]:
        """Returns the origin and the unit, in numbers, of an axis from `first` to `last`, and its label."""
        if self.as_dates:
            return 0.0, 1.0, f"time ({self.tz})" if self.zone else "time"
        origin, label = (self.start, "time after the start") if self.elapsed else (0.0, "time")
        if self.unit is None:
            return origin, 1.0, label
        seconds = (last - first) * self._size
        unit = next((unit for unit in ("days", "h", "min") if seconds >= 3 * SECONDS[unit]), "s")
        return origin, SECONDS[unit] / self._size, f"{label} ({unit})"

    def _dates(self, start: float, end: float) -> tuple[str, str]:
        first, last, seconds = self.moment(start), self.moment(end), (end - start) * self._size
        if seconds >= 60 * SECONDS["days"] or all(f"{one:%H%M%S%f}" == "000000000000" for one in (first, last)):
            return f"{first:%Y-%m-%d}", f"{last:%Y-%m-%d}"
        whole = seconds >= 3600 or all(f"{one:%S.%f}" == "00.000000" for one in (first, last))  # minutes
        clock = ("%H:%M" if whole else "%H:%M:%S") + ".%f" * (0 < seconds < 10)
        day = "" if first.date() == last.date() else "%Y-%m-%d "
        return f"{first:%Y-%m-%d {clock}}", f"{last:{day}{clock}}"


def duration(seconds: float, within: float = 0.0) -> str:
    """Returns a number of seconds in words: in the nearest minutes, say, where it is one end of some hours `within`.

    >>> duration(11400), duration(187200, 86400), duration(0.25), duration(-90)
    ('3 h 10 min', '2 days 4 h', '0.25 s', '−1 min 30 s')
    """
    step = next((step for step in (86400.0, 3600.0, 60.0, 1.0) if within >= 60 * step), 0.0)
    left = round(abs(seconds) / step) * step if step else abs(seconds)
    digits = 6 if not 0 < within < 1 else 3 - math.floor(math.log10(within))
    parts = []
    for unit in ("days", "h", "min"):
        count, left = divmod(round(left, digits), SECONDS[unit])
        parts += [f"{count:.0f} {'day' if unit == 'days' and count == 1 else unit}"] * bool(count)
    parts += [f"{left:.6g} s"] * (round(left, digits) > 0)
    return ("−" if seconds < 0 and parts else "") + (" ".join(parts) or "0")


def time_format(first: Any, last: Any, name: str = "", *, dates: bool = False, zone: str | None = None) -> TimeFormat:
    """Returns the format of time stamps, from the first and the last (n,) of every series: `dates` in seconds since
    1970, or numbers, which are such seconds or milliseconds by their size, or have the unit with which the `name` of
    their channel ends. Series have starts of their own, and no common calendar, where eight starts of ten are further
    apart than half of the median series is long.

    >>> time_format([0.0, 0.0], [30.0, 40.0], "time (min)").unit
    'min'
    """
    import numpy as np  # noqa: PLC0415 - the help of the command line needs none

    ends, unit = np.array([np.min(first), np.max(last)], dtype=np.float64), "s"
    if not dates:
        match = _UNIT.fullmatch(name)
        unit = next((unit for unit in SECONDS if match and match[1].lower().startswith(unit.removesuffix("ays"))), None)
        earliest, latest = _SINCE_1970
        since = [one for one in ("s", "ms") if earliest <= ends[0] * SECONDS[one] <= ends[1] * SECONDS[one] <= latest]
        dates, unit = bool(since), since[0] if since else unit
    elif not _CALENDAR[0] < ends[0] <= ends[1] < _CALENDAR[1]:
        dates = False
    low, high = np.quantile(np.asarray(first, dtype=np.float64), [0.1, 0.9])
    elapsed = bool(high - low > 0.5 * np.median(np.subtract(last, first)))
    return TimeFormat(unit, dates, zone if dates else None, elapsed)


def chosen_format(known: TimeFormat | None, first: Any, last: Any, time_as: str) -> TimeFormat | None:
    """Returns how time stamps are told of which a model knows a format or None; None where they are numbers only."""
    if time_as not in ("auto", "dates", "elapsed"):
        raise ValueError(f"time_as must be 'auto', 'dates' or 'elapsed'; got {time_as!r}")
    guess = time_format(first, last)
    if time_as == "auto":
        return known or (guess if guess.dates else None)
    known = known or guess
    if time_as == "dates" and not known.dates and known.unit is not None:
        raise ValueError(f"time_as='dates' is for time stamps that are dates; these are numbers in {known.unit}")
    return known._replace(elapsed=time_as == "elapsed", dates=known.dates or time_as == "dates")


def offset_of(texts: Sequence[str]) -> str | None:
    """Returns the offset from UTC that dates as text have in common; None where they name none, or several.

    >>> offset_of(["2025-04-06T14:30+02:00", "2025-04-06T15:00:30+0200"])
    '+02:00'
    """
    matches = [_OFFSET.fullmatch(text) for text in texts]
    offsets = {None if match is None else f"{match[1]}:{match[2]}" for match in matches}
    return offsets.pop() if len(offsets) == 1 else None
