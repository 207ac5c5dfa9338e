"""Tables as series: the long form has one row a point, the wide form one row a series."""

from __future__ import annotations

import logging
import re
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from siggpde.io import columns as _columns
from siggpde.io.data import SeriesData, cut

log = logging.getLogger(__name__)


def from_long(
    frame: pl.DataFrame,
    *,
    series: str,
    time: str | None,
    channels: list[str] | None,
    target: str | None,
    ignore: list[str],
    name: str,
    place: str,
) -> SeriesData:
    """Series from a table with one row a point, in the order in which they first occur."""
    _columns.check_present(frame, [series], "series=", place)
    _columns.check_present(frame, [time] if time is not None else [], "time=", place)
    _columns.check_present(frame, [target] if target is not None else [], "target=", place)
    taken = [column for column in (series, time, target) if column is not None]
    if channels is None:
        channels = _number_columns(frame, taken + ignore, place)
    _columns.check_present(frame, channels, "channels=", place)
    doubled = sorted({column for column in channels + taken if (channels + taken).count(column) > 1})
    if doubled:
        raise ValueError(f"{place}: column {doubled[0]!r} is asked for twice; a column has one part to play")
    if frame[series].null_count():
        row = frame[series].is_null().arg_max()
        raise ValueError(f"{place}: row {row} does not say which series it belongs to (column {series!r} is empty)")

    ids = frame[series].unique(maintain_order=True)
    codes = _codes(frame[series], ids)
    values = [_columns.as_numbers(frame[channel], place) for channel in channels]
    y = None if target is None else _constant(frame[target], codes, ids, place)
    if time is None:
        order = np.argsort(codes, kind="stable")
    else:
        times = _columns.as_times(frame[time], place)
        order = np.lexsort((times, codes))
        _check_times(frame[time], times, codes, order, ids, place)
        values.insert(0, times)
    matrix = np.stack(values, axis=1)[order]
    counts = np.bincount(codes)
    parts = np.split(matrix, np.cumsum(counts)[:-1])
    x = np.stack(parts).transpose(0, 2, 1).copy() if len(set(counts)) == 1 else [part.T.copy() for part in parts]
    return SeriesData(
        X=x,
        y=y,
        ids=_columns.as_labels(ids, place),
        channel_names=(*([] if time is None else [time]), *channels),
        time_channel=None if time is None else 0,
        name=name,
    )


def from_wide(
    frame: pl.DataFrame,
    *,
    channels: list[str] | None,
    target: str | None,
    ignore: list[str],
    name: str,
    place: str,
) -> SeriesData:
    """Series from a table with one row a series and one column a point; nothing at the end: a shorter series."""
    _columns.check_present(frame, [target] if target is not None else [], "target=", place)
    taken = [*ignore] if target is None else [*ignore, target]
    grid = [_number_columns(frame, taken, place)] if channels is None else wide_columns(frame, channels, taken, place)
    x = np.empty((len(frame), len(grid), len(grid[0])))
    lengths = np.zeros(len(frame), dtype=np.int64)
    for row, found in enumerate(grid):  # column by column, so that the numbers are there only once
        for point, column in enumerate(found):
            values = _columns.as_numbers(frame[column], place)
            x[:, row, point] = values
            np.maximum(lengths, point + 1, out=lengths, where=~np.isnan(values))
    if (lengths == 0).any():
        raise ValueError(f"{place}: row {np.argmin(lengths)} has no values, so there is no series")
    return SeriesData(
        X=cut(x, lengths),
        y=None if target is None else _columns.as_labels(frame[target], place),
        channel_names=() if channels is None else tuple(channels),
        name=name,
    )


def wide_columns(frame: pl.DataFrame, channels: list[str], taken: list[str], place: str) -> list[list[str]]:
    """For every channel the columns of its points."""
    grid = [_numbered(channel, [c for c in frame.columns if c not in taken], place) for channel in channels]
    for channel, found in zip(channels, grid, strict=True):
        if len(found) != len(grid[0]):
            raise ValueError(
                f"{place}: channel {channel!r} has {len(found)} columns ({found[0]} to {found[-1]}), but "
                f"{channels[0]!r} has {len(grid[0])}; every channel needs as many"
            )
    return grid


