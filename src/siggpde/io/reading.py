"""One function to read them all: by suffix, with options checked against the format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from siggpde.io.arff import read_arff
from siggpde.io.arrays import read_npy, read_npz
from siggpde.io.data import SeriesData
from siggpde.io.through_aeon import read_through_aeon
from siggpde.io.ts import read_ts

if TYPE_CHECKING:
    import pandas
    import polars

_TABLE = {"target", "series", "time", "channels", "ignore"}
_OPTIONS = {
    "ts": {"reader"},
    "arff": {"reader", "target"},
    "npz": {"part", "target"},
    "npy": {"target", "mmap"},
    "csv": _TABLE | {"separator"},
    "parquet": _TABLE,
}
FORMATS = tuple(_OPTIONS)


def read(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    series: str | None = None,
    time: str | None = None,
    channels: Sequence[str] | None = None,
    part: str | None = None,
    format: str | None = None,
    ignore: Sequence[str] | None = None,
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
        time: long form: the column of times, numbers or dates. Rows are sorted by it, and it becomes channel 0, dates
            in seconds. Without it, rows are taken in the order of the file.
        channels: long form: the columns to read (by default all that are left and hold numbers); wide form: names
            such as ``["x", "y"]`` where columns are called ``x_0``, ``x_1``, ..., ``y_0``, ...
        part: ``"train"`` or ``"test"``, for an ``.npz`` file with both.
        format: the format, where the suffix does not tell: ``"ts"``, ``"csv"``, ...
        ignore: tables: columns to leave out.
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
    kind = _format(path, format)
    options = {"target": target, "series": series, "time": time, "channels": channels, "part": part, "ignore": ignore}
    options |= {"separator": separator, "reader": None if reader == "auto" else reader, "mmap": mmap or None}
    for option, value in options.items():
        if value is not None and option not in _OPTIONS[kind]:
            fitting = ", ".join(name for name in FORMATS if option in _OPTIONS[name])
            raise ValueError(f"{option}={value!r} has no meaning for .{kind} files (only for {fitting}); leave it out")
    if reader not in ("auto", "own", "aeon"):
        raise ValueError(f"reader must be 'auto', 'own' or 'aeon'; got {reader!r}")
    _check_file(path)
    if kind in ("ts", "arff"):
        if reader == "aeon":
            if target is not None:
                raise ValueError("aeon takes the last attribute as label; leave target out, or choose reader='own'")
            return read_through_aeon(path, kind)
        return read_ts(path) if kind == "ts" else read_arff(path, target)
    if kind == "npz":
        return read_npz(path, part=part, target=target)
    if kind == "npy":
        return read_npy(path, target=target, mmap=mmap)
    from siggpde.io import frames  # noqa: PLC0415  polars takes a while to import, and other formats need none

    if kind == "csv":
        texts = [column for column in (series, target) if column is not None]
        frame = frames.read_csv(path, texts, "," if separator is None else separator)
    else:
        frame = frames.read_parquet(path)
    return _from_table(frame, target, series, time, channels, ignore, path.stem, str(path))


def from_frame(
    frame: polars.DataFrame | polars.LazyFrame | pandas.DataFrame,
    *,
    target: str | None = None,
    series: str | None = None,
    time: str | None = None,
    channels: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    name: str = "frame",
) -> SeriesData:
    """Series from a table of polars or pandas, with the options of `read`; an index of pandas is left out.

    Examples:
        >>> import polars
        >>> from_frame(polars.DataFrame({"x_0": [1, 2], "x_1": [3, None], "kind": ["a", "b"]}), target="kind").X
        [array([[1., 3.]]), array([[2.]])]
    """
    from siggpde.io.frames import as_polars  # noqa: PLC0415

    return _from_table(as_polars(frame), target, series, time, channels, ignore, name, "the frame")


def _from_table(
    frame: polars.DataFrame,
    target: str | None,
    series: str | None,
    time: str | None,
    channels: Sequence[str] | None,
    ignore: Sequence[str] | None,
    name: str,
    place: str,
) -> SeriesData:
    from siggpde.io import columns, tables  # noqa: PLC0415

    common: dict[str, Any] = {"target": target, "channels": _names(channels, "channels"), "name": name, "place": place}
    common["ignore"] = _names(ignore, "ignore") or []
    columns.check_present(frame, common["ignore"], "ignore=", place)
    if series is not None:
        return tables.from_long(frame, series=series, time=time, **common)
    if time is not None:
        raise ValueError(
            f"time={time!r} is for tables with one row a point; name the column that tells series apart with series="
        )
    return tables.from_wide(frame, **common)


def _names(given: Sequence[str] | None, option: str) -> list[str] | None:
    if given is None:
        return None
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise ValueError(f"{option} must be a list of names; got {given!r}")
    if option == "channels" and not given:
        raise ValueError("channels must name at least one column; leave it out for all columns of numbers")
    return list(given)


def _format(path: Path, chosen: str | None) -> str:
    kind = path.suffix.removeprefix(".").lower() if chosen is None else chosen.removeprefix(".").lower()
    if kind not in FORMATS:
        known = ", ".join(f".{name}" for name in FORMATS)
        what = f"the suffix of {path}" if chosen is None else f"format={chosen!r}"
        raise ValueError(f"{what} is not a known format; known are {known} (say which with format=)")
    return kind


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the path of a file")
    if not path.is_file():
        near = f"; the folder {path.parent} does not exist either" if not path.parent.is_dir() else ""
        raise FileNotFoundError(f"there is no file {path}{near}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty; expected series")
