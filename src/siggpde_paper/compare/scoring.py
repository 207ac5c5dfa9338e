"""How good a method is on a split, and what it costs: figures of predictions and CPU seconds."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from siggpde.estimators.conventions import threads
from siggpde.metrics.classification import classifier_figures
from siggpde.metrics.regression import regressor_figures
from siggpde_paper.compare.clock import cpu_seconds
from siggpde_paper.compare.methods import Method, Run
from siggpde_paper.compare.series import take
from siggpde_paper.compare.splits import Split

CLASS_FIGURES = ("accuracy", "nlpp", "brier", "ece")
NUMBER_FIGURES = ("rmse", "mae", "nlpd", "coverage")
COSTS = ("cpu_fit", "cpu_predict")


def judge(
    method: Method, task: str, X: Any, y: np.ndarray, split: Split, run: Run, groups: np.ndarray | None = None
) -> dict[str, float]:
    """Fits on the series of `split.train`, of these `groups` (n,), and judges on those of `split.test`.

    Figures are accuracy, nlpp, brier and ece of a classification, rmse, mae, nlpd and the coverage of 90 % intervals
    of a regression. CPU seconds: `cpu_fit`, of which `cpu_calibration` is the peers' search for probabilities, and
    `cpu_predict`, of the probabilities, or of means and standard deviations.
    """
    train, test = take(X, split.train), take(X, split.test)
    estimator = method.make(task, run)
    with threads(run.jobs), threadpool_limits(None if run.jobs < 1 else run.jobs):
        started = cpu_seconds()
        estimator.fit(train, y[split.train], **({} if groups is None else {"groups": groups[split.train]}))
        fitted = cpu_seconds()
        if task == "classification":
            predicted = estimator.predict_proba(test)
        else:
            predicted = estimator.predict(test, return_std=True)
        costs = {"cpu_fit": fitted - started, "cpu_predict": cpu_seconds() - fitted}
        costs["cpu_calibration"] = float(getattr(estimator, "calibration_seconds_", 0.0))
        if task == "classification":
            values = classifier_figures(estimator, test, y[split.test], predicted)
        else:
            values = regressor_figures(estimator, test, y[split.test], *predicted)
            values["coverage"] = values["coverage"]["0.9"]
    names = CLASS_FIGURES if task == "classification" else NUMBER_FIGURES
    return {name: float(values[name]) for name in names} | costs


def warm_up(method: Method, task: str, channels: int, run: Run) -> None:
    """Fits a few short series, so that imports and compilation are not counted in what follows."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(20, channels, 24)).cumsum(axis=2)
    y = np.arange(20) % 2 if task == "classification" else X[:, 0, -1] + generator.normal(size=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of these series, which are nobody's
        judge(method, task, X, y, Split(np.arange(16), np.arange(16, 20)), Run(run.seed, run.jobs))


def spread(values: Iterable[float]) -> tuple[float, float | None]:
    """Mean and standard error of the mean; None for the error of a single value, or where the mean is infinite.

    Examples:
        >>> spread([1.0, 2.0, 3.0])
        (2.0, 0.5773502691896258)
    """
    given = list(values)
    mean = statistics.fmean(given)
    if len(given) < 2 or not math.isfinite(mean):
        return mean, None
    return mean, statistics.stdev(given) / math.sqrt(len(given))
