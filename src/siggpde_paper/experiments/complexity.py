"""The complexity tables of the paper, measured, and whole iterations in the core and in torch."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import linear_regression
from typing import Any

from siggpde_paper.experiments import measurements, tables
from siggpde_paper.experiments.measurements import EVERY, METHODS, WAYS, Size, in_fresh_process, load_sentence
from siggpde_paper.experiments.results import Record, Results, least, pass_key

COLOURS = {"siggpde": "#3b6fb6", "siggpde-torch": "#3f9c6b", "gpsig-it": "#d9752b", "gpsig-is": "#8a4fa3"}
_SYMBOLS = {"M": "M", "length": "l", "d": "d", "batch": "B", "n": "n", "z": "z"}  # of the sizes in orders
_NOISE = 0.5  # MiB: two measurements of the same differ by less

Value = Callable[[dict[str, float]], float]
Combine = Callable[[list[float]], float]
_WITH = ", signatures computed"
_SUMS = ("C_fu", "diag C_ff", "linear algebra")
_ALL = ("C_uu", *_SUMS)
_STORING = ("siggpde-torch", "gpsig-it", "gpsig-is")
_OURS = ("siggpde", "gpsig-it", "gpsig-is")
_BASELINES = {"gpsig-it": "GPSig-IT", "gpsig-is": "GPSig-IS"}


def run(config: dict[str, Any], results: Results, runs: int, jobs: int = 1) -> None:
    """All measurements, the quickest first; `runs` and `jobs` do not matter to them."""
    tasks: dict[str, Callable[[], Record]] = {}
    for number in range(config["passes"]):
        tasks |= iteration_tasks(config, number) | space_tasks(config, number) | time_tasks(config, number)
    results.compute(tasks)


def report(config: dict[str, Any], results: Results) -> str:
    """The tables of time, of language and algorithm, and of space."""
    measured = {
        "time": _time(config, results),
        "language": _language(config, results),
        "space": _space(config, results),
    }
    return tables.render("complexity.md", config, measurable=measurements.measurable(), **measured)


@dataclass(frozen=True)
class Plan:
    """One size grows at a time and the others stay at the base; `name` is the beginning of the keys of its records."""

    name: str
    base: dict[str, int]
    grow: dict[str, list[int]]

    @staticmethod
    def of(name: str, settings: dict[str, Any]) -> Plan:
        return Plan(name, settings["base"], settings["grow"])

    def sizes(self) -> Iterator[Size]:
        """All sizes, the base first, every one once."""
        grown = [self.size(letter, value) for letter, values in self.grow.items() for value in values]
        return iter(dict.fromkeys([Size(**self.base), *grown]))

    def size(self, letter: str, value: int) -> Size:
        return Size(**{**self.base, letter: value})

    def key(self, method: str, size: Size) -> str:
        """The key of a record; z is in it where it matters and is not n + 1."""
        sizes = dict(vars(size))
        if method != "gpsig-is" or sizes["z"] in (0, size.n + 1):
            del sizes["z"]
        return f"{self.name}/{method}/" + " ".join(f"{letter}={value}" for letter, value in sizes.items())

    def points(
        self, results: Results, method: str, letter: str, value_of: Value, above: float = 0.0
    ) -> list[tuple[float, float]]:
        """Sizes and what was measured at them, in order, as far as it is more than `above`."""
        points = []
        for size in self.grow.get(letter, []) if letter != "z" or method == "gpsig-is" else []:
            record = least(results, self.key(method, self.size(letter, size)))
            if record is not None and value_of(record) > above:
                points.append((float(size), value_of(record)))
        return points

    def spoken(self) -> str:
        return ", ".join(f"{letter} = {value}" for letter, value in self.base.items())


@dataclass(frozen=True)
class Row:
    """A row of a table: some parts of a method added up, and their order by the algorithm here and by the paper."""

    name: str
    method: str
    parts: Sequence[str]
    order: str
    paper: str = "–"


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of log value in log size, by least squares, of pairs (size, value)."""
    sizes, values = ([math.log(pair[side]) for pair in points] for side in (0, 1))
    return linear_regression(sizes, values).slope


