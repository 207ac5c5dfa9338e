"""Columns of a table as arrays of numbers, times or labels, with errors that name the column and the row."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from siggpde.io.data import parse_labels

log = logging.getLogger(__name__)

_WITH_COMMA = r"^\s*[+-]?\d*(,\d+)?([eE][+-]?\d+)?\s*$"
_MISSING_TEXTS = ("", "na", "n/a", "nan", "null", "none", "?", "-")


def check_present(frame: pl.DataFrame, names: list[str], option: str, source: str) -> None:
    """Raises ValueError, listing the columns of the table, for a column that `option` names but that is not there."""
    for name in names:
        if name not in frame.columns:
            raise ValueError(f"{source}: there is no column {name!r} for {option}; {listed(frame.columns)}")


def check_beside(frame: pl.DataFrame, beside: dict[str, str], source: str) -> None:
    """The same for the columns of `target`, `groups` and `sample_weight`; no two of them may be one column."""
    for option, column in beside.items():
        check_present(frame, [column], f"{option}=", source)
        for other, same in beside.items():
            if other != option and same == column:
                raise ValueError(f"{source}: column {column!r} is both {option}= and {other}=; name another for one")


def listed(columns: list[str]) -> str:
    """The names of columns, shortened for an error message."""
    shown = ", ".join(columns[:30]) + (", ..." if len(columns) > 30 else "")
    return f"the {len(columns)} columns are {shown}"


def is_number(column: pl.Series) -> bool:
    """Whether a column can be a channel: numbers, bools, nulls, or text that holds numbers and missing values only."""
    if column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        return True
    return column.dtype == pl.String and _parse_numbers(column).null_count() == _missing_as_null(column).null_count()


def has_number(column: pl.Series) -> bool:
    """Whether any cell of a column of text is a number, also one with a decimal comma."""
    if column.dtype != pl.String:
        return False
    with_comma = column.str.contains(r"^\s*[+-]?\d+,\d+\s*$").fill_null(False)
    return _parse_numbers(column).null_count() < len(column) or with_comma.any()


def holds_numbers(column: pl.Series, source: str) -> bool:
    """Whether a column is a channel: true for numbers, false for words only; ValueError for a mixture of both."""
    if is_number(column):
        return True
    if has_number(column):
        as_numbers(column, source)  # raises, naming the row
    log.info("%s: column %r holds no numbers and is left out", source, column.name)
    return False


def number_columns(frame: pl.DataFrame, taken: list[str], source: str) -> list[str]:
    """The columns that are not in `taken` and hold numbers."""
    left_out = set(taken)
    names = [
        column
        for column, dtype in frame.schema.items()
        if column not in left_out and (dtype.is_numeric() or holds_numbers(frame[column], source))
    ]
    if not names:
        raise ValueError(f"{source}: there are no columns of numbers for channels; {listed(frame.columns)}")
    return names


def as_numbers(column: pl.Series, source: str) -> NDArray[np.float64]:
    """(n_rows,), float64, NaN for nulls; other text than numbers and words for a missing value raises ValueError."""
    dtype = column.dtype
    if dtype.is_numeric() or dtype in (pl.Boolean, pl.Null):
        return column.cast(pl.Float64).fill_null(np.nan).to_numpy().astype(np.float64)
    if dtype != pl.String:
        raise ValueError(f"{source}: column {column.name!r} is {dtype}, not numbers; leave it out with ignore=")
    values = _parse_numbers(column)
    bad = (values.is_null() & _missing_as_null(column).is_not_null()).arg_max()
    if bad is not None and values[bad] is None and _missing_as_null(column)[bad] is not None:
        comma = " (is its comma a decimal point?)" if "," in column[bad] else ""
        raise ValueError(
            f"{source}: column {column.name!r}, row {bad}: expected a number; got {column[bad]!r}{comma}. Correct it, "
            "or leave the column out with ignore="
        )
    return values.fill_null(np.nan).to_numpy().astype(np.float64)


def as_matrix(frame: pl.DataFrame, names: list[str], source: str) -> NDArray[np.float64]:
    """(n_rows, n_names), float64, NaN for nulls: `as_numbers` of several columns, in one go where all are numbers."""
    chosen = frame.select(names)
    if all(dtype.is_numeric() for dtype in chosen.dtypes):
        return chosen.cast(pl.Float64).to_numpy().astype(np.float64, copy=False)
    return np.stack([as_numbers(chosen[name], source) for name in names], axis=1)


def as_times(column: pl.Series, source: str) -> NDArray[np.float64]:
    """(n_rows,), float64: numbers as they are; dates and times in seconds, since 1970 in UTC or since midnight."""
    times = _seconds(column, source)
    missing = times.is_null() | ~times.is_finite().fill_null(False)
    if missing.any():
        row = missing.arg_max()
        raise ValueError(f"{source}: column {column.name!r}, row {row}: expected a time; got {column[row or 0]!r}")
    return times.to_numpy().astype(np.float64)


def as_labels(column: pl.Series, source: str) -> NDArray[Any]:
    """(n_rows,): bools, integers and floats as they are, all else as strings. There must be no nulls."""
    missing = column.is_null() | (column.is_nan() if column.dtype.is_float() else False)
    if missing.any():
        raise ValueError(
            f"{source}: column {column.name!r}, row {missing.arg_max()} has no value; every series needs one"
        )
    if column.dtype == pl.Boolean or column.dtype.is_integer() or column.dtype.is_float():
        return column.to_numpy().copy()
    if column.dtype.is_decimal():
        return column.cast(pl.Float64).to_numpy().copy()
    return np.array(column.cast(pl.String).to_list(), dtype=str)


def parse_text_column(column: pl.Series) -> pl.Series:
    """Converts a column of text to bools, integers or floats if all of its cells are written as such."""
    texts = column.drop_nulls().unique().to_list()
    if not texts:
        return column
    kind = parse_labels(texts).dtype.kind
    if kind == "b":
        return column.str.to_lowercase() == "true"
    return column.cast({"i": pl.Int64, "f": pl.Float64}[kind]) if kind in "if" else column


def with_points(column: pl.Series) -> pl.Series:
    """A column of text with decimal points instead of commas, if all of its cells are numbers with at most a comma."""
    if column.str.contains(_WITH_COMMA).all():
        return column.str.replace(",", ".", literal=True)
    return column


def _missing_as_null(column: pl.Series) -> pl.Series:
    text = column.str.strip_chars()
    return text.set(text.str.to_lowercase().is_in(_MISSING_TEXTS).fill_null(False), None)


def _parse_numbers(column: pl.Series) -> pl.Series:
    return _missing_as_null(column).cast(pl.Float64, strict=False)


def _seconds(column: pl.Series, source: str) -> pl.Series:
    dtype = column.dtype
    if dtype.is_numeric():
        return column.cast(pl.Float64)
    if dtype == pl.String:
        values = _parse_numbers(column)
        if values.null_count() == column.null_count():
            return values
        try:
            column = column.str.strip_chars().str.to_datetime(strict=True)
        except pl.exceptions.PolarsError as error:
            first = column.drop_nulls()[0]
            raise ValueError(
                f"{source}: column {column.name!r} is neither numbers nor dates such as 2020-01-31 or "
                f"2020-01-31 12:00:00; it starts with {first!r}"
            ) from error
        dtype = column.dtype
    if dtype == pl.Date:
        return column.cast(pl.Int32).cast(pl.Float64) * 86400.0
    if isinstance(dtype, pl.Datetime | pl.Duration):
        return column.to_physical().cast(pl.Float64) / {"ms": 1e3, "us": 1e6, "ns": 1e9}[dtype.time_unit]
    if dtype == pl.Time:
        return column.to_physical().cast(pl.Float64) / 1e9
    raise ValueError(f"{source}: column {column.name!r} is {dtype}; a time must be a number or a date")
