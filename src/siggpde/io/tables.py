"""Series from tables in long form: one row for every point."""

from __future__ import annotations

import logging
import re
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from siggpde.io import columns as _columns
from siggpde.io.data import SeriesData
from siggpde.io.wide_layout import without_counters

log = logging.getLogger(__name__)

_MEANINGS = {"target": "label", "groups": "group", "sample_weight": "weight"}
_TIME_NAMES = re.compile(r"(?:.*[_ ])?(?:time|times|timestamp|date|datetime|day|hour|minute|second|t|ts|s|ms)", re.I)


def from_long(
    frame: pl.DataFrame,
    *,
    series: str,
    time: str | None,
    channels: list[str] | None,
    beside: dict[str, str],
    ignore: list[str],
    name: str,
    source: str,
) -> SeriesData:
    """Series from a table in long form (one row for every point), in the order in which they first occur.

    `beside` are the columns of `target`, `groups` and `sample_weight`, by these names.
    """
    _columns.check_present(frame, [series], "series=", source)
    _columns.check_present(frame, [time] if time is not None else [], "time=", source)
    _columns.check_beside(frame, beside, source)
    taken = [*(column for column in (series, time) if column is not None), *beside.values()]
    if channels is None:
        channels = without_counters(frame, _columns.number_columns(frame, taken + ignore, source), source)
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
    found = {
        option: _value_of_each_series(frame[column], codes, ids, _MEANINGS[option], source)
        for option, column in beside.items()
    }
    if time is None:
        order = np.argsort(codes, kind="stable")
        _point_out_times(channels, values, codes, order, source)
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
        y=found.get("target"),
        ids=_columns.as_labels(ids, source),
        channel_names=(*([] if time is None else [time]), *channels),
        time_channel=None if time is None else 0,
        name=name,
        groups=found.get("groups"),
        sample_weight=found.get("sample_weight"),
    )


def _point_out_times(
    channels: list[str],
    values: list[NDArray[np.float64]],
    codes: NDArray[np.int64],
    order: NDArray[np.int64],
    source: str,
) -> None:
    """Logs which channel may be the time of the points: one called so that grows in every series."""
    same = np.diff(codes[order]) == 0
    for channel, numbers in zip(channels, values, strict=True):
        if _TIME_NAMES.fullmatch(channel) and same.any() and (np.diff(numbers[order])[same] > 0).all():
            log.info(
                "%s: %r grows in every series but is read as a channel; is it the time (time=, --time)?",
                source,
                channel,
            )


def _codes(column: pl.Series, ids: pl.Series) -> NDArray[np.int64]:
    """(n_rows,): the index in `ids` of the series of every row."""
    rows = pl.DataFrame({"id": column}).with_row_index("row")
    codes = pl.DataFrame({"id": ids}).with_row_index("code")
    joined = rows.join(codes, on="id", how="inner").sort("row")
    return joined["code"].to_numpy().astype(np.int64)


def _value_of_each_series(
    column: pl.Series, codes: NDArray[np.int64], ids: pl.Series, meaning: str, source: str
) -> NDArray[Any]:
    """(n_series,): the label, group or weight of every series; cells may be empty, but the others must agree."""
    if column.dtype.is_float():
        column = column.fill_nan(None)
    pairs = pl.DataFrame({"code": codes, "label": column}).drop_nulls().unique(maintain_order=True)
    counts = np.bincount(pairs["code"].to_numpy(), minlength=len(ids))
    if (counts > 1).any():
        code = int(np.argmax(counts > 1))
        labels = pairs.filter(pl.col("code") == code)["label"].to_list()
        raise ValueError(
            f"{source}: series {ids[code]!r} has several {meaning}s in column {column.name!r}: {labels[0]!r}, "
            f"{labels[1]!r}"
        )
    if (counts == 0).any():
        raise ValueError(f"{source}: series {ids[int(np.argmin(counts))]!r} has no {meaning} in column {column.name!r}")
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
