"""What `siggpde evaluate` does."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from siggpde.cli.failures import WrongCall
from siggpde.cli.options import Reading
from siggpde.cli.predicting import open_model, series_for
from siggpde.cli.tables import column_table, fact_table, fits_terminal
from siggpde.estimators.classifier import SigGPClassifier
from siggpde.estimators.regressor import SigGPRegressor
from siggpde.metrics import classification_metrics, regression_metrics

_LEVELS = (0.5, 0.9, 0.95)
_MOST_MISTAKES = 10


def run_evaluate(
    model: Path, data: str, reading: Reading, device: str = "cpu", jobs: int | None = None
) -> dict[str, Any]:
    """The figures of a model on labelled series, as plain values."""
    estimator = open_model(model, device, jobs)
    found = series_for(estimator, data, reading, labels=True)
    if found.y is None:
        raise WrongCall(f"{data} says no labels; name where they are with --target")
    if isinstance(estimator, SigGPRegressor):
        figures = _regression(estimator, found.X, found.y)
    else:
        figures = _classification(estimator, found.X, found.y)
    return {"data": found.name, "model": str(model), **figures}


def metric_tables(facts: dict[str, Any]) -> list[Table]:
    """The figures for people."""
    title = f"{facts['model']} on {facts['data']}"
    if facts["task"] == "regression":
        return _regression_tables(title, facts)
    rows = [("series", facts["n"]), ("accuracy", _percent(facts["accuracy"]))]
    rows += [("balanced accuracy", _percent(facts["balanced_accuracy"])), ("NLPP", f"{facts['nlpp']:.4f}")]
    rows += [("Brier score", f"{facts['brier']:.4f}"), ("ECE (calibration error)", f"{facts['ece']:.4f}")]
    return [fact_table(title, rows), _confusion_table(facts)]


def as_labels(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Labels of the type that the model knows: a file may hold only those of its words that look like numbers."""
    return np.array([str(label) for label in y.tolist()]) if classes.dtype.kind == "U" and y.dtype.kind != "U" else y


def _classification(estimator: SigGPClassifier, X: Any, y: np.ndarray) -> dict[str, Any]:
    labels = as_labels(y, estimator.classes_)
    figures = classification_metrics(labels, estimator.predict_proba(X), estimator.classes_).to_dict()
    if not math.isfinite(figures["nlpp"]):  # a probability too small for a number has a logarithm all the same
        figures["nlpp"] = -float(estimator.log_likelihood(X, labels).mean())
    return {"task": "classification", **figures}


def _regression(estimator: SigGPRegressor, X: Any, y: np.ndarray) -> dict[str, Any]:
    density = estimator.log_likelihood(X, y)
    mean, std = estimator.predict(X, return_std=True)
    ends = [end for level in _LEVELS for end in ((1 - level) / 2, (1 + level) / 2)]
    found = estimator.predict_quantiles(X, ends)
    intervals = {level: (found[:, 2 * place], found[:, 2 * place + 1]) for place, level in enumerate(_LEVELS)}
    return {"task": "regression", **regression_metrics(y, mean, std, density, intervals).to_dict()}


def _confusion_table(facts: dict[str, Any]) -> Table:
    """The whole matrix where it fits, otherwise the mistakes made most often."""
    labels, counts = [str(label) for label in facts["classes"]], facts["confusion"]
    rows = [
        [label, *("." if count == 0 else count for count in row), _percent(recall)]
        for label, row, recall in zip(labels, counts, facts["recall"], strict=True)
    ]
    table = column_table("True labels (rows) and predictions (columns)", ["", *labels, "recall"], rows)
    if fits_terminal(table):
        return table
    pairs = [(count, i, j) for i, row in enumerate(counts) for j, count in enumerate(row) if i != j and count]
    pairs.sort(key=lambda pair: (-pair[0], pair[1:]))
    mistakes = [(labels[i], labels[j], count) for count, i, j in pairs[:_MOST_MISTAKES]]
    shown = f"the {len(mistakes)} most frequent of {len(pairs)} kinds" if len(pairs) > len(mistakes) else "all"
    return column_table(
        f"Mistakes ({shown}; --json has the whole matrix)", ["true", "predicted", "series"], mistakes, texts=2
    )


def _regression_tables(title: str, facts: dict[str, Any]) -> list[Table]:
    rows = [("series", facts["n"]), ("RMSE", f"{facts['rmse']:.6g}"), ("MAE", f"{facts['mae']:.6g}")]
    rows += [("R²", "" if facts["r2"] is None else f"{facts['r2']:.4f}"), ("NLPD", f"{facts['nlpd']:.4f}")]
    intervals = [
        (f"{100 * float(level):g} %", _percent(held), f"{facts['width'][level]:.6g}")
        for level, held in facts["coverage"].items()
    ]
    return [fact_table(title, rows), column_table("Intervals", ["level", "hold the number", "mean width"], intervals)]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f} %"
