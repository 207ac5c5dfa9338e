"""Arrays of numpy: ``.npy`` with the series alone, ``.npz`` with all of `SeriesData` (facts_age is a fact, age) or a
split of `siggpde.datasets`, and labels. Headers are compared with the size of the file before anything is allocated."""

from __future__ import annotations

import difflib
import json
import math
import zipfile
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from siggpde.io.data import Series, SeriesData, cut, default_names, pad, parse_labels, without_objects
from siggpde.io.formats import check_expansion, decode, encoding_of
from siggpde.utils.times import TimeFormat

_TEXT_SUFFIXES = (".csv", ".txt")
_PER_SERIES = ("y", "ids", "groups", "sample_weight")
_FACT = "facts_"  # before the name of a fact
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_npz(
    path: Path, named: Mapping[str, str | None], part: str | None = None, ignore: Sequence[str] = ()
) -> SeriesData:
    """Reads an ``.npz`` file, a `part` of a split one; `named` are members or files of y, groups and weights."""
    with open_members(path) as members:
        taken = {*ignore, *named.values()}
        _check_names(members, taken)
        if is_split(members):
            if part not in ("train", "test"):
                got = "it was left out" if part is None else f"got {part!r}"
                raise ValueError(f"{path} holds train and test series; choose with part='train' or part='test' ({got})")
            x, y, lengths, names = read_part(members, part)
            content: dict[str, Any] = {"X": _cut(x, lengths, path), "y": y, "channel_names": names}
        elif part is not None:
            raise ValueError(f"{path} is not a train/test data set, so part={part!r} has no meaning; leave it out")
        elif "X" not in members:
            listed = ", ".join(members) or "nothing"
            raise ValueError(f"{path} has neither X nor X_train, y_train, X_test, y_test; it holds {listed}")
        else:
            x, lengths = as_series(members["X"], f"{path}: X"), members.get("lengths")
            time = members.get("time_channel")
            if time is not None and (time.size != 1 or time.dtype.kind not in "iu"):
                raise ValueError(f"{path}: time_channel must be a whole number; got {time.dtype} of shape {time.shape}")
            time = None if time is None else int(time.reshape(-1)[0])
            unread = ("y",) if named.get("y") is not None else ()
            content = {key: members.labels(key) for key in _PER_SERIES if key not in unread} | {
                "X": x.astype(np.float64, copy=False) if lengths is None else _cut(x, lengths, path),
                "time_channel": time,
                "channel_names": _channel_names(members, x.shape[1], time),
            }
            if "time_format" in members:
                try:
                    content["time_format"] = TimeFormat.of_state(json.loads(str(members["time_format"])))
                except ValueError as error:
                    raise ValueError(f"{path}: time_format is damaged ({error})") from error
            if "name" in members:
                content["name"] = str(members["name"])
            facts = [name for name in members if name.startswith(_FACT) and name not in taken]
            content["facts"] = {name.removeprefix(_FACT): _fact(members, name) for name in facts} or None
        return _series_data(path, content, named, members)


def _check_names(members: Members, allowed: Container[str | None]) -> None:
    """Raises ValueError for unknown members, which would be lost; in splits, which hold more, for nearly known ones."""
    known = ["X", "lengths", "channel_names", "time_channel", "time_format", "name", *_PER_SERIES]
    if is_split(members):
        known = [f"{key}_{part}" for key in ("X", "y", "lengths") for part in ("train", "test")] + ["channel_names"]
    elif "X" not in members:
        return
    for name in members:
        file = members.file_of(name)
        named = file.endswith(".npy")  # else the suffix may be what is wrong
        cutoff = 0.0 if named and not is_split(members) else 0.85
        near = difflib.get_close_matches(name if named else Path(name).stem, known, 1, cutoff)
        if name not in known and name not in allowed and near and not name.startswith(_FACT):
            raise ValueError(
                f"{members.path}: there is no use for the member {name!r}; is it {near[0]!r}? Known are "
                f"{', '.join(known)}, and {_FACT}age for a fact age; leave it out with ignore="
            )


