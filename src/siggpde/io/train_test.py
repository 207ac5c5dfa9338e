"""Data sets in one ``.npz`` file, split into train and test, read without pickle; its members are

- ``X_train``, ``X_test``: (n_cases, n_channels, n_timepoints); series shorter than the longest end in NaN;
- ``y_train``, ``y_test``: labels as strings, or float targets;
- ``lengths_train``, ``lengths_test`` (optional): the true length of every series;
- ``channel_names`` (optional).
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siggpde.io.npz_file import Members, open_members, texts

_REQUIRED = ("X_train", "y_train", "X_test", "y_test")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Series and labels, split into train and test.

    X_train and X_test have shape (n_cases, n_channels, n_timepoints), float32, NaN after the end of a short series;
    y_train and y_test have shape (n_cases,); lengths_train and lengths_test give the true lengths.
    """

    name: str
    X_train: NDArray[np.float32]
    y_train: NDArray[np.generic]
    X_test: NDArray[np.float32]
    y_test: NDArray[np.generic]
    lengths_train: NDArray[np.int32]
    lengths_test: NDArray[np.int32]
    channel_names: tuple[str, ...]

    def __repr__(self) -> str:
        n_train, channels, length = self.X_train.shape
        split = f"{n_train} train, {len(self.X_test)} test"
        return f"Dataset({self.name!r}: {split}, {channels} channels, length {length})"


def read_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Read one ``.npz`` file with the members ``X_train``, ``y_train``, ``X_test`` and ``y_test``."""
    path = Path(path)
    with open_members(path) as members:
        check_complete(members)
        x_train, y_train, lengths_train = read_part(members, "train")
        x_test, y_test, lengths_test = read_part(members, "test")
        names = names_of(members, x_train.shape[1])
    if x_test.shape[1] != x_train.shape[1]:
        raise ValueError(f"{path}: X_train has {x_train.shape[1]} channels but X_test has {x_test.shape[1]}")
    return Dataset(
        name=path.stem,
        X_train=x_train.astype(np.float32, copy=False),
        y_train=y_train,
        X_test=x_test.astype(np.float32, copy=False),
        y_test=y_test,
        lengths_train=lengths_train,
        lengths_test=lengths_test,
        channel_names=names,
    )


def check_complete(members: Members) -> None:
    """Raises ValueError, naming what is missing, unless there are series and labels of both parts."""
    missing = [key for key in _REQUIRED if key not in members]
    if missing:
        raise ValueError(f"{members.path} is not a train/test data set: it lacks {', '.join(missing)}")


def read_part(members: Members, part: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int32]]:
    """Series (n_cases, n_channels, n_timepoints) as they are in the file, labels and lengths of "train" or "test"."""
    path, key = members.path, f"X_{part}"
    x, labels = members[key], members.labels(f"y_{part}")
    if x.ndim != 3 or 0 in x.shape:
        raise ValueError(f"{path}: {key} must have shape (n_cases, n_channels, n_timepoints); got {x.shape}")
    if x.dtype.kind not in "fiub":
        raise ValueError(f"{path}: {key} must hold numbers; got {x.dtype}")
    if labels is None or labels.shape != (len(x),):
        shape = None if labels is None else labels.shape
        raise ValueError(f"{path}: y_{part} must have shape ({len(x)},), one label a series; got {shape}")
    return x, labels, _lengths(path, f"lengths_{part}", members.get(f"lengths_{part}"), x)


def names_of(members: Members, channels: int) -> tuple[str, ...]:
    """The names of the channels, by default ``channel 0``, ..."""
    if "channel_names" not in members:
        return tuple(f"channel {i}" for i in range(channels))
    return texts(members["channel_names"], f"{members.path}: channel_names")


def _lengths(path: Path, key: str, stated: np.ndarray | None, x: NDArray[Any]) -> NDArray[np.int32]:
    """The stated lengths, checked; without them, the length up to the last number before the NaN at the end."""
    if stated is None:
        lengths = np.arange(1, x.shape[2] + 1)
        return np.where(np.isnan(x), 0, lengths).max(axis=(1, 2), initial=0).astype(np.int32)
    if stated.shape != (len(x),) or stated.dtype.kind not in "iu":
        raise ValueError(
            f"{path}: {key} must have shape ({len(x)},), one integer a series; got {stated.dtype} of shape "
            f"{stated.shape}"
        )
    return stated.astype(np.int32, copy=False)
