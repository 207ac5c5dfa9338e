"""The satellite experiment of the paper (Crop): accuracy, ELBO and seconds of an iteration against M."""

from __future__ import annotations

from functools import partial
from statistics import mean
from typing import Any

from siggpde_paper.experiments.methods import run_method
from siggpde_paper.experiments.report import (
    duration,
    ended_cell,
    iterations_cell,
    legend_below,
    log_ticks,
    markdown_table,
    notes_of,
    run_line,
    save_figure,
    spread,
    stop_rule,
)
from siggpde_paper.experiments.results import Results
from siggpde_paper.experiments.timing import times_section, timing_tasks

_STYLES = {"siggpde": ("#3b6fb6", "o"), "gpsig-it": ("#d9752b", "s"), "gpsig-it-explicit": ("#8a4fa3", "^")}


def run(config: dict[str, Any], results: Results, runs: int, jobs: int = 1) -> None:
    """Whole fits at the sizes each method lists, and times of a few iterations at all sizes.

    The paper's experiment on satellite series.
    """
    tasks = {}
    for seed in range(runs):
        for name, method in config["methods"].items():
            for count in method["sizes"]:
                checkpoint = results.folder / "checkpoints" / f"{name}-{count}-{seed}.pt"
                sized = config | {"inducing": count}
                tasks[f"fit/{name}/{count}/{seed}"] = partial(run_method, sized, method, seed, checkpoint)
    results.compute(tasks, jobs)
    results.compute(timing_tasks(config))


def report(config: dict[str, Any], results: Results) -> str:
    figures = _figure(config, results)
    sections = [
        _fits(config, results),
        f"{run_line(config)} {stop_rule(config)} ELBO: of all the training series, over their number.",
        times_section(config, results),
        f"![{config['title']}]({figures[0]})",
        notes_of(config),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _fits(config: dict[str, Any], results: Results) -> str:
    rows = []
    for name, method in config["methods"].items():
        for count in method["sizes"]:
            records = list(results.records(f"fit/{name}/{count}/").values())
            digits = {"accuracy": 2, "nlpp": 4, "elbo": 4}
            cells = [spread([record[key] for record in records], digits[key]) for key in digits]
            time = duration(mean(record["cpu_seconds"] for record in records)) if records else "–"
            rows.append([method["name"], str(count), *cells, iterations_cell(records), time, ended_cell(records)])
    headings = ["method", "M", "accuracy %", "NLPP", "ELBO per series", "iterations", "CPU time", "ended by"]
    return markdown_table(headings, rows)


def _figure(config: dict[str, Any], results: Results) -> list[str]:
    """The paper's figure: seconds of an iteration, accuracy and ELBO against M, as far as they are measured."""
    from matplotlib import pyplot  # noqa: PLC0415 - not everybody has it

    panels = {
        "CPU seconds of an iteration,\nkernel learned": _times(config, results),
        "test accuracy %": _means(config, results, "accuracy"),
        "ELBO per series": _means(config, results, "elbo"),
    }
    panels = {label: curves for label, curves in panels.items() if curves} or panels
    width = 11 / 3 * len(panels)
    figure, axes = pyplot.subplots(1, len(panels), figsize=(width, 3.7), layout="constrained", squeeze=False)
    for ax, (label, curves) in zip(axes[0], panels.items(), strict=True):
        for name, points in curves.items():
            colour, marker = _STYLES[name]
            heading = (config["timed"].get(name) or config["methods"][name])["name"]
            ax.plot(*zip(*points, strict=True), color=colour, marker=marker, label=heading)
        if label.startswith("CPU"):
            ax.set_yscale("log")
            log_ticks(ax.yaxis)
        ax.set(xlabel="inducing variables M", ylabel=label)
        ax.spines[["top", "right"]].set_visible(False)
    legend_below(figure, 3)
    return save_figure(figure, results.folder, "crops")


_Curves = dict[str, list[tuple[int, float]]]


def _times(config: dict[str, Any], results: Results) -> _Curves:
    """(M, seconds of an iteration with the kernel learned) of every method that was timed."""
    curves = {
        name: [(m, r["moving"]) for m in config["sizes"] if (r := results.get(f"time/{name}/{m}")) is not None]
        for name in config["timed"]
    }
    return {name: points for name, points in curves.items() if points}


def _means(config: dict[str, Any], results: Results, key: str) -> _Curves:
    """(M, mean of `key` over runs) of every method that was fitted."""
    curves: _Curves = {}
    for name, method in config["methods"].items():
        for count in method["sizes"]:
            records = results.records(f"fit/{name}/{count}/").values()
            if records:
                curves.setdefault(name, []).append((count, mean(record[key] for record in records)))
    return curves
