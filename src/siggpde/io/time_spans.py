"""Groups of series by the span of time in which they begin: days of a recording that was cut into windows, say."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from siggpde.io.data import SeriesData

_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MONDAY = 3 * 86400.0  # 1970 began on a Thursday
_SPAN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)")


def span_of(text: str) -> tuple[float, str]:
    """The length of a span such as "1d" or "30 min" and its unit; the unit is "" for a number alone.

    Examples:
        >>> span_of("36h"), span_of("250")
        ((129600.0, 'h'), (250.0, ''))
    """
    found = _SPAN.fullmatch(text.strip().lower())
    if not found or (found[2] and found[2] not in _SECONDS) or not float(found[1]) > 0:
        raise ValueError(
            f"a span of time is a number with one of the units {', '.join(_SECONDS)}, such as 1d, or a number alone, "
            f"in the unit of the time column; got {text!r}"
        )
    return float(found[1]) * _SECONDS.get(found[2], 1.0), found[2]


def groups_by_time(data: SeriesData, span: str) -> NDArray[np.int64]:
    """The number (n_cases,) of the span of time that holds the first point of every series.

    Spans follow each other without gaps from 1970, in UTC, those in weeks from a Monday; with times that are numbers,
    from 0, and units other than that of the column itself mean that the numbers are seconds.

    Examples:
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
        raise ValueError(f"series {number} has no time at its first point, so that it belongs to no span of time")
    return np.floor((first + (_MONDAY if unit == "w" else 0.0)) / length).astype(np.int64)
