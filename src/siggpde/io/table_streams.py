"""Blocks of series from a ``.parquet`` file; only the rows of one block are in memory at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from siggpde.io import columns as _columns
from siggpde.io import tables, wide, wide_layout
from siggpde.io.data import NotStreamable, SeriesData
from siggpde.io.parquet_file import damage_reported

_SAMPLE = 1000  # rows by which the layout of a wide table is told
_SLAB = 2**20  # rows read at a time to find where series begin and end


class _Table:
    """A ``.parquet`` file: its schema, its number of rows, and any range of its rows."""

    def __init__(self, path: Path, taken: list[tuple[str, str | None]], ignore: list[str]) -> None:
        self.path, self.source = path, str(path)
        self.scan = pl.scan_parquet(path)
        with damage_reported(path):
            self.schema = dict(self.scan.collect_schema())
            self.rows = int(self.scan.select(pl.len()).collect().item())
        if self.rows == 0:
            raise ValueError(f"{path} has no rows, so there are no series")
        nothing = pl.DataFrame(schema=self.schema)
        for option, column in [*taken, *(("ignore=", column) for column in ignore)]:
            _columns.check_present(nothing, [] if column is None else [column], option, self.source)

    def number_columns(self, taken: list[str]) -> list[str]:
        """The columns that hold numbers in all rows, as `read` chooses them; columns of text are read to decide."""
        rest = [column for column in self.schema if column not in taken]
        texts = [column for column in rest if self.schema[column] == pl.String]
        others = [column for column in rest if column not in texts]
        numeric = set()
        for column in texts:
            with damage_reported(self.path):
                cells = pl.read_parquet(self.path, columns=[column])[column]
            if _columns.holds_numbers(cells, self.source):
                numeric.add(column)
        empty = pl.DataFrame(schema={column: self.schema[column] for column in others})
        numeric |= {column for column in others if _columns.holds_numbers(empty[column], self.source)}
        if not numeric:
            raise ValueError(f"{self.source}: there are no columns of numbers; {_columns.listed(list(self.schema))}")
        return [column for column in rest if column in numeric]

    def frame(self, columns: list[str], start: int, stop: int) -> pl.DataFrame:
        with damage_reported(self.path):
            return self.scan.select(columns).slice(start, stop - start).collect()


class WideTableStream(_Table):
    """Wide form: one row for every series. What its columns are is told by its first rows."""

    def __init__(self, path: Path, channels: list[str] | None, ignore: list[str], id: str | None) -> None:
        super().__init__(path, [("id=", id)], ignore)
        self.id, self.total = id, self.rows
        taken = ignore if id is None else [*ignore, id]
        if channels is None:
            numbers = self.number_columns(taken)
            first = self.frame(list(self.schema), 0, min(self.rows, _SAMPLE))
            self.grid, self.names = wide_layout.channel_grid(first, numbers, taken, self.source)
        else:
            nothing = pl.DataFrame(schema=self.schema)
            self.grid, self.names = wide.wide_columns(nothing, channels, taken, self.source), tuple(channels)
        self.columns = [*([] if id is None else [id]), *(column for row in self.grid for column in row)]
        self.points = len(self.grid[0])

    def load(self, start: int, stop: int) -> SeriesData:
        return wide.from_grid(
            self.frame(self.columns, start, stop),
            self.grid,
            channel_names=self.names,
            beside={},
            id=self.id,
            name=self.path.stem,
            source=f"{self.source}, from row {start} on",
        )


class LongTableStream(_Table):
    """Long form: one row for every point. Rows of a series are adjacent, so a block of series is a range of rows."""

    def __init__(
        self, path: Path, series: str, time: str | None, channels: list[str] | None, ignore: list[str]
    ) -> None:
        super().__init__(path, [("series=", series), ("time=", time)], ignore)
        if time is not None and self.schema[time] == pl.String:
            raise NotStreamable(
                f"{path}: column {time!r} is text; only times that are numbers or dates can be streamed"
            )
        self.series, self.time = series, time
        taken = [series] if time is None else [series, time]
        if channels is None:
            first = self.frame(list(self.schema), 0, min(self.rows, _SAMPLE))
            channels = wide_layout.without_counters(first, self.number_columns(taken + ignore), self.source)
        self.channels = channels
        _columns.check_present(pl.DataFrame(schema=self.schema), self.channels, "channels=", self.source)
        self.columns = list(dict.fromkeys([*taken, *self.channels]))
        counts = self._counts()
        self.total, self.points = len(counts), int(counts.max())
        self.ends = np.concatenate([[0], np.cumsum(counts)])

    def load(self, start: int, stop: int) -> SeriesData:
        return tables.from_long(
            self.frame(self.columns, int(self.ends[start]), int(self.ends[stop])),
            series=self.series,
            time=self.time,
            channels=self.channels,
            beside={},
            ignore=[],
            name=self.path.stem,
            source=f"{self.source}, from row {int(self.ends[start])} on",
        )

    def _counts(self) -> np.ndarray:
        """(total,): the number of rows of every series. Hashes of ids are kept to check that no series comes twice."""
        counts, hashes = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.uint64)]
        for start in range(0, self.rows, _SLAB):
            column = self.frame([self.series], start, min(self.rows, start + _SLAB))[self.series]
            if column.null_count():
                row = start + int(column.is_null().arg_max() or 0)
                raise ValueError(
                    f"{self.source}: row {row} does not say which series it belongs to "
                    f"(column {self.series!r} is empty)"
                )
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
            name = self.frame([self.series], row, row + 1)[self.series][0]
            raise NotStreamable(
                f"{self.source}: the rows of series {name!r} do not stand together; sort the file by "
                f"{self.series!r}, or read it as a whole"
            )
        return np.concatenate(counts)
