"""The text files of the UEA and UCR archives: ``.ts``, whose headers are unreliable, and ``.arff`` by scipy's reader;
aeon's loses the case of labels and signs of time stamps. Channels with other stamps get their union, with NaN."""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.recfunctions import structured_to_unstructured
from numpy.typing import NDArray

from siggpde.io.data import SeriesData, default_names, stack
from siggpde.io.formats import decode, encoding_of, shortened

_YES = {"true": True, "false": False}
_FLAGS = {"timestamps": "timestamps", "equallength": "equal_length", "classlabel": "classes", "targetlabel": "targets"}
_POINT = re.compile(r"\(([^(),]*),([^(),]*)\)\s*")  # no two parts take the same spaces: time grows with the line only
_NEXT_CHANNEL = re.compile(r"\s*(?=\()")
_ARFF_LABELS = ("class", "target", "label", "classlabel", "targetlabel", "y")


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
        """Returns whether lines end in a label: by the header or, where it is silent, by the first line."""
        if self.classes is not None or self.targets is not None:
            return bool(self.classes or self.targets)
        if self.timestamps:
            return not first.endswith((")", "):"))
        return first.count(":") + 1 > (self.dimension or 1)


def read_ts(path: str | os.PathLike[str]) -> SeriesData:
    """Reads a ``.ts`` file: labels as strings, or floats where the header says ``@targetLabel true``."""
    with open(path, "rb") as file:
        return parse_ts(file, str(path), Path(path).stem)


def parse_ts(file: BinaryIO | Iterable[bytes], source: str, stem: str) -> SeriesData:
    """Parses the lines of a ``.ts`` file; errors call it `source`, and `stem` is its name if the header has none."""
    lines = _numbered_lines(file)
    header = _header(lines, source)
    rows: list[tuple[int, NDArray[np.float64]]] = []
    labels: list[str] = []
    labelled: bool | None = None
    for number, line in lines:
        where = f"{source}, line {number}"
        if labelled is None:
            labelled = header.labelled(line)
        series, label = (_read_stamped if header.timestamps else _read_plain)(line, labelled, where)
        rows.append((number, series))
        if labelled:
            _check_label(label, header, where)
            labels.append(label)
        _check_row(rows, header, source)
    if not rows:
        raise ValueError(f"{source}: there are no series after @data")
    arrays = [series for _, series in rows]
    time_channel, y = 0 if header.timestamps else None, np.array(labels)
    if header.targets:
        targets = [_number(label.replace("?", "nan")) for label in labels]
        if None in targets:
            index = targets.index(None)
            raise ValueError(
                f"{source}: the target of series {index} must be a number (@targetLabel); got {labels[index]!r}"
            )
        y = np.array(targets, dtype=np.float64)
    return SeriesData(
        X=stack(arrays),
        y=y if labels else None,
        channel_names=default_names(len(arrays[0]), time_channel),
        time_channel=time_channel,
        name=header.name or stem,
    )


