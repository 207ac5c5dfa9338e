"""A ``.csv`` or ``.parquet`` file as a polars table: first the names of its columns, then its rows.

The two steps let a caller choose options by the columns that are there. A ``.csv`` file is opened once for both.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import polars as pl

from siggpde.io.columns import parse_text_column, with_points
from siggpde.io.csv_layout import LATIN, CsvLayout, decoded, layout_of
from siggpde.io.parquet_file import read_whole, schema_of

log = logging.getLogger(__name__)

_ROWS_TO_INFER_TYPES = 1000
_ENCODINGS = {LATIN: "Latin-1 (Windows-1252)"}


class _NotUtf8(ValueError):
    """A file that is not UTF-8."""


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
        layout = layout_of(file, str(path), separator)
        if separator is None and layout.separator != ",":
            comma = ", decimals have a comma" if layout.decimal_comma else ""
            log.info("%s: %r stands between cells%s", path, layout.separator, comma)
        yield _CsvFile(path, file, layout)


class _CsvFile:
    def __init__(self, path: Path, file: BinaryIO, layout: CsvLayout) -> None:
        self.path, self._file, self._layout = path, file, layout
        if layout.encoding != "utf-8":
            self._decode(layout.encoding)
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
        if self._layout.decimal_comma:
            frame = frame.with_columns(with_points(frame[column]) for column in overrides)
        return frame.with_columns(parse_text_column(frame[column]) for column in overrides)

    def _decode(self, encoding: str) -> None:
        log.info("%s is not UTF-8; it is read as %s", self.path, _ENCODINGS.get(encoding, encoding.upper()))
        self._file.seek(0)
        self._file = io.BytesIO(decoded(self._file.read(), encoding, str(self.path)))

    def _parse(self, **options: Any) -> pl.DataFrame:
        try:
            return self._parse_once(**options)
        except _NotUtf8:  # only after the beginning, by which the layout was told
            self._decode(LATIN)
            return self._parse_once(**options)

    def _parse_once(self, **options: Any) -> pl.DataFrame:
        self._file.seek(0)
        options |= {"separator": self._layout.separator, "decimal_comma": self._layout.decimal_comma}
        try:
            return pl.read_csv(self._file, **options)
        except pl.exceptions.NoDataError as error:
            raise ValueError(f"{self.path} is empty; expected a header and rows") from error
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            kind = _NotUtf8 if "utf-8" in reason.lower() and isinstance(self._file, io.BufferedReader) else ValueError
            raise kind(f"{self.path} is not a readable .csv file with a header ({reason})") from error


class _ParquetFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns = list(schema_of(path))

    def read(self, text_columns: Sequence[str] = ()) -> pl.DataFrame:
        frame = read_whole(self.path)
        if not len(frame):
            raise ValueError(f"{self.path} has no rows, so there are no series")
        return frame


def _check_separator(header: str, path: Path) -> None:
    """A header with one column but with another separator in it was most likely split by the wrong one."""
    for separator in ",;\t| ":
        if separator in header:
            raise ValueError(
                f"{path} has one column, {header[:60]!r}; is its separator {separator!r}? Say separator={separator!r}"
            )
