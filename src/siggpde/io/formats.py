"""The file formats, and the options that each one takes: the one list that reading, streaming and the CLI go by.

Imports nothing heavy, so that the command line can list formats and options without numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TABLE_OPTIONS = ("target", "series", "id", "time", "channels", "ignore", "groups", "sample_weight")

FOR_TRAINING = ("groups", "sample_weight")
"""Options that say what a fit has to know of every series; who predicts or evaluates does without."""

TWICE_IDENTIFIED = "series= names the column of ids already; id= is for tables with one row a series: leave it out"

READ_OPTIONS: dict[str, tuple[str, ...]] = {
    "ts": ("reader",),
    "arff": ("reader", "target"),
    "npz": ("part", "target", *FOR_TRAINING),
    "npy": ("target", "mmap", *FOR_TRAINING),
    "csv": (*TABLE_OPTIONS, "separator"),
    "parquet": TABLE_OPTIONS,
}
"""Options of `siggpde.io.read` besides `format`, by format."""

STREAM_OPTIONS: dict[str, tuple[str, ...]] = {
    "npy": (),
    "parquet": tuple(
        option for option in TABLE_OPTIONS if option not in ("target", *FOR_TRAINING)
    ),  # only series are streamed
}
"""Options of `siggpde.io.stream` besides `format`, by format."""

FORMATS = tuple(READ_OPTIONS)
WRITE_FORMATS = ("npz", "csv", "parquet", "ts")


def suffix_of(path: Path) -> str:
    """Returns the suffix of a file name in lower case, without the dot; "" where there is none."""
    return path.suffix.removeprefix(".").lower()


def format_of(path: Path, chosen: str | None) -> str:
    """Returns the format of a file: `chosen` if given, otherwise by suffix. ValueError if it is none of `FORMATS`."""
    kind = suffix_of(path) if chosen is None else chosen.removeprefix(".").lower()
    if kind not in FORMATS:
        known = ", ".join(f".{name}" for name in FORMATS)
        what = f"the suffix of {path}" if chosen is None else f"format={chosen!r}"
        raise ValueError(f"{what} is not a known format; known are {known} (say which with format=)")
    return kind


def check_options(kind: str, given: Mapping[str, Any], known: Mapping[str, Sequence[str]] = READ_OPTIONS) -> None:
    """Raises ValueError for an option that is given (is not None) but that the format does not take."""
    for option, value in given.items():
        if value is not None and option not in known[kind]:
            formats = ", ".join(name for name in known if option in known[name])
            raise ValueError(f"{option}={value!r} has no meaning for .{kind} files (only for {formats}); leave it out")


def check_file(path: Path) -> None:
    """Raises an error that says what is wrong unless `path` is a file with something in it."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the path of a file")
    if not path.is_file():
        near = f"; the folder {path.parent} does not exist either" if not path.parent.is_dir() else ""
        raise FileNotFoundError(f"there is no file {path}{near}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty; expected series")


def check_column_names(given: Sequence[str] | None, option: str) -> list[str] | None:
    """Returns the column names given for `option` as a list; ValueError for anything but a list of strings."""
    if given is None:
        return None
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise ValueError(f"{option} must be a list of names; got {given!r}")
    if option == "channels" and not given:
        raise ValueError("channels must name at least one column; leave it out for all columns of numbers")
    return list(given)