def holds_numbers(column: pl.Series, place: str) -> bool:
    """Whether a column is a channel; one of words is none, but one of both is a mistake."""
    if _columns.is_number(column):
        return True
    if _columns.has_number(column):
        _columns.as_numbers(column, place)  # raises, naming the row
    log.info("%s: column %r holds no numbers and is left out", place, column.name)
    return False


def _number_columns(frame: pl.DataFrame, taken: list[str], place: str) -> list[str]:
    """The columns that are left and hold numbers."""
    found = [column for column in frame.columns if column not in taken and holds_numbers(frame[column], place)]
    if not found:
        raise ValueError(f"{place}: there are no columns of numbers for channels; {_columns.listed(frame.columns)}")
    return found


def _numbered(channel: str, present: list[str], place: str) -> list[str]:
    """The columns channel_0, channel_1, ... (or channel.0, or channel0) by number, from 0 or 1 without holes."""
    found: dict[int, str] = {}
    for pattern in (rf"{re.escape(channel)}[_.](\d+)", rf"{re.escape(channel)}(\d+)"):
        for column in present:
            if match := re.fullmatch(pattern, column):
                number = int(match[1])
                if number in found:
                    raise ValueError(f"{place}: columns {found[number]!r} and {column!r} are both point {number}")
                found[number] = column
        if found:
            break
    if not found:
        raise ValueError(
            f"{place}: there are no columns {channel}_0, {channel}_1, ... for channel {channel!r}; "
            f"{_columns.listed(present)}. If every row is a point, not a series, name the series' column with series="
        )
    start = min(found)
    holes = set(range(start, start + len(found))) - set(found)
    if start > 1 or holes:
        missing = min(holes) if holes else 0
        raise ValueError(f"{place}: channel {channel!r} has no column for point {missing}; {_columns.listed(present)}")
    return [found[number] for number in sorted(found)]


def _codes(column: pl.Series, ids: pl.Series) -> NDArray[np.int64]:
    """(n_rows,): the place in `ids` of every row's series."""
    rows = pl.DataFrame({"id": column}).with_row_index("row")
    places = pl.DataFrame({"id": ids}).with_row_index("code")
    joined = rows.join(places, on="id", how="inner").sort("row")
    return joined["code"].to_numpy().astype(np.int64)


def _constant(column: pl.Series, codes: NDArray[np.int64], ids: pl.Series, place: str) -> NDArray[Any]:
    """(n_series,): the label of every series, which may be left out in some of its rows but not differ."""
    if column.dtype.is_float():
        column = column.fill_nan(None)
    pairs = pl.DataFrame({"code": codes, "label": column}).drop_nulls().unique(maintain_order=True)
    counts = np.bincount(pairs["code"].to_numpy(), minlength=len(ids))
    if (counts > 1).any():
        code = int(np.argmax(counts > 1))
        labels = pairs.filter(pl.col("code") == code)["label"].to_list()
        raise ValueError(
            f"{place}: series {ids[code]!r} has several labels in column {column.name!r}: {labels[0]!r}, {labels[1]!r}"
        )
    if (counts == 0).any():
        raise ValueError(f"{place}: series {ids[int(np.argmin(counts))]!r} has no label in column {column.name!r}")
    return _columns.as_labels(pairs.sort("code")["label"], place)


def _check_times(
    column: pl.Series,
    times: NDArray[np.float64],
    codes: NDArray[np.int64],
    order: NDArray[np.int64],
    ids: pl.Series,
    place: str,
) -> None:
    again = (np.diff(times[order]) == 0) & (np.diff(codes[order]) == 0)
    if again.any():
        row = int(order[np.argmax(again)])
        raise ValueError(
            f"{place}: series {ids[int(codes[row])]!r} has time {column[row]} twice; keep one of the rows, or average"
        )