def read_npy(path: Path, named: Mapping[str, str | None], *, mmap: bool = False) -> SeriesData:
    """Reads an ``.npy`` file; `named` are files as for `read_npz`; with `mmap` series stay on disk, in their dtype."""
    x = as_series(load_npy(path, mmap=mmap), str(path))
    return _series_data(path, {"X": x if mmap else x.astype(np.float64, copy=False)}, named, {})


def write_npz(file: BinaryIO, data: SeriesData) -> None:
    """Writes an ``.npz`` file with all that `data` has."""
    members: dict[str, Any] = {"channel_names": np.array(data.channel_names), "name": np.array(data.name)}
    if isinstance(data.X, list):
        members["X"], members["lengths"] = pad(data.X)
    else:
        members["X"] = data.X
    if data.time_channel is not None:
        members["time_channel"] = np.array(data.time_channel)
    if data.time_format is not None:
        members["time_format"] = np.array(json.dumps(data.time_format._asdict()))
    for key in _PER_SERIES:
        values = getattr(data, key)
        if values is not None:
            members[key] = without_objects(values, key)
    for name, values in (data.facts or {}).items():
        numbers = np.asarray(values).dtype.kind in "biuf"
        members[_FACT + name] = values if numbers else np.array(["" if one is None else str(one) for one in values])
    np.savez_compressed(file, **members)


def is_split(members: Members) -> bool:
    """Returns whether an archive is split into train and test."""
    return "X_train" in members and "X" not in members


def read_part(members: Members, part: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int32], tuple[str, ...]]:
    """Returns series (n_cases, n_channels, n_timepoints), labels, lengths and channel names of "train" or "test"."""
    path, key = members.path, f"X_{part}"
    missing = [name for name in ("X_train", "y_train", "X_test", "y_test") if name not in members]
    if missing:
        raise ValueError(f"{path} is not a train/test data set: it lacks {', '.join(missing)}")
    x, labels, lengths = members[key], members.labels(f"y_{part}"), members.get(f"lengths_{part}")
    if x.ndim != 3:
        raise ValueError(f"{path}: {key} must have shape (n_cases, n_channels, n_timepoints); got {x.shape}")
    x = as_series(x, f"{path}: {key}")
    if labels is None or labels.shape != (len(x),):
        shape = None if labels is None else labels.shape
        raise ValueError(f"{path}: y_{part} must have shape ({len(x)},), one label a series; got {shape}")
    if lengths is None:  # up to the last number before the NaN at the end
        lengths = np.where(np.isnan(x), 0, np.arange(1, x.shape[2] + 1)).max(axis=(1, 2), initial=0)
    _check_lengths(lengths, len(x), f"{path}: lengths_{part}")
    return x, labels, lengths.astype(np.int32, copy=False), _channel_names(members, x.shape[1], None)


def as_series(x: NDArray[Any], source: str) -> NDArray[Any]:
    """Returns numbers (n_cases, n_channels, n_timepoints), from two axes or three."""
    if x.dtype.kind not in "fiub":
        raise ValueError(f"{source} must hold numbers; got {x.dtype}")
    if x.ndim == 2:
        x = x[:, None, :]
    if x.ndim != 3 or 0 in x.shape:
        raise ValueError(
            f"{source} must have shape (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints), with at least "
            f"one of each; got {x.shape}"
        )
    return x


def _fact(members: Members, name: str) -> NDArray[Any]:
    """Returns numbers as float64, and text with None for what is empty."""
    values = members.labels(name)
    assert values is not None
    if values.dtype.kind in "US":
        return np.array([text or None for text in values.astype(str).tolist()], dtype=object)
    return values.astype(np.float64)


