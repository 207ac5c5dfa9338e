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
from siggpde.cli.work.importance_tables import importance_tables
from siggpde.cli.work.predict import open_model, series_for
from siggpde.estimators.restoring import Predictor
from siggpde.explain import Counterfactual, Importance, Importances, SeriesExplanation
from siggpde.explain.counterfactual import kept_series
from siggpde.explain.text import when
from siggpde.io import SeriesData
from siggpde.plots import plot_explanation, plot_importance, require_matplotlib

_BACKGROUND = 200
_MOST_CHANNELS = 8  # in a picture
_CHANNEL = 1.0  # inches of height for each


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
    counterfactual: bool = False,
    draw: bool = False,
    device: str = "cpu",
    jobs: int | None = None,
) -> Explanation:
    """What the predictions for DATA rest on, or that of its series `number`."""
    if draw:  # before any work, for it may not be installed
        require_matplotlib("figure")
    if counterfactual and number is None:
        raise WrongCall("--counterfactual is of one series; say of which with --number")
    estimator = open_model(model, device, jobs)
    if counterfactual and not hasattr(estimator, "classes_"):
        raise WrongCall("--counterfactual is for classes; for numbers call counterfactual(x, target) in Python")
    series = series_for(estimator, data, read_options, labels=False)
    if number is None:
        overall = estimator.importance(series.X, top)
        values = {"data": series.name, "model": str(model), **overall.to_dict()}
        return Explanation(values, _picture(overall) if draw else b"")
    explained, values = _explain_one(estimator, series, top, number, {"data": series.name, "model": str(model)})
    changed = None
    if counterfactual:
        changed = estimator.counterfactual(series.X[number], donors=_donors(estimator, series, number, values))
    if changed is not None:
        values["counterfactual"] = changed.to_dict() | {"sentence": str(changed)}
    return Explanation(values, _picture_of_one(estimator, explained, series.X[number], changed) if draw else b"")


def _donors(estimator: Predictor, data: SeriesData, number: int, values: dict[str, Any]) -> list[np.ndarray] | None:
    """Where a counterfactual takes its values from: the series that the model keeps (None), else those of DATA that are
    predicted as the runner-up."""
    if kept_series(estimator.committee_)[0]:
        return None
    labels = estimator.predict(data.X)
    donors = [x for index, x in enumerate(data.X) if index != number and labels[index] == values["runner_up"]]
    if not donors:
        raise WrongCall(
            f"the model keeps no training series, and none of DATA is predicted as {values['runner_up']}, to take new "
            "values from; add such series to DATA"
        )
    return donors


def explanation_tables(values: dict[str, Any]) -> list[Table]:
    """The explanation as tables."""
    if "contributions" in values:
        return _tables_of_one(values)
    return importance_tables(values)