def exponent_cell(points: Sequence[tuple[float, float]], letter: str, order: str) -> str:
    """The exponent over all points and, where the order depends on the letter, in brackets between the last two."""
    if len(points) < 2:
        return "–"
    whole, last = exponent(points), exponent(points[-2:])
    return f"{whole:z.2f} ({last:z.2f})" if _SYMBOLS[letter] in re.findall(r"[A-Za-z]+", order) else f"{whole:z.2f}"


def value_of_parts(combine: Combine, parts: Sequence[str]) -> Value:
    """The function from a record to its parts combined, as far as it has them."""
    return lambda record: combine([record[part] for part in parts if part in record])


def growth_table(
    results: Results,
    rows: Sequence[Row],
    plan: Plan,
    spoken: Callable[[float], str],
    combine: Combine,
    *,
    others: dict[str, Plan] | None = None,
    noise: float = 0.0,
) -> str:
    """A row for each of `rows`: its order, its value at the base, and exponents in every size; `noise` counts as 0."""
    lines = []
    for row in rows:
        value, grown = value_of_parts(combine, row.parts), (others or {}).get(row.method, plan)
        base = least(results, plan.key(row.method, Size(**plan.base)))
        text = "–" if base is None else "0" if value(base) <= noise else spoken(value(base))
        curves = {letter: grown.points(results, row.method, letter, value, noise) for letter in plan.grow}
        exponents = [exponent_cell(points, letter, row.order) for letter, points in curves.items()]
        lines.append([row.name, row.order, row.paper, text, *exponents])
    return tables.markdown_table(
        ["part", "order", "in the paper", "at the base", *(f"in {letter}" for letter in plan.grow)], lines
    )


def draw_growth(
    results: Results,
    file: str,
    rows: Sequence[tuple[Plan, str, dict[str, tuple[str, Value]]]],
    noise: float | None = None,
) -> str:
    """A figure of rows (plan, label, curves by method), a panel for every size; the last has a line at the noise."""
    columns, entries = max(len(plan.grow) for plan, *_ in rows), {}
    figure, panels = tables.subplots(len(rows), columns, (2.7 * columns, 1 + 2.4 * len(rows)), sharey="row")
    for axes, (plan, label, curves) in zip(panels, rows, strict=True):
        for unused in axes[len(plan.grow) :]:
            unused.set_axis_off()
        for ax, (letter, values) in zip(axes, plan.grow.items(), strict=False):
            for method, (name, value_of) in curves.items():
                if points := plan.points(results, method, letter, value_of):
                    ax.plot(*zip(*points, strict=True), marker="o", markersize=4, color=COLOURS[method], label=name)
            ax.set(xscale="log", yscale="log", xlabel=letter, xlim=(values[0] / 1.2, values[-1] * 1.2))
            ax.set_xticks(values, [str(value) for value in values], fontsize="small")
            ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        axes[0].set_ylabel(label)
    for axes in reversed(panels):
        entries |= dict(zip(*reversed(axes[0].get_legend_handles_labels()), strict=True))
    if noise:
        for ax in panels[-1][: len(rows[-1][0].grow)]:
            ax.axhline(noise, color="#8a8a8a", linestyle=":", linewidth=1, zorder=0)
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=4, frameon=False)
    return tables.save_figure(figure, results.folder, file)


def time_plans(config: dict[str, Any]) -> tuple[Plan, Plan]:
    """The sizes of all methods, and the larger ones at which SigGPDE is more than the overhead of its calls."""
    return Plan.of("time", config), Plan.of("time", config["large"])


def time_tasks(config: dict[str, Any], number: int) -> dict[str, Callable[[], Record]]:
    """A pass over every part of every method at every size, for the paper's table of time complexities."""
    common, large = time_plans(config)
    listed = [(large, "siggpde", size) for size in large.sizes()]
    listed += [(common, method, size) for method in METHODS for size in common.sizes()]
    return {
        pass_key(plan.key(method, size), number): partial(measurements.part_times, method, size, config["seconds"])
        for plan, method, size in listed
    }


