"""Lines of ``.ts`` files with time stamps: ``(2007-01-01 00:00:00,2.5),(2007-01-01 00:01:00,?):(...),(...):label``.

Channels of a series may have different time stamps. The series then has the union of them, with NaN where a channel has
no value.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

_POINT = re.compile(r"\(([^(),]*),([^(),]*)\)\s*")  # no two parts take the same spaces: time grows with the line only
_NEXT_CHANNEL = re.compile(r"\s*(?=\()")


def read_stamped(line: str, labelled: bool, where: str) -> tuple[NDArray[np.float64], str | None]:
    """A series (1 + n_channels, n_timepoints), times in channel 0, sorted, and its label."""
    channels: list[dict[float, float]] = [{}]
    position, label = 0, None
    while True:
        point = _POINT.match(line, position)
        if point is None:
            raise ValueError(f"{where}: expected a point (time,value) at {line[position : position + 40]!r}")
        time, value = _time(point[1].strip(), where), _value(point[2].strip(), where)
        if time in channels[-1]:
            raise ValueError(f"{where}: time {point[1].strip()} occurs twice in channel {len(channels) - 1}")
        channels[-1][time] = value
        position = point.end()
        after, position = line[position : position + 1], position + 1
        if after == ",":
            continue
        if after == ":" and (start := _NEXT_CHANNEL.match(line, position)):
            channels.append({})
            position = start.end()
            continue
        rest = line[position:].strip()
        if after == ":" and rest and labelled:
            label = rest
        elif labelled:
            raise ValueError(f"{where}: there is no label after the series; is the file cut off?")
        elif rest or after not in ("", ":"):
            raise ValueError(f"{where}: expected the end of the line; got {line[position - 1 :][:40]!r}")
        break
    times = sorted(set().union(*channels))
    values = [[channel.get(time, np.nan) for time in times] for channel in channels]
    return np.array([times, *values]), label


def _time(text: str, where: str) -> float:
    """A number as it is, a date as seconds since 1970, in UTC where it names no zone."""
    try:
        time = float(text)
    except ValueError:
        try:
            date = datetime.fromisoformat(text)
            return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            raise ValueError(
                f"{where}: a time must be a number or a date such as 2007-01-01 00:00:00; got {text[:40]!r}"
            ) from None
    if not np.isfinite(time):
        raise ValueError(f"{where}: a time must be finite; got {text[:40]!r}")
    return time


def _value(text: str, where: str) -> float:
    try:
        return np.nan if text == "?" else float(text)
    except ValueError:
        raise ValueError(f"{where}: expected a number, ? or NaN; got {text[:40]!r}") from None
