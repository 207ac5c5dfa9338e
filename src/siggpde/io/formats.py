"""The file formats, their options, and the checks before a file is read; neither numpy nor polars is imported."""

from __future__ import annotations

import codecs
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DUPLICATES = ("error", "first", "last", "mean")
"""What becomes of rows of a series with the same time."""

FOR_TRAINING = ("groups", "sample_weight")
"""Options of values that only a fit needs."""

TABLE_OPTIONS = ("target", "series", "id", "time", "duplicates", "channels", "ignore", "facts", *FOR_TRAINING)

READ_OPTIONS: dict[str, tuple[str, ...]] = {
    "ts": ("reader",),
    "arff": ("reader", "target"),
    "npz": ("part", "target", "ignore", *FOR_TRAINING),
    "npy": ("target", "mmap", *FOR_TRAINING),
    "csv": (*TABLE_OPTIONS, "separator"),
    "parquet": TABLE_OPTIONS,
}
"""Options of `siggpde.io.read` besides `format`, by format."""

STREAM_OPTIONS: dict[str, tuple[str, ...]] = {
    "npy": (),
    "parquet": ("series", "id", "time", "duplicates", "channels", "ignore", "facts"),
}
"""Options of `siggpde.io.stream` besides `format`, by format."""

FORMATS = tuple(READ_OPTIONS)
WRITE_FORMATS = ("npz", "csv", "parquet", "ts")

LATIN = "cp1252"
"""The encoding of text that is not UTF-8: Latin-1 in the variant of Windows."""

MAX_GB = "SIGGPDE_MAX_GB"

_GIGABYTE = 2**30
_USUAL_EXPANSION = 100  # most compressed series become 1 to 10 times larger when they are unpacked
_BYTE_ORDER_MARKS = (  # the longest first: the mark of UTF-16 is the beginning of that of UTF-32
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, kw_only=True)
class ColumnRoles:
    """The columns of a table by their role, named as the options of `read`; ValueError for impossible combinations."""

    target: str | None = None
    series: str | None = None
    id: str | None = None
    time: str | None = None
    duplicates: str | None = None
    channels: Sequence[str] | None = None
    ignore: Sequence[str] | None = None
    facts: Sequence[str] | None = None
    groups: str | None = None
    sample_weight: str | None = None

    def __post_init__(self) -> None:
        for option in ("channels", "ignore", "facts"):
            names = getattr(self, option)
            if names is not None and (isinstance(names, str) or not all(isinstance(name, str) for name in names)):
                raise ValueError(f"{option} must be a list of names; got {names!r}")
        if self.channels is not None and not self.channels:
            raise ValueError("channels must name at least one column; leave it out for all columns of numbers")
        if self.series is not None and self.id is not None:
            raise ValueError(
                "series= names the column of ids already; id= is for tables with one row a series: leave it out"
            )
        if self.duplicates is not None and (self.duplicates not in DUPLICATES or self.time is None):
            fix = "name the column of times with time=" if self.time is None else f"known are {', '.join(DUPLICATES)}"
            raise ValueError(f"duplicates={self.duplicates!r} says what becomes of rows with the same time; {fix}")
        if self.time is not None and self.series is None:
            raise ValueError(
                f"time={self.time!r} is for tables with one row a point; name the column that tells series apart with "
                "series="
            )

    @property
    def values(self) -> dict[str, str]:
        """The columns with one value per series, except that of ids, by option."""
        columns = {"target": self.target, "groups": self.groups, "sample_weight": self.sample_weight}
        return {option: column for option, column in columns.items() if column is not None}

    @property
    def taken(self) -> list[str]:
        """The columns that are not channels."""
        keys = [column for column in (self.series, self.time, self.id) if column is not None]
        return [*keys, *self.values.values(), *(self.ignore or ()), *(self.facts or ())]

    def check(self, columns: Sequence[str], source: str) -> None:
        """Raises ValueError for a column that the table lacks, or that has two roles; `source` is the table's name."""
        channels = list(self.channels or ())
        named = [("series", self.series), ("time", self.time), *self.values.items()]
        named += [("facts", column) for column in self.facts or ()]
        if self.series is not None:  # else `channels` are the beginnings of names
            named += [("channels", column) for column in channels]
        for option, column in [*named, ("id", self.id), *(("ignore", column) for column in self.ignore or ())]:
            if column is not None and column not in columns:
                raise ValueError(f"{source}: there is no column {column!r} for {option}=; {listed(columns)}")
        options: dict[str, str] = {}
        for option, column in named:
            if column is not None and options.setdefault(column, option) != option:
                raise ValueError(
                    f"{source}: column {column!r} is both {options[column]}= and {option}=; choose another for one"
                )
        for option, names in (("channels", channels), ("facts", self.facts or ())):
            if len(set(names)) < len(names):
                raise ValueError(f"{source}: {option}= names a column twice: {', '.join(names)}; name each column once")


