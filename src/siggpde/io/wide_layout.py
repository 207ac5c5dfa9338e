"""What the columns of a wide table are: points of one channel or of several, and what is no point at all.

Columns called ``x_0, x_1, ..., y_0, y_1, ...`` are points of the channels x and y. Other names are points of one
channel in the order of the table. A table that is hardly meant so is refused, with what to say instead: one with a
column of ids among the points, and one whose rows are points, not series.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

import polars as pl

log = logging.getLogger(__name__)

_POINT = re.compile(
    r"(?P<channel>[^\W\d](?:.*\w)?)_(?P<point>\d{1,9})|(?P<dotted>[^\W\d](?:.*[^\W\d])?)\.(?P<dot>\d{1,9})"
)
_PLAIN = re.compile(r"(?P<channel>(?:[^\W\d](?:.*[^\W\d])?)?)(?P<point>\d{1,9})")
_TURNED = re.compile(r"(?P<point>\d{1,9})[_.](?P<channel>[^\W\d].*)")
_UNNAMED = re.compile(r"|Unnamed: \d+|_duplicated_\d+|column_\d+|index|level_0")
_ID_NAMES = re.compile(r"(?:.*[_ .])?(?:id|ids|index|idx|key|nr|no|number|row|case|sample|uid|uuid)|.*Id|.*ID")
_MOST_TO_CHECK = 50
_FEWEST_IDS = 5


def channel_grid(
    frame: pl.DataFrame, numbers: list[str], taken: Sequence[str], source: str
) -> tuple[list[list[str]], tuple[str, ...]]:
    """The columns of every channel, in the order of time, and the channels' names (none where it is one channel).

    - `numbers`: the columns that hold numbers and may be points.
    - `taken`: columns that have another part to play or are ignored.
    - `frame`: the rows, or the first of them, by which ids and times are told.
    """
    numbers = without_counters(frame, numbers, source)
    groups = _groups(numbers)
    inside = {column for columns in groups.values() for column in columns}
    rest = [column for column in numbers if column not in inside]
    if len(inside) < 3 or len(rest) > len(inside):
        _check_rows_are_series(frame, numbers, taken, source)
        for column in dict.fromkeys([*numbers[:2], numbers[-1]] if len(numbers) > 1 else []):
            if _looks_like_ids(frame[column]):
                raise ValueError(
                    f"{source}: column {column!r} looks like ids of the series, not like a point of them. Name it with "
                    "id=, which keeps it beside the predictions, or leave it out with ignore=. If it is a point, call "
                    "the columns t_0, t_1, ...; if rows are points, name the column that tells series apart with "
                    "series="
                )
        return [numbers], ()
    if rest:
        first = next(iter(groups.values()))
        what = "looks like ids of the series" if _looks_like_ids(frame[rest[0]]) else "is none of them"
        raise ValueError(
            f"{source}: points are in columns such as {first[0]!r} to {first[-1]!r}, but column {rest[0]!r} {what}. "
            "Leave it out with ignore=, or name it with id= if it identifies the series, or with target= if it is the "
            "label"
        )
    if len(groups) == 1:
        return list(groups.values()), ()
    lengths = {channel: len(columns) for channel, columns in groups.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{channel} has {length}" for channel, length in list(lengths.items())[:5])
        raise ValueError(
            f"{source}: the columns look like channels with unequal numbers of points: {shown}. Name the channels to "
            "read with channels=, or leave columns out with ignore="
        )
    return list(groups.values()), tuple(groups)


def without_counters(frame: pl.DataFrame, numbers: list[str], source: str) -> list[str]:
    """The columns without a first one that only counts rows and has no name, such as pandas writes its index."""
    if len(numbers) > 1 and numbers[0] == frame.columns[0] and _UNNAMED.fullmatch(numbers[0]) and _counts(frame, 0):
        log.info("%s: the first column, %r, counts the rows and is left out", source, numbers[0])
        return numbers[1:]
    return numbers


def _groups(names: list[str]) -> dict[str, list[str]]:
    """The names channel_0, channel_1, ... (also channel.0, channel0, 0_channel) by channel, in order of their numbers.

    Only channels of two points or more, numbered from 0 or 1 without holes.
    """
    for pattern in (_POINT, _PLAIN, _TURNED):
        found: dict[str, dict[int, str]] = {}
        for name in names:
            if match := pattern.fullmatch(name):
                parts = match.groupdict()
                channel = parts["channel"] if parts["channel"] is not None else parts["dotted"]
                point = int(parts["point"] if parts["point"] is not None else parts["dot"])
                found.setdefault(channel, {}).setdefault(point, name)
        groups = {
            channel: [points[number] for number in sorted(points)]
            for channel, points in found.items()
            if len(points) > 1 and min(points) < 2 and max(points) - min(points) == len(points) - 1
        }
        if groups:
            return groups
    return {}


def _counts(frame: pl.DataFrame, index: int) -> bool:
    """Whether a column is 0, 1, 2, ... or goes on so from another number."""
    column = frame.to_series(index)
    return bool(
        column.dtype.is_integer() and len(column) and not column.null_count() and (column.diff(1, "drop") == 1).all()
    )


def _looks_like_ids(column: pl.Series) -> bool:
    """Whether a column of whole numbers counts series, or is called an id and has no number twice."""
    if len(column) < _FEWEST_IDS or column.null_count():
        return False
    if column.dtype.is_float():
        if not (column.is_finite().all() and (column == column.round()).all()):
            return False
    elif not column.dtype.is_integer():
        return False
    steps = column.cast(pl.Float64).diff(1, "drop")
    if (steps == 1).all():
        return True
    named = _ID_NAMES.fullmatch(column.name) is not None or _ID_NAMES.fullmatch(column.name.lower()) is not None
    return column.n_unique() == len(column) and (named or (column.dtype.is_integer() and bool((steps > 0).all())))


def _check_rows_are_series(frame: pl.DataFrame, numbers: list[str], taken: Sequence[str], source: str) -> None:
    """Raises ValueError for a table of few columns in which one grows again and again while another stays the same."""
    if len(numbers) > _MOST_TO_CHECK or len(frame) < 2 * _FEWEST_IDS:
        return
    left = set(taken)
    for series in [column for column in frame.columns if column not in left][:_MOST_TO_CHECK]:
        kind = frame.schema[series]
        if not (kind.is_integer() or kind in (pl.String, pl.Categorical) or isinstance(kind, pl.Enum)):
            continue
        different = frame[series].n_unique()
        if frame[series].null_count() or different < 2 or 2 * different > len(frame):
            continue
        for time in (column for column in numbers if column != series and frame.schema[column].is_numeric()):
            grows = frame.select(pl.col(time).diff().over(series).alias("step"))["step"].drop_nulls()
            if len(grows) == len(frame) - different and bool((grows > 0).all()):
                raise ValueError(
                    f"{source}: rows look like points, not like series: {time!r} grows while {series!r} stays the "
                    f"same. Say series={series!r}, time={time!r}; if every row is a series, leave {series!r} out with "
                    "ignore="
                )