def _explain_one(
    estimator: Predictor,
    data: SeriesData,
    top: int,
    number: int,
    context: dict[str, Any],
) -> tuple[SeriesExplanation, dict[str, Any]]:
    if number >= len(data):
        raise WrongCall(f"--number {number} is beyond the last series, {len(data) - 1} (they are counted from 0)")
    others = [index for index in range(0, len(data), max(1, len(data) // _BACKGROUND)) if index != number][:_BACKGROUND]
    X = data.X[others] if isinstance(data.X, np.ndarray) else [data.X[index] for index in others]
    (explained,) = estimator.explain(data.X[number : number + 1], top, X if others else None)
    values = {**context, **replace(explained, series=number).to_dict()}
    if data.ids is not None:
        values["id"] = data.ids.tolist()[number]
    return explained, values


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
    if values["sentence"]:
        rows.append(("raised by" if values["probability"] is None else "what speaks for it", values["sentence"]))
    rows += [
        (f"nearest training series of {each['target']}", f"at distance {each['distance']:.3g}")
        for each in values["neighbours"]
    ]
    if "counterfactual" in values:
        rows.append(("counterfactual", values["counterfactual"]["sentence"]))
    first = [summary_table(f"{values['model']} on {values['data']}", rows)]
    if values["segments"] is not None and values["segments"]["main"]:
        first.append(_table_of_stretches(values["segments"]["main"]))
    rest, together = ("all others", _signed(values["rest"])), ("together", _signed(values["latent"]))
    if not values["views"]:
        terms = [*_terms(values["contributions"]), rest, ("the same for all series", _signed(values["constant"]))]
        return [*first, column_table(what, ["word", "contribution"], [*terms, together])]
    average = ("the average series", _signed(values["constant"]))
    views = [*_terms(values["views"]), average, together]
    features = [*_terms(values["contributions"]), rest, average, together]
    return [
        *first,
        column_table(f"{what}: views of the series", ["view", "contribution"], views),
        column_table("Words and kernels", ["word", "contribution"], features),
        column_table("Channels together", ["channels", "contribution"], _terms(values["interactions"])),
    ]


def _table_of_stretches(stretches: list[dict[str, Any]]) -> Table:
    rows = [
        (
            each["channel"],
            each["does"],
            when(each["start"], each["end"]),
            _signed(each["value"]),
            f"± {each['std']:.2g}",
            f"{each['error']:.2g}",
        )
        for each in stretches
    ]
    header = ["channel", "what it does", "when", "contribution", "uncertainty", "sampling error"]
    return column_table("When and where the evidence is", header, rows, text_columns=3)


def _terms(contributions: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["name"], _signed(each["value"])) for each in contributions]


def _picture(importances: Importances) -> bytes:
    """Bars of channels, time regions, scales and words, one above the other."""
    lists = [importances.channels, importances.regions, importances.scales, importances.words]
    titles = ["channels", "time regions", "window scales", "words"]
    return _panels([(title, bars) for title, bars in zip(titles, lists, strict=True) if bars], "")


def _picture_of_one(
    estimator: Predictor, explained: SeriesExplanation, x: np.ndarray, changed: Counterfactual | None
) -> bytes:
    """The series, its lines coloured by their contributions. The channels of a spectrogram are not those of the series:
    of such a model bars are drawn."""
    if explained.segments is None or estimator.spectrogram is not None:
        return _bars_of_one(explained)
    shown = min(_MOST_CHANNELS, len(x) - (estimator.time_channel is not None))
    height = _CHANNEL * shown + (1.4 if changed is None else 1.6)
    figure = require_matplotlib("figure").Figure(figsize=(6.4, height), layout="constrained")
    axes = figure.subplots(shown, sharex=True, squeeze=False)[:, 0]
    time_channel = estimator.time_channel
    plot_explanation(explained, x, axes, counterfactual=changed, time_channel=time_channel, most=_MOST_CHANNELS)
    return _png(figure)


def _bars_of_one(explained: SeriesExplanation) -> bytes:
    """Bars to both sides of zero, in the units of the contributions."""
    views, words = (
        [Importance(each.name, each.letters, abs(each.value), each.value) for each in contributions]
        for contributions in (explained.views, explained.contributions)
    )
    return _bars(views, words, "contribution: for the prediction to the right, against it to the left")


def _bars(views: list[Importance], words: list[Importance], contribution: str = "") -> bytes:
    """Bars of views, if there are any, above those of words; `contribution` is the label of bars that are no shares.

    A kernel without features is among both, and drawn once. The figure is made without pyplot: no window and no global
    state.
    """
    drawn = {each.name for each in views}
    others = [each for each in words if each.name not in drawn]
    return _panels([(name, bars) for name, bars in (("views", views), ("words", others)) if bars], contribution)


def _panels(shown: list[tuple[str, list[Importance]]], contribution: str) -> bytes:
    heights = [max(2.0, 0.32 * len(bars) + 1.2) for _, bars in shown]
    width = 6.4 if len(shown) == 1 else 8.4  # names of views are long
    figure = require_matplotlib("figure").Figure(figsize=(width, sum(heights)), layout="constrained")
    axes = figure.subplots(len(shown), squeeze=False, height_ratios=heights)[:, 0]
    for ax, (title, bars) in zip(axes, shown, strict=True):
        plot_importance(bars, ax)
        if len(shown) > 1:
            ax.set_title(title, fontsize="medium", loc="left")
        if contribution:
            ax.xaxis.set_major_formatter(require_matplotlib("ticker").ScalarFormatter())
            ax.set_xlabel(contribution if ax is axes[-1] else "")
            ax.axvline(0, color="black", linewidth=0.8)
    return _png(figure)


def _png(figure: Any) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=150)
    return content.getvalue()


def _signed(value: float) -> str:
    return f"{value:+.4g}"
