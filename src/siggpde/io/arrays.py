"""Arrays of numpy: ``.npy`` with the series alone, ``.npz`` with series and labels, and files of labels.

An ``.npz`` file is either a train/test data set (see `siggpde.io.train_test`) or has the member ``X`` and, if wanted,
``y``, ``lengths`` (series shorter than the longest are padded), ``channel_names``, ``ids``, ``time_channel``, ``name``,
``groups``, ``sample_weight``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siggpde.io.csv_layout import decoded, encoding_of
from siggpde.io.data import Series, SeriesData, cut, default_names, parse_labels
from siggpde.io.npy_file import load_npy
from siggpde.io.npz_file import Members, open_members, texts, whole_number
from siggpde.io.train_test import check_complete, names_of, read_part

_TEXT_SUFFIXES = (".csv", ".txt")


def read_npz(
    path: Path,
    *,
    part: str | None = None,
    target: str | None = None,
    groups: str | None = None,
    sample_weight: str | None = None,
) -> SeriesData:
    """Read an ``.npz`` file; `part` is "train" or "test" of such a data set, `target` the labels' member or file.

    `groups` and `sample_weight` are members or files too.
    """
    named = {"groups": groups, "sample_weight": sample_weight}
    with open_members(path) as members:
        if "X_train" in members and "X" not in members:
            return _read_part(members, part, target, named)
        if part is not None:
            raise ValueError(f"{path} is not a train/test data set, so part={part!r} has no meaning; leave it out")
        if "X" not in members:
            held = ", ".join(members) or "nothing"
            raise ValueError(f"{path} has neither X nor X_train, y_train, X_test, y_test; it holds {held}")
        x = as_series(members["X"], f"{path}: X")
        lengths = members.get("lengths")
        time = whole_number(members["time_channel"], f"{path}: time_channel") if "time_channel" in members else None
        names = texts(members["channel_names"], f"{path}: channel_names") if "channel_names" in members else None
        labels = members.labels("y") if target is None else _labels(path, target, members)
        beside = {key: members.labels(key) for key in named} | _beside(path, named, members)
        ids = members.labels("ids")
        name = str(members["name"]) if "name" in members else path.stem
    try:
        return SeriesData(
            X=x.astype(np.float64, copy=False) if lengths is None else _cut(x, lengths, path),
            y=labels,
            ids=ids,
            channel_names=default_names(x.shape[1], time) if names is None else names,
            time_channel=time,
            name=name,
            **beside,
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def read_npy(
    path: Path,
    *,
    target: str | None = None,
    groups: str | None = None,
    sample_weight: str | None = None,
    mmap: bool = False,
) -> SeriesData:
    """Read an ``.npy`` file, (n_cases, n_timepoints) or (n_cases, n_channels, n_timepoints); `target` names labels.

    `groups` and `sample_weight` name files too. With `mmap` the series stay on disk until they are used, in the number
    type of the file.
    """
    x = as_series(load_npy(path, mmap=mmap), str(path))
    labels = None if target is None else _labels(path, target, {})
    beside = _beside(path, {"groups": groups, "sample_weight": sample_weight}, {})
    try:
        return SeriesData(X=x if mmap else x.astype(np.float64, copy=False), y=labels, name=path.stem, **beside)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def as_series(x: NDArray[Any], source: str) -> NDArray[Any]:
    """Numbers (n_cases, n_channels, n_timepoints), from two axes or three."""
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


def _read_part(members: Members, part: str | None, target: str | None, named: Mapping[str, str | None]) -> SeriesData:
    path = members.path
    if part not in ("train", "test"):
        got = "it was left out" if part is None else f"got {part!r}"
        raise ValueError(f"{path} holds train and test series; choose with part='train' or part='test' ({got})")
    check_complete(members)
    x, y, lengths = read_part(members, part)
    if target is not None:
        y = _labels(path, target, members)
    beside = _beside(path, named, members)
    try:
        names = names_of(members, x.shape[1])
        return SeriesData(X=_cut(x, lengths, path), y=y, channel_names=names, name=path.stem, **beside)
    except ValueError as error:
        message = str(error)
        raise ValueError(message if str(path) in message else f"{path}: {message}") from error


def _cut(x: NDArray[Any], lengths: NDArray[Any], path: Path) -> Series:
    if lengths.shape != (len(x),) or lengths.dtype.kind not in "iu":
        raise ValueError(
            f"lengths must be {len(x)} integers, one a series; got {lengths.dtype} of shape {lengths.shape}"
        )
    bad = np.flatnonzero((lengths < 1) | (lengths > x.shape[2]))
    if len(bad):
        raise ValueError(
            f"{path}: the length of series {bad[0]} is {lengths[bad[0]]}, but it must be 1 to {x.shape[2]}"
        )
    return cut(x, lengths)


def _beside(path: Path, named: Mapping[str, str | None], arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Groups and weights, as far as they are named."""
    return {option: _labels(path, name, arrays, option) for option, name in named.items() if name is not None}


def _labels(path: Path, target: str, arrays: Mapping[str, NDArray[Any]], what: str = "labels") -> NDArray[Any]:
    """Labels, groups or weights: a member of the archive, or a file by its path or by its name next to the series."""
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
    text = decoded(content, encoding_of(content), str(file)).decode()
    lines = [line.strip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    texts = [line[1:-1] if len(line) > 1 and line[0] == line[-1] == '"' else line for line in lines]
    if not texts or "" in texts:
        where = f"line {texts.index('') + 1} of {file} is" if texts else f"{file} is"
        raise ValueError(f"{where} empty; expected one label a line")
    return parse_labels(texts)
