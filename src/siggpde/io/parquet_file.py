"""``.parquet`` files by polars, with damage reported as a ValueError that names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from siggpde.io.limits import check_expansion


@contextmanager
def damage_reported(path: Path) -> Iterator[None]:
    """Turns what polars raises for a damaged file into a ValueError: errors, and panics, which are no Exception.

    A panic has said more on stderr before.
    """
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, OverflowError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if isinstance(error, pl.exceptions.PanicException):
            reason = "its pages are damaged"
        raise ValueError(f"{path} is not a whole .parquet file ({reason[:200]}); copy or make it again") from error


def schema_of(path: Path) -> dict[str, pl.DataType]:
    """The columns of a file and their types."""
    with damage_reported(path):
        return dict(pl.read_parquet_schema(path))


def read_whole(path: Path) -> pl.DataFrame:
    """All rows; the size that the file states is checked first, for many equal cells are stored in a few bytes."""
    with damage_reported(path):
        scan = pl.scan_parquet(path)
        rows, columns = int(scan.select(pl.len()).collect().item()), len(scan.collect_schema())
    check_expansion(str(path), path.stat().st_size, 8 * rows * columns)
    with damage_reported(path):
        return pl.read_parquet(path)
