"""Data sets by name: the folders that are searched, and train/test data sets in one ``.npz`` file."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from siggpde.datasets import archive
from siggpde.datasets.archive import DownloadError, verify
from siggpde.io.arrays import open_members, read_part

PACKAGE_DATA = Path(__file__).parents[1] / "data"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Series and labels, split into train and test.

    Attributes
    ----------
    name : str
    X_train, X_test : array (n_cases, n_channels, n_timepoints)
        float32, with NaN after the end of a short series.
    y_train, y_test : array (n_cases,)
        Labels as strings, or float targets.
    lengths_train, lengths_test : array (n_cases,)
        Numbers of points.
    channel_names : tuple of str

    Examples
    --------
    >>> data = load_pendigits()
    >>> data.X_train.shape, data.channel_names, data.y_train[:3].tolist()
    ((7494, 2, 8), ('x', 'y'), ['8', '2', '1'])
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
    """Reads a data set from one ``.npz`` file, without pickle.

    Its members are ``X_train``, ``X_test`` (n_cases, n_channels, n_timepoints), ``y_train``, ``y_test`` (n_cases,) and,
    if they are there, ``lengths_train``, ``lengths_test`` (n_cases,) and ``channel_names`` (n_channels,). Without
    lengths a series ends at its last number before the NaN at the end.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> read_dataset(PACKAGE_DATA / "PenDigits.npz")
    Dataset('PenDigits': 7494 train, 3498 test, 2 channels, length 8)
    """
    path = Path(path)
    with open_members(path) as members:
        x_train, y_train, lengths_train, names = read_part(members, "train")
        x_test, y_test, lengths_test, _ = read_part(members, "test")
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


def data_folders() -> list[Path]:
    """Returns the folders that are searched for data sets.

    Returns
    -------
    list of Path
        First to last: that of SIGGPDE_DATA, if set, the user's cache, and the package.

    Examples
    --------
    >>> data_folders()[-1].name
    'data'
    """
    folders = []
    if chosen := os.environ.get("SIGGPDE_DATA"):
        folders.append(Path(chosen).expanduser())
    return [*folders, cache_folder(), PACKAGE_DATA]


def cache_folder() -> Path:
    """Returns the user's cache, where downloads go; it may not exist yet."""
    # By the rule of XDG on every system, as documented. platformdirs would be a dependency for these two lines, and
    # would move the cache of macOS users to ~/Library/Caches.
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "siggpde"


def find_dataset(name: str) -> Path:
    """Returns the file of a data set: the first ``<name>.npz`` in the folders of `data_folders`.

    In each folder the exact name comes first, then the same name in other capitals.

    Parameters
    ----------
    name : str

    Returns
    -------
    Path

    Raises
    ------
    FileNotFoundError
        There is none; the message has the files looked for.

    Examples
    --------
    >>> find_dataset("PenDigits").name
    'PenDigits.npz'
    """
    if not name or Path(name).name != name:
        raise ValueError(f"a data set is asked for by its name, such as 'PenDigits'; got {name!r}")
    for folder in data_folders():
        exact = folder / f"{name}.npz"
        if exact.is_file():
            return exact
        near: list[Path] = []
        with suppress(OSError):  # no such folder, or not ours to read
            near = sorted(path for path in folder.iterdir() if path.name.lower() == exact.name.lower())
        near = [path for path in near if path.is_file()]
        if len(near) > 1:
            files = ", ".join(path.name for path in near)
            raise ValueError(f"{name!r} may be any of {files} in {folder}; give the name in its capitals")
        if near:
            return near[0]
    raise FileNotFoundError(f"data set {name!r} not found; {_searched_files(name)}")


def _searched_files(name: str) -> str:
    """Returns the files that were looked for, one a line, and how to add a folder, for an error message."""
    files = "".join(f"\n  {folder / name}.npz" for folder in data_folders())
    hint = "" if os.environ.get("SIGGPDE_DATA") else "\nSIGGPDE_DATA is not set; point it at your folder of .npz files."
    return f"looked for{files}{hint}"


def load_pendigits() -> Dataset:
    """Loads PenDigits, which is inside the package: handwritten digits as 8 pen positions on a tablet.

    7494 training and 3498 test series of 2 channels (x and y, integers 0 to 100) and 8 points, in 10 classes; the
    split is by writer. Source: Alpaydin and Alimoglu (1998), UCI Machine Learning Repository.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> load_pendigits()
    Dataset('PenDigits': 7494 train, 3498 test, 2 channels, length 8)
    """
    return read_dataset(PACKAGE_DATA / "PenDigits.npz")


def load_dataset(name: str, download: bool = True) -> Dataset:
    """Loads a data set by name; a data set that no folder has is downloaded into the cache.

    Parameters
    ----------
    name : str
        In any capitals for files; the archive's server tells capitals apart.
    download : bool
        False looks in folders only.

    Returns
    -------
    Dataset

    Raises
    ------
    FileNotFoundError
        The data set is neither in a folder nor on the server; the message has the files and the address tried.
    ValueError
        A file of the cache differs from its recorded SHA-256.

    Examples
    --------
    >>> load_dataset("PenDigits")
    Dataset('PenDigits': 7494 train, 3498 test, 2 channels, length 8)
    """
    try:
        path = find_dataset(name)
    except FileNotFoundError:
        if not download:
            raise
        try:
            path = archive.download(name, cache_folder())
        except DownloadError as error:
            raise DownloadError(
                f"data set {name!r} not found; {_searched_files(name)}\nand could not be downloaded:\n  {error}\n"
                "Check the name (the server tells capitals apart) and the connection, name another server with "
                f"SIGGPDE_ARCHIVE, or put {name}.npz into one of the folders above."
            ) from error
    if path.parent == cache_folder():
        verify(path)
    return read_dataset(path)
