"""The ``.arff`` text files of the UEA and UCR archives: numeric attributes as time points, or one relational attribute.

A univariate file has one numeric attribute a time point; a multivariate one has a relational attribute whose value is
quoted text, one channel after another, separated by ``\\n``. The label is the attribute that `target` names, by default
the last one if it is nominal or text, or is called class, target or label.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from siggpde.io.data import SeriesData, stack
from siggpde.io.ts import _numbered_lines as numbered_lines
from siggpde.io.ts import _parse_numbers as parse_numbers

_NUMERIC = ("numeric", "real", "integer")
_LABEL_NAMES = ("class", "target", "label", "classlabel", "targetlabel", "y")
_ATTRIBUTE = re.compile(r"@attribute\s+('[^']*'|\"[^\"]*\"|\S+)\s+(.*)", re.IGNORECASE)
_FIELD = re.compile(r"(?:\s*('[^'\\]*(?:\\.[^'\\]*)*'|\"[^\"\\]*(?:\\.[^\"\\]*)*\")\s*|([^,'\"]*))(?:,|$)")


def read_arff(path: str | os.PathLike[str], target: str | None = None) -> SeriesData:
    """Read an ``.arff`` file; nominal labels are strings, numeric ones floats."""
    source = str(path)
    with open(path, "rb") as file:
        lines = numbered_lines(file)
        name, attributes = _header(lines, source)
        label = _label(attributes, target, source)
        _check_kinds(attributes, label, source)
        rows = [_row(line, attributes, label, f"{source}, line {number}") for number, line in lines]
    if not rows:
        raise ValueError(f"{source}: there are no series after @data")
    for index, (series, _) in enumerate(rows):
        if len(series) != len(rows[0][0]):
            raise ValueError(f"{source}: series {index} has {len(series)} channels, but series 0 has {len(rows[0][0])}")
    y = None
    if label is not None:
        texts = [text for _, text in rows]
        numeric = attributes[label][1] in _NUMERIC
        y = (
            parse_numbers(",".join(texts), f"{source}, attribute {attributes[label][0]}")
            if numeric
            else np.array(texts)
        )
    return SeriesData(X=stack([series for series, _ in rows]), y=y, name=name or Path(path).stem)


def _header(lines: Iterator[tuple[int, str]], source: str) -> tuple[str | None, list[tuple[str, str]]]:
    """The name of the relation, and (name, type) of every attribute except those inside a relational one."""
    name, inside = None, False
    attributes: list[tuple[str, str]] = []
    for number, line in lines:
        key = line.split()[0].lower()
        if key == "@data":
            if not attributes:
                raise ValueError(f"{source}: there are no @attribute lines before @data")
            return name, attributes
        if key == "@relation":
            name = _unquoted(line[len(key) :].strip()) or None
        elif key == "@end":
            inside = False
        elif key == "@attribute":
            match = _ATTRIBUTE.match(line)
            if match is None:
                raise ValueError(f"{source}, line {number}: expected @attribute name type; got {line[:60]!r}")
            kind = match[2].strip()
            if not inside:
                attributes.append((_unquoted(match[1]), kind.split()[0].lower() if kind[0] != "{" else "nominal"))
            inside = inside or kind.lower().startswith("relational")
        else:
            raise ValueError(f"{source}, line {number}: expected @relation, @attribute or @data; got {line[:40]!r}")
    raise ValueError(f"{source}: there is no @data line, so this is not an .arff file, or it is cut off")


def _label(attributes: list[tuple[str, str]], target: str | None, source: str) -> int | None:
    names = [name for name, _ in attributes]
    if target is not None:
        if target not in names:
            listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
            raise ValueError(f"{source}: there is no attribute {target!r} for the labels; the file has {listed}")
        return names.index(target)
    name, kind = attributes[-1]
    if kind in _NUMERIC:
        return len(names) - 1 if name.lower() in _LABEL_NAMES and len(names) > 1 else None
    return None if kind == "relational" else len(names) - 1


def _check_kinds(attributes: list[tuple[str, str]], label: int | None, source: str) -> None:
    rest = [attribute for index, attribute in enumerate(attributes) if index != label]
    if [kind for _, kind in rest] == ["relational"]:
        return
    if not rest:
        raise ValueError(f"{source}: there are no time points, only the label {attributes[0][0]!r}")
    for name, kind in rest:
        if kind not in _NUMERIC:
            raise ValueError(f"{source}: attribute {name!r} is {kind}, not numeric; time points must be")


def _row(line: str, attributes: list[tuple[str, str]], label: int | None, where: str) -> tuple[np.ndarray, str]:
    """A series (n_channels, n_timepoints) and the text of its label."""
    if line.startswith("{"):
        raise ValueError(f"{where}: sparse rows are not series; write the row with all its values")
    fields = _fields(line, where)
    if len(fields) != len(attributes):
        raise ValueError(f"{where}: {len(fields)} values for {len(attributes)} attributes; is the file cut off?")
    text = "" if label is None else _unquoted(fields.pop(label))
    if any(kind == "relational" for _, kind in attributes):
        channels = [parse_numbers(channel, where) for channel in _unquoted(fields[0]).split("\\n")]
        if len({len(channel) for channel in channels}) > 1:
            raise ValueError(
                f"{where}: its channels have {sorted({len(c) for c in channels})} points; they must be equal"
            )
        return np.array(channels), text
    return parse_numbers(",".join(fields), where)[None, :], text


def _fields(line: str, where: str) -> list[str]:
    if "'" not in line and '"' not in line:  # as in univariate files
        return [field.strip() for field in line.split(",")]
    fields, position = [], 0
    while position < len(line):
        match = _FIELD.match(line, position)
        if match is None:
            raise ValueError(
                f"{where}: a quote is not closed at {line[position : position + 40]!r}; is the file cut off?"
            )
        fields.append((match[1] or match[2] or "").strip())
        position = match.end()
    return fields


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0] else text
