"""What a fit on views has finished, in files of a folder, so that an interrupted one goes on to bitwise the same model.

- `views.pt`: which views and recipes the members have, and their weights; written when they have been compared;
- `sums-K.pt`: of rank K, the sums over the series that it has seen, where there are more series than landmarks;
- `member-K.pt`: the state of the variational fit of member K.

The first is also what says which data and settings the folder belongs to: without it nothing is gone on from. Every
file has a hash (`training.checkpoint`), and a damaged one is an error that names it; without it, the others are gone on
from to the same model.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.training.checkpoint import read_checkpoint, write_whole

EVERY = 30.0
"""Seconds between two states of the same part of a fit."""

FIT_FILES = ("sums-*.pt", "member-*.pt", "views.pt")
"""Patterns of the files that fits of this and earlier versions keep."""

_FORMAT = 2
_FIRST = "views"


class FitCheckpoint:
    """The files of one fit; `folder=None` keeps nothing. `fingerprint` is that of its data and settings.

    Without `resume`, or where there is nothing to resume from, what an earlier fit left in the folder is removed. A
    ValueError says that a file is damaged or of other data or settings.
    """

    def __init__(self, folder: Path | None, fingerprint: str = "", resume: bool = False, ranks: Ranks = ALONE) -> None:
        self.folder, self.fingerprint, self.ranks = folder, fingerprint, ranks
        self._written = time.perf_counter()
        self._resumed = False
        if folder is None:
            return
        self._resumed = resume and ranks.broadcast((folder / f"{_FIRST}.pt").exists)
        if self._resumed:
            self.read(_FIRST)
        elif ranks.leads:
            for old in [path for pattern in FIT_FILES for path in folder.glob(pattern)]:
                old.unlink(missing_ok=True)

    def read(self, name: str = _FIRST) -> dict[str, Any] | None:
        """The state that rank 0 kept under a name, on all ranks; None where there is none. Tensors are on the CPU."""
        return self.ranks.broadcast(lambda: self._read(name)) if self._resumed else None

    def write(self, state: dict[str, Any], name: str = _FIRST, *, now: bool = True) -> None:
        """Keeps a state, the same on all ranks; without `now` only where the last one is half a minute old."""
        if self.folder is not None and self.ranks.leads and (now or self._due()):
            self._write(name, state)

    def read_own(self, name: str) -> dict[str, Any] | None:
        """The same for a state that every rank has of its own."""
        return self._read(f"{name}-{self.ranks.rank}") if self._resumed else None

    def write_own(self, state: dict[str, Any], name: str) -> None:
        """Keeps a state of this rank where the last one is half a minute old."""
        if self.folder is not None and self._due():
            self._write(f"{name}-{self.ranks.rank}", state)

    def _due(self) -> bool:
        return time.perf_counter() - self._written >= EVERY

    def _write(self, name: str, state: dict[str, Any]) -> None:
        assert self.folder is not None
        write_whole(self.folder / f"{name}.pt", {"format": _FORMAT, "fingerprint": self.fingerprint, "state": state})
        self._written = time.perf_counter()

    def _read(self, name: str) -> dict[str, Any] | None:
        assert self.folder is not None
        stored = read_checkpoint(self.folder / f"{name}.pt", self.fingerprint, _FORMAT)
        return None if stored is None else stored["state"]