def _channel_names(members: Members, channels: int, time_channel: int | None) -> tuple[str, ...]:
    if "channel_names" not in members:
        return default_names(channels, time_channel)
    values = members["channel_names"]
    if values.ndim != 1 or values.dtype.kind not in "US":
        raise ValueError(
            f"{members.path}: channel_names must be a list of names; got {values.dtype} of shape {values.shape}"
        )
    return tuple(str(name, "utf-8", "replace") if isinstance(name, bytes) else str(name) for name in values.tolist())


def _check_lengths(lengths: NDArray[Any], count: int, source: str) -> None:
    if lengths.shape != (count,) or lengths.dtype.kind not in "iu":
        raise ValueError(
            f"{source} must be {count} integers, one a series; got {lengths.dtype} of shape {lengths.shape}"
        )


def _cut(x: NDArray[Any], lengths: NDArray[Any], path: Path) -> Series:
    _check_lengths(lengths, len(x), f"{path}: lengths")
    bad = np.flatnonzero((lengths < 1) | (lengths > x.shape[2]))
    if len(bad):
        raise ValueError(
            f"{path}: the length of series {bad[0]} is {lengths[bad[0]]}, but it must be 1 to {x.shape[2]}"
        )
    return cut(x, lengths)


def _series_data(
    path: Path, content: dict[str, Any], named: Mapping[str, str | None], arrays: Mapping[str, NDArray[Any]]
) -> SeriesData:
    """Returns `SeriesData` with the labels, groups and weights that are `named`; errors name the file."""
    for key, name in named.items():
        if name is not None:
            content[key] = _labels(path, name, arrays, "labels" if key == "y" else key)
    try:
        return SeriesData(**{"name": path.stem, **content})
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _labels(path: Path, target: str, arrays: Mapping[str, NDArray[Any]], what: str) -> NDArray[Any]:
    """Returns labels, groups or weights from a member, or from a file by its path or its name next to the series."""
    if target in arrays:
        return arrays[target]
    candidates = [Path(target), path.parent / target]
    file = next((candidate for candidate in candidates if candidate.is_file()), None)
    if file is None:
        looked = " and ".join(dict.fromkeys(str(candidate) for candidate in candidates))
        members = f"; members of the archive: {', '.join(arrays)}" if arrays else ""
        raise FileNotFoundError(f"{what} {target!r} not found; looked for {looked}{members}")
    suffix = file.suffix.lower()
    if suffix == ".npy":
        return load_npy(file)
    if suffix not in _TEXT_SUFFIXES:
        raise ValueError(f"{what} are read from .npy, or from .csv or .txt with one of them a line; got {file}")
    content = file.read_bytes()
    lines = [line.strip() for line in decode(content, encoding_of(content), str(file)).splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    texts = [line[1:-1] if len(line) > 1 and line[0] == line[-1] == '"' else line for line in lines]
    if not texts or "" in texts:
        where = f"line {texts.index('') + 1} of {file} is" if texts else f"{file} is"
        raise ValueError(f"{where} empty; expected one label a line")
    return parse_labels(texts)


class Damaged(ValueError):
    """The content of a file is not an array; the message is the reason, without the name of the file."""


class HoldsObjects(Damaged):
    """An array of Python objects, which only pickle could read."""


@contextmanager
def _damage_reported(path: Path, kind: str, member: str = "") -> Iterator[None]:
    """Turns `Damaged`, and for members of archives any error, into a ValueError that names the file and the member."""
    try:
        yield
    except HoldsObjects as error:
        raise ValueError(
            f"{path}{': ' * bool(member)}{member} is an object array, which only pickle could read, and pickle can run "
            "any code; save labels as strings (y.astype(str)), and series of unequal lengths padded with NaN, with "
            "their `lengths`"
        ) from error
    except Exception as error:  # zipfile, and what it unpacks with, raise many kinds
        if kind == "npy" and not isinstance(error, Damaged):
            raise
        reason = f"{member}: {error}" if member else str(error)
        raise ValueError(f"{path} is not a whole .{kind} file ({reason}); copy or make it again") from error


def load_npy(path: Path, *, mmap: bool = False) -> NDArray[Any]:
    """Returns the array of an ``.npy`` file, with `mmap` on disk; a ValueError names the file and the damage."""
    with _damage_reported(path, "npy"), path.open("rb") as file:
        size = path.stat().st_size
        if not mmap:
            return read_array(file, size)
        shape, fortran, dtype, offset = _checked_header(file, size)
        if 0 in shape:
            return np.empty(shape, dtype)
        return np.memmap(path, dtype, mode="r", offset=offset, shape=shape, order="F" if fortran else "C")


def read_array(file: IO[bytes], size: int) -> NDArray[Any]:
    """Returns the array of a stream of `size` bytes, from its beginning; raises `Damaged` where it is none."""
    shape, fortran, dtype, _ = _checked_header(file, size)
    if 0 in shape:
        return np.empty(shape, dtype)
    content = np.empty(math.prod(shape) * dtype.itemsize, dtype=np.uint8)
    view, position = content.data, 0
    while position < len(view):
        count = file.readinto(view[position : position + 2**24])  # type: ignore[attr-defined]
        if not count:
            raise Damaged(f"it ends after {position} of {len(view)} bytes")
        position += count
    if dtype.kind == "U":
        codes = content.view(np.dtype("u4").newbyteorder(dtype.byteorder))
        if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any():
            raise Damaged("its text is not Unicode")
    return content.view(dtype).reshape(shape, order="F" if fortran else "C")


def _checked_header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Returns shape, whether the order is Fortran's, dtype, and the position of the values."""
    try:
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise Damaged(f"version {version} of the format is for tables, not arrays")
        shape, fortran, dtype = _HEADERS[version](file)
    except Damaged:
        raise
    except Exception as error:  # of the parser: errors of tokens, of syntax, of types, of memory, ...
        raise Damaged(f"its header cannot be read: {' '.join(str(error).split())[:200]}") from error
    if dtype.hasobject:
        raise HoldsObjects("Object arrays cannot be loaded")
    if any(number < 0 for number in shape) or dtype.itemsize == 0 or dtype.subdtype is not None:
        raise Damaged(f"its header says shape {shape} of {dtype}")
    offset, wanted = file.tell(), math.prod(shape) * dtype.itemsize
    if wanted > size - offset:
        raise Damaged(f"its header says {wanted} bytes of shape {shape}, but there are {size - offset}")
    try:
        np.empty((0, *shape), dtype)
    except ValueError as error:  # more axes, or more numbers, than numpy has
        raise Damaged(f"its header says shape {shape}: {error}") from error
    return shape, fortran, dtype, offset


class Members(Mapping[str, NDArray[Any]]):
    """The arrays of an open archive by name, each read when it is asked for; a ValueError names file and member."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self._archive = path, archive
        self._entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __getitem__(self, key: str) -> NDArray[Any]:
        entry = self._entries[key]
        check_expansion(f"{self.path}: {key}", entry.compress_size, entry.file_size)
        with _damage_reported(self.path, "npz", key), self._archive.open(entry) as file:
            array = read_array(file, entry.file_size)
            file.read()  # to the end, where zipfile compares the checksum
            return array

    def file_of(self, key: str) -> str:
        """Returns the name of a member in the archive, with its suffix."""
        return self._entries[key].filename

    def labels(self, key: str) -> NDArray[Any] | None:
        """Returns the member of that name, which must hold labels or ids; None where there is none."""
        if key not in self:
            return None
        values = self[key]
        if values.dtype.kind not in "biufUS":
            raise ValueError(f"{self.path}: {key} must hold numbers or strings; got {values.dtype}")
        return values


@contextmanager
def open_members(path: Path) -> Iterator[Members]:
    """Opens an ``.npz`` file; only the list of its members is read."""
    with path.open("rb") as file:
        with _damage_reported(path, "npz"):
            archive = zipfile.ZipFile(file)
        with archive:
            yield Members(path, archive)
