"""Data sets by name."""

from __future__ import annotations

from pathlib import Path

from siggpde.datasets import archive
from siggpde.datasets.archive import DownloadError
from siggpde.datasets.checksums import verify
from siggpde.datasets.folders import PACKAGE_DATA, cache_folder, check_name, find_dataset, searched_files
from siggpde.io.train_test import Dataset, read_dataset


def load_pendigits() -> Dataset:
    """Load PenDigits, which is inside the package: handwritten digits as 8 pen positions on a tablet.

    7494 training and 3498 test series of 2 channels (x and y, integers 0 to 100) and 8 points, in 10 classes; the
    split is by writer. Source: Alpaydin and Alimoglu (1998), UCI Machine Learning Repository.

    Examples:
        >>> load_pendigits()
        Dataset('PenDigits': 7494 train, 3498 test, 2 channels, length 8)
    """
    return read_dataset(PACKAGE_DATA / "PenDigits.npz")


def load_dataset(name: str, download: bool = True) -> Dataset:
    """Find a data set by name, in any capitals, and read it; download it into the cache if no folder has it.

    The archive's server knows names in their own capitals only. A file of the cache is checked against the SHA-256
    recorded when it was first used. Raises FileNotFoundError, with the files looked for, the address tried and what
    to do, when the data set is neither found nor downloaded.
    """
    check_name(name)
    try:
        path = find_dataset(name)
    except FileNotFoundError:
        if not download:
            raise
        path = _download(name)
    if path.parent == cache_folder():
        verify(path)
    return read_dataset(path)


def _download(name: str) -> Path:
    try:
        return archive.download(name, cache_folder())
    except DownloadError as error:
        raise DownloadError(
            f"data set {name!r} not found; {searched_files(name)}\nand could not be downloaded:\n  {error}\n"
            "Check the name (the server tells capitals apart) and the connection, name another server with "
            f"SIGGPDE_ARCHIVE, or put {name}.npz into one of the folders above."
        ) from error