def listed(columns: Sequence[str]) -> str:
    """Returns the number and the names of columns for an error message, as `shortened`."""
    return f"the {len(columns)} columns are {shortened(columns, 30)}"


def shortened(names: Sequence[str], most: int) -> str:
    """Returns at most so many names, with commas between them.

    >>> shortened(["x", "y", "z"], 2)
    'x, y, ...'
    """
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


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
    if path.exists() and not path.is_file():
        raise ValueError(
            f"{path} is a pipe or a device, which can be read only once; save it as a file and give its name"
        )
    if not path.is_file():
        near = f"; the folder {path.parent} does not exist either" if not path.parent.is_dir() else ""
        raise FileNotFoundError(f"there is no file {path}{near}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty; expected series")


def check_expansion(source: str, stored: int, expanded: int) -> None:
    """Raises ValueError where `stored` bytes become over SIGGPDE_MAX_GB (1) GB, and over 100 times as many.

    >>> check_expansion("a.npz", 3_000_000, 3_000_000_000)
    Traceback (most recent call last):
    ...
    ValueError: a.npz: 2.9 MB in the file expand to 2.8 GB in memory, 1000 times as much, which whole files of \
series hardly do. If it is right, set the environment variable SIGGPDE_MAX_GB=3
    """
    text = os.environ.get(MAX_GB, "1")
    try:
        gigabytes = float(text)
    except ValueError:
        gigabytes = -1.0
    if not gigabytes >= 0:
        raise ValueError(f"the environment variable {MAX_GB} must be a number of GB, such as 8; got {text!r}")
    if expanded <= gigabytes * _GIGABYTE or expanded <= _USUAL_EXPANSION * max(1, stored):
        return
    raise ValueError(
        f"{source}: {stored / 2**20:.1f} MB in the file expand to {expanded / _GIGABYTE:.1f} GB in memory, "
        f"{expanded // max(1, stored)} times as much, which whole files of series hardly do. If it is right, set the "
        f"environment variable {MAX_GB}={-(-expanded // _GIGABYTE)}"
    )


def encoding_of(head: bytes) -> str:
    """Returns the encoding of a text file, by Python's name for it, from its first bytes."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if max(even, odd) > len(head) // 8:  # letters of most languages in UTF-16 have a byte 0
        return "utf-16-be" if even > odd else "utf-16-le"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the last letter may be cut off
    except UnicodeDecodeError:
        return LATIN
    return "utf-8"


def decode(content: bytes, encoding: str, source: str) -> str:
    """Returns the text of a file without its byte order mark; ValueError, with the file's name, where it is none."""
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeError as error:
        if encoding == LATIN:  # which has five undefined bytes; Latin-1 proper has none
            return content.decode("latin-1")
        raise ValueError(
            f"{source} looks like text in {encoding.upper()}, but is none ({error}); save it as UTF-8"
        ) from error
