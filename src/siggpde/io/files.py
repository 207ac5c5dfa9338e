"""`read`, `from_frame` and `write`, which choose a reader or writer by the format."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from siggpde.io.arrays import read_npy, read_npz, write_npz
from siggpde.io.data import SeriesData
from siggpde.io.formats import WRITE_FORMATS, ColumnRoles, check_file, check_options, format_of
from siggpde.io.ts import read_arff, read_by_aeon, read_ts, write_ts
from siggpde.utils.files import atomic_write

if TYPE_CHECKING:
    import pandas
    import polars

log = logging.getLogger(__name__)


def read(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    series: str | None = None,
    id: str | None = None,
    time: str | None = None,
    duplicates: Literal["error", "first", "last", "mean"] | None = None,
    channels: Sequence[str] | None = None,
    part: str | None = None,
    format: str | None = None,
    ignore: Sequence[str] | None = None,
    facts: Sequence[str] | None = None,
    groups: str | None = None,
    sample_weight: str | None = None,
    separator: str | None = None,
    reader: Literal["auto", "own", "aeon"] = "auto",
    mmap: bool = False,
) -> SeriesData:
    """Reads series, and labels if there are any, from a file.

    Parameters
    ----------
    path : path
        A ``.ts``, ``.arff``, ``.npz``, ``.npy``, ``.csv`` or ``.parquet`` file.
    target : str, optional
        The labels: a column of a table; an attribute of ``.arff`` (by default the last); a member of ``.npz`` (by
        default ``y``); for arrays also a file, ``.npy``, or ``.csv`` or ``.txt`` with one label a line.
    series : str, optional
        Tables with one row a point ("long"): the column with the ids of series. Without it a table has one row a
        series ("wide"), whose other columns of numbers are points.
    id : str, optional
        Wide tables: the column with the ids of series.
    time : str, optional
        Long tables: the column of times, numbers or dates. Rows are sorted by it, and it becomes channel 0, dates in
        seconds. Without it rows keep the order of the file.
    duplicates : {"error", "first", "last", "mean"}, optional
        What becomes of rows of a series with the same time: an error (the default) that says how many there are and
        where, or one row with the first or the last value that each channel has there, or their mean.
    channels : list of str, optional
        Long tables: the columns of the channels (by default all other columns of numbers). Wide tables: names such as
        ``["x", "y"]`` of channels in columns ``x_0``, ``x_1``, ..., ``y_0``, ... (by default all such names).
    part : {"train", "test"}, optional
        For an ``.npz`` file with both parts.
    format : str, optional
        The format where the suffix does not tell it: ``"ts"``, ``"csv"``, ...
    ignore : list of str, optional
        Tables: columns to leave out. ``.npz``: members to leave out, which are otherwise refused where their names are
        not known.
    facts : list of str, optional
        Tables: columns of what is known beside the series, such as age, equal in all rows of a series; cells may be
        empty.
    groups : str, optional
        The group of each series, such as a person: a column, a member of ``.npz`` (by default ``groups``), or a file
        as for `target`.
    sample_weight : str, optional
        The weight of each series: as `groups`; the member is by default ``sample_weight``.
    separator : str, optional
        ``.csv``: the mark between cells; by default it is told by the first lines.
    reader : {"auto", "own", "aeon"}
        ``.ts`` and ``.arff``: "aeon" reads with aeon's reader, which loses time stamps and the case of labels.
    mmap : bool
        ``.npy``: leave the series on disk, as `numpy.memmap` in the dtype of the file.

    Returns
    -------
    SeriesData

    Examples
    --------
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
    columns: dict[str, Any] = {
        "target": target, "series": series, "id": id, "time": time, "duplicates": duplicates,
        "channels": channels, "ignore": ignore, "facts": facts, "groups": groups, "sample_weight": sample_weight,
    }  # fmt: skip
    chosen = None if reader == "auto" else reader
    check_options(kind, {**columns, "part": part, "separator": separator, "reader": chosen, "mmap": mmap or None})
    if reader not in ("auto", "own", "aeon"):
        raise ValueError(f"reader must be 'auto', 'own' or 'aeon'; got {reader!r}")
    check_file(path)
    if reader == "aeon":
        if target is not None:
            raise ValueError("aeon takes the last attribute as label; leave target out, or choose reader='own'")
        return read_by_aeon(path, kind)
    if kind == "ts":
        return read_ts(path)
    if kind == "arff":
        return read_arff(path, target)
    named = {"y": target, "groups": groups, "sample_weight": sample_weight}
    if kind == "npz":
        return read_npz(path, named, part, ignore or ())
    if kind == "npy":
        return read_npy(path, named, mmap=mmap)
    from siggpde.io.frames import open_csv, read_parquet  # noqa: PLC0415 - polars takes long to import

    roles = ColumnRoles(**columns)
    if kind == "parquet":
        return read_parquet(path, roles)
    with open_csv(path, separator) as table:
        return table.series(roles)