def _time(config: dict[str, Any], results: Results) -> dict[str, Any] | None:
    measured = results.runs("time/")
    if not measured:
        return None
    common, large = time_plans(config)
    # The sum of all parts against each size; in plain torch signatures are counted, with the core they are stored.
    curves = {method: (name, value_of_parts(sum, _ALL)) for method, name in METHODS.items()}
    curves["siggpde-torch"] = METHODS["siggpde-torch"] + _WITH, value_of_parts(sum, (*_ALL, "signatures"))
    return {
        "common": common.spoken(),
        "large": large.spoken(),
        "calls": measurements.FEWEST_CALLS,
        "long": measurements.LONG_CALL,
        "load": load_sentence(measured),
        "table": growth_table(results, _TIME_ROWS, common, tables.duration, sum, others={"siggpde": large}),
        "figure": draw_growth(results, "complexity", [(common, "CPU seconds of an iteration", curves)]),
    }


_ROWS = tomllib.loads((Path(__file__).parent / "templates" / "complexity.toml").read_text(encoding="utf-8"))
_TIME_ROWS, _KEPT = ([Row(*row) for row in _ROWS[table]] for table in ("time", "kept"))
_ALL_STORED = [
    Row(name, "siggpde-torch" if method == "siggpde" else method, parts, order, paper)
    for name, method, parts, order, _, paper in _ROWS["space"]
]
_AS_HERE = [Row(name, method, parts, order, paper) for name, method, parts, _, order, paper in _ROWS["space"]]


def space_plans(config: dict[str, Any]) -> tuple[Plan, Plan, Plan, Plan]:
    """Sizes with everything stored; as it is here; larger ones of SigGPDE; and those of inducing variables."""
    names = {"stored": "stored", "tiled": "tiled", "large": "tiled", "kept": "kept"}
    stored, here, large, kept = (Plan.of(f"space/{name}", config[key]) for key, name in names.items())
    return stored, here, large, kept


def space_tasks(config: dict[str, Any], number: int) -> dict[str, Callable[[], Record]]:
    """Every method at every size, each in a fresh process, for the paper's table of space complexities."""
    if number > 0 or not measurements.measurable():  # memory is the same in every pass
        return {}
    stored, here, large, kept = space_plans(config)
    listed = [(stored, method, size, False) for method in _STORING for size in stored.sizes()]
    listed += [(here, method, size, True) for method in _OURS for size in here.sizes()]
    listed += [(large, "siggpde", size, True) for size in large.sizes()]
    keeping = {
        kept.key(method, size): partial(in_fresh_process, measurements.parameter_memory, method, size)
        for method in _OURS
        for size in kept.sizes()
    }
    return keeping | {
        plan.key(method, size): partial(in_fresh_process, measurements.part_memory, method, size, tiled)
        for plan, method, size, tiled in listed
    }


def _space(config: dict[str, Any], results: Results) -> dict[str, Any] | None:
    if not results.runs("space/"):
        return None
    plans = dict(zip(("stored", "here", "large", "kept"), space_plans(config), strict=True))
    stored, here, large, kept = plans.values()
    largest = partial(max, default=0.0)  # parts come one after the other, and what one took is free for the next
    table = partial(growth_table, results, spoken="{:.1f}".format, combine=largest, noise=_NOISE)
    listed = [table(_ALL_STORED, stored), table(_AS_HERE, here, others={"siggpde": large}), table(_KEPT, kept)]
    spoken = {name: plan.spoken() for name, plan in plans.items()}
    above, below = ({method: (METHODS[method], _peak) for method in methods} for methods in (_STORING, _OURS))
    rows = [(stored, "peak MiB, everything stored", above), (here, "peak MiB, as it is here", below)]
    figure = draw_growth(results, "complexity-space", rows, _NOISE)
    return {**spoken, "noise": _NOISE, "tables": listed, "figure": figure}


