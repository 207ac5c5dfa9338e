"""Progress: bars on a terminal, now and then a plain line in a notebook, a pipe or a file."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

_WORTH_A_BAR = 8
_EVERY = 2.0  # seconds between two lines
T = TypeVar("T")


class Progress:
    """A bar for every phase, on stderr: None is on terminals, elsewhere a line now and then; False is nothing."""

    def __init__(self, shown: bool | None) -> None:
        self.wanted = shown is not False
        self.shown = sys.stderr.isatty() if shown is None else shown
        self._lines = _Lines() if self.wanted and not self.shown else None
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
        if self._lines is not None and kind is None:
            self._lines.close()

    def start(self, name: str, total: int) -> None:
        if self._lines is not None:
            self._lines.start(name, total)
        if self.shown:
            self._close()
            self._task = self._bars.add_task(name, total=total, note="")

    def step(self, note: str = "", by: int = 1) -> None:
        if self._lines is not None:
            self._lines.step(note, by)
        if self._task is not None:
            self._bars.update(self._task, advance=by, note=note)

    def say(self, line: str, log: logging.Logger) -> None:
        """A line for people: to the log, where that shows it; else above the bars, unless nothing is wanted."""
        if log.isEnabledFor(logging.INFO):
            log.info("%s", line)
        elif self._lines is not None:
            print(line, file=sys.stderr, flush=True)
        elif self.wanted:
            self._bars.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def over(self, pieces: Sequence[T], name: str) -> Iterator[T]:
        """The pieces, one after the other, with a bar of their own below that of the phase while there are any."""
        if not self.shown or len(pieces) < _WORTH_A_BAR:
            for number, piece in enumerate(pieces):
                yield piece
                if self._lines is not None:
                    self._lines.within(name, number + 1, len(pieces))
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


class _Lines:
    """Lines such as "views: 5 of 14, 12 s", at most one every two seconds, and one at the end of what had some."""

    def __init__(self) -> None:
        self._begun = self._last = time.monotonic()
        self._name, self._total, self._done, self._reported = "", 0, 0, True

    def start(self, name: str, total: int) -> None:
        self.close()
        self._name, self._total, self._done, self._reported = name, total, 0, True

    def step(self, note: str, by: int) -> None:
        self._done += by
        self._reported = False
        if time.monotonic() - self._last >= _EVERY:
            self._write(f"{self._name}: {self._done} of {self._total}", note)
            self._reported = True

    def within(self, name: str, done: int, total: int) -> None:
        """A pass within the phase."""
        if time.monotonic() - self._last >= _EVERY:
            self._write(f"{self._name}, {name}: {done} of {total}" if self._name else f"{name}: {done} of {total}", "")

    def close(self) -> None:
        """The end of a phase, told where the last line is not about it and the time is worth a line."""
        if not self._reported and time.monotonic() - self._last >= _EVERY / 2:
            self._write(f"{self._name}: {self._done} of {self._total}", "")
        self._reported = True

    def _write(self, line: str, note: str) -> None:
        self._last = time.monotonic()
        more = f", {note}" if note else ""
        print(f"{line}, {self._last - self._begun:.0f} s{more}", file=sys.stderr, flush=True)
