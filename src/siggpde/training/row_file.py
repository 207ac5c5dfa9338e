"""Rows of numbers in a file that outlives the process, and that can be trusted after a crash.

Two files in a folder, named after a key that says what the rows are:

    KEY.rows      the numbers, row after row
    KEY.journal   what the file is; then for every block of rows that was written its number and checksum

A block counts as written when the journal has its checksum and its bytes agree with that. So a process killed at any
moment leaves nothing that is taken for whole, and the next one goes on where it was; blocks that were cut off or
changed are computed again. Whoever fills the file holds a lock on the journal, which the system lets go of when the
process ends, however it ends: of two processes one writes, and the other waits and then reads.
"""

from __future__ import annotations

import json
import logging
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from siggpde.utils.files import locked, sync_file

log = logging.getLogger(__name__)

_FORMAT = 1


class RowFile:
    """A file of (n, count) numbers of `dtype` in `folder`, written in blocks of `block` rows."""

    def __init__(self, folder: Path, key: str, n: int, count: int, dtype: torch.dtype, block: int) -> None:
        self.rows, self.journal = folder / f"{key}.rows", folder / f"{key}.journal"
        self.n, self.count, self.dtype, self.block = n, count, dtype, block
        head = {"format": _FORMAT, "key": key, "shape": [n, count], "dtype": str(dtype), "block": block}
        self._head = (json.dumps(head) + "\n").encode()

    @property
    def size(self) -> int:
        """Bytes of all the numbers."""
        return self.n * self.count * self.dtype.itemsize

    def filled(
        self, compute: Callable[[slice], Tensor], done: Callable[[], None] = lambda: None
    ) -> tuple[Tensor, int, int]:
        """All the rows, mapped from the file, and how many of them were read and how many computed.

        `compute(rows)` gives a block that is not there yet; `done()` is called after every block.
        """
        self.rows.parent.mkdir(parents=True, exist_ok=True)
        with self._locked() as journal:
            whole = self._whole_blocks(journal)
            missing = [block_number for block_number in range(self._blocks) if block_number not in whole]
            for _ in whole:
                done()
            if missing:
                self._write(journal, missing, compute, done)
        mapped = torch.from_file(str(self.rows), shared=True, size=self.n * self.count, dtype=self.dtype)
        fresh = sum(len(range(*self._slice(block_number).indices(self.n))) for block_number in missing)
        return mapped.view(self.n, self.count), self.n - fresh, fresh

    @property
    def _blocks(self) -> int:
        return -(-self.n // self.block)

    def _slice(self, block_number: int) -> slice:
        return slice(block_number * self.block, min(self.n, (block_number + 1) * self.block))

    def _write(
        self, journal: BinaryIO, missing: list[int], compute: Callable[[slice], Tensor], done: Callable[[], None]
    ) -> None:
        self._check_room()
        with self.rows.open("r+b" if self.rows.exists() else "w+b") as file:
            file.truncate(self.size)
            for block_number in missing:
                values = compute(self._slice(block_number)).to(self.dtype).contiguous().numpy()
                file.seek(block_number * self._block_bytes)
                file.write(values.data)
                file.flush()
                _append(journal, {"block": block_number, "checksum": zlib.crc32(values.data)})
                done()
            sync_file(file)

    def _whole_blocks(self, journal: BinaryIO) -> set[int]:
        """The blocks that are there as they were written. A journal of something else is emptied."""
        journal.seek(0)
        head, *lines = journal.read().splitlines(keepends=True) or [b""]
        if head != self._head or not self.rows.exists():
            if head and head != self._head:
                log.warning("%s is damaged; what it describes is computed again", self.journal)
            _restart(journal, self._head)
            return set()
        if lines and not lines[-1].endswith(b"\n"):  # the writer was stopped in the middle of a line
            journal.write(b"\n")
        checksums = dict(filter(None, map(_entry, lines)))
        whole = set()
        with self.rows.open("rb") as file:
            for block_number, checksum in checksums.items():
                if not 0 <= block_number < self._blocks:
                    continue
                file.seek(block_number * self._block_bytes)
                rows = self._slice(block_number)
                expected = (rows.stop - rows.start) * self.count * self.dtype.itemsize
                content = file.read(expected)
                if len(content) == expected and zlib.crc32(content) == checksum:
                    whole.add(block_number)
                else:
                    log.warning(
                        "%s was cut off or changed at block %d, which is computed again", self.rows, block_number
                    )
        return whole

    @property
    def _block_bytes(self) -> int:
        return self.block * self.count * self.dtype.itemsize

    def _check_room(self) -> None:
        """Raises before anything is written where the disk cannot hold the file."""
        there = self.rows.stat().st_blocks * 512 if self.rows.exists() else 0
        free = shutil.disk_usage(self.rows.parent).free
        if self.size - there > free:
            raise OSError(
                f"the signatures take {self.size / 1e9:.3g} GB, but {self.rows.parent} has {free / 1e9:.3g} GB free; "
                "make room there, or choose another cache_dir"
            )

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        """The journal, open for reading and appending, which no other process has meanwhile."""
        waiting = partial(log.info, "another process is writing %s; waiting for it", self.rows)
        with locked(self.journal, on_wait=waiting), self.journal.open("a+b") as journal:
            yield journal


def _append(journal: BinaryIO, entry: dict[str, Any]) -> None:
    journal.write((json.dumps(entry) + "\n").encode())
    journal.flush()


def _restart(journal: BinaryIO, head: bytes) -> None:
    journal.truncate(0)
    journal.write(head)
    journal.flush()


def _entry(line: bytes) -> tuple[int, int] | None:
    """The block and the checksum of a line; None for one that is no such line."""
    try:
        entry = json.loads(line)
        return int(entry["block"]), int(entry["checksum"])
    except (ValueError, KeyError, TypeError):
        return None
