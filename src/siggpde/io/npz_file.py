"""Members of an ``.npz`` file, each read when it is asked for: what is not used is never unpacked."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siggpde.io.limits import check_expansion
from siggpde.io.npy_file import HoldsObjects, read_array


class Members(Mapping[str, NDArray[Any]]):
    """The arrays of an open archive by name; a ValueError names the file and the member that cannot be read."""

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
        try:
            with self._archive.open(entry) as file:
                array = read_array(file, entry.file_size)
                file.read()  # to the end, where the check sum is compared
                return array
        except HoldsObjects as error:
            raise ValueError(
                f"{self.path}: {key} is an object array, which only pickle could read, and pickle can run any code; "
                "save labels as strings (y.astype(str)) and ragged series padded with NaN, with `lengths`"
            ) from error
        except Exception as error:  # zipfile, and what it unpacks with, raise many kinds
            raise ValueError(f"{self.path} is not a whole .npz file ({key}: {error}); copy or make it again") from error

    def labels(self, key: str) -> NDArray[Any] | None:
        """The member of that name, which must hold labels or ids; None where there is none."""
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
        try:
            archive = zipfile.ZipFile(file)
        except Exception as error:  # damaged lists of members make zipfile raise many kinds
            raise ValueError(f"{path} is not a whole .npz file ({error}); copy or make it again") from error
        with archive:
            yield Members(path, archive)


def texts(values: NDArray[Any], source: str) -> tuple[str, ...]:
    """Names from an array (n,) of text."""
    if values.ndim != 1 or values.dtype.kind not in "US":
        raise ValueError(f"{source} must be a list of names; got {values.dtype} of shape {values.shape}")
    return tuple(str(name, "utf-8", "replace") if isinstance(name, bytes) else str(name) for name in values.tolist())


def whole_number(values: NDArray[Any], source: str) -> int:
    """The number of an array of one integer."""
    if values.size != 1 or values.dtype.kind not in "iu":
        raise ValueError(f"{source} must be a whole number; got {values.dtype} of shape {np.shape(values)}")
    return int(values.reshape(-1)[0])
