"""The folder MODEL.checkpoint, which exists while a fit runs and after one that was interrupted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from siggpde.files import PART_SUFFIX

_FIRST = ("views.pt", "screening.pt")
_OURS = re.compile(rf"(views|screening|(sums|member)-\d+)\.pt({PART_SUFFIX})?")


@dataclass(frozen=True)
class Checkpoint:
    """The checkpoint files of a fit, next to the model that it will save."""

    folder: Path

    @staticmethod
    def of(output: Path) -> Checkpoint:
        return Checkpoint(output.with_name(f"{output.name}.checkpoint"))

    def exists(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        return any(path.suffix == ".pt" for path in self._files())

    @contextmanager
    def created(self, *, fresh: bool) -> Iterator[None]:
        """Creates the folder before any work, so that errors show at once; removes it at the end if it is empty."""
        if fresh:
            self.remove()
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            yield
        finally:
            with suppress(OSError):
                self.folder.rmdir()

    def remove(self) -> None:
        """Removes the files of the checkpoint and no others.

        What was chosen first is removed last: a later --resume is told by it what the other files belong to.
        """
        for path in sorted(self._files(), key=lambda path: path.name in _FIRST):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()

    def _files(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return [path for path in self.folder.iterdir() if _OURS.fullmatch(path.name)]
