"""What `siggpde evaluate` does."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from siggpde.cli.console import WrongCall, caution, column_table, fits_terminal, summary_table
from siggpde.cli.options import ReadOptions
from siggpde.cli.work.predict import open_model, series_for
from siggpde.estimators.classification import ClassifierMethods
from siggpde.estimators.regression import RegressorMethods
from siggpde.estimators.targets import as_classes
from siggpde.estimators.trusting import Newness, NoveltyWarning, unlike_line
from siggpde.io import SeriesData
from siggpde.io.data import errors_by_id
from siggpde.metrics import risk_coverage, set_metrics
from siggpde.metrics.classification import classifier_figures
from siggpde.metrics.regression import regressor_figures
from siggpde.report.card import model_facts

_MAX_MISTAKES = 10
_SHARES = (0.5, 0.8, 0.9, 1.0)  # of series, the surest, at which the share of wrong predictions is shown
_LEVEL = 0.9  # of prediction sets


def run_evaluate(
    model: Path,
    data: str,
    read_options: ReadOptions,
    device: str = "cpu",
    jobs: int | None = None,
    report: Path | None = None,
) -> dict[str, Any]:
    """The metrics of a model on labelled series, as plain values; with `report` a page is written too."""
    estimator = open_model(model, device, jobs)
    series = series_for(estimator, data, read_options, labels=True)
    if series.y is None:
        raise WrongCall(f"{data} says no labels; name where they are with --target")
    with errors_by_id(None if series.ids is None else series.ids.tolist()), warnings.catch_warnings():
        warnings.simplefilter("ignore", NoveltyWarning)  # said once, below
        if isinstance(estimator, RegressorMethods):
            values, new = _regression(estimator, series.X, series.y)
        else:
            values, new = _classification(estimator, series.X, series.y)
        fitted = estimator.is_fitted_to(series.X, series.y)
    if fitted:
        caution(f"{data} holds the series that the model was fitted to: the figures tell nothing about new ones")
    if new is not None:
        values["unlike"] = _say_unlike(new, series)
    if report is not None:
        from siggpde.cli.work.report import write_page  # noqa: PLC0415 - takes long to import

        write_page(estimator, series, report, model, data, read_options)
    facts = model_facts(estimator)
    return {
        "data": series.name,
        "model": str(model),
        "fitted_to_these": fitted,
        **values,
        "groups": facts.groups,
        "left_out": facts.left_out,
    }


def _say_unlike(new: Newness, series: SeriesData) -> int:
    """How many series are unlike all training series; a line says so if there are some."""
    numbers = [number for number, reason in enumerate(new.unlike) if reason is not None]
    if numbers:
        first = numbers[0] if series.ids is None else series.ids[numbers[0]]
        caution(unlike_line(len(series), first, Counter(reason for reason in new.unlike if reason is not None)))
    return len(numbers)


def metric_tables(metrics: dict[str, Any]) -> list[Table]:
    """The metrics as tables."""
    title = f"{metrics['model']} on {metrics['data']}"
    if metrics["task"] == "regression":
        return _regression_tables(title, metrics)
    rows = [("series", metrics["n"]), ("accuracy", _percent(metrics["accuracy"]))]
    rows += [("balanced accuracy", _percent(metrics["balanced_accuracy"])), ("NLPP", f"{metrics['nlpp']:.4f}")]
    rows += [("Brier score", f"{metrics['brier']:.4f}"), ("ECE (calibration error)", f"{metrics['ece']:.4f}")]
    auc = "" if metrics["auc"] is None else f"{metrics['auc']:.4f}"
    rows += [("F1, mean over classes", f"{metrics['f1']:.4f}"), ("AUC, one class against the rest", auc)]
    rows.append(("AURC (area of risk and coverage)", f"{metrics['aurc']:.4f}"))
    if (sets := metrics["sets"]) is not None:
        rows.append((f"{100 * sets['level']:g} % sets hold the label", _percent(sets["coverage"])))
        rows.append(("classes in a set", f"{sets['size']:.2f}"))
    risks = [(f"{100 * float(share):g} %", _percent(risk)) for share, risk in metrics["risk"].items()]
    withheld = column_table("Only the surest series predicted", ["series", "wrong"], risks)
    return [summary_table(title, rows + _unlike_row(metrics)), withheld, _confusion_table(metrics)]


def _classification(estimator: ClassifierMethods, X: Any, y: np.ndarray) -> tuple[dict[str, Any], Newness | None]:
    labels = as_classes(y, estimator.classes_)  # which a file may have in another type
    probabilities, new = estimator.predict_with_newness(X)
    figures = classifier_figures(estimator, X, labels, probabilities)
    curve = risk_coverage(labels, probabilities, estimator.classes_)
    risk = {f"{share:g}": curve.risk_at(share) for share in _SHARES}
    return {"task": "classification", **figures, "risk": risk, "sets": _sets(estimator, X, labels)}, new


def _regression(estimator: RegressorMethods, X: Any, y: np.ndarray) -> tuple[dict[str, Any], Newness | None]:
    mean, std, _, new = estimator.predict_with_newness(X)
    return {"task": "regression", **regressor_figures(estimator, X, y, mean, std)}, new


def _sets(estimator: ClassifierMethods, X: Any, labels: np.ndarray) -> dict[str, float] | None:
    """Metrics of prediction sets; None for models that have no left-out training series to compare with."""
    if getattr(estimator.committee_, "left_out", None) is None:
        return None
    found = set_metrics(labels, estimator.predict_set(X, _LEVEL), estimator.classes_)
    return {"level": _LEVEL, "coverage": found.coverage, "size": found.size}


def _unlike_row(metrics: dict[str, Any]) -> list[tuple[str, Any]]:
    return [("unlike all training series", metrics["unlike"])] if "unlike" in metrics else []


def _confusion_table(metrics: dict[str, Any]) -> Table:
    """The whole confusion matrix if it fits the terminal, otherwise the most frequent mistakes."""
    labels, counts = [str(label) for label in metrics["classes"]], metrics["confusion"]
    rows = [
        [label, *("." if count == 0 else count for count in row), _percent(recall)]
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


def _regression_tables(title: str, metrics: dict[str, Any]) -> list[Table]:
    rows = [("series", metrics["n"]), ("RMSE", f"{metrics['rmse']:.6g}"), ("MAE", f"{metrics['mae']:.6g}")]
    rows += [("R²", "" if metrics["r2"] is None else f"{metrics['r2']:.4f}"), ("NLPD", f"{metrics['nlpd']:.4f}")]
    intervals = [
        (f"{100 * float(level):g} %", _percent(coverage), f"{metrics['width'][level]:.6g}")
        for level, coverage in metrics["coverage"].items()
    ]
    return [
        summary_table(title, rows + _unlike_row(metrics)),
        column_table("Intervals", ["level", "hold the number", "mean width"], intervals),
    ]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f} %"
