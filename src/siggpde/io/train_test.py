"""Data sets in one ``.npz`` file, split into train and test, read without pickle; its members are

- ``X_train``, ``X_test``: (n_cases, n_channels, n_timepoints); series shorter than the longest end in NaN;
- ``y_train``, ``y_test``: labels as strings, or float targets;
- ``lengths_train``, ``lengths_test`` (optional): the true length of every series;
- ``channel_names`` (optional).
"""

import os
import zipfile
import zlib
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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
    return as_dataset(Path(path), read_members(Path(path)))


def as_dataset(path: Path, arrays: dict[str, np.ndarray]) -> Dataset:
    """Check the arrays of a file (by member name) and make a `Dataset` of them."""
    missing = [key for key in _REQUIRED if key not in arrays]
    if missing:
        raise ValueError(f"{path} is not a train/test data set: it lacks {', '.join(missing)}")
    x_train = _series(path, "X_train", arrays["X_train"])
    x_test = _series(path, "X_test", arrays["X_test"])
    channels = x_train.shape[1]
    if x_test.shape[1] != channels:
        raise ValueError(f"{path}: X_train has {channels} channels but X_test has {x_test.shape[1]}")
    for part, x in (("train", x_train), ("test", x_test)):
        labels = arrays[f"y_{part}"]
        if labels.shape != (len(x),):
            raise ValueError(f"{path}: y_{part} must have shape ({len(x)},), one label a series; got {labels.shape}")
    names = arrays.get("channel_names")
    return Dataset(
        name=path.stem,
        X_train=x_train,
        y_train=arrays["y_train"],
        X_test=x_test,
        y_test=arrays["y_test"],
        lengths_train=_lengths(path, "lengths_train", arrays.get("lengths_train"), x_train),
        lengths_test=_lengths(path, "lengths_test", arrays.get("lengths_test"), x_test),
        channel_names=tuple(f"channel {i}" for i in range(channels)) if names is None else tuple(map(str, names)),
    )


def read_members(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an ``.npz`` file; what cannot be read, or only by unpickling, is refused."""
    key = None
    try:
        # Opened here, for numpy leaves a file that it cannot read open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {}
            for key in archive.files:
                arrays[key] = archive[key]
            return arrays
    except FileNotFoundError:
        raise
    except (ValueError, OSError, EOFError, AttributeError, NotImplementedError) as error:
        raise ValueError(_unreadable(path, key, error)) from error
    except (zipfile.BadZipFile, zlib.error, LZMAError) as error:
        raise ValueError(f"{path} is not a whole .npz file ({error}); copy or make it again") from error


def _unreadable(path: Path, key: str | None, error: Exception) -> str:
    if "Object arrays" in str(error):
        return (
            f"{path}: {key} is an object array, which only pickle could read, and pickle can run any code; "
            "save labels as strings (y.astype(str)) and ragged series padded with NaN, with `lengths`"
        )
    return f"{path} is not a whole .npz file ({error}); copy or make it again"


def _series(path: Path, key: str, values: np.ndarray) -> NDArray[np.float32]:
    if values.ndim != 3:
        raise ValueError(f"{path}: {key} must have shape (n_cases, n_channels, n_timepoints); got {values.shape}")
    return values.astype(np.float32, copy=False)


def _lengths(path: Path, key: str, stated: np.ndarray | None, x: NDArray[np.float32]) -> NDArray[np.int32]:
    """The stated lengths, checked; without them, the length up to the last number before the NaN at the end."""
    if stated is None:
        lengths = np.arange(1, x.shape[2] + 1)
        return np.where(np.isnan(x), 0, lengths).max(axis=(1, 2), initial=0).astype(np.int32)
    if stated.shape != (len(x),):
        raise ValueError(f"{path}: {key} must have shape ({len(x)},), one length a series; got {stated.shape}")
    return stated.astype(np.int32, copy=False)
