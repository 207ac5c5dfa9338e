"""Files that are there whole or not at all, whenever a process or a machine stops."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover  (no POSIX)
    fcntl = None

PART = ".part"


def write_part(target: Path, content: bytes) -> Path:
    """Writes the content, down to the disk, beside the target under a name that ends in .part, and returns its path."""
    part = target.with_name(f"{target.name}.{os.getpid()}-{secrets.token_hex(4)}{PART}")
    with open(part, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return part


def sync_folder(descriptor: int) -> None:
    """Makes names that appeared in or vanished from an open folder last; some network drives cannot, and are let be."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def make_folder(folder: Path) -> None:
    """Makes the folder and those above it, where missing, lastingly."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for place in missing:
        descriptor = os.open(place.parent, os.O_RDONLY)
        try:
            sync_folder(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def only_writer(folder: Path) -> Iterator[int]:
    """The open folder, for one writer at a time: others wait. The lock of a process that dies dies with it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if fcntl is not None:
            with suppress(OSError):  # a drive without locks; part files have names of their own
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def read_regular(path: Path, most: int | None = None) -> bytes:
    """The bytes of a regular file, at most `most` and one more, so that a longer one is noticed and not read whole."""
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its writer
        raise OSError("not a regular file")
    with open(path, "rb") as file:
        return file.read() if most is None else file.read(most + 1)
