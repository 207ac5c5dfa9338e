"""Series from tables in wide form: one row for every series."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from siggpde.io import columns as _columns
from siggpde.io.data import SeriesData, cut
from siggpde.io.wide_layout import channel_grid

_CELLS = 2**22  # of a table converted at a time


def from_wide(
    frame: pl.DataFrame,
    *,
    channels: list[str] | None,
    beside: dict[str, str],
    id: str | None,
    ignore: list[str],
    name: str,
    source: str,
) -> SeriesData:
    """Series from a table in wide form (one row for every series); empty cells at the end make a series shorter.

    `beside` are the columns of `target`, `groups` and `sample_weight`, by these names.
    """
    _columns.check_beside(frame, beside, source)
    _columns.check_present(frame, [id] if id is not None else [], "id=", source)
    taken = [*ignore, *beside.values(), *([] if id is None else [id])]
    if channels is None:
        grid, names = channel_grid(frame, _columns.number_columns(frame, taken, source), taken, source)
    else:
        grid, names = wide_columns(frame, channels, taken, source), tuple(channels)
    return from_grid(frame, grid, channel_names=names, beside=beside, id=id, name=name, source=source)


def from_grid(
    frame: pl.DataFrame,
    grid: list[list[str]],
    *,
    channel_names: tuple[str, ...],
    beside: dict[str, str],
    id: str | None,
    name: str,
    source: str,
) -> SeriesData:
    """The same, given the columns of every channel in the order of time."""
    x = np.empty((len(frame), len(grid), len(grid[0])))
    lengths = np.zeros(len(frame), dtype=np.int64)
    step = max(4096, _CELLS // len(frame))
    for channel, names in enumerate(grid):
        for start in range(0, len(names), step):  # some at a time: no second copy of the whole table in memory
            values = _columns.as_matrix(frame, names[start : start + step], source)
            x[:, channel, start : start + step] = values
            ends = np.where(np.isnan(values), 0, np.arange(start + 1, start + values.shape[1] + 1))
            np.maximum(lengths, ends.max(axis=1), out=lengths)
    ids = None if id is None else _columns.as_labels(frame[id], source)
    found = {option: _columns.as_labels(frame[column], source) for option, column in beside.items()}
    return SeriesData(
        X=cut(x, np.maximum(lengths, 1)),  # a row without values is a series of one point, which is missing
        y=found.get("target"),
        ids=ids,
        channel_names=channel_names,
        name=name,
        groups=found.get("groups"),
        sample_weight=found.get("sample_weight"),
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


def _point_columns(channel: str, present: list[str], source: str) -> list[str]:
    """The columns channel_0, channel_1, ... (or channel.0, channel0, 0_channel) by number, from 0 or 1, no holes."""
    by_number: dict[int, str] = {}
    escaped = re.escape(channel)
    for pattern in (rf"{escaped}[_.](\d{{1,9}})", rf"{escaped}(\d{{1,9}})", rf"(\d{{1,9}})[_.]{escaped}"):
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
