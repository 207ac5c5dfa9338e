"""What `siggpde explain` does."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from siggpde.cli.console import WrongCall, column_table, summary_table
from siggpde.cli.options import ReadOptions
from siggpde.cli.work.predict import open_model, series_for
from siggpde.estimators.loading import Estimator
from siggpde.explain import Contribution, Importance
from siggpde.io import SeriesData
from siggpde.plots import plot_importance, require_matplotlib

_BACKGROUND = 200


@dataclass(frozen=True)
class Explanation:
    """Plain values, and the bytes of a .png file, empty if none was asked for."""

    values: dict[str, Any]
    picture: bytes = b""


def run_explain(
    model: Path,
    data: str,
    read_options: ReadOptions,
    top: int,
    number: int | None,
    *,
    draw: bool = False,
    device: str = "cpu",
    jobs: int | None = None,
) -> Explanation:
    """What the predictions for DATA rest on, or that of its series `number`."""
    if draw:  # before any work, for it may not be installed
        require_matplotlib("figure")
    estimator = open_model(model, device, jobs)
    series = series_for(estimator, data, read_options, labels=False)
    if number is None:
        overall = estimator.importance(series.X, top)
        values = {"data": series.name, "model": str(model), **overall.to_dict()}
        return Explanation(values, _picture(overall.words) if draw else b"")
    return _explain_one(estimator, series, top, number, draw, {"data": series.name, "model": str(model)})


def explanation_tables(values: dict[str, Any]) -> list[Table]:
    """The explanation as tables."""
    if "contributions" in values:
        return _tables_of_one(values)
    title = f"{values['model']} on {values['series']} series of {values['data']}"
    header = ["share", "importance"]
    words = [(each["name"], _percent(each["share"]), f"{each['importance']:.3g}") for each in values["words"]]
    channels = [(each["name"], _percent(each["share"])) for each in values["channels"]]
    lengths = [(each["name"], _percent(each["share"])) for each in values["lengths"]]
    return [
        column_table(f"{title}: words, the first of {values['all_words']}", ["word", *header], words),
        column_table("Channels", ["channel", "share"], channels),
        column_table("Lengths of words", ["length", "share"], lengths),
    ]


def _explain_one(
    estimator: Estimator,
    data: SeriesData,
    top: int,
    number: int,
    draw: bool,
    context: dict[str, Any],
) -> Explanation:
    if number >= len(data):
        raise WrongCall(f"--number {number} is beyond the last series, {len(data) - 1} (they are counted from 0)")
    others = [index for index in range(0, len(data), max(1, len(data) // _BACKGROUND)) if index != number][:_BACKGROUND]
    X = data.X[others] if isinstance(data.X, np.ndarray) else [data.X[index] for index in others]
    (explained,) = estimator.explain(data.X[number : number + 1], top, X if others else None)
    values = {**context, **replace(explained, series=number).to_dict()}
    if data.ids is not None:
        values["id"] = data.ids.tolist()[number]
    return Explanation(values, _picture_of_one(explained.contributions) if draw else b"")


def _tables_of_one(values: dict[str, Any]) -> list[Table]:
    series = f"{values['series']}" + (f" ({values['id']})" if "id" in values else "")
    rows: list[tuple[str, Any]] = [("series", series)]
    if values["probability"] is None:
        rows.append(("prediction", f"{values['mean']:.6g} ± {values['std']:.3g}"))
        what = "What makes up the number"
    else:
        rows.append(("prediction", f"{values['label']}, probability {values['probability']:.4f}"))
        rows.append(("runner-up", f"{values['runner_up']}, probability {values['runner_up_probability']:.4f}"))
        what = f"What speaks for {values['label']} against {values['runner_up']}"
    terms = [(each["name"], f"{each['value']:+.4g}") for each in values["contributions"]]
    terms += [("all other words", f"{values['rest']:+.4g}"), ("the same for all series", f"{values['constant']:+.4g}")]
    terms += [("together", f"{values['latent']:+.4g}")]
    return [
        summary_table(f"{values['model']} on {values['data']}", rows),
        column_table(what, ["word", "contribution"], terms),
    ]


def _picture(importances: list[Importance]) -> bytes:
    figure = _figure(len(importances))
    plot_importance(importances, figure.subplots())
    return _png(figure)


def _picture_of_one(contributions: list[Contribution]) -> bytes:
    """Bars to both sides of zero, in the units of the contributions."""
    figure = _figure(len(contributions))
    bars = [Importance(each.name, each.letters, abs(each.value), each.value) for each in contributions]
    axes = plot_importance(bars, figure.subplots())
    axes.xaxis.set_major_formatter(require_matplotlib("ticker").ScalarFormatter())
    axes.set_xlabel("contribution: for the prediction to the right, against it to the left")
    axes.axvline(0, color="black", linewidth=0.8)
    return _png(figure)


def _figure(bars: int) -> Any:
    """An empty figure, made without pyplot: no window and no global state."""
    size = (6.4, max(2.0, 0.32 * bars + 1.2))
    return require_matplotlib("figure").Figure(figsize=size, layout="constrained")


def _png(figure: Any) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=150)
    return content.getvalue()


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"
