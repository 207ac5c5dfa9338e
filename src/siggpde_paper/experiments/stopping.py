"""When a run ends: one rule for every method that is trained by the paper's schedule, and what came of it."""

from __future__ import annotations

from typing import Any

from siggpde_paper.experiments.markdown import duration
from siggpde_paper.experiments.methods import BY_THE_PAPER

_WHOLE = "whole schedule"


def stop_rule(config: dict[str, Any]) -> str:
    """The rule in words, and which methods it is for."""
    count, batch = config["schedule"]["iterations"], config["schedule"]["batch"]
    others = [method for method in config.get("methods", {}).values() if method["kind"] not in BY_THE_PAPER]
    trained = "SigGPDE by the paper's schedule and GPSig" if others else "All methods"
    rule = f"{trained} take three phases of {count} iterations with batches of {batch} series, by one rule: "
    if config.get("budget") is None:
        rule += "the whole schedule, however long it takes."
    else:
        rule += (
            f"a phase ends after its {count} iterations, or when a third of {duration(config['budget'])} of CPU time "
            "is spent."
        )
    return rule + (" SigGPClassifier is fitted in closed form." if others else "")


def run_line(config: dict[str, Any]) -> str:
    """Sizes of a run in words: its inducing variables, its series, its validation part."""
    parts = [f"M = {config['inducing']} inducing variables"] if "inducing" in config else []
    kept = [f"{config[key]} {name}" for key, name in (("series", "training"), ("test_series", "test")) if key in config]
    if kept:
        parts.append(f"{' and '.join(kept)} series of the data set, evenly spread")
    parts.append(f"{100 * config['validation']:g} % of the training series for validation, drawn anew in every run")
    return "; ".join(parts) + ". Run i has seed i, from 0."


def iterations_cell(records: list[dict[str, Any]]) -> str:
    """How many iterations the runs made: one number where they agree, else the mean and the range.

    Examples:
        >>> iterations_cell([{"iterations": {"q": 5, "all": 5}}, {"iterations": {"q": 4, "all": 4}}])
        '9 (8 to 10)'
    """
    counts = [sum(record["iterations"].values()) for record in records if "iterations" in record]
    if not counts:
        return "–"
    mean = f"{sum(counts) / len(counts):.0f}"
    return mean if min(counts) == max(counts) else f"{mean} ({min(counts)} to {max(counts)})"


def ended_cell(records: list[dict[str, Any]]) -> str:
    """What ended the runs.

    Examples:
        >>> ended_cell([{"stopped": {"q": "9 iterations", "all": "9 iterations"}}])
        'whole schedule'
        >>> ended_cell([{"stopped": {"q": "9 iterations", "all": "budget spent"}}])
        'budget spent'
    """
    ends: set[str] = set()
    for record in records:
        reasons = {reason for reason in record.get("stopped", {}).values() if not reason.endswith(" iterations")}
        ends |= reasons or ({_WHOLE} if record.get("stopped") else set())
    return ", ".join(sorted(ends)) or "–"
