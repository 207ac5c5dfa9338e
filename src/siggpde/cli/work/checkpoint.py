"""The folder MODEL.checkpoint, which exists while a fit runs and after one that was interrupted.

The fit holds a lock of the system on it, which ends with the process, however it ends: there are no stale locks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from siggpde.cli.console import WrongCall
from siggpde.utils.files import PART_SUFFIX, locked

_SUFFIX = ".checkpoint"
_OURS = re.compile(rf"member-\d+\.pt({PART_SUFFIX})?")


@dataclass(frozen=True)
class Checkpoint:
    """The checkpoint files of a fit, next to the model that it will save."""

    folder: Path

    @staticmethod
    def of(output: Path) -> Checkpoint:
        return Checkpoint(output.with_name(output.name + _SUFFIX))

    def exists(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        return any(path.suffix == ".pt" for path in self._files())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Creates the folder before any work, so that errors show at once, and keeps other fits of the same model away
        to the end, when it is removed if it is empty."""

        def refuse() -> None:
            model = self.folder.with_name(self.folder.name.removesuffix(_SUFFIX))
            raise WrongCall(
                f"another fit to {model} is running, which holds {self.folder}; wait for its end or choose "
                "another --output"
            )

        with ExitStack() as lock:
            while True:
                self.folder.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):  # a fit that ended at this moment removed the folder
                    lock.enter_context(locked(self.folder, on_wait=refuse))
                    break
            try:
                yield
            finally:
                with suppress(OSError):
                    self.folder.rmdir()

    def remove(self) -> None:
        """Removes the files of the checkpoint and no others, for the one who holds it."""
        for path in self._files():
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return [path for path in self.folder.iterdir() if _OURS.fullmatch(path.name)]