def _peak(record: dict[str, float]) -> float:
    """The largest part; where all are noise, the bound of it."""
    return max(_NOISE, *record.values())


_QUOTED = {key: f"{name}, its authors' TensorFlow" for key, name in ({"siggpde": "SigGPDE"} | _BASELINES).items()}


def iteration_tasks(config: dict[str, Any], number: int) -> dict[str, Callable[[], Record]]:
    """A pass over whole iterations of every method at the sizes of every experiment, and, once, their peak memory."""
    settings, listed = config["iteration"], {}
    for case, sizes in settings["sizes"].items():
        for method in WAYS:
            key = pass_key(f"iteration/{method}/{case}", number)
            listed[key] = partial(
                measurements.time_iteration, method, sizes, settings["squared"], settings["iterations"]
            )
            if measurements.measurable():
                peak = partial(in_fresh_process, measurements.iteration_peak, method, sizes, settings["squared"])
                listed[f"peak/{method}/{case}"] = peak
    return listed


def _language(config: dict[str, Any], results: Results) -> dict[str, Any] | None:
    timed = results.runs("iteration/")
    if not timed and not results.runs("peak/"):
        return None
    settings = config["iteration"]
    cases = list(settings["sizes"])
    quoted: dict[str, dict[str, Record]] = {  # of [fixed, learned], or of [learned] alone
        name: {case: dict(zip(("moving", "fixed"), reversed(times), strict=False)) for case, times in row.items()}
        for name, row in settings["quoted"].items()
    }
    measured = {
        method: {case: record for case in cases if (record := least(results, f"iteration/{method}/{case}")) is not None}
        for method in WAYS
    }
    rows = [[name, *(tables.times_cell(measured[method].get(case)) for case in cases)] for method, name in WAYS.items()]
    peaks = []
    for method, name in WAYS.items():
        records = [results.get(f"peak/{method}/{case}") for case in cases]
        peaks.append([name, *("–" if record is None else f"{record['MiB']:.0f} MiB" for record in records)])
    for key, name in _QUOTED.items():
        rows.append([f"{name} (quoted)", *(tables.times_cell(quoted[key].get(case)) for case in cases)])
        row = settings["quoted_peak"][key]
        peaks.append([f"{name} (quoted)", *(f"{row[case]:.1f} GB" if case in row else "–" for case in cases)])
    by_core = {method: measured[f"{method}-core"] for method in _BASELINES}
    compared = [
        ("{} / SigGPDE, both in the core", measured["core"], by_core),
        ("{} in torch / SigGPDE in the core", measured["core"], measured),
        ("{} in torch / SigGPDE in the core" + EVERY, measured["core-every"], measured),
        ("{} / SigGPDE, both in torch", measured["torch"], measured),
        ("{} / SigGPDE, both in torch" + EVERY, measured["torch-every"], measured),
        ("{} / SigGPDE, both in TensorFlow (quoted)", quoted["siggpde"], quoted),
    ]
    ratios = [
        [label.format(name), *(_ratio(table[method].get(case), base.get(case)) for case in cases)]
        for method, name in _BASELINES.items()
        for label, base, table in compared
    ]
    paper, speeds = settings.get("paper", {"siggpde": {}}), []
    for case, seconds in paper["siggpde"].items():
        core = _ratio(by_core["gpsig-it"].get(case), measured["core"].get(case))
        torch = _ratio(measured["gpsig-it"].get(case), measured["torch"].get(case))
        speeds.append(f"{case} {paper['gpsig-it'][case] / seconds:.1f} ({core} core, {torch} plain torch)")
    return {
        "load": load_sentence(timed),
        "times": tables.markdown_table(["method", *cases], rows),
        "ratios": tables.markdown_table(["ratio", *cases], ratios),
        "speeds": speeds,
        "peaks": tables.markdown_table(["method", *cases], peaks),
    }


def _ratio(record: Record | None, base: Record | None) -> str:
    if record is None or base is None:
        return "–"
    ratio = record["moving"] / base["moving"]
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"
