"""A ``.csv`` or ``.parquet`` file as a polars table: first the names of its columns, then its rows.

The two steps let a caller choose options by the columns that are there. A ``.csv`` file is opened once for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import polars as pl

from siggpde.io.columns import parse_text_column

_ROWS_TO_INFER_TYPES = 1000


class TableFile(Protocol):
    """An open table: its path, the names of its columns, and its rows."""

    path: Path
    columns: list[str]

    def read(self, text_columns: Sequence[str] = ()) -> pl.DataFrame:
        """Returns all rows. In a ``.csv`` file the cells of `text_columns` (ids, labels) keep their leading zeros."""
        ...


@contextmanager
def open_table(path: Path, kind: str, separator: str | None = None) -> Iterator[TableFile]:
    """Opens a file of format `kind` ("csv" or "parquet"); `separator` is that of the cells of a ``.csv`` file."""
    if kind == "parquet":
        yield _ParquetFile(path)
        return
    with path.open("rb") as file:
        yield _CsvFile(path, file, "," if separator is None else separator)


class _CsvFile:
    def __init__(self, path: Path, file: BinaryIO, separator: str) -> None:
        self.path, self._file, self._separator = path, file, separator
        self.columns = self._parse(n_rows=0).columns
        repeated = [column for column in self.columns if column.endswith("_duplicated_0")]
        if repeated:
            name = repeated[0].removesuffix("_duplicated_0")
            raise ValueError(f"{path}: two columns are called {name!r}; rename one")

    def read(self, text_columns: Sequence[str] = ()) -> pl.DataFrame:
        overrides = {column: pl.String for column in text_columns if column in self.columns}
        try:
            frame = self._parse(infer_schema_length=_ROWS_TO_INFER_TYPES, schema_overrides=overrides)
        except ValueError:  # later rows do not fit: types from all rows, which is far slower
            frame = self._parse(infer_schema_length=None, schema_overrides=overrides)
        if not len(frame):
            raise ValueError(f"{self.path} has a header but no rows, so there are no series")
        if len(self.columns) == 1:
            _check_separator(self.columns[0], self.path)
        return frame.with_columns(parse_text_column(frame[column]) for column in overrides)

    def _parse(self, **options: Any) -> pl.DataFrame:
        self._file.seek(0)
        try:
            return pl.read_csv(self._file, separator=self._separator, **options)
        except pl.exceptions.NoDataError as error:
            raise ValueError(f"{self.path} is empty; expected a header and rows") from error
        except pl.exceptions.PolarsError as error:
            reason = str(error).strip().splitlines()[0]
            raise ValueError(f"{self.path} is not a readable .csv file with a header ({reason})") from error


class _ParquetFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        with _damage_reported(path):
            self.columns = list(pl.read_parquet_schema(path))

    def read(self, text_columns: Sequence[str] = ()) -> pl.DataFrame:
        with _damage_reported(self.path):
            frame = pl.read_parquet(self.path)
        if not len(frame):
            raise ValueError(f"{self.path} has no rows, so there are no series")
        return frame


@contextmanager
def _damage_reported(path: Path) -> Iterator[None]:
    try:
        yield
    except pl.exceptions.PolarsError as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"{path} is not a whole .parquet file ({reason}); copy or make it again") from error


def _check_separator(header: str, path: Path) -> None:
    """A header with one column but with another separator in it was most likely split by the wrong one."""
    for separator in ";\t|":
        if separator in header:
            raise ValueError(
                f"{path} has one column, {header[:60]!r}; is its separator {separator!r}? Say separator={separator!r}"
            )
