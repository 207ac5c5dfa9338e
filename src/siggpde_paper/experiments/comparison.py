"""The PenDigits and whale-call experiments of the paper: methods compared on one data set.

Accuracy, NLPP and seconds of an iteration of every method, with the numbers of the paper.
"""

from __future__ import annotations

from typing import Any

from siggpde_paper.experiments.methods import fit_tasks
from siggpde_paper.experiments.report import (
    duration,
    ended_cell,
    iterations_cell,
    legend_below,
    log_ticks,
    markdown_table,
    named,
    notes_of,
    run_line,
    save_figure,
    spread,
    stop_rule,
)
from siggpde_paper.experiments.results import Results
from siggpde_paper.experiments.timing import times_section, timing_tasks

_COLOURS = ("#3b6fb6", "#6ba3d6", "#2f8f5b", "#d9752b", "#8a4fa3", "#8a8a8a")


def run(config: dict[str, Any], results: Results, runs: int, jobs: int = 1) -> None:
    """Every method as often as `runs` says; run i has seed i, which decides its validation split and its start.

    The paper's experiments on digits (PenDigits) and whale calls.
    """
    results.compute(fit_tasks(config, results.folder, runs), jobs)
    results.compute(timing_tasks(config))


def report(config: dict[str, Any], results: Results) -> str:
    headings = [
        "method", "accuracy %", "NLPP", "ELBO per series", "paper", "CPU time / iteration", "iterations", "CPU time",
        "ended by",
    ]  # fmt: skip
    rows = [
        _row(named(method["name"], config), method, list(results.records(f"fit/{name}/").values()))
        for name, method in config["methods"].items()
    ]
    figures = _figure(config, results)
    sections = [
        markdown_table(headings, rows),
        f"{run_line(config)} {stop_rule(config)} ELBO: of all the training series, over their number.",
        times_section(config, results),
        f"![{config['title']}]({figures[0]})",
        notes_of(config),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _row(name: str, method: dict[str, Any], records: list[dict[str, Any]]) -> list[str]:
    paper = f"{method['paper'][0]:.2f} / {method['paper'][1]:.3f}" if "paper" in method else "–"
    if not records:
        return [name, "–", "–", "–", paper, "–", "–", "–", "–"]
    bounds = [record["elbo"] for record in records if "elbo" in record]
    steps = [_mean_step(record) for record in records if "seconds_per_iteration" in record]
    return [
        name,
        spread([record["accuracy"] for record in records]),
        spread([record["nlpp"] for record in records], 4),
        spread(bounds, 4) if bounds else "–",
        paper,
        duration(sum(steps) / len(steps)) if steps else "–",
        iterations_cell(records),
        duration(sum(record["cpu_seconds"] for record in records) / len(records)),
        ended_cell(records),
    ]


def _mean_step(record: dict[str, Any]) -> float:
    """CPU seconds of an iteration over all phases."""
    counts, seconds = record["iterations"], record["seconds_per_iteration"]
    return sum(seconds[name] * counts[name] for name in counts) / sum(counts.values())


def _figure(config: dict[str, Any], results: Results) -> list[str]:
    """Validation NLPP against CPU time for the first run of the methods that take minibatches."""
    from matplotlib import pyplot  # noqa: PLC0415 - not everybody has it

    figure, ax = pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")
    for (name, method), colour in zip(config["methods"].items(), _COLOURS, strict=False):
        record = results.get(f"fit/{name}/0")
        if record is None or not record.get("validation"):
            continue
        seconds, done = record["seconds_per_iteration"], record["iterations"]
        before = {"q": 0.0, "hyperparameters": seconds["q"] * done["q"]}
        times = [before[phase] + seconds[phase] * step for phase, step, _ in record["validation"]]
        ax.plot(times, [nlpp for *_, nlpp in record["validation"]], color=colour, label=named(method["name"], config))
    ax.set(xscale="log", yscale="log", xlabel="CPU seconds", ylabel="NLPP of the validation part")
    log_ticks(ax.xaxis)
    log_ticks(ax.yaxis)
    ax.spines[["top", "right"]].set_visible(False)
    legend_below(figure, 3)
    return save_figure(figure, results.folder, "training")
