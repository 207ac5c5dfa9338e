"""The PenDigits and whale-call experiments of the paper: methods compared on one data set.

Accuracy, NLPP and seconds of an iteration of every method, with the numbers of the paper.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from siggpde.experiments.markdown import duration, markdown_table, save_figure, spread
from siggpde.experiments.methods import run_method
from siggpde.experiments.results import Results

_COLOURS = ("#3b6fb6", "#6ba3d6", "#2f8f5b", "#d9752b", "#8a4fa3", "#8a8a8a")


def run(config: dict[str, Any], results: Results, runs: int, jobs: int = 1) -> None:
    """Every method as often as `runs` says; run i has seed i, which decides its validation split and its start.

    The paper's experiments on digits (PenDigits) and whale calls.
    """
    tasks = {}
    for seed in range(runs):
        for name, method in config["methods"].items():
            checkpoint = results.folder / "checkpoints" / f"{name}-{seed}.pt"
            tasks[f"{name}/{seed}"] = partial(run_method, config, method, seed, checkpoint)
    results.compute(tasks, jobs)


def report(config: dict[str, Any], results: Results) -> str:
    headings = ["method", "accuracy %", "NLPP", "paper", "CPU s / iteration", "iterations", "CPU time", "ended by"]
    rows = [_row(method, list(results.records(f"{name}/").values())) for name, method in config["methods"].items()]
    figures = _figure(config, results)
    notes = "\n".join(f"- {note}" for note in config.get("notes", []))
    rule = stop_rule(config)
    sections = [markdown_table(headings, rows), rule, f"![{config['title']}]({figures[0]})", notes]
    return "\n\n".join(section for section in sections if section) + "\n"


def stop_rule(config: dict[str, Any]) -> str:
    """When a run ends, in words."""
    schedule = config["schedule"]
    return (
        f"One rule for all: a phase ends after {schedule['iterations']} iterations, or when {schedule['patience']} "
        "evaluations in a row have not lowered the validation NLPP by 0.5 %, or when a third of the budget of "
        f"{duration(config['budget'])} of CPU time a run is spent; the last phase takes as many iterations as the "
        "first. Methods marked * run the whole schedule."
    )


def _row(method: dict[str, Any], records: list[dict[str, Any]]) -> list[str]:
    name = method["name"] + ("*" if method.get("full") else "")
    paper = f"{method['paper'][0]:.2f} / {method['paper'][1]:.3f}" if "paper" in method else "–"
    if not records:
        return [name, "–", "–", paper, "–", "–", "–", "–"]
    steps = [_mean_step(record) for record in records if "seconds_per_iteration" in record]
    counts = [sum(record["iterations"].values()) for record in records if "iterations" in record]
    reasons = [reason for record in records for reason in record.get("stopped", {}).values()]
    ended = sorted({"iterations" if reason.endswith("iterations") else reason for reason in reasons})
    return [
        name,
        spread([record["accuracy"] for record in records]),
        spread([record["nlpp"] for record in records], 4),
        paper,
        duration(sum(steps) / len(steps)) if steps else "–",
        f"{sum(counts) / len(counts):.0f}" if counts else "–",
        duration(sum(record["cpu_seconds"] for record in records) / len(records)),
        ", ".join(ended) or "–",
    ]


def _mean_step(record: dict[str, Any]) -> float:
    """CPU seconds of an iteration over all phases."""
    counts, seconds = record["iterations"], record["seconds_per_iteration"]
    return sum(seconds[name] * counts[name] for name in counts) / sum(counts.values())


def _figure(config: dict[str, Any], results: Results) -> list[str]:
    """Validation NLPP against CPU time for the first run of the methods that take minibatches."""
    from matplotlib import pyplot  # noqa: PLC0415 - not everybody has it

    figure, ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    for (name, method), colour in zip(config["methods"].items(), _COLOURS, strict=False):
        record = results.get(f"{name}/0")
        if record is None:
            continue
        if not record.get("validation"):
            ax.axhline(record["nlpp"], color=colour, linestyle=":", linewidth=1.4, label=f"{method['name']} (test)")
            continue
        seconds, done = record["seconds_per_iteration"], record["iterations"]
        before = {"q": 0.0, "hyperparameters": seconds["q"] * done["q"]}
        times = [before[phase] + seconds[phase] * step for phase, step, _ in record["validation"]]
        ax.plot(times, [nlpp for *_, nlpp in record["validation"]], color=colour, label=method["name"])
    ax.set(xscale="log", xlabel="CPU seconds", ylabel="NLPP of the validation part")
    ax.set_yscale("log")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small")
    return save_figure(figure, results.folder, "training")
