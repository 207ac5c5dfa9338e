"""Tables from files and from pandas, as polars holds them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import polars as pl

from siggpde.io import columns as _columns


def read_csv(path: Path, texts: list[str], separator: str) -> pl.DataFrame:
    """Read a ``.csv`` file with a header; the columns of `texts` (names, labels) keep their leading zeros."""
    try:
        header = pl.read_csv(path, n_rows=0, separator=separator).columns
        doubled = [column for column in header if column.endswith("_duplicated_0")]
        if doubled:
            raise ValueError(f"{path}: two columns are called {doubled[0].removesuffix('_duplicated_0')!r}; rename one")
        overrides = {column: pl.String for column in texts if column in header}
        frame = _typed_by_rows(path, separator, overrides)
    except pl.exceptions.NoDataError as error:
        raise ValueError(f"{path} is empty; expected a header and rows") from error
    except pl.exceptions.PolarsError as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"{path} is not a readable .csv file with a header ({reason})") from error
    if not len(frame):
        raise ValueError(f"{path} has a header but no rows, so there are no series")
    if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
        mark = next(mark for mark in ";\t|" if mark in header[0])
        raise ValueError(
            f"{path} has one column, {header[0][:60]!r}; is its separator {mark!r}? Say separator={mark!r}"
        )
    return frame.with_columns(_columns.typed(frame[column]) for column in overrides)


def _typed_by_rows(path: Path, separator: str, overrides: dict[str, Any]) -> pl.DataFrame:
    """Types of columns from the first rows, or from all of them where later rows do not fit: that is far slower."""
    try:
        return pl.read_csv(path, separator=separator, infer_schema_length=1000, schema_overrides=overrides)
    except pl.exceptions.PolarsError:
        return pl.read_csv(path, separator=separator, infer_schema_length=None, schema_overrides=overrides)


def read_parquet(path: Path) -> pl.DataFrame:
    """Read a ``.parquet`` file."""
    try:
        frame = pl.read_parquet(path)
    except pl.exceptions.PolarsError as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"{path} is not a whole .parquet file ({reason}); copy or make it again") from error
    if not len(frame):
        raise ValueError(f"{path} has no rows, so there are no series")
    return frame


def as_polars(frame: Any) -> pl.DataFrame:
    """The table itself, or a polars table with the columns (not the index) of a pandas one."""
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
    """By way of numpy, so that pyarrow is not needed."""
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    dtype = column.dtype
    if getattr(dtype, "kind", "O") in "fiubMm" and type(dtype).__module__.startswith("numpy"):
        return pl.Series(name, column.to_numpy())
    missing = column.isna().to_numpy()
    values = [None if gap else value for value, gap in zip(column.tolist(), missing, strict=True)]
    try:
        return pl.Series(name, values)
    except (TypeError, pl.exceptions.PolarsError):  # cells of several types
        return pl.Series(name, [None if value is None else str(value) for value in values])