def from_frame(
    frame: polars.DataFrame | polars.LazyFrame | pandas.DataFrame,
    *,
    target: str | None = None,
    series: str | None = None,
    id: str | None = None,
    time: str | None = None,
    duplicates: Literal["error", "first", "last", "mean"] | None = None,
    channels: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    facts: Sequence[str] | None = None,
    groups: str | None = None,
    sample_weight: str | None = None,
    name: str = "frame",
) -> SeriesData:
    """Returns the series of a table of polars or pandas; an index of pandas is left out.

    Parameters
    ----------
    frame : polars.DataFrame, polars.LazyFrame or pandas.DataFrame
        The table.
    target, series, id, time, duplicates, channels, ignore, facts, groups, sample_weight
        Those of `read`.
    name : str
        The name of the data.

    Returns
    -------
    SeriesData

    Examples
    --------
    >>> import polars
    >>> from_frame(polars.DataFrame({"x_0": [1, 2], "x_1": [3, None], "kind": ["a", "b"]}), target="kind").X
    [array([[1., 3.]]), array([[2.]])]
    """
    from siggpde.io.frames import as_polars  # noqa: PLC0415 - polars takes long to import
    from siggpde.io.tables import from_table  # noqa: PLC0415

    roles = ColumnRoles(
        target=target, series=series, id=id, time=time, duplicates=duplicates, channels=channels, ignore=ignore,
        facts=facts, groups=groups, sample_weight=sample_weight,
    )  # fmt: skip
    return from_table(as_polars(frame, series), roles, name, "the frame")


def write(
    path: str | os.PathLike[str],
    data: SeriesData,
    *,
    format: str | None = None,
    force: bool = False,
    series: str = "series",
    target: str = "target",
    groups: str = "group",
    sample_weight: str = "weight",
) -> None:
    """Writes series to a file, atomically; `read` gives them back.

    - ``.npz`` holds everything, and `read` takes all of it by itself.
    - ``.csv`` and ``.parquet`` hold everything in one row a point. Read them with ``series="series"`` and, for what
      there is, ``target="target"``, ``groups="group"``, ``sample_weight="weight"``, ``facts=`` their names and
      ``time=`` the name of the time channel. Series without ids get numbers. Cells of ``.csv`` have no types: labels
      and ids that look like numbers are read as numbers. An apostrophe is put before those that a spreadsheet would
      run, such as ``=A1``, and taken away by `read`.
    - ``.ts`` holds series, time stamps, labels and the name, but no names of channels, ids, groups, weights or facts.
      Float labels are targets; other labels are classes, read as strings.

    Parameters
    ----------
    path : path
        A ``.npz``, ``.csv``, ``.parquet`` or ``.ts`` file.
    data : SeriesData
    format : str, optional
        The format where the suffix does not tell it.
    force : bool
        Replace an existing file.
    series, target, groups, sample_weight : str
        Names of columns of ``.csv`` and ``.parquet``.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> from siggpde.io import SeriesData, read
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "small.npz"
    >>> write(file, SeriesData([np.ones((1, 3)), np.ones((1, 2))], y=np.array([True, False])))
    >>> read(file)
    SeriesData('series': 2 series, 1 channels, lengths 2 to 3, labels)
    """
    path = Path(path)
    if not isinstance(data, SeriesData):
        raise ValueError(f"expected SeriesData, as `read` gives it; got {type(data).__name__}")
    kind = (path.suffix if format is None else format).removeprefix(".").lower()
    if kind not in WRITE_FORMATS:
        known = ", ".join(f".{name}" for name in WRITE_FORMATS)
        raise ValueError(f"series are written as {known}; got {path.name if format is None else format!r}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to")
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists already; choose another name, or force=True to replace it")
    if not len(data) or not data.lengths.all():
        raise ValueError("there must be at least one series, and every series needs at least one point")
    if kind == "ts" and data.facts:
        log.warning("%s: .ts files have no facts, so that %s are lost; .npz, .csv and .parquet keep them",
                    path, ", ".join(data.facts))  # fmt: skip
    with atomic_write(path) as file:
        if kind == "npz":
            write_npz(file, data)
        elif kind == "ts":
            write_ts(file, data)
        else:
            from siggpde.io.frames import spreadsheet_safe  # noqa: PLC0415 - polars takes long to import
            from siggpde.io.tables import as_table  # noqa: PLC0415

            table = as_table(data, series, {"target": target, "groups": groups, "sample_weight": sample_weight})
            if kind == "csv":
                spreadsheet_safe(table).write_csv(file)
            else:
                table.write_parquet(file)
