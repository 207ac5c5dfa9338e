"""How measurements grow with the sizes of a problem: plans of sizes, exponents, tables and figures of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from siggpde_paper.experiments.measurements import Size
from siggpde_paper.experiments.report import markdown_table
from siggpde_paper.experiments.results import Results, least

COLOURS = {"siggpde": "#3b6fb6", "siggpde-torch": "#3f9c6b", "gpsig-it": "#d9752b", "gpsig-is": "#8a4fa3"}
_SYMBOLS = {"M": "M", "length": "l", "d": "d", "batch": "B", "n": "n"}  # of the sizes in orders

Value = Callable[[dict[str, float]], float | None]


@dataclass(frozen=True)
class Plan:
    """One size grows at a time and the others stay at the base; `name` is the beginning of the keys of its records."""

    name: str
    base: dict[str, int]
    grow: dict[str, list[int]]

    def sizes(self) -> Iterator[Size]:
        """All sizes, the base first, every one once."""
        listed = [Size(**self.base)]
        listed += [self.size(letter, value) for letter, values in self.grow.items() for value in values]
        return iter(dict.fromkeys(listed))

    def size(self, letter: str, value: int) -> Size:
        return Size(**{**self.base, letter: value})

    def key(self, method: str, size: Size) -> str:
        return f"{self.name}/{method}/" + " ".join(f"{letter}={value}" for letter, value in vars(size).items())

    def record(self, results: Results, method: str, size: Size) -> dict[str, float] | None:
        """What was measured, the least of all passes."""
        return least(results, self.key(method, size))

    def points(self, results: Results, method: str, letter: str, value_of: Value) -> list[tuple[float, float]]:
        """Sizes and what was measured at them, in order, where there is something."""
        found = []
        for value in self.grow.get(letter, []):
            record = self.record(results, method, self.size(letter, value))
            measured = None if record is None else value_of(record)
            if measured is not None:
                found.append((float(value), measured))
        return found

    def spoken(self) -> str:
        return ", ".join(f"{letter} = {value}" for letter, value in self.base.items())


@dataclass(frozen=True)
class Row:
    """A row of a table: some parts of a method added up, and their order as it follows from the algorithm."""

    name: str
    method: str
    parts: tuple[str, ...]
    order: str


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of log value in log size, by least squares, of pairs (size, value).

    Examples:
        >>> round(exponent([(1.0, 3.0), (2.0, 12.0), (4.0, 48.0)]), 6)
        2.0
    """
    x, y = ([math.log(pair[side]) for pair in points] for side in (0, 1))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return above / sum((a - mean_x) ** 2 for a in x)


def exponent_cell(points: Sequence[tuple[float, float]], letter: str, order: str) -> str:
    """The exponent over all points and, where the order depends on the letter, in brackets between the last two.

    Examples:
        >>> exponent_cell([(1.0, 1.0), (2.0, 2.0), (4.0, 8.0)], "M", "M² B")
        '1.50 (2.00)'
    """
    if len(points) < 2:
        return "–"
    symbols = re.findall(r"[A-Za-z]+", order)
    whole = _signed(exponent(points))
    return f"{whole} ({_signed(exponent(points[-2:]))})" if _SYMBOLS[letter] in symbols else whole


def _signed(number: float) -> str:
    text = f"{number:.2f}"
    return "0.00" if text == "-0.00" else text


def growth_table(
    results: Results,
    rows: Sequence[Row],
    plan: Plan,
    spoken: Callable[[float], str],
    total: Callable[[dict[str, float], tuple[str, ...]], float | None],
    *,
    others: dict[str, Plan] | None = None,
    noise: float = 0.0,
) -> str:
    """A row for each of `rows`: its order, what it takes at the base of the plan, and exponents in every size.

    Exponents of the methods in `others` come from plans of their own. Values up to `noise` are noise: they are 0, and
    no exponent rests on them.
    """
    letters, lines = list(plan.grow), []
    for row in rows:

        def measured(record: dict[str, float], parts: tuple[str, ...] = row.parts) -> float | None:
            return total(record, parts)

        def certain(record: dict[str, float], parts: tuple[str, ...] = row.parts) -> float | None:
            value = total(record, parts)
            return None if value is None or value <= noise else value

        record = plan.record(results, row.method, Size(**plan.base))
        at_base = None if record is None else measured(record)
        own = (others or {}).get(row.method, plan)
        cells = [
            exponent_cell(own.points(results, row.method, letter, certain), letter, row.order) for letter in letters
        ]
        text = "–" if at_base is None else "0" if at_base <= noise else spoken(at_base)
        lines.append([row.name, row.order, text, *cells])
    return markdown_table(["part", "order", "at the base", *(f"in {letter}" for letter in letters)], lines)


def growth_panels(
    axes: Any, results: Results, plan: Plan, methods: dict[str, str], value_of: Value, label: str
) -> None:
    """One panel for every size that grows, in a row of axes; all have logarithmic scales."""
    for ax, (letter, values) in zip(axes, plan.grow.items(), strict=True):
        for method, name in methods.items():
            points = plan.points(results, method, letter, value_of)
            if points:
                ax.plot(*zip(*points, strict=True), marker="o", markersize=4, color=COLOURS[method], label=name)
        ax.set(xscale="log", yscale="log", xlabel=letter, xlim=(values[0] / 1.2, values[-1] * 1.2))
        ax.set_xticks(values, [str(value) for value in values], fontsize="small")
        ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(label)
