"""Series from tables: the long form has one row for every point, the wide form one row for every series."""

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

_CELLS = 2**22  # of a wide table converted at a time


def from_long(
    frame: pl.DataFrame,
    *,
    series: str,
    time: str | None,
    channels: list[str] | None,
    target: str | None,
    ignore: list[str],
    name: str,
    source: str,
) -> SeriesData:
    """Series from a table in long form (one row for every point), in the order in which they first occur."""
    _columns.check_present(frame, [series], "series=", source)
    _columns.check_present(frame, [time] if time is not None else [], "time=", source)
    _columns.check_present(frame, [target] if target is not None else [], "target=", source)
    taken = [column for column in (series, time, target) if column is not None]
    if channels is None:
        channels = _number_columns(frame, taken + ignore, source)
    _columns.check_present(frame, channels, "channels=", source)
    doubled = sorted({column for column in channels + taken if (channels + taken).count(column) > 1})
    if doubled:
        raise ValueError(f"{source}: column {doubled[0]!r} is asked for twice; a column has one part to play")
    if frame[series].null_count():
        row = frame[series].is_null().arg_max()
        raise ValueError(f"{source}: row {row} does not say which series it belongs to (column {series!r} is empty)")

    ids = frame[series].unique(maintain_order=True)
    codes = _codes(frame[series], ids)
    values = [_columns.as_numbers(frame[channel], source) for channel in channels]
    y = None if target is None else _label_of_each_series(frame[target], codes, ids, source)
    if time is None:
        order = np.argsort(codes, kind="stable")
    else:
        times = _columns.as_times(frame[time], source)
        order = np.lexsort((times, codes))
        _check_times(frame[time], times, codes, order, ids, source)
        values.insert(0, times)
    matrix = np.stack(values, axis=1)[order]
    counts = np.bincount(codes)
    pieces = np.split(matrix, np.cumsum(counts)[:-1])  # each (n_timepoints, n_channels)
    x = np.stack(pieces).transpose(0, 2, 1).copy() if len(set(counts)) == 1 else [piece.T.copy() for piece in pieces]
    return SeriesData(
        X=x,
        y=y,
        ids=_columns.as_labels(ids, source),
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
    source: str,
) -> SeriesData:
    """Series from a table in wide form (one row for every series); empty cells at the end make a series shorter."""
    _columns.check_present(frame, [target] if target is not None else [], "target=", source)
    taken = [*ignore] if target is None else [*ignore, target]
    grid = [_number_columns(frame, taken, source)] if channels is None else wide_columns(frame, channels, taken, source)
    x = np.empty((len(frame), len(grid), len(grid[0])))
    lengths = np.zeros(len(frame), dtype=np.int64)
    step = max(4096, _CELLS // len(frame))
    for channel, names in enumerate(grid):
        for start in range(0, len(names), step):  # some at a time: no second copy of the whole table in memory
            values = _columns.as_matrix(frame, names[start : start + step], source)
            x[:, channel, start : start + step] = values
            ends = np.where(np.isnan(values), 0, np.arange(start + 1, start + values.shape[1] + 1))
            np.maximum(lengths, ends.max(axis=1), out=lengths)
    if (lengths == 0).any():
        raise ValueError(f"{source}: row {np.argmin(lengths)} has no values, so there is no series")
    return SeriesData(
        X=cut(x, lengths),
        y=None if target is None else _columns.as_labels(frame[target], source),
        channel_names=() if channels is None else tuple(channels),
        name=name,
    )


def wide_columns(frame: pl.DataFrame, channels: list[str], taken: list[str], source: str) -> list[list[str]]:
    """For every channel of `channels`, the names of the columns that hold its points, in their order."""
    grid = [_point_columns(channel, [c for c in frame.columns if c not in taken], source) for channel in channels]
    for channel, names in zip(channels, grid, strict=True):
        if len(names) != len(grid[0]):
            raise ValueError(
                f"{source}: channel {channel!r} has {len(names)} columns ({names[0]} to {names[-1]}), but "
                f"{channels[0]!r} has {len(grid[0])}; every channel needs as many"
            )
    return grid


def holds_numbers(column: pl.Series, source: str) -> bool:
    """Whether a column is a channel: true for numbers, false for words only; ValueError for a mixture of both."""
    if _columns.is_number(column):
        return True
    if _columns.has_number(column):
        _columns.as_numbers(column, source)  # raises, naming the row
    log.info("%s: column %r holds no numbers and is left out", source, column.name)
    return False


def _number_columns(frame: pl.DataFrame, taken: list[str], source: str) -> list[str]:
    """The columns that are not in `taken` and hold numbers."""
    left_out = set(taken)
    names = [
        column
        for column, dtype in frame.schema.items()
        if column not in left_out and (dtype.is_numeric() or holds_numbers(frame[column], source))
    ]
    if not names:
        raise ValueError(f"{source}: there are no columns of numbers for channels; {_columns.listed(frame.columns)}")
    return names


def _point_columns(channel: str, present: list[str], source: str) -> list[str]:
    """The columns channel_0, channel_1, ... (or channel.0, or channel0) by number, from 0 or 1 without holes."""
    by_number: dict[int, str] = {}
    for pattern in (rf"{re.escape(channel)}[_.](\d+)", rf"{re.escape(channel)}(\d+)"):
        for column in present:
            if match := re.fullmatch(pattern, column):
                number = int(match[1])
                if number in by_number:
                    raise ValueError(f"{source}: columns {by_number[number]!r} and {column!r} are both point {number}")
                by_number[number] = column
        if by_number:
            break
    if not by_number:
        raise ValueError(
            f"{source}: there are no columns {channel}_0, {channel}_1, ... for channel {channel!r}; "
            f"{_columns.listed(present)}. If every row is a point, not a series, name the series' column with series="
        )
    start = min(by_number)
    holes = set(range(start, start + len(by_number))) - set(by_number)
    if start > 1 or holes:
        missing = min(holes) if holes else 0
        raise ValueError(f"{source}: channel {channel!r} has no column for point {missing}; {_columns.listed(present)}")
    return [by_number[number] for number in sorted(by_number)]


def _codes(column: pl.Series, ids: pl.Series) -> NDArray[np.int64]:
    """(n_rows,): the index in `ids` of the series of every row."""
    rows = pl.DataFrame({"id": column}).with_row_index("row")
    codes = pl.DataFrame({"id": ids}).with_row_index("code")
    joined = rows.join(codes, on="id", how="inner").sort("row")
    return joined["code"].to_numpy().astype(np.int64)


def _label_of_each_series(column: pl.Series, codes: NDArray[np.int64], ids: pl.Series, source: str) -> NDArray[Any]:
    """(n_series,): the label of every series; cells of its rows may be empty, but the others must agree."""
    if column.dtype.is_float():
        column = column.fill_nan(None)
    pairs = pl.DataFrame({"code": codes, "label": column}).drop_nulls().unique(maintain_order=True)
    counts = np.bincount(pairs["code"].to_numpy(), minlength=len(ids))
    if (counts > 1).any():
        code = int(np.argmax(counts > 1))
        labels = pairs.filter(pl.col("code") == code)["label"].to_list()
        raise ValueError(
            f"{source}: series {ids[code]!r} has several labels in column {column.name!r}: {labels[0]!r}, {labels[1]!r}"
        )
    if (counts == 0).any():
        raise ValueError(f"{source}: series {ids[int(np.argmin(counts))]!r} has no label in column {column.name!r}")
    return _columns.as_labels(pairs.sort("code")["label"], source)


def _check_times(
    column: pl.Series,
    times: NDArray[np.float64],
    codes: NDArray[np.int64],
    order: NDArray[np.int64],
    ids: pl.Series,
    source: str,
) -> None:
    repeated = (np.diff(times[order]) == 0) & (np.diff(codes[order]) == 0)
    if repeated.any():
        row = int(order[np.argmax(repeated)])
        raise ValueError(
            f"{source}: series {ids[int(codes[row])]!r} has time {column[row]} twice; keep one of the rows, or average"
        )
