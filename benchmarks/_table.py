"""Timing by turns, and tables of the results as text, Markdown and JSON."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass, field

OURS = "siggpde"
_ROUND_SECONDS = 0.02


def once(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def by_turns(calls: dict[Hashable, Callable[[], object]], rounds: int) -> dict[Hashable, float]:
    """Seconds a call of each: the minimum over rounds of a round's mean.

    Everyone runs in every round (calls over a second in the first two), for about 20 ms, so that a noisy neighbour hits
    all alike and the least disturbed round of each is kept. The first call, unmeasured, warms caches and compiles. The
    garbage collector rests meanwhile, as it does in the standard library's timeit.
    """
    repeats = {}
    for name, call in calls.items():
        first = once(call)
        repeats[name] = max(1, round(_ROUND_SECONDS / max(1e-7, once(call) if first < 1 else first)))
    best = dict.fromkeys(calls, math.inf)
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            for name, call in calls.items():
                if turn > 1 and best[name] > 1:
                    continue
                start = time.perf_counter()
                for _ in range(repeats[name]):
                    call()
                best[name] = min(best[name], (time.perf_counter() - start) / repeats[name])
    finally:
        gc.enable()
    return best


@dataclass
class Row:
    """One competitor in one case; `error` of the value, `slope_error` of the gradient, both median relative."""

    case: str
    who: str
    setting: str = ""
    seconds: float | None = None
    ratio: float | None = None
    error: float | None = None
    slope_error: float | None = None
    note: str = ""

    def cells(self) -> list[str]:
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}" if self.ratio < 10 else f"{self.ratio:.0f}"
        errors = ["" if e is None else f"{e:.0e}" for e in (self.error, self.slope_error)]
        return [self.case, self.who, self.setting, show_seconds(self.seconds), ratio, *errors, self.note]


_HEADINGS = ["case", "who", "setting", "time", "ratio to us", "error", "gradient error", "note"]


@dataclass
class Table:
    """The rows of one group; `ratios` holds (case, fastest peer, its time over ours) for the summary."""

    key: str
    title: str
    rows: list[Row] = field(default_factory=list)
    ratios: list[tuple[str, str, float]] = field(default_factory=list)

    def add(self, rows: list[Row], seconds: dict[int, float], ours: int | None) -> None:
        """Add a case's rows with the seconds measured for some (by index); `ours` is the row to compare with."""
        for index, row in enumerate(rows):
            row.seconds = seconds.get(index)
            if ours is not None and row.seconds is not None:
                row.ratio = row.seconds / seconds[ours]
        rivals = [row for row in rows if row.who != OURS and row.ratio is not None]
        if rivals:
            best = min(rivals, key=lambda row: row.ratio)
            self.ratios.append((best.case, f"{best.who} {best.setting}".strip(), best.ratio))
        self.rows += rows

    def fail(self, case: str, reason: str) -> None:
        """Count a case in which our figure means nothing as lost."""
        self.ratios.append((case, f"all: {reason}", 0.0))

    def lines(self, markdown: bool = False) -> list[str]:
        title = f"{self.key}. {self.title}"
        grid = _grid(_HEADINGS, [row.cells() for row in self.rows], markdown)
        return ["", f"## {title}" if markdown else title, *([""] if markdown else []), *grid]

    def as_json(self) -> dict:
        return asdict(self)


@dataclass
class Goal:
    """What a group must reach; `got` is its worst figure. Times and megabytes are to be small, ratios large."""

    what: str
    required: float
    aim: float
    unit: str = "x"
    got: float | None = None
    where: str = ""

    def cells(self) -> list[str]:
        smaller = self.unit != "x"
        sign, unit = ("<= " if smaller else ">= "), (" " + self.unit if smaller else self.unit)
        verdict, got = "not measured", ""
        if self.got is not None:
            reached = [self.got <= bound if smaller else self.got >= bound for bound in (self.required, self.aim)]
            verdict = "aim" if reached[1] else "required" if reached[0] else "MISSED"
            got = f"{self.got:.3g}{unit}"
        return [self.what, f"{sign}{self.required:g}{unit}", f"{sign}{self.aim:g}{unit}", got, verdict, self.where]


def summary_lines(goals: list[Goal], markdown: bool = False) -> list[str]:
    """The last table: for every goal the worst case."""
    headings = ["what", "required", "aim", "got (worst case)", "reached", "where"]
    title = "Summary"
    grid = _grid(headings, [goal.cells() for goal in goals], markdown)
    return ["", f"## {title}" if markdown else title, *([""] if markdown else []), *grid]


def show_seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    scale, unit = (1e6, "µs") if seconds < 1e-3 else (1e3, "ms") if seconds < 1 else (1, "s")
    return f"{seconds * scale:.3g} {unit}"


def _grid(headings: list[str], rows: list[list[str]], markdown: bool) -> list[str]:
    used = [c for c, _ in enumerate(headings) if any(row[c] for row in rows)]
    rows = [[row[c] for c in used] for row in [headings, *rows]]
    widths = [max(len(row[c]) for row in rows) for c in range(len(used))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if markdown:
        lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "| " + " | ".join("---" for _ in used) + " |" if markdown else "-" * max(map(len, lines)))
    return lines
