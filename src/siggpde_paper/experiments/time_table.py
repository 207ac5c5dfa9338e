"""The paper's table of time complexities, measured: CPU time of the parts of an iteration and how it grows."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from siggpde_paper.experiments.growth import Plan, Row, growth_panels, growth_table
from siggpde_paper.experiments.measurements import FEWEST_CALLS, LONG_CALL, METHODS, Size, cpu_seconds, parts_of
from siggpde_paper.experiments.report import duration, save_figure
from siggpde_paper.experiments.results import Record, Results, pass_key

LOAD = "load"  # of the machine when a record was made, beside the parts
_WITH = ", signatures computed"
_SUMS = ("C_fu", "diag C_ff", "linear algebra")
_ALL = ("C_uu", *_SUMS)

# Of the algorithms, for B series; c is the cost of a level of the recursion, up to n² for full order.
_ROWS = [
    Row("C_uu, SigGPDE: the identity", "siggpde", (), "–"),
    Row("C_uu, GPSig-IT", "gpsig-it", ("C_uu",), "n² M² d"),
    Row("C_uu, GPSig-IS", "gpsig-is", ("C_uu",), "M² n² (d + c n)"),
    Row("C_fu, SigGPDE", "siggpde", ("C_fu",), "M B"),
    Row(f"C_fu, SigGPDE{_WITH}", "siggpde", ("C_fu", "signatures"), "M B l"),
    Row(f"C_fu, SigGPDE in plain torch{_WITH}", "siggpde-torch", ("C_fu", "signatures"), "M B l"),
    Row("C_fu, GPSig-IT", "gpsig-it", ("C_fu",), "n² M B l d"),
    Row("C_fu, GPSig-IS", "gpsig-is", ("C_fu",), "M B l n (d + c n)"),
    Row("diag C_ff, SigGPDE", "siggpde", ("diag C_ff",), "B l² d"),
    Row("diag C_ff, SigGPDE in plain torch", "siggpde-torch", ("diag C_ff",), "B l² d"),
    Row("diag C_ff, GPSig", "gpsig-it", ("diag C_ff",), "B l² (d + c n)"),
    Row("linear algebra, SigGPDE", "siggpde", ("linear algebra",), "M² B"),
    Row("linear algebra, GPSig", "gpsig-it", ("linear algebra",), "M³ + M² B"),
    Row("iteration, SigGPDE", "siggpde", _SUMS, "M² B + B l² d"),
    Row(f"iteration, SigGPDE{_WITH}", "siggpde", (*_SUMS, "signatures"), "M² B + M B l + B l² d"),
    Row("iteration, GPSig-IT", "gpsig-it", _ALL, "M³ + n² M² d + n² M B l d + B l² (d + c n)"),
    Row("iteration, GPSig-IS", "gpsig-is", _ALL, "M³ + (n² M² + M B l n + B l²) (d + c n)"),
]


def plans(config: dict[str, Any]) -> tuple[Plan, Plan]:
    """The sizes of all methods, and the larger ones at which SigGPDE is more than the overhead of its calls."""
    large = config["large"]
    return Plan("time", config["base"], config["grow"]), Plan("time", large["base"], large["grow"])


def tasks(config: dict[str, Any], number: int) -> dict[str, Callable[[], Record]]:
    """A pass over every part of every method at every size.

    Measures the paper's table of time complexities.
    """
    common, large = plans(config)
    listed = [(large, "siggpde", size) for size in large.sizes()]
    listed += [(common, method, size) for method in METHODS for size in common.sizes()]
    return {
        pass_key(plan.key(method, size), number): partial(_measure, method, size, config["seconds"])
        for plan, method, size in listed
    }


def _measure(method: str, size: Size, min_seconds: float) -> dict[str, float]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        record = {part: cpu_seconds(call, min_seconds) for part, call in parts_of(method, size).items()}
    finally:
        torch.set_num_threads(threads)
    return record | load_average()


def load_average() -> dict[str, float]:
    """The mean number of running processes in the last minute, where the operating system tells."""
    return {LOAD: os.getloadavg()[0]} if hasattr(os, "getloadavg") else {}


def spoken_load(records: list[dict[str, float]]) -> str:
    """In which range the load of the machine was, as a sentence; empty where it is unknown."""
    loads = [record[LOAD] for record in records if LOAD in record]
    if not loads:
        return ""
    return f"Load average of the machine meanwhile: {min(loads):.1f} to {max(loads):.1f}."


def _total(record: dict[str, float], parts: tuple[str, ...]) -> float:
    return sum(record[part] for part in parts if part in record)


def report(config: dict[str, Any], results: Results) -> str:
    if not results.records("time/"):
        return ""
    common, large = plans(config)
    table = growth_table(results, _ROWS, common, duration, _total, others={"siggpde": large})
    return (
        f"## Time\n\nCPU time of value and gradient on one thread at the base, {common.spoken()}, the least of "
        f"{FEWEST_CALLS} or more calls (one, where it takes more than {LONG_CALL:g} s) in each of {config['passes']} "
        "passes over all sizes; and the exponent of its growth in each size: the slope of the logarithms over all "
        "sizes and, where the order depends on the size, in brackets between the two largest. SigGPDE's exponents "
        f"are measured around larger sizes, {large.spoken()}, for at the base its small parts are mostly the "
        "overhead of calls. The core solves to its default tolerance; plain torch has one cell of finite differences "
        "for each pair of segments. "
        f"{spoken_load(list(results.records('time/').values()))}\n\n{table}\n\n"
        f"![growth of time]({_figure(common, results)})\n"
    )


def _figure(plan: Plan, results: Results) -> str:
    """The sum of all parts against each size; in plain torch signatures are counted, with the core they are stored."""
    from matplotlib import pyplot  # noqa: PLC0415 - not everybody has it

    figure, axes = pyplot.subplots(
        1, len(plan.grow), figsize=(2.7 * len(plan.grow), 3.4), layout="constrained", sharey=True, squeeze=False
    )
    names = {**METHODS, "siggpde-torch": f"{METHODS['siggpde-torch']}{_WITH}"}
    for method, name in names.items():
        parts = (*_ALL, "signatures") if method == "siggpde-torch" else _ALL
        growth_panels(
            axes[0], results, plan, {method: name}, partial(_total, parts=parts), "CPU seconds of an iteration"
        )
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return save_figure(figure, results.folder, "complexity")[0]
