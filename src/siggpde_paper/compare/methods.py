"""The methods of a comparison by name, and how good each is on a split: figures of predictions and CPU seconds."""

from __future__ import annotations

import importlib.util
import logging
import math
import statistics
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from siggpde.estimators.classifier import SigGPClassifier
from siggpde.estimators.regressor import SigGPRegressor
from siggpde.estimators.settings import threads
from siggpde.metrics.classification import classifier_figures
from siggpde.metrics.regression import regressor_figures
from siggpde_paper.compare.estimators import (
    FeatureClassifier,
    FeatureRegressor,
    Features,
    FrequencyClassifier,
    Head,
    LogisticHead,
    MeanRegressor,
    RidgeHead,
    TreesHead,
    minirocket,
    multirocket,
    multirocket_hydra,
    quant,
)
from siggpde_paper.compare.splits import Split, cpu_seconds, take

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Run:
    """What a method is told: the seed, threads, and the channel of X that holds time stamps, if any."""

    seed: int = 0
    jobs: int = 1
    time_channel: int | None = None


@dataclass(frozen=True)
class Method:
    """A method by name. `classifier` and `regressor` make an estimator, None where the method is not for that task.

    Classifiers have `fit(X, y, groups=None)`, `predict_proba` and `classes_`; regressors the same `fit`,
    `predict(X, return_std=True)`, `predict_quantiles` and `log_likelihood`. `package` is what has to be installed.
    """

    name: str
    title: str
    classifier: Callable[[Run], Any] | None
    regressor: Callable[[Run], Any] | None
    package: str | None = None

    def make(self, task: str, run: Run) -> Any:
        """An estimator for "classification" or "regression"."""
        maker = self.classifier if task == "classification" else self.regressor
        if maker is None:
            raise ValueError(f"{self.name} is no method for a {task}; leave it out")
        return maker(run)

    def is_for(self, task: str) -> bool:
        return (self.classifier if task == "classification" else self.regressor) is not None

    def is_installed(self) -> bool:
        return self.package is None or importlib.util.find_spec(self.package) is not None


def ours(name: str = "siggpde", title: str = "siggpde", **settings: Any) -> Method:
    """`SigGPClassifier` and `SigGPRegressor` with these settings, the others at their defaults."""

    def classifier(run: Run) -> SigGPClassifier:
        given = {"random_state": run.seed, "n_jobs": run.jobs, "time_channel": run.time_channel, **settings}
        return SigGPClassifier(**given)

    def regressor(run: Run) -> SigGPRegressor:
        given = {"random_state": run.seed, "n_jobs": run.jobs, "time_channel": run.time_channel, **settings}
        return SigGPRegressor(**given)

    return Method(name, title, classifier, regressor)


def _classifier(make: Callable[[int, int], Features], head: type[Head], run: Run) -> FeatureClassifier:
    return FeatureClassifier(make(run.seed, run.jobs), head, run.seed, run.time_channel)


def _regressor(make: Callable[[int, int], Features], run: Run) -> FeatureRegressor:
    return FeatureRegressor(make(run.seed, run.jobs), run.seed, run.time_channel)


PEERS = (
    Method(
        "minirocket",
        "MiniRocket, ridge regression",
        partial(_classifier, minirocket, RidgeHead),
        partial(_regressor, minirocket),
        "aeon",
    ),
    Method(
        "mr-hydra",
        "MultiRocket-Hydra, ridge regression",
        partial(_classifier, multirocket_hydra, RidgeHead),
        partial(_regressor, multirocket_hydra),
        "aeon",
    ),
    Method("quant", "QUANT, extra trees", partial(_classifier, quant, TreesHead), None, "aeon"),
    Method(
        "multirocket", "MultiRocket, logistic regression", partial(_classifier, multirocket, LogisticHead), None, "aeon"
    ),
)
CONSTANT = Method(
    "constant", "shares of classes, or the mean", lambda _: FrequencyClassifier(), lambda _: MeanRegressor()
)
METHODS = {method.name: method for method in (ours(), *PEERS, CONSTANT)}


def choose_methods(names: Sequence[str] | None, task: str) -> tuple[list[Method], list[Method]]:
    """The methods of these names (None: all) for the task: those that can run, and those whose package is missing."""
    unknown = [name for name in names or () if name not in METHODS]
    if unknown:
        raise ValueError(f"there is no method {unknown[0]!r}; the methods are {', '.join(METHODS)}")
    unfit = [name for name in names or () if not METHODS[name].is_for(task)]
    if unfit:
        raise ValueError(f"{unfit[0]} is no method for a {task}; leave it out")
    chosen = [METHODS[name] for name in names or METHODS if METHODS[name].is_for(task)]
    ready = [method for method in chosen if method.is_installed()]
    return ready, [method for method in chosen if not method.is_installed()]


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


def judge_on_splits(
    method: Method,
    task: str,
    X: Any,
    y: np.ndarray,
    runs: Sequence[tuple[Run, Split]],
    step: Callable[[str, int], None],
    groups: np.ndarray | None = None,
) -> dict[str, Any]:
    """The figures of `judge` on every split, with means and standard errors; `step` is told of every split.

    For a method of another package that fails, the reason is in the place of the figures.
    """
    entry: dict[str, Any] = {"name": method.name, "title": method.title}
    figures: list[dict[str, float]] = []
    try:
        warm_up(method, task, max(1, len(X[0]) - (runs[0][0].time_channel is not None)), runs[0][0])
        for run, split in runs:
            figures.append(judge(method, task, X, y, split, run, groups))
            step(method.name, 1)
    except (ValueError, RuntimeError, ArithmeticError, ImportError, MemoryError) as error:
        if method.package is None:
            raise
        log.warning("%s failed: %s", method.name, error)
        step(method.name, len(runs) - len(figures))
        return entry | {"failed": str(error) or type(error).__name__}
    summaries = {name: spread(split[name] for split in figures) for name in figures[0]}
    return entry | {
        "mean": {name: mean for name, (mean, _) in summaries.items()},
        "standard_error": {name: error for name, (_, error) in summaries.items()},
        "splits": figures,
    }


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
