"""Writing files that survive crashes and full disks: atomic writes, durable folders, locks; and hashes."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from torch import Tensor


try:
    import fcntl
except ImportError:  # pragma: no cover  (not POSIX)
    fcntl = None

# What `atomic_write` appends to the name of a file while it writes it, as a regular expression. A process that is
# killed leaves such a part file behind; whoever owns the folder may remove it.
PART_SUFFIX = r"\.\d+-[0-9a-f]+\.part"

MANIFEST = "model.json"
"""The file of a model folder that says what the others are."""
_OUR_MANIFEST = re.compile(rb'"format"\s*:\s*"siggpde"')  # also in a manifest that is damaged elsewhere

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no space, no quota, or above the limit for one file


class DiskFullError(OSError):
    """There was no room for a file: the message names it, and the space that it needs and that is left."""


@contextmanager
def atomic_write(path: Path, size: Callable[[], int] | None = None) -> Iterator[BinaryIO]:
    """Opens a part file, which is renamed to `path` at the end, or removed; DiskFullError tells the `size` needed."""
    part = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            yield file
            sync_file(file)
        os.replace(part, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(part)
        if isinstance(error, OSError) and error.errno in _FULL and not isinstance(error, DiskFullError):
            raise _disk_full(error, path, None if size is None else size()) from error
        raise
    sync_folder(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all."""
    with atomic_write(path) as file:
        file.write(content)


def _disk_full(error: OSError, path: Path, size: int | None) -> DiskFullError:
    needs = "" if size is None else f" needs {size / 1e6:,.2f} MB, and"
    free = shutil.disk_usage(path.parent).free
    return DiskFullError(
        error.errno,
        f"{os.strerror(error.errno or 0)}: {path}{needs or ' cannot be written;'} its disk has {free / 1e6:,.2f} MB "
        "left; make room there, raise the limit for it, or write to another place",
    )


def is_model_folder(folder: Path) -> bool:
    """Returns whether a folder has the manifest of a model of siggpde."""
    manifest = folder / MANIFEST
    return manifest.is_file() and _OUR_MANIFEST.search(manifest.read_bytes()) is not None


def check_replaceable(path: Path, inputs: Iterable[str | os.PathLike[str] | None] = ()) -> None:
    """Raises FileExistsError for an output that is one of the inputs, or a file in a model folder, be it new."""
    for one in inputs:
        if one is not None and os.path.exists(one) and path.exists() and path.samefile(one):
            raise FileExistsError(
                f"{path} is read by this command, and no input is ever overwritten; name another file"
            )
    for folder in {*path.resolve().parents, *(path.parent.resolve() / path.name).parents}:
        if is_model_folder(folder):
            raise FileExistsError(
                f"{path} is in the model folder {folder}, where no other file is ever written; name a file elsewhere"
            )


def sync_file(file: BinaryIO) -> None:
    """Writes what an open file has buffered to the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Writes the directory entries of a folder (names created, renamed or removed in it) to the disk."""
    if fcntl is None:  # only POSIX systems can open a folder
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # a folder may be writable but not readable
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network drives cannot sync folders
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Creates the folder and its missing parents, and syncs the folders they were created in."""
    missing = [ancestor for ancestor in (folder, *folder.parents) if not ancestor.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for created in missing:
        sync_folder(created.parent)


@contextmanager
def locked(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Holds an exclusive lock on a file or folder, where the system has locks; calls `on_wait` where it must wait."""
    if fcntl is None:  # pragma: no cover
        yield
        return
    flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
    here = False
    while True:
        descriptor = os.open(path, flags, 0o666)
        try:
            with suppress(OSError):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    on_wait()
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):  # the holder of the lock may have removed it
                here = os.path.samestat(os.fstat(descriptor), os.stat(path))
            if here:
                yield
                return
        finally:
            os.close(descriptor)


def read_regular(path: Path, limit: int | None = None) -> bytes:
    """The bytes of a regular file, at most `limit` + 1, by which a longer one is noticed; OSError for anything else."""
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its writer
        raise OSError("not a regular file")
    with open(path, "rb") as file:
        return file.read() if limit is None else file.read(min(limit, os.fstat(file.fileno()).st_size) + 1)


def digest(*tensors: Tensor | None, settings: Any = None) -> str:
    """Returns the SHA-256 of tensors (shapes, dtypes and bytes; None is left out) and of the `repr` of `settings`.

    >>> import torch
    >>> digest(torch.zeros(2)) == digest(torch.zeros(2), None)
    True
    >>> digest(torch.zeros(2)) == digest(torch.zeros(2, 1))
    False
    """
    hasher = hashlib.sha256()
    for tensor in tensors:
        if tensor is not None:
            hasher.update(str((tuple(tensor.shape), tensor.dtype)).encode())
            hasher.update(tensor.detach().cpu().contiguous().numpy().data)
    if settings is not None:
        hasher.update(repr(settings).encode())
    return hasher.hexdigest()
