"""Files of tables, and tables in memory, as polars tables: ``.csv``, ``.parquet``, pandas and lazy frames of polars."""

from __future__ import annotations

import csv
import io
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from siggpde.io.data import BadCell, SeriesData, parse_labels
from siggpde.io.formats import LATIN, ColumnRoles, check_expansion, decode, encoding_of
from siggpde.io.tables import from_table, in_zone
from siggpde.series.batch import refuse_frames_of_sktime

log = logging.getLogger(__name__)

_HEAD = 2**16
_LINES = 200
_MOST_COLUMNS, _LONGEST_LINE = 200_000, 2**25
_SEPARATORS = ",;\t|"
_ROWS_TO_INFER_TYPES = 1000
_OTHER_FILES = (
    (b"\x1f\x8b", "compressed by gzip; unpack it first (gunzip)"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it first (unzstd)"),
    (b"PK\x03\x04", "a zip archive or a workbook of a spreadsheet; unpack it, or save the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "a workbook of a spreadsheet; save the sheet as CSV"),
    (b"PAR1", "a Parquet file; say format='parquet'"),
)
_RUNS = r"^'*[=@+\-\t\r]"  # also after apostrophes, so that one can be taken away again
_NUMBER = r"^[+-]?(\d[\d.,]*([eE][+-]?\d+)?|\.\d+|inf|nan|)$"
_HELD = re.compile(r"'+[=@+\-\t\r]")
_COMMA = re.compile(r"\s*[+-]?\d*,\d+(?:[eE][+-]?\d+)?\s*")
_POINT = re.compile(r"\s*[+-]?\d*\.\d+(?:[eE][+-]?\d+)?\s*")
_WITH_COMMA = r"^\s*[+-]?\d*(,\d+)?([eE][+-]?\d+)?\s*$"


@contextmanager
def open_csv(path: Path, separator: str | None = None) -> Iterator[CsvFile]:
    """Opens a ``.csv`` file; without a `separator` it is told by the first lines."""
    with path.open("rb") as file:
        yield CsvFile(path, file, separator)


class CsvFile:
    """An open ``.csv`` file: the names of its columns, and its series."""

    def __init__(self, path: Path, file: BinaryIO, separator: str | None) -> None:
        self.path, self._file = path, file
        encoding, self._separator, self._decimal_comma = layout_of(file, str(path), separator)
        if separator is None and self._separator != ",":
            comma = ", decimals have a comma" if self._decimal_comma else ""
            log.info("%s: %r stands between cells%s", path, self._separator, comma)
        if encoding != "utf-8":
            self._decode(encoding)
        next((text for text in self._texts() if text.strip()), "")  # of too many columns each would take a kilobyte
        self._raw = self._parse(n_rows=0).columns
        header = next((cells for _, cells in self._lines() if cells), [])
        names = zip(self._raw, header if len(header) == len(self._raw) else self._raw, strict=True)
        # polars leaves quotes in names doubled, and calls a second column of one name otherwise.
        self.columns = [_run_no_more(name if raw.replace('""', '"') == name else raw) for raw, name in names]
        repeated = [column for column in self.columns if column.endswith("_duplicated_0")]
        if repeated:
            name = repeated[0].removesuffix("_duplicated_0")
            raise ValueError(f"{path}: two columns are called {name!r}; rename one")

    def series(self, roles: ColumnRoles) -> SeriesData:
        """Returns the series of the file; ids and labels keep their leading zeros."""
        as_text = (roles.series, roles.target, roles.id, roles.groups, *(roles.facts or ()))
        texts = [column for column in self.columns if column in as_text]
        overrides = {raw: pl.String for raw, name in zip(self._raw, self.columns, strict=True) if name in texts}
        try:
            frame = self._parse(infer_schema_length=_ROWS_TO_INFER_TYPES, schema_overrides=overrides)
        except ValueError:  # later rows do not fit: types from all rows, which is far slower
            frame = self._parse(infer_schema_length=None, schema_overrides=overrides)
        if not len(frame):
            raise ValueError(f"{self.path} has a header but no rows, so there are no series")
        other = next((mark for mark in ",;\t| " if mark in self.columns[0]), None)
        if len(self.columns) == 1 and other is not None:
            raise ValueError(
                f"{self.path} has one column, {self.columns[0][:60]!r}; is its separator {other!r}? Say "
                f"separator={other!r}"
            )
        frame = frame.rename(dict(zip(self._raw, self.columns, strict=True)))
        if self._decimal_comma:
            numbers = [column for column in texts if frame[column].str.contains(_WITH_COMMA).all()]
            frame = frame.with_columns(frame[column].str.replace(",", ".", literal=True) for column in numbers)
        if frame.width > 1 and frame[frame.columns[-1]].null_count():  # rows may be cut short, or blank lines
            kept = pl.Series(self._check_widths()[1:])
            frame = frame.filter(kept) if len(kept) == len(frame) and not kept.all() else frame
        frame = frame.with_columns(_parse_text_column(frame[column], column == roles.target) for column in texts)
        try:
            return from_table(frame, roles, self.path.stem, str(self.path))
        except BadCell as error:
            lines = (line for line, cells in self._lines() if cells)
            line = next(islice(lines, error.row + 1, None), "?")
            raise ValueError(f"{self.path}: {error.where}line {line}{error.wrong}") from error

    def _texts(self) -> Iterator[str]:
        """Returns the lines of the file; ValueError for one of more cells than a table can have, before it is cut."""
        self._file.seek(0)
        for line, row in enumerate(iter(partial(self._file.readline, _LONGEST_LINE), b""), 1):
            cells = row.count(self._separator.encode()) + 1
            if cells > _MOST_COLUMNS or len(row) == _LONGEST_LINE:
                raise ValueError(
                    f"{self.path}, line {line}: it has {cells} cells in {len(row)} bytes, but a table has at most "
                    f"{_MOST_COLUMNS} columns; write long series with one row a point, or as .npz or .npy"
                )
            yield row.decode(errors="replace").removeprefix("\ufeff")

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Returns lines as an editor counts them, and the cells of the header and the rows, none for blank lines."""
        rows, line = csv.reader(self._texts(), delimiter=self._separator), 1
        try:
            for cells in rows:
                yield line, cells
                line = rows.line_num + 1
        except csv.Error as error:
            raise ValueError(f"{self.path}, line {line}: {error}") from error

    def _check_widths(self) -> list[bool]:
        """Returns whether the header and the lines after it have cells; ValueError for too few or too many."""
        header: list[str] = []
        filled: list[bool] = []
        for line, cells in self._lines():
            header = header or cells
            if not header:
                continue
            least = max(number for number, name in enumerate(header, 1) if name or number == 1)
            if cells and not least <= len(cells) <= len(header):
                if len(cells) < least:
                    wrong = f"cell {len(cells) + 1}, of column {header[len(cells)]!r}, is missing"
                else:
                    wrong = f"{cells[len(header)]!r} is in cell {len(header) + 1}"
                raise ValueError(
                    f"{self.path}, line {line}: the row has {len(cells)} cells for {len(header)} columns: {wrong}. "
                    "Correct the line; a cell with a separator in it must be in quotes"
                )
            filled.append(bool(cells))
        return filled

    def _decode(self, encoding: str) -> None:
        shown = "Latin-1 (Windows-1252)" if encoding == LATIN else encoding.upper()
        log.info("%s is not UTF-8; it is read as %s", self.path, shown)
        self._file.seek(0)
        self._file = io.BytesIO(decode(self._file.read(), encoding, str(self.path)).encode())

    def _parse(self, **options: Any) -> pl.DataFrame:
        self._file.seek(0)
        options |= {"separator": self._separator, "decimal_comma": self._decimal_comma}
        try:
            return pl.read_csv(self._file, **options)
        except pl.exceptions.NoDataError as error:
            raise ValueError(f"{self.path} is empty; expected a header and rows") from error
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            reason = _first_line(error)
            if "more fields" in reason:
                self._check_widths()
            if "utf-8" not in reason.lower() or not isinstance(self._file, io.BufferedReader):
                raise ValueError(f"{self.path} is not a readable .csv file with a header ({reason})") from error
        self._decode(LATIN)  # not UTF-8 only after the beginning, by which the encoding was chosen
        return self._parse(**options)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _parse_text_column(column: pl.Series, targets: bool) -> pl.Series:
    """Returns text as bools, integers or floats if all cells are; NaN only as one of `targets` that are fractions."""
    texts = column.drop_nulls().unique().to_list()
    if not texts:
        return column
    if any(map(_HELD.match, texts)):
        column = pl.Series(column.name, [text if text is None else _run_no_more(text) for text in column])
        texts = column.drop_nulls().unique().to_list()
    kind = parse_labels(texts).dtype.kind
    if kind == "f":
        numbers = [text for text in texts if text.lstrip("+-").lower() != "nan"]
        if len(numbers) < len(texts) and not (targets and numbers and parse_labels(numbers).dtype.kind == "f"):
            return column
    if kind == "b":
        return column.str.to_lowercase() == "true"
    return column.cast({"i": pl.Int64, "f": pl.Float64}[kind]) if kind in "if" else column


def spreadsheet_safe(table: pl.DataFrame) -> pl.DataFrame:
    """Returns a table with an apostrophe before text that a spreadsheet would run, which `CsvFile` takes away."""
    held = []
    for name in table.select(pl.col(pl.String)).columns:
        cell = pl.col(name)
        runs = cell.str.contains(_RUNS) & ~cell.str.contains(_NUMBER)
        held.append(pl.when(runs).then(pl.concat_str(pl.lit("'"), cell)).otherwise(cell).alias(name))
    names = {name: "'" + name for name in table.columns if re.match(_RUNS, name) and not re.match(_NUMBER, name)}
    return table.with_columns(held).rename(names)


def _run_no_more(text: str) -> str:
    """Returns a cell without the apostrophe of `spreadsheet_safe`."""
    return text[1:] if _HELD.match(text) else text


def layout_of(file: BinaryIO, source: str, separator: str | None = None) -> tuple[str, str, bool]:
    """Returns the encoding of an open file, its separator (that given, if any), and whether decimals have a comma.

    Examples
    --------
    >>> import io
    >>> layout_of(io.BytesIO("größe;art\\n1,5;a\\n".encode("latin-1")), "a.csv")
    ('cp1252', ';', True)
    """
    file.seek(0)
    head = file.read(_HEAD)
    for mark, what in _OTHER_FILES:
        if head.startswith(mark):
            raise ValueError(f"{source} is no readable .csv file but {what}")
    encoding = encoding_of(head)
    text = head.decode(encoding, errors="replace").removeprefix("\ufeff")
    lines = text.splitlines()[:_LINES]
    if len(head) == _HEAD and len(lines) > 1 and len(lines) < _LINES:
        lines.pop()  # it may be cut off
    lines = [line for line in lines if line.strip()]
    chosen = separator if separator is not None else _separator(lines)
    if len(chosen.encode()) != 1:
        raise ValueError(f"separator must be one mark, such as ';'; got {chosen!r}")
    rows = _rows(lines, chosen)
    names = [name for name in rows[0] if _POINT.fullmatch(name) or _COMMA.fullmatch(name)] if rows else []
    numbers = [float(name.replace(",", ".")) for name in names]
    if any(after <= number for number, after in pairwise(numbers)):  # names that are numbers, 0.0, 0.5, .., grow
        raise ValueError(
            f"{source}: the first line has values such as {names[0].strip()!r} where the names of columns belong; put "
            "a line of names before it"
        )
    cells = [cell for row in rows[1:] for cell in row]
    comma = chosen != "," and any(map(_COMMA.fullmatch, cells)) and not any(map(_POINT.fullmatch, cells))
    return encoding, chosen, comma


def _rows(lines: list[str], separator: str) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=separator))
    except (csv.Error, TypeError, ValueError):
        return []


def _separator(lines: list[str]) -> str:
    """Returns the mark with the most columns of which nine rows in ten have as many as the header; else a comma."""
    best, most = ",", 1
    for mark in _SEPARATORS:
        widths = [len(row) for row in _rows(lines, mark)]
        if widths and widths[0] > most and sum(width == widths[0] for width in widths) >= 0.9 * len(widths):
            best, most = mark, widths[0]
    return best


@contextmanager
def damage_reported(path: Path) -> Iterator[None]:
    """Turns errors and panics of polars for a damaged ``.parquet`` file into a ValueError that names the file."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, OverflowError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        panic = isinstance(error, pl.exceptions.PanicException)
        reason = "its pages are damaged" if panic else _first_line(error)
        raise ValueError(f"{path} is not a whole .parquet file ({reason}); copy or make it again") from error


def scan_parquet(path: Path) -> tuple[pl.LazyFrame, dict[str, pl.DataType], int]:
    """Returns a ``.parquet`` file that is still to be read, its columns with their types, and its number of rows."""
    with damage_reported(path):
        table = pl.scan_parquet(path)
        schema, rows = dict(table.collect_schema()), int(table.select(pl.len()).collect().item())
    if not rows:
        raise ValueError(f"{path} has no rows, so there are no series")
    return table, schema, rows


def read_parquet(path: Path, roles: ColumnRoles) -> SeriesData:
    """Returns the series of a ``.parquet`` file."""
    _, schema, rows = scan_parquet(path)
    check_expansion(str(path), path.stat().st_size, 8 * rows * len(schema))  # equal cells are stored in a few bytes
    with damage_reported(path):
        frame = pl.read_parquet(path)
    return from_table(frame, roles, path.stem, str(path))


def as_polars(frame: Any, series: str | None = None) -> pl.DataFrame:
    """Returns a table of polars, or the columns of one of pandas, whose index may have levels if `series` is given."""
    refuse_frames_of_sktime(frame, "frame", series)
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    pandas = sys.modules.get("pandas")  # whoever has a table of pandas has imported it
    if pandas is not None and isinstance(frame, pandas.DataFrame):
        names = [str(column) for column in frame.columns]
        if len(set(names)) < len(names):
            raise ValueError(f"the frame has two columns of one name; rename one: {', '.join(names)}")
        frame = pl.DataFrame([_from_pandas(n, frame.iloc[:, i]) for i, n in enumerate(names)])
    if not isinstance(frame, pl.DataFrame):
        raise ValueError(f"expected a DataFrame of polars or pandas; got {type(frame).__name__}")
    if not len(frame):
        raise ValueError("the frame has no rows, so there are no series")
    return frame


def _from_pandas(name: str, column: Any) -> pl.Series:
    """Returns a column of pandas by way of numpy, which needs no pyarrow."""
    if (zone := getattr(column.dtype, "tz", None)) is not None:
        dates = _from_pandas(name, column.dt.tz_convert("UTC").dt.tz_localize(None))
        return in_zone(dates, str(zone).removeprefix("UTC") or "UTC")
    dtype = column.dtype
    if getattr(dtype, "kind", "O") in "fiubMm" and type(dtype).__module__.startswith("numpy"):
        values = column.to_numpy()
        if values.dtype.kind in "Mm" and np.datetime_data(values.dtype)[0] not in ("ms", "us", "ns"):
            values = values.astype(f"{values.dtype.kind}8[ms]")  # polars has no seconds and no longer units
        return pl.Series(name, values)
    missing = column.isna().to_numpy()
    values = [None if gap else value for value, gap in zip(column.tolist(), missing, strict=True)]
    try:
        return pl.Series(name, values)
    except (TypeError, pl.exceptions.PolarsError):  # cells of several types
        return pl.Series(name, [None if value is None else str(value) for value in values])
