"""Tables of pandas and lazy tables of polars as polars tables in memory."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray


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
        return pl.Series(name, _in_known_unit(column.to_numpy()))
    missing = column.isna().to_numpy()
    values = [None if gap else value for value, gap in zip(column.tolist(), missing, strict=True)]
    try:
        return pl.Series(name, values)
    except (TypeError, pl.exceptions.PolarsError):  # cells of several types
        return pl.Series(name, [None if value is None else str(value) for value in values])


def _in_known_unit(values: NDArray[Any]) -> NDArray[Any]:
    """Dates and durations in a unit that polars has: seconds and longer ones become milliseconds."""
    if values.dtype.kind in "Mm" and np.datetime_data(values.dtype)[0] not in ("ms", "us", "ns"):
        return values.astype(f"{values.dtype.kind}8[ms]")
    return values
