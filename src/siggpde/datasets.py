"""Data sets that load offline: the one inside the package, and files in folders of your own.

A data set is one ``.npz`` file, read without pickle, with the members

- ``X_train``, ``X_test``: (n_cases, n_channels, n_timepoints); series shorter than the longest end in NaN;
- ``y_train``, ``y_test``: labels as strings, or float targets;
- ``lengths_train``, ``lengths_test`` (optional): the true length of every series;
- ``channel_names`` (optional).

`find_dataset` looks for ``<name>.npz`` in the folder named by the environment variable ``SIGGPDE_DATA``, then in the
user's cache (``$XDG_CACHE_HOME/siggpde``, by default ``~/.cache/siggpde``), then among the files inside the package.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_INSIDE = Path(__file__).parent / "data"
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


def load_pendigits() -> Dataset:
    """Load PenDigits, which is inside the package: handwritten digits as 8 pen positions on a tablet.

    7494 training and 3498 test series of 2 channels (x and y, integers 0 to 100) and 8 points, in 10 classes; the
    split is by writer. Source: Alpaydin and Alimoglu (1998), UCI Machine Learning Repository.

    Examples:
        >>> load_pendigits()
        Dataset('PenDigits': 7494 train, 3498 test, 2 channels, length 8)
    """
    return read_dataset(_INSIDE / "PenDigits.npz")


def load_dataset(name: str) -> Dataset:
    """Find a data set by name and read it."""
    return read_dataset(find_dataset(name))


def find_dataset(name: str) -> Path:
    """Return the file of a data set: the first ``<name>.npz`` in the folders of `data_folders`.

    Raises FileNotFoundError, naming every place looked at, when there is none.
    """
    if not name or Path(name).name != name:
        raise ValueError(f"a data set is asked for by its name, such as 'PenDigits'; got {name!r}")
    candidates = [folder / f"{name}.npz" for folder in data_folders()]
    for path in candidates:
        if path.is_file():
            return path
    looked = "".join(f"\n  {path}" for path in candidates)
    hint = "" if os.environ.get("SIGGPDE_DATA") else "\nSIGGPDE_DATA is not set; point it at your folder of .npz files."
    raise FileNotFoundError(f"data set {name!r} not found; looked for{looked}{hint}")


def data_folders() -> list[Path]:
    """The folders searched for data sets, first to last."""
    folders = []
    if chosen := os.environ.get("SIGGPDE_DATA"):
        folders.append(Path(chosen).expanduser())
    cache = os.environ.get("XDG_CACHE_HOME")
    folders.append((Path(cache) if cache else Path.home() / ".cache") / "siggpde")
    folders.append(_INSIDE)
    return folders


def read_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Read one ``.npz`` file of the format described at the top of this module."""
    path = Path(path)
    with np.load(path, allow_pickle=False) as archive:
        missing = [key for key in _REQUIRED if key not in archive]
        if missing:
            raise ValueError(f"{path} is not a train/test data set: it lacks {', '.join(missing)}")
        arrays = {key: archive[key] for key in archive.files}
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


def _series(path: Path, key: str, values: np.ndarray) -> NDArray[np.float32]:
    if values.ndim != 3:
        raise ValueError(f"{path}: {key} must have shape (n_cases, n_channels, n_timepoints); got {values.shape}")
    return values.astype(np.float32, copy=False)


def _lengths(path: Path, key: str, stated: np.ndarray | None, x: NDArray[np.float32]) -> NDArray[np.int32]:
    """The stated lengths, checked, or those read off the NaN at the ends: up to the last number."""
    if stated is None:
        places = np.arange(1, x.shape[2] + 1)
        return np.where(np.isnan(x), 0, places).max(axis=(1, 2), initial=0).astype(np.int32)
    if stated.shape != (len(x),):
        raise ValueError(f"{path}: {key} must have shape ({len(x)},), one length a series; got {stated.shape}")
    return stated.astype(np.int32, copy=False)
