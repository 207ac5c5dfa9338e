"""What `siggpde explain` does."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from siggpde.cli.failures import WrongCall
from siggpde.cli.options import Reading
from siggpde.cli.predicting import open_model, series_for
from siggpde.cli.tables import column_table, fact_table
from siggpde.estimators.loading import Estimator
from siggpde.explain import Contribution, Importance
from siggpde.io import SeriesData

_BACKGROUND = 200


@dataclass(frozen=True)
class Explanation:
    """Plain facts, and a .png file's bytes, empty where none was asked for."""

    facts: dict[str, Any]
    picture: bytes = b""


def run_explain(
    model: Path,
    data: str,
    reading: Reading,
    top: int,
    number: int | None,
    *,
    draw: bool = False,
    device: str = "cpu",
    jobs: int | None = None,
) -> Explanation:
    """What the predictions for DATA rest on, or that of its series `number`."""
    if draw:  # before any work, for it may not be installed
        import_module("siggpde.plots")._matplotlib("figure")
    estimator = open_model(model, device, jobs)
    found = series_for(estimator, data, reading, labels=False)
    if number is None:
        overall = estimator.importance(found.X, top)
        facts = {"data": found.name, "model": str(model), **overall.to_dict()}
        return Explanation(facts, _picture(overall.words) if draw else b"")
    return _of_one(estimator, found, top, number, draw, {"data": found.name, "model": str(model)})


def explanation_tables(facts: dict[str, Any]) -> list[Table]:
    """The explanation for people."""
    if "contributions" in facts:
        return _tables_of_one(facts)
    title = f"{facts['model']} on {facts['series']} series of {facts['data']}"
    header = ["share", "importance"]
    words = [(each["name"], _percent(each["share"]), f"{each['importance']:.3g}") for each in facts["words"]]
    channels = [(each["name"], _percent(each["share"])) for each in facts["channels"]]
    lengths = [(each["name"], _percent(each["share"])) for each in facts["lengths"]]
    return [
        column_table(f"{title}: words, the first of {facts['all_words']}", ["word", *header], words),
        column_table("Channels", ["channel", "share"], channels),
        column_table("Lengths of words", ["length", "share"], lengths),
    ]


def _of_one(
    estimator: Estimator,
    data: SeriesData,
    top: int,
    number: int,
    draw: bool,
    about: dict[str, Any],
) -> Explanation:
    if number >= len(data):
        raise WrongCall(f"--number {number} is beyond the last series, {len(data) - 1} (they are counted from 0)")
    others = [row for row in range(0, len(data), max(1, len(data) // _BACKGROUND)) if row != number][:_BACKGROUND]
    X = data.X[others] if isinstance(data.X, np.ndarray) else [data.X[row] for row in others]
    (found,) = estimator.explain(data.X[number : number + 1], top, X if others else None)
    facts = {**about, **replace(found, series=number).to_dict()}
    if data.ids is not None:
        facts["id"] = data.ids.tolist()[number]
    return Explanation(facts, _picture_of_one(found.contributions) if draw else b"")


def _tables_of_one(facts: dict[str, Any]) -> list[Table]:
    series = f"{facts['series']}" + (f" ({facts['id']})" if "id" in facts else "")
    rows: list[tuple[str, Any]] = [("series", series)]
    if facts["probability"] is None:
        rows.append(("prediction", f"{facts['mean']:.6g} ± {facts['std']:.3g}"))
        what = "What makes up the number"
    else:
        rows.append(("prediction", f"{facts['label']}, probability {facts['probability']:.4f}"))
        rows.append(("runner-up", f"{facts['runner_up']}, probability {facts['runner_up_probability']:.4f}"))
        what = f"What speaks for {facts['label']} against {facts['runner_up']}"
    parts = [(each["name"], f"{each['value']:+.4g}") for each in facts["contributions"]]
    parts += [("all other words", f"{facts['rest']:+.4g}"), ("the same for all series", f"{facts['constant']:+.4g}")]
    parts += [("together", f"{facts['latent']:+.4g}")]
    return [
        fact_table(f"{facts['model']} on {facts['data']}", rows),
        column_table(what, ["word", "contribution"], parts),
    ]


def _picture(importances: list[Importance]) -> bytes:
    figure = _figure(len(importances))
    import_module("siggpde.plots").plot_importance(importances, figure.subplots())
    return _png(figure)


def _picture_of_one(contributions: list[Contribution]) -> bytes:
    """Bars to both sides of zero, in the units of the contributions."""
    figure = _figure(len(contributions))
    bars = [Importance(each.name, each.letters, abs(each.value), each.value) for each in contributions]
    axes = import_module("siggpde.plots").plot_importance(bars, figure.subplots())
    axes.xaxis.set_major_formatter(import_module("matplotlib.ticker").ScalarFormatter())
    axes.set_xlabel("contribution: for the prediction to the right, against it to the left")
    axes.axvline(0, color="black", linewidth=0.8)
    return _png(figure)


def _figure(bars: int) -> Any:
    """Without a window or any state of matplotlib's."""
    size = (6.4, max(2.0, 0.32 * bars + 1.2))
    return import_module("matplotlib.figure").Figure(figsize=size, layout="constrained")


def _png(figure: Any) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=150)
    return content.getvalue()


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"
