"""Arrays of numpy: ``.npy`` with the series alone, ``.npz`` with series and labels, and files of labels.

An ``.npz`` file is either a train/test data set (see `siggpde.io.train_test`) or has the member ``X`` and, if wanted,
``y``, ``lengths`` (series shorter than the longest are padded), ``channel_names``, ``ids``, ``time_channel``, ``name``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siggpde.io.data import Series, SeriesData, cut, default_names, parse_labels
from siggpde.io.train_test import as_dataset, read_members

_TEXT_SUFFIXES = (".csv", ".txt")


def read_npz(path: Path, *, part: str | None = None, target: str | None = None) -> SeriesData:
    """Read an ``.npz`` file; `part` is "train" or "test" of such a data set, `target` the labels' member or file."""
    arrays = read_members(path)
    if "X_train" in arrays and "X" not in arrays:
        return _read_part(path, part, target, arrays)
    if part is not None:
        raise ValueError(f"{path} is not a train/test data set, so part={part!r} has no meaning; leave it out")
    if "X" not in arrays:
        members = ", ".join(arrays) or "nothing"
        raise ValueError(f"{path} has neither X nor X_train, y_train, X_test, y_test; it holds {members}")
    x = as_series(arrays["X"], f"{path}: X")
    lengths = arrays.get("lengths")
    names = arrays.get("channel_names")
    time_channel = arrays.get("time_channel")
    labels = arrays.get("y") if target is None else _labels(path, target, arrays)
    time = None if time_channel is None else int(time_channel)
    try:
        return SeriesData(
            X=x.astype(np.float64, copy=False) if lengths is None else _cut(x, lengths, path),
            y=labels,
            ids=arrays.get("ids"),
            channel_names=default_names(x.shape[1], time) if names is None else tuple(map(str, names)),
            time_channel=time,
            name=str(arrays.get("name", path.stem)),
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def read_npy(path: Path, *, target: str | None = None, mmap: bool = False) -> SeriesData:
    """Read an ``.npy`` file, (n_cases, n_timepoints) or (n_cases, n_channels, n_timepoints); `target` names labels.

    With `mmap` the series stay on disk until they are used, in the number type of the file.
    """
    x = as_series(_load(path, mmap), str(path))
    labels = None if target is None else _labels(path, target, {})
    try:
        return SeriesData(X=x if mmap else x.astype(np.float64, copy=False), y=labels, name=path.stem)
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


def _load(path: Path, mmap: bool = False) -> NDArray[Any]:
    try:
        if mmap:
            return np.lib.format.open_memmap(path, mode="r")
        with path.open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except FileNotFoundError:
        raise
    except (ValueError, EOFError) as error:
        if "Object arrays" in str(error) or "Python objects in dtype" in str(error):
            raise ValueError(
                f"{path} is an object array, which only pickle could read, and pickle can run any code; save numbers, "
                "or labels as strings (y.astype(str))"
            ) from error
        raise ValueError(f"{path} is not a whole .npy file ({error}); copy or make it again") from error


def _read_part(path: Path, part: str | None, target: str | None, arrays: dict[str, NDArray[Any]]) -> SeriesData:
    if part not in ("train", "test"):
        got = "it was left out" if part is None else f"got {part!r}"
        raise ValueError(f"{path} holds train and test series; choose with part='train' or part='test' ({got})")
    data = as_dataset(path, arrays)
    x = arrays[f"X_{part}"]  # a Dataset has float32
    lengths = data.lengths_train if part == "train" else data.lengths_test
    y = data.y_train if part == "train" else data.y_test
    if target is not None:
        y = _labels(path, target, arrays)
    return SeriesData(X=_cut(x, lengths, path), y=y, channel_names=data.channel_names, name=data.name)


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


def _labels(path: Path, target: str, arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Labels from a member of the archive, or from a file given by its path or by its name next to the series."""
    if target in arrays:
        return arrays[target]
    candidates = [Path(target), path.parent / target]
    file = next((candidate for candidate in candidates if candidate.is_file()), None)
    if file is None:
        looked = " and ".join(dict.fromkeys(str(candidate) for candidate in candidates))
        members = f"; members of the archive: {', '.join(arrays)}" if arrays else ""
        raise FileNotFoundError(f"labels {target!r} not found; looked for {looked}{members}")
    suffix = file.suffix.lower()
    if suffix == ".npy":
        return _load(file)
    if suffix not in _TEXT_SUFFIXES:
        raise ValueError(f"labels are read from .npy, or from .csv or .txt with one label a line; got {file}")
    lines = [line.strip() for line in file.read_text(encoding="utf-8-sig").splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    texts = [line[1:-1] if len(line) > 1 and line[0] == line[-1] == '"' else line for line in lines]
    if not texts or "" in texts:
        where = f"line {texts.index('') + 1} of {file} is" if texts else f"{file} is"
        raise ValueError(f"{where} empty; expected one label a line")
    return parse_labels(texts)
