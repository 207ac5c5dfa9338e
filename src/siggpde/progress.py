"""A progress bar on the terminal, and nothing where there is none."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

_WORTH_A_BAR = 8
T = TypeVar("T")


class Progress:
    """One bar for every phase, on stderr; `shown=None` shows it on a terminal only."""

    def __init__(self, shown: bool | None) -> None:
        self.wanted = shown is not False
        self.shown = sys.stderr.isatty() if shown is None else shown
        columns = (TextColumn("{task.description:>16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        left = (TextColumn("left"), TimeRemainingColumn())
        self._bars = Bars(*columns, *left, TextColumn("{task.fields[note]}"), console=Console(stderr=True))
        self._task = None

    def __enter__(self) -> Progress:
        if self.shown:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.shown:
            self._close()
            self._bars.stop()

    def start(self, name: str, total: int) -> None:
        if self.shown:
            self._close()
            self._task = self._bars.add_task(name, total=total, note="")

    def step(self, note: str = "", by: int = 1) -> None:
        if self._task is not None:
            self._bars.update(self._task, advance=by, note=note)

    def say(self, line: str, log: logging.Logger) -> None:
        """A line for people: to the log, where that shows it; else above the bars, unless nothing is wanted."""
        if log.isEnabledFor(logging.INFO):
            log.info("%s", line)
        elif self.wanted:
            self._bars.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def over(self, pieces: Sequence[T], name: str) -> Iterator[T]:
        """The pieces, one after the other, with a bar of their own below that of the phase while there are any."""
        if not self.shown or len(pieces) < _WORTH_A_BAR:
            yield from pieces
            return
        task = self._bars.add_task(name, total=len(pieces), note="")
        try:
            for piece in pieces:
                yield piece
                self._bars.advance(task)
        finally:
            self._bars.remove_task(task)

    def _close(self) -> None:
        """A phase that ended early is done all the same."""
        if self._task is not None:
            done = next(task.completed for task in self._bars.tasks if task.id == self._task)
            self._bars.update(self._task, total=done)
            self._task = None
