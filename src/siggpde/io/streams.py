"""Series of a mapped ``.npy`` file, or of rows of a ``.parquet`` file, in blocks, any of which can be read alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from siggpde.io.arrays import read_npy
from siggpde.io.data import NotStreamable, SeriesData
from siggpde.io.formats import STREAM_OPTIONS, ColumnRoles, check_file, check_options, format_of
from siggpde.io.frames import damage_reported, scan_parquet
from siggpde.io.tables import TableColumns, check_ids, from_grid, from_long

_BLOCK_NUMBERS = 2**22  # float64 values in a block: 32 MB
_MULTIPLE = 1024
_SAMPLE = 1000  # rows by which the layout of a wide table is told
_SLAB = 2**20  # rows read at a time to find where series begin and end


@dataclass(frozen=True)
class SeriesStream:
    """The series of a file, read block by block.

    Attributes
    ----------
    name : str
    total : int
        Number of series.
    points : int
        Number of points of the longest series.
    channel_names : tuple of str
    time_channel : int or None
    identity : dict
        Name, size and time of change of the file, and the options it is read with.
    path : Path or None
        The file.
    columns : tuple of str
        Those of `SeriesData`.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "series.npy"
    >>> np.save(file, np.zeros((5, 2, 3)))
    >>> stream(file).block(3, 5)
    SeriesData('series': 2 series, 2 channels, length 3)
    """

    name: str
    total: int
    points: int
    channel_names: tuple[str, ...]
    time_channel: int | None
    identity: dict[str, Any]
    _load: Callable[[int, int], SeriesData]
    path: Path | None = None
    columns: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.total

    def block_size(self) -> int:
        """Returns how many series make a block of some 32 MB: a multiple of 1024."""
        fitting = _BLOCK_NUMBERS // (self.points * len(self.channel_names))
        return _MULTIPLE * max(1, fitting // _MULTIPLE)

    def block(self, start: int, stop: int) -> SeriesData:
        """Returns series start to stop - 1; ids are those of the file, or positions in the file."""
        data = self._load(start, min(stop, self.total))
        return data if data.ids is not None else replace(data, ids=np.arange(start, start + len(data)))

    def blocks(self, size: int | None = None) -> Iterator[SeriesData]:
        """Returns all series in order, `size` at a time."""
        size = self.block_size() if size is None else size
        for start in range(0, self.total, size):
            yield self.block(start, start + size)


def stream(
    path: str | os.PathLike[str],
    *,
    series: str | None = None,
    id: str | None = None,
    time: str | None = None,
    duplicates: str | None = None,
    channels: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    facts: Sequence[str] | None = None,
    format: str | None = None,
) -> SeriesStream:
    """Opens a ``.npy`` or ``.parquet`` file to be read block by block, without labels.

    Parameters
    ----------
    path : path
        The file.
    series, id, time, duplicates, channels, ignore, facts, format
        Those of `read`.

    Returns
    -------
    SeriesStream

    Raises
    ------
    NotStreamable
        A ValueError: the file has another format, or the rows of a series do not stand together.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "walks.npy"
    >>> np.save(file, np.arange(10.0).reshape(5, 2))
    >>> [block.ids.tolist() for block in stream(file).blocks(size=2)]
    [[0, 1], [2, 3], [4]]
    """
    path = Path(path)
    kind = format_of(path, format)
    if kind not in STREAM_OPTIONS:
        raise NotStreamable(f"{path} is a .{kind} file; only .npy and .parquet files are read block by block")
    check_file(path)
    options: dict[str, Any] = {"series": series, "id": id, "time": time, "channels": channels, "ignore": ignore}
    options |= {"duplicates": duplicates, "facts": facts}
    check_options(kind, options, STREAM_OPTIONS)
    status = path.stat()
    identity = {"file": path.name, "bytes": status.st_size, "changed": status.st_mtime_ns, **options}
    if kind == "npy":
        data = read_npy(path, {}, mmap=True)
        assert isinstance(data.X, np.ndarray)
        load, total, points, first = partial(_rows, data), len(data), data.X.shape[2], data
    else:
        roles = ColumnRoles(**options)
        table = (_WideTable if series is None else _LongTable)(path, roles)
        load, total, points, first = table.load, table.total, table.points, table.load(0, 1)
    return SeriesStream(
        path.stem, total, points, first.channel_names, first.time_channel, identity, load, path, first.columns
    )


def _rows(data: SeriesData, start: int, stop: int) -> SeriesData:
    """Returns series start to stop - 1 of a mapped array."""
    return replace(data, X=np.array(data.X[start:stop], dtype=np.float64))


class _Table:
    """A ``.parquet`` file: its schema, its number of rows, and any range of its rows."""

    def __init__(self, path: Path, roles: ColumnRoles) -> None:
        self.path, self.source, self.roles = path, str(path), roles
        self.scan, schema, self.rows = scan_parquet(path)
        self.layout = TableColumns(
            schema,
            roles,
            self.source,
            cells=lambda column: self.frame([column], 0, self.rows)[column],
            rows=lambda: self.frame(list(schema), 0, min(self.rows, _SAMPLE)),
        )

    def frame(self, columns: list[str], start: int, stop: int) -> pl.DataFrame:
        with damage_reported(self.path):
            return self.scan.select(columns).slice(start, stop - start).collect()


class _WideTable(_Table):
    """One row a series; the role of a column is told by its first rows."""

    def __init__(self, path: Path, roles: ColumnRoles) -> None:
        super().__init__(path, roles)
        self.total = self.rows
        self.grid, self.names = self.layout.wide()
        self.columns = [*([] if roles.id is None else [roles.id]), *(column for row in self.grid for column in row)]
        self.columns += roles.facts or ()
        self.points = len(self.grid[0])

    def load(self, start: int, stop: int) -> SeriesData:
        frame, source = self.frame(self.columns, start, stop), f"{self.source}, from row {start} on"
        return from_grid(frame, self.grid, self.names, self.roles, self.path.stem, source)


class _LongTable(_Table):
    """One row a point. Rows of a series are adjacent, so that a block of series is a range of rows."""

    def __init__(self, path: Path, roles: ColumnRoles) -> None:
        super().__init__(path, roles)
        assert roles.series is not None
        if roles.time is not None and self.layout.schema[roles.time] == pl.String:
            raise NotStreamable(
                f"{path}: column {roles.time!r} is text; only times that are numbers or dates can be streamed"
            )
        self.channels = list(roles.channels or self.layout.numbers())
        keys = [roles.series] if roles.time is None else [roles.series, roles.time]
        self.columns = list(dict.fromkeys([*keys, *self.channels, *(roles.facts or ())]))
        counts = self._counts(roles.series)
        self.total, self.points = len(counts), int(counts.max())
        self.ends = np.concatenate([[0], np.cumsum(counts)])

    def load(self, start: int, stop: int) -> SeriesData:
        first, end = int(self.ends[start]), int(self.ends[stop])
        source = f"{self.source}, from row {first} on"
        return from_long(self.frame(self.columns, first, end), self.channels, self.roles, self.path.stem, source)

    def _counts(self, series: str) -> NDArray[np.int64]:
        """Returns (total,): the number of rows of every series; by hashes of ids no series may come twice."""
        counts, hashes = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.uint64)]
        for start in range(0, self.rows, _SLAB):
            column = self.frame([series], start, min(self.rows, start + _SLAB))[series]
            check_ids(column, self.source, start)
            runs = column.rle().struct.unnest()
            lengths, names = runs["len"].to_numpy().astype(np.int64), runs["value"]
            names = (names if names.dtype.is_numeric() else names.cast(pl.String)).hash().to_numpy()
            if len(hashes[-1]) and hashes[-1][-1] == names[0]:  # a series that goes on from the slab before
                counts[-1][-1] += lengths[0]
                lengths, names = lengths[1:], names[1:]
            if len(names):
                counts.append(lengths.copy())
                hashes.append(names)
        all_hashes = np.concatenate(hashes)
        if len(np.unique(all_hashes)) < len(all_hashes):
            _, first, occurrences = np.unique(all_hashes, return_index=True, return_counts=True)
            code = int(first[occurrences > 1].min())
            row = int(np.concatenate(counts)[:code].sum())
            name = self.frame([series], row, row + 1)[series][0]
            raise NotStreamable(
                f"{self.source}: the rows of series {name!r} do not stand together; sort the file by "
                f"{series!r}, or read it as a whole"
            )
        return np.concatenate(counts)
