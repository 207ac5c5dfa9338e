"""`siggpde evaluate`."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table

from siggpde.cli import options
from siggpde.cli.console import (
    check_output_file,
    column_table,
    fits_terminal,
    number,
    percent,
    print_result,
    summary_table,
    write_json,
)
from siggpde.cli.report import SUFFIXES

if TYPE_CHECKING:
    import numpy as np

    from siggpde.committee.novelty import SeriesNovelty
    from siggpde.estimators.classifier import SeriesClassifier
    from siggpde.estimators.regressor import SeriesRegressor
    from siggpde.io import SeriesData

log = logging.getLogger(__name__)

_MAX_MISTAKES = 10
_SHARES = (0.5, 0.8, 0.9, 1.0)  # of series, the surest, at which the share of wrong predictions is shown
_LEVEL = 0.9  # of prediction sets
_FIGURES = {
    "nlpp": "NLPP",
    "brier": "Brier score",
    "ece": "ECE (calibration error)",
    "f1": "F1, mean over classes",
    "auc": "AUC, one class against the rest",
    "aurc": "AURC (area of risk and coverage)",
}
_REPORT = "Write a report as well, by default report.html."


@options.command
def evaluate(
    output: Annotated[Path | None, options.option("Write the figures to this file as well.", "FILE.json")] = None,
    report: Annotated[Path | None, options.option(_REPORT, "[FILE.html]")] = None,
    *,
    call: options.ModelCall,
) -> None:
    """Judge a model on labelled series: its accuracy, and the calibration of its probabilities."""
    check_output_file(output, call.force, (".json",), inputs=call.inputs)
    check_output_file(report, call.force, SUFFIXES, "--report", call.inputs)
    from siggpde.cli.data import open_model, series_for
    from siggpde.cli.report import write_page

    estimator = open_model(call)
    series = series_for(estimator, call, labels=True)
    metrics = {"data": series.name, "model": str(call.model), **_metrics(estimator, call.data, series)}
    if report is not None:
        write_page(estimator, series, report, call)
    write_json(output, metrics, "the metrics are")
    print_result(metrics, call.as_json, lambda: _tables(metrics))
    if metrics["left_out"] is not None and not call.as_json:
        log.info("%s", metrics["left_out"])


def _metrics(estimator: Any, data: str, series: SeriesData) -> dict[str, Any]:
    """Returns the metrics of a model on labelled series as plain values, and warns of series that tell little."""
    from siggpde.cli.data import require_labels
    from siggpde.committee.novelty import NoveltyWarning, unlike_line
    from siggpde.estimators.regressor import SeriesRegressor
    from siggpde.io.data import errors_by_id
    from siggpde.report.card import model_facts

    y = require_labels(data, series)
    with errors_by_id(series.ids), warnings.catch_warnings():
        warnings.simplefilter("ignore", NoveltyWarning)  # logged once, below
        judge: Any = _regression if isinstance(estimator, SeriesRegressor) else _classification
        values, new = judge(estimator, series, y)
        fitted = estimator.is_fitted_to(series, y)
    if fitted:
        log.warning("%s holds the training series: the figures tell nothing about new ones", data)
    reasons = Counter() if new is None else Counter(reason for reason in new.unlike if reason is not None)
    if new is not None:
        values["unlike"] = reasons.total()
    if new is not None and reasons:
        first = next(number for number, reason in enumerate(new.unlike) if reason is not None)
        log.warning("%s", unlike_line(len(series), first if series.ids is None else series.ids[first], reasons))
    facts = model_facts(estimator)
    return {"fitted_to_these": fitted, **values, "groups": facts.groups, "left_out": facts.left_out}


def _tables(metrics: dict[str, Any]) -> list[Table]:
    title = f"{metrics['model']} on {metrics['data']}"
    unlike = [("unlike all training series", metrics["unlike"])] if "unlike" in metrics else []
    if metrics["task"] == "regression":
        return _regression_tables(title, metrics, unlike)
    rows = [
        ("series", metrics["n"]),
        ("accuracy", percent(metrics["accuracy"])),
        ("balanced accuracy", percent(metrics["balanced_accuracy"])),
        *((name, number(metrics[key])) for key, name in _FIGURES.items()),
    ]
    if (sets := metrics["sets"]) is not None:
        rows.append((f"{100 * sets['level']:g} % sets hold the label", percent(sets["coverage"])))
        rows.append(("classes in a set", f"{sets['size']:.2f}"))
    risks = [(f"{100 * float(share):g} %", percent(risk)) for share, risk in metrics["risk"].items()]
    withheld = column_table("Only the surest series predicted", ["series", "wrong"], risks)
    return [summary_table(title, rows + unlike), withheld, _confusion_table(metrics)]


def _classification(estimator: SeriesClassifier, X: Any, y: np.ndarray) -> tuple[dict[str, Any], SeriesNovelty | None]:
    from siggpde.estimators.targets import as_classes
    from siggpde.metrics import risk_coverage, set_metrics
    from siggpde.metrics.classification import classifier_figures

    labels = as_classes(y, estimator.classes_)  # a file may have them in another type
    probabilities, new = estimator.predict_with_novelty(X)
    curve = risk_coverage(labels, probabilities, estimator.classes_)
    sets = None
    if estimator.committee_.left_out is not None:
        judged = set_metrics(labels, estimator.predict_set(X, _LEVEL), estimator.classes_)
        sets = {"level": _LEVEL, "coverage": judged.coverage, "size": judged.size}
    return {
        "task": "classification",
        **classifier_figures(estimator, X, labels, probabilities),
        "risk": {f"{share:g}": curve.risk_at(share) for share in _SHARES},
        "sets": sets,  # None for models without left-out training series
    }, new


def _regression(estimator: SeriesRegressor, X: Any, y: np.ndarray) -> tuple[dict[str, Any], SeriesNovelty | None]:
    from siggpde.metrics.regression import regressor_figures

    mean, std, _, new = estimator.predict_with_novelty(X)
    return {"task": "regression", **regressor_figures(estimator, X, y, mean, std)}, new


def _confusion_table(metrics: dict[str, Any]) -> Table:
    """Returns the whole confusion matrix if it fits the terminal, otherwise the most frequent mistakes."""
    labels, counts = [str(label) for label in metrics["classes"]], metrics["confusion"]
    rows = [
        [label, *("." if count == 0 else count for count in row), percent(recall)]
        for label, row, recall in zip(labels, counts, metrics["recall"], strict=True)
    ]
    table = column_table("True labels (rows) and predictions (columns)", ["", *labels, "recall"], rows)
    if fits_terminal(table):
        return table
    pairs = [(count, i, j) for i, row in enumerate(counts) for j, count in enumerate(row) if i != j and count]
    pairs.sort(key=lambda pair: (-pair[0], pair[1:]))
    mistakes = [(labels[i], labels[j], count) for count, i, j in pairs[:_MAX_MISTAKES]]
    shown = f"the {len(mistakes)} most frequent of {len(pairs)} kinds" if len(pairs) > len(mistakes) else "all"
    return column_table(
        f"Mistakes ({shown}; --json has the whole matrix)", ["true", "predicted", "series"], mistakes, text_columns=2
    )


def _regression_tables(title: str, metrics: dict[str, Any], unlike: list[tuple[str, Any]]) -> list[Table]:
    rows = [("series", metrics["n"]), ("RMSE", f"{metrics['rmse']:.6g}"), ("MAE", f"{metrics['mae']:.6g}")]
    rows += [("R²", number(metrics["r2"])), ("NLPD", number(metrics["nlpd"]))]
    intervals = [
        (f"{100 * float(level):g} %", percent(coverage), f"{metrics['width'][level]:.6g}")
        for level, coverage in metrics["coverage"].items()
    ]
    return [
        summary_table(title, rows + unlike),
        column_table("Intervals", ["level", "hold the number", "mean width"], intervals),
    ]
