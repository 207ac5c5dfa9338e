"""`read` and `from_frame`: the reader is chosen by the format, and options are checked against it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from siggpde.io.aeon_reader import read_by_aeon
from siggpde.io.arff import read_arff
from siggpde.io.arrays import read_npy, read_npz
from siggpde.io.data import SeriesData
from siggpde.io.formats import TWICE_IDENTIFIED, check_column_names, check_file, check_options, format_of
from siggpde.io.ts import read_ts

if TYPE_CHECKING:
    import pandas
    import polars

    from siggpde.io.table_file import TableFile


def read(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    series: str | None = None,
    id: str | None = None,
    time: str | None = None,
    channels: Sequence[str] | None = None,
    part: str | None = None,
    format: str | None = None,
    ignore: Sequence[str] | None = None,
    groups: str | None = None,
    sample_weight: str | None = None,
    separator: str | None = None,
    reader: Literal["auto", "own", "aeon"] = "auto",
    mmap: bool = False,
) -> SeriesData:
    """Read series, and labels if there are any, from a file of a known format.

    Args:
        path: a ``.ts``, ``.arff``, ``.npz``, ``.npy``, ``.csv`` or ``.parquet`` file.
        target: where the labels are. Tables: a column; ``.arff``: an attribute (by default the last); ``.npz``: a
            member (by default ``y``); arrays also: a file, ``.npy``, or ``.csv`` or ``.txt`` with one label a line.
        series: tables in long form, one row a point: the column that says to which series a row belongs. Without it
            a table has one row a series, and the rest of its columns of numbers are the points.
        id: wide form: the column that says what a series is called; it becomes `ids`.
        time: long form: the column of times, numbers or dates. Rows are sorted by it, and it becomes channel 0, dates
            in seconds. Without it, rows are taken in the order of the file.
        channels: long form: the columns to read (by default all that are left and hold numbers); wide form: names
            such as ``["x", "y"]`` where columns are called ``x_0``, ``x_1``, ..., ``y_0``, ... (by default all that
            are called so)
        part: ``"train"`` or ``"test"``, for an ``.npz`` file with both.
        format: the format, where the suffix does not tell: ``"ts"``, ``"csv"``, ...
        ignore: tables: columns to leave out.
        groups: what each series is part of, such as a person, for the `groups` of a fit. Tables: a column; ``.npz``: a
            member (by default ``groups``); arrays also: a file, as for `target`.
        sample_weight: the same for what each series counts; the member is by default ``sample_weight``.
        separator: ``.csv``: what stands between cells, by default a comma.
        reader: text files of archives: ``"own"`` (as ``"auto"``), or ``"aeon"`` to go through that library.
        mmap: ``.npy``: leave the series on disk, as `numpy.memmap` in the number type of the file.

    Examples:
        >>> import tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "walks.csv"
        >>> _ = file.write_text("who,day,steps,mood\\nann,2,7.5,good\\nann,1,7,good\\nbob,1,3,bad\\n")
        >>> data = read(file, series="who", time="day", target="mood")
        >>> data
        SeriesData('walks': 2 series, 2 channels, lengths 1 to 2, time stamps, labels)
        >>> data.X[0]
        array([[1. , 2. ],
               [7. , 7.5]])
    """
    path = Path(path)
    kind = format_of(path, format)
    options = {
        "target": target,
        "series": series,
        "id": id,
        "time": time,
        "channels": channels,
        "part": part,
        "ignore": ignore,
        "groups": groups,
        "sample_weight": sample_weight,
    }
    options |= {"separator": separator, "reader": None if reader == "auto" else reader, "mmap": mmap or None}
    check_options(kind, options)
    if reader not in ("auto", "own", "aeon"):
        raise ValueError(f"reader must be 'auto', 'own' or 'aeon'; got {reader!r}")
    check_file(path)
    if kind in ("ts", "arff"):
        if reader == "aeon":
            if target is not None:
                raise ValueError("aeon takes the last attribute as label; leave target out, or choose reader='own'")
            return read_by_aeon(path, kind)
        return read_ts(path) if kind == "ts" else read_arff(path, target)
    if kind == "npz":
        return read_npz(path, part=part, target=target, groups=groups, sample_weight=sample_weight)
    if kind == "npy":
        return read_npy(path, target=target, groups=groups, sample_weight=sample_weight, mmap=mmap)
    from siggpde.io.table_file import open_table  # noqa: PLC0415 - polars takes long to import

    with open_table(path, kind, separator) as table:
        return read_table(
            table, target=target, series=series, id=id, time=time, channels=channels, ignore=ignore,
            groups=groups, sample_weight=sample_weight,
        )  # fmt: skip


def read_table(
    table: TableFile,
    *,
    target: str | None = None,
    series: str | None = None,
    id: str | None = None,
    time: str | None = None,
    channels: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    groups: str | None = None,
    sample_weight: str | None = None,
) -> SeriesData:
    """Read series from a table that `open_table` opened, with the options of `read`."""
    frame = table.read([column for column in (series, target, id, groups) if column is not None])
    beside = {"target": target, "groups": groups, "sample_weight": sample_weight}
    return _from_table(frame, beside, series, id, time, channels, ignore, table.path.stem, str(table.path))


def from_frame(
    frame: polars.DataFrame | polars.LazyFrame | pandas.DataFrame,
    *,
    target: str | None = None,
    series: str | None = None,
    id: str | None = None,
    time: str | None = None,
    channels: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    groups: str | None = None,
    sample_weight: str | None = None,
    name: str = "frame",
) -> SeriesData:
    """Series from a table of polars or pandas, with the options of `read`; an index of pandas is left out.

    Examples:
        >>> import polars
        >>> from_frame(polars.DataFrame({"x_0": [1, 2], "x_1": [3, None], "kind": ["a", "b"]}), target="kind").X
        [array([[1., 3.]]), array([[2.]])]
    """
    from siggpde.io.frames import as_polars  # noqa: PLC0415

    beside = {"target": target, "groups": groups, "sample_weight": sample_weight}
    return _from_table(as_polars(frame), beside, series, id, time, channels, ignore, name, "the frame")


def _from_table(
    frame: polars.DataFrame,
    beside: dict[str, str | None],
    series: str | None,
    id: str | None,
    time: str | None,
    channels: Sequence[str] | None,
    ignore: Sequence[str] | None,
    name: str,
    source: str,
) -> SeriesData:
    from siggpde.io import columns, tables, wide  # noqa: PLC0415

    common: dict[str, Any] = {
        "beside": {option: column for option, column in beside.items() if column is not None},
        "channels": check_column_names(channels, "channels"),
        "name": name,
        "source": source,
    }
    common["ignore"] = check_column_names(ignore, "ignore") or []
    columns.check_present(frame, common["ignore"], "ignore=", source)
    if series is not None and id is not None:
        raise ValueError(TWICE_IDENTIFIED)
    if series is not None:
        return tables.from_long(frame, series=series, time=time, **common)
    if time is not None:
        raise ValueError(
            f"time={time!r} is for tables with one row a point; name the column that tells series apart with series="
        )
    return wide.from_wide(frame, id=id, **common)
