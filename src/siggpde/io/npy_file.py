"""Arrays in numpy's own format: the header is checked against the size of the file before anything is read.

numpy trusts the header: a damaged one makes it allocate what it says, or raises errors of its parser.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class Damaged(ValueError):
    """What stands in a file is not an array; the message is the reason, without the name of the file."""


class HoldsObjects(Damaged):
    """An array of Python objects, which only pickle could read."""


def load_npy(path: Path, *, mmap: bool = False) -> NDArray[Any]:
    """The array of an ``.npy`` file, with `mmap` left on disk; a ValueError names the file and what is wrong."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if not mmap:
                return read_array(file, size)
            shape, fortran, dtype, offset = _checked_header(file, size)
        if 0 in shape:
            return np.empty(shape, dtype)
        return np.memmap(path, dtype, mode="r", offset=offset, shape=shape, order="F" if fortran else "C")
    except HoldsObjects as error:
        raise ValueError(
            f"{path} is an object array, which only pickle could read, and pickle can run any code; save numbers, or "
            "labels as strings (y.astype(str))"
        ) from error
    except Damaged as error:
        raise ValueError(f"{path} is not a whole .npy file ({error}); copy or make it again") from error


def read_array(file: IO[bytes], size: int) -> NDArray[Any]:
    """The array of a stream of `size` bytes in all, from its beginning; `Damaged` where it is none."""
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
    """Shape, whether it is in Fortran's order, number type, and where the values begin."""
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
