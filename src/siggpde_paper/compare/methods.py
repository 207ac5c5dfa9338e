"""The methods of a comparison by name: ours, those of aeon, and one that does not look at the series."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from siggpde.estimators.classifier import SigGPClassifier
from siggpde.estimators.regressor import SigGPRegressor
from siggpde_paper.compare import features
from siggpde_paper.compare.classifiers import (
    FeatureClassifier,
    FrequencyClassifier,
    Head,
    LogisticHead,
    RidgeHead,
    TreesHead,
)
from siggpde_paper.compare.regressors import FeatureRegressor, MeanRegressor


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


def _classifier(make: Callable[[int, int], features.Features], head: type[Head], run: Run) -> FeatureClassifier:
    return FeatureClassifier(make(run.seed, run.jobs), head, run.seed, run.time_channel)


def _regressor(make: Callable[[int, int], features.Features], run: Run) -> FeatureRegressor:
    return FeatureRegressor(make(run.seed, run.jobs), run.seed, run.time_channel)


PEERS = (
    Method(
        "minirocket",
        "MiniRocket, ridge regression",
        partial(_classifier, features.minirocket, RidgeHead),
        partial(_regressor, features.minirocket),
        "aeon",
    ),
    Method(
        "mr-hydra",
        "MultiRocket-Hydra, ridge regression",
        partial(_classifier, features.multirocket_hydra, RidgeHead),
        partial(_regressor, features.multirocket_hydra),
        "aeon",
    ),
    Method("quant", "QUANT, extra trees", partial(_classifier, features.quant, TreesHead), None, "aeon"),
    Method(
        "multirocket",
        "MultiRocket, logistic regression",
        partial(_classifier, features.multirocket, LogisticHead),
        None,
        "aeon",
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
