"""The complexity table of the paper: CPU time of the parts of an iteration, and the exponents with which it grows.

M, length, channels, batch and levels grow, one at a time.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch

from siggpde.experiments.iteration_parts import PARTS, Size, cpu_seconds, parts_of
from siggpde.experiments.markdown import duration, markdown_table, save_figure
from siggpde.experiments.results import Results

_NAMES = {"siggpde": "SigGPDE", "gpsig-it": "GPSig-IT", "gpsig-is": "GPSig-IS"}
_COLOURS = {"siggpde": "#3b6fb6", "gpsig-it": "#d9752b", "gpsig-is": "#8a4fa3"}
# Of the algorithms, for a batch of B series; c is the cost of a level of the recursion, up to n² for full order.
_ORDERS = {
    "siggpde": {"Kuu": "–", "Kuf": "M B", "diag Kff": "B l² d", "linear algebra": "M² B"},
    "gpsig-it": {"Kuu": "n² M² d", "Kuf": "n² M B l d", "diag Kff": "B l² (d + c n)", "linear algebra": "M³ + M² B"},
    "gpsig-is": {
        "Kuu": "M² n² (d + c n)",
        "Kuf": "M B l n (d + c n)",
        "diag Kff": "B l² (d + c n)",
        "linear algebra": "M³ + M² B",
    },
}


def run(config: dict[str, Any], results: Results, runs: int, jobs: int = 1) -> None:
    """Every part of every method at every size, one after the other; `runs` and `jobs` do not matter to times.

    Measures the paper's table of time complexities.
    """
    for letter, values in config["grow"].items():
        for value in values:
            for method in _NAMES:
                size = {**config["base"], letter: value}
                results.once(f"{method}/{letter}/{value}", partial(_measure, method, size, config["seconds"]))


def _measure(method: str, size: dict[str, int], min_seconds: float) -> dict[str, float]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return {part: cpu_seconds(call, min_seconds) for part, call in parts_of(method, Size(**size)).items()}
    finally:
        torch.set_num_threads(threads)


def exponent(sizes: list[float], seconds: list[float]) -> float:
    """The slope of log seconds in log size, by least squares.

    Examples:
        >>> round(exponent([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]), 6)
        2.0
    """
    x, y = [math.log(size) for size in sizes], [math.log(second) for second in seconds]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return above / sum((a - mean_x) ** 2 for a in x)


def report(config: dict[str, Any], results: Results) -> str:
    letters = list(config["grow"])
    rows = []
    for part in PARTS:
        for method, name in _NAMES.items():
            cells = [_exponent(results, method, part, letter, config["grow"][letter]) for letter in letters]
            base = results.get(f"{method}/M/{config['base']['M']}") or {}
            time = duration(base[part]) if part in base else "–"
            rows.append([f"{part}, {name}", _ORDERS[method][part], time, *cells])
    base = ", ".join(f"{letter} = {value}" for letter, value in config["base"].items())
    headings = ["part", "order", "at the base", *(f"in {letter}" for letter in letters)]
    figures = _figure(config, results)
    return (
        f"CPU time of value and gradient on one thread at {base}, and the exponent with which it grows in each of them "
        "(slope of the logarithms over the sizes of the figure; what is constant makes it smaller than the order).\n\n"
        f"{markdown_table(headings, rows)}\n\n![growth]({figures[0]})\n\n"
        + "\n".join(f"- {note}" for note in config.get("notes", []))
        + "\n"
    )


def _exponent(results: Results, method: str, part: str, letter: str, values: list[int]) -> str:
    records = [(value, results.get(f"{method}/{letter}/{value}")) for value in values]
    points = [(float(value), record[part]) for value, record in records if record is not None and part in record]
    if len(points) < 2:
        return "–"
    return f"{exponent([size for size, _ in points], [second for _, second in points]):.2f}"


def _figure(config: dict[str, Any], results: Results) -> list[str]:
    """The sum of all parts against each size."""
    from matplotlib import pyplot  # noqa: PLC0415 - not everybody has it

    letters = list(config["grow"])
    figure, axes = pyplot.subplots(
        1, len(letters), figsize=(2.6 * len(letters), 3.0), layout="constrained", sharey=True
    )
    for ax, letter in zip(axes, letters, strict=True):
        for method, name in _NAMES.items():
            records = [(value, results.get(f"{method}/{letter}/{value}")) for value in config["grow"][letter]]
            points = [(value, sum(record.values())) for value, record in records if record is not None]
            if points:
                ax.plot(*zip(*points, strict=True), marker="o", color=_COLOURS[method], label=name)
        ax.set(xscale="log", yscale="log", xlabel=letter)
        ax.spines[["top", "right"]].set_visible(False)
        ticks = config["grow"][letter]
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
    axes[0].set_ylabel("CPU seconds of an iteration")
    axes[0].legend(frameon=False, fontsize="small")
    return save_figure(figure, results.folder, "complexity")