def _numbered_lines(file: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Returns line numbers (from 1) and stripped lines, without blank lines and comments."""
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
        elif key in _FLAGS:
            if first not in _YES:
                raise ValueError(f"{source}, line {number}: {line.split()[0]} must be true or false; got {line[:60]!r}")
            setattr(header, _FLAGS[key], _YES[first])
            if key == "classlabel":
                header.class_values = values[1:] if header.classes else []
        elif key in ("dimension", "dimensions") and re.fullmatch("[0-9]{1,9}", first):
            header.dimension = int(first)
    raise ValueError(f"{source}: there is no @data line, so this is not a .ts file, or it is cut off")


def _read_plain(line: str, labelled: bool, where: str) -> tuple[NDArray[np.float64], str]:
    """Returns a series (n_channels, n_timepoints) and its label, "" where there is none."""
    *tokens, label = line.split(":") if labelled else [*line.split(":"), ""]
    if not labelled and len(tokens) > 1 and not tokens[-1].strip():  # so aeon ends lines without labels
        tokens.pop()
    channels = [_parse_numbers(token, f"{where}, channel {index}") for index, token in enumerate(tokens)]
    for index, channel in enumerate(channels):
        if len(channel) != len(channels[0]):
            raise ValueError(
                f"{where}: channel {index} has {len(channel)} points, but channel 0 has {len(channels[0])}; "
                "the channels of a series must be equally long"
            )
    return np.array(channels), label.strip() if tokens else ""


def _parse_numbers(text: str, where: str) -> NDArray[np.float64]:
    """Returns (n,) from n numbers separated by commas; ``?`` and ``NaN`` are missing values."""
    if "?" in text:
        text = text.replace("?", "nan")
    fields = text.split(",")
    try:
        return np.array(fields, dtype=np.float64)
    except ValueError:
        for point, cell in enumerate(fields):
            _value(cell.strip(), f"{where}, point {point}")
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
        raise ValueError(
            f"{where}: label {label!r} is not among those of @classLabel ({shortened(known, 10)}); is the file cut off?"
        )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _read_stamped(line: str, labelled: bool, where: str) -> tuple[NDArray[np.float64], str]:
    """Returns a series (1 + n_channels, n_timepoints), sorted by the times in channel 0, and its label."""
    channels: list[dict[float, float]] = [{}]
    position = 0
    while True:
        point = _POINT.match(line, position)
        if point is None:
            raise ValueError(f"{where}: expected a point (time,value) at {line[position : position + 40]!r}")
        time, value = _time(point[1].strip(), where), _value(point[2].strip(), where)
        if time in channels[-1]:
            raise ValueError(f"{where}: time {point[1].strip()} occurs twice in channel {len(channels) - 1}")
        channels[-1][time] = value
        position = point.end()
        after, position = line[position : position + 1], position + 1
        if after == ",":
            continue
        if after == ":" and (start := _NEXT_CHANNEL.match(line, position)):
            channels.append({})
            position = start.end()
            continue
        break
    label = line[position:].strip() if after == ":" or not labelled else ""
    if not labelled and (label or after not in ("", ":")):
        raise ValueError(f"{where}: expected the end of the line; got {line[position - 1 :][:40]!r}")
    times = sorted(set().union(*channels))
    values = [[channel.get(time, np.nan) for time in times] for channel in channels]
    return np.array([times, *values]), label


def _time(text: str, where: str) -> float:
    """Returns a number as it is, and a date as seconds since 1970, in UTC where it names no zone."""
    try:
        time = float(text)
    except ValueError:
        try:
            date = datetime.fromisoformat(text)
            return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            raise ValueError(
                f"{where}: a time must be a number or a date such as 2007-01-01 00:00:00; got {text[:40]!r}"
            ) from None
    if not np.isfinite(time):
        raise ValueError(f"{where}: a time must be finite; got {text[:40]!r}")
    return time


def _value(text: str, where: str) -> float:
    try:
        return np.nan if text == "?" else float(text)
    except ValueError:
        raise ValueError(f"{where}: expected a number, ? or NaN; got {text[:40]!r}") from None


def read_arff(path: str | os.PathLike[str], target: str | None = None) -> SeriesData:
    """Reads an ``.arff`` file by scipy; the label is `target`, or the last attribute if it is nominal or called so."""
    from scipy.io.arff import loadarff  # noqa: PLC0415 - takes a while to import

    content = Path(path).read_bytes()
    try:
        table, meta = loadarff(io.StringIO(decode(content, encoding_of(content), str(path))))
        kinds = dict(zip(meta.names(), meta.types(), strict=True))
    except Exception as error:  # scipy raises many kinds for a damaged file, also StopIteration
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ValueError(f"{path} is no .arff file of series that scipy can read ({why}); is it cut off?") from error
    if target is not None and target not in kinds:
        has = shortened(list(kinds), 20)
        raise ValueError(f"{path}: there is no attribute {target!r} for the labels; the file has {has}")
    last = next(reversed(kinds), None)
    if target is None and last is not None and (kinds[last] == "nominal" or last.lower() in _ARFF_LABELS):
        target = last
    points = [name for name in kinds if name != target]
    if not points or not len(table):
        raise ValueError(f"{path}: there are no series after @data, or no attributes besides the label")
    if [kinds[name] for name in points] == ["relational"]:
        series = [structured_to_unstructured(channels, np.float64) for channels in table[points[0]]]
    elif wrong := [name for name in points if kinds[name] != "numeric"]:
        raise ValueError(f"{path}: attribute {wrong[0]!r} is {kinds[wrong[0]]}, not numeric; time points must be")
    else:
        series = list(structured_to_unstructured(table[points], np.float64)[:, None, :])
    y = None if target is None else table[target]
    if y is not None and y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8")
    try:
        return SeriesData(X=stack(series), y=y, name=meta.name or Path(path).stem)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def read_by_aeon(path: Path, kind: str) -> SeriesData:
    """Reads a ``.ts`` or ``.arff`` file by aeon."""
    try:
        from aeon.datasets import load_from_arff_file, load_from_ts_file  # noqa: PLC0415
    except ImportError as error:
        raise ImportError('reader="aeon" needs aeon: pip install aeon, or choose reader="own"') from error
    try:
        loaded = load_from_ts_file(str(path)) if kind == "ts" else load_from_arff_file(str(path))
    except Exception as error:  # aeon raises many kinds for a damaged file
        raise ValueError(f'{path}: aeon cannot read it ({error}); try reader="own"') from error
    x, y = loaded[0], loaded[1]
    if not len(x):
        raise ValueError(f"{path}: there are no series after @data")
    series = [np.asarray(one, dtype=np.float64) for one in x]
    return SeriesData(X=stack(series), y=np.asarray(y) if len(y) else None, name=path.stem)


def write_ts(file: BinaryIO, data: SeriesData) -> None:
    """Writes a ``.ts`` file: series, time stamps, labels and the name."""
    stamped = data.time_channel is not None
    channels = data.n_channels - stamped
    if channels == 0:
        raise ValueError("a .ts file needs at least one channel besides time")
    lengths, equal = data.lengths, len(set(data.lengths.tolist())) == 1
    missing = any(np.isnan(np.asarray(one, dtype=np.float64)).any() for one in data.X)
    labels = None if data.y is None else [_label_text(label, index) for index, label in enumerate(data.y.tolist())]
    text = io.TextIOWrapper(file, encoding="utf-8", newline="\n", write_through=True)
    yes = {True: "true", False: "false"}
    head = [f"@problemName {' '.join(data.name.split()) or 'series'}", f"@timeStamps {yes[stamped]}"]
    head += [f"@missing {yes[missing]}", f"@univariate {yes[channels == 1]}"]
    head += [f"@dimension {channels}"] * (channels > 1)
    head += [f"@equalLength {yes[equal]}"] + [f"@seriesLength {lengths[0]}"] * equal
    if labels is None:
        head.append("@classLabel false")
    elif data.y is not None and data.y.dtype.kind == "f":
        head.append("@targetLabel true")
    else:
        head.append(f"@classLabel true {' '.join(sorted(set(labels)))}")
    text.write("\n".join([*head, "@data"]) + "\n")
    for index, one in enumerate(data.X):
        rows = np.asarray(one, dtype=np.float64).tolist()
        if stamped:
            if not np.isfinite(rows[0]).all() or (np.diff(rows[0]) <= 0).any():
                raise ValueError(f"the times of series {index} must be finite and grow")
            pieces = [
                ",".join(f"({time!r},{_number_text(value)})" for time, value in zip(rows[0], row, strict=True))
                for row in rows[1:]
            ]
        else:
            pieces = [",".join(map(_number_text, row)) for row in rows]
        text.write(":".join(pieces + ([] if labels is None else [labels[index]])) + "\n")
    text.detach()


def _number_text(value: float) -> str:
    return "NaN" if math.isnan(value) else repr(value)


def _label_text(label: Any, index: int) -> str:
    text = str(label)
    if not text or ":" in text or text[0] in "#%@(" or len(text.split()) != 1 or text.strip() != text:
        raise ValueError(
            f"label {text!r} of series {index} cannot be written to a .ts file, where labels are words without spaces "
            "and colons; write .npz, .csv or .parquet, or rename it"
        )
    return text
