"""The folder MODEL.checkpoint, which is there while a fit is under way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from siggpde.files import PART_SUFFIX

_FIRST = "screening.pt"
_OURS = re.compile(rf"(screening|member-\d+)\.pt({PART_SUFFIX})?")


@dataclass(frozen=True)
class Checkpoint:
    """What a fit has reached, beside the model it will be."""

    folder: Path

    @staticmethod
    def of(output: Path) -> Checkpoint:
        return Checkpoint(output.with_name(f"{output.name}.checkpoint"))

    def exists(self) -> bool:
        """Whether there is anything to go on from."""
        return any(path.suffix == ".pt" for path in self._files())

    @contextmanager
    def kept(self, *, fresh: bool) -> Iterator[None]:
        """Makes the folder, so that one that cannot be written fails now; an empty one goes again."""
        if fresh:
            self.remove()
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            yield
        finally:
            with suppress(OSError):
                self.folder.rmdir()

    def remove(self) -> None:
        """Removes it, and nothing that is not of it.

        The screening goes last: members without the screening that they come from would stop a later --resume.
        """
        for path in sorted(self._files(), key=lambda path: path.name == _FIRST):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()

    def _files(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return [path for path in self.folder.iterdir() if _OURS.fullmatch(path.name)]
