"""The ``.ts`` text files of the UEA and UCR archives: one series a line, channels separated by colons, the label last.

The header gives what the lines cannot: the name, whether there are time stamps and labels, and whether labels are
classes or targets. Headers of the archives are not reliable about the rest (``@dimension`` or ``@dimensions``,
capitals, blank lines, comments, wrong ``@missing``), so the numbers of channels and points are counted in the lines.

This reader is the default even where aeon is installed, because aeon's loses information: it turns labels into lower
case, and drops time stamps together with signs and exponents.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from siggpde.io.data import SeriesData, default_names, stack
from siggpde.io.timestamps import read_stamped

_YES = {"true": True, "false": False}


@dataclass
class Header:
    """The lines before ``@data``; None where a line is missing."""

    name: str | None = None
    timestamps: bool = False
    equal_length: bool | None = None
    classes: bool | None = None
    targets: bool | None = None
    class_values: list[str] = field(default_factory=list)
    dimension: int | None = None

    def labelled(self, first: str) -> bool:
        """Whether lines end in a label: by the header or, where it is silent, by the first line."""
        if self.classes is not None or self.targets is not None:
            return bool(self.classes or self.targets)
        if self.timestamps:
            return not first.endswith((")", "):"))
        return first.count(":") + 1 > (self.dimension or 1)


def read_ts(path: str | os.PathLike[str]) -> SeriesData:
    """Read a ``.ts`` file: labels as strings, or floats where the header says ``@targetLabel true``."""
    with open(path, "rb") as file:
        return parse_ts(file, str(path), Path(path).stem)


def parse_ts(file: BinaryIO | Iterable[bytes], source: str, stem: str) -> SeriesData:
    """Parse the lines of a ``.ts`` file; `source` is what errors call it, `stem` its name if the header gives none."""
    lines = numbered_lines(file)
    header = _header(lines, source)
    rows: list[tuple[int, NDArray[np.float64]]] = []
    labels: list[str] = []
    labelled: bool | None = None
    for number, line in lines:
        where = f"{source}, line {number}"
        if labelled is None:
            labelled = header.labelled(line)
        series, label = (read_stamped if header.timestamps else _read_plain)(line, labelled, where)
        rows.append((number, series))
        if label is not None:
            _check_label(label, header, where)
            labels.append(label)
        _check_row(rows, header, source)
    if not rows:
        raise ValueError(f"{source}: there are no series after @data")
    arrays = [series for _, series in rows]
    time_channel = 0 if header.timestamps else None
    return SeriesData(
        X=stack(arrays),
        y=_targets(labels, header, source) if labels else None,
        channel_names=default_names(len(arrays[0]), time_channel),
        time_channel=time_channel,
        name=header.name or stem,
    )


def numbered_lines(file: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Line numbers (from 1) and stripped lines, without blank lines and comments."""
    for number, raw in enumerate(file, start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError:  # descriptions in older files are in Latin-1
            line = raw.decode("latin-1").strip()
        if line and line[0] not in "#%":
            yield number, line


def _header(lines: Iterator[tuple[int, str]], source: str) -> Header:
    header = Header()
    for number, line in lines:
        if not line.startswith("@"):
            raise ValueError(
                f"{source}, line {number}: expected a line that starts with @ before @data; got {line[:40]!r}"
            )
        key, *values = line[1:].split() or [""]
        key = key.lower()
        if key == "data":
            return header
        first = values[0].lower() if values else ""
        if key == "problemname":
            header.name = " ".join(values) or None
        elif key in ("timestamps", "equallength", "classlabel", "targetlabel"):
            if first not in _YES:
                raise ValueError(f"{source}, line {number}: {line.split()[0]} must be true or false; got {line[:60]!r}")
            _set(header, key, _YES[first], values[1:])
        elif key in ("dimension", "dimensions") and re.fullmatch("[0-9]{1,9}", first):
            header.dimension = int(first)
    raise ValueError(f"{source}: there is no @data line, so this is not a .ts file, or it is cut off")


def _set(header: Header, key: str, value: bool, rest: list[str]) -> None:
    if key == "timestamps":
        header.timestamps = value
    elif key == "equallength":
        header.equal_length = value
    elif key == "targetlabel":
        header.targets = value
    else:
        header.classes, header.class_values = value, rest if value else []


def _read_plain(line: str, labelled: bool, where: str) -> tuple[NDArray[np.float64], str | None]:
    """A series (n_channels, n_timepoints) and its label."""
    tokens, label = line.split(":"), None
    if labelled:
        label = tokens.pop().strip()
        if not tokens:
            raise ValueError(f"{where}: there is no label after the series; is the file cut off?")
    elif len(tokens) > 1 and not tokens[-1].strip():  # so aeon ends lines without labels
        tokens.pop()
    return _channels(tokens, where), label


def _channels(tokens: list[str], where: str) -> NDArray[np.float64]:
    """(n_channels, n_timepoints), from one text of numbers a channel."""
    channels = [parse_numbers(token, f"{where}, channel {index}") for index, token in enumerate(tokens)]
    for index, channel in enumerate(channels):
        if len(channel) != len(channels[0]):
            raise ValueError(
                f"{where}: channel {index} has {len(channel)} points, but channel 0 has {len(channels[0])}; "
                "the channels of a series must be equally long"
            )
    return np.array(channels)


def parse_numbers(text: str, where: str) -> NDArray[np.float64]:
    """(n,) from n numbers separated by commas; ``?`` and ``NaN`` are missing values."""
    if "?" in text:
        text = text.replace("?", "nan")
    fields = text.split(",")
    try:
        return np.array(fields, dtype=np.float64)
    except ValueError:
        for point, field_text in enumerate(fields):
            try:
                float(field_text)
            except ValueError:
                raise ValueError(
                    f"{where}, point {point}: expected a number, ? or NaN; got {field_text.strip()[:40]!r}"
                ) from None
        raise


def _check_row(rows: list[tuple[int, NDArray[np.float64]]], header: Header, source: str) -> None:
    (start, first), (number, last) = rows[0], rows[-1]
    if len(last) != len(first):
        raise ValueError(
            f"{source}, line {number}: {len(last)} channels, but line {start} has {len(first)}; is the file cut off, "
            "or a label missing?"
        )
    if header.equal_length and not header.timestamps and last.shape != first.shape:
        raise ValueError(
            f"{source}, line {number}: {last.shape[1]} points, but line {start} has {first.shape[1]} and the header "
            "says @equalLength true; is the file cut off? If not, write @equalLength false"
        )


def _check_label(label: str, header: Header, where: str) -> None:
    """Raises ValueError for a label that the header does not list: most often the line is cut off."""
    if not label:
        raise ValueError(f"{where}: there is no label after the series; is the file cut off?")
    known = header.class_values
    if not known or label in known or header.targets:
        return
    lower_case = {value.lower() for value in known}
    if label.lower() in lower_case or set(label.lower().split()) <= lower_case:
        return
    number = _number(label)
    if number is None or all(_number(value) != number for value in known):
        listed = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
        raise ValueError(f"{where}: label {label!r} is not among those of @classLabel ({listed}); is the file cut off?")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _targets(labels: list[str], header: Header, source: str) -> NDArray[Any]:
    if not header.targets:
        return np.array(labels)
    for index, label in enumerate(labels):
        if _number(label.replace("?", "nan")) is None:
            raise ValueError(f"{source}: the target of series {index} must be a number (@targetLabel); got {label!r}")
    return np.array([float(label.replace("?", "nan")) for label in labels])
