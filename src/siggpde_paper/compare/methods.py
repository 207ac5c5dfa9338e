"""The methods of a comparison by name, and how good each is on a split; scores of peers become probabilities p(c) = (1
- lapse) softmax(T scores)_c + lapse / C, lapse = 1 / (n + 2), for no method is right for ever."""

from __future__ import annotations

import importlib.util
import logging
import math
import statistics
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from scipy.stats import norm
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegressionCV, RidgeClassifierCV, RidgeCV
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from siggpde.committee.link import minimize_bounded
from siggpde.estimators import SigGPClassifier, SigGPRegressor
from siggpde.estimators.settings import threads
from siggpde.metrics.classification import classifier_figures
from siggpde.metrics.regression import regressor_figures
from siggpde_paper.compare.splits import Split, common_length, cpu_seconds, equal_lengths, held_out, take

log = logging.getLogger(__name__)


_CHUNK = 500  # series transformed at a time
RIDGE_CENTRE = math.log(4.0)  # of log T, for scores of a regression on ±1
LOG_PROBABILITY_CENTRE = 0.0  # T = 1 leaves probabilities as they are
_LOGARITHMS = np.linspace(math.log(1 / 32), math.log(128), 65)
RIDGE_PENALTIES = np.logspace(-3, 3, 10)  # those of aeon's classifiers
CLASS_FIGURES = ("accuracy", "nlpp", "brier", "ece")
NUMBER_FIGURES = ("rmse", "mae", "nlpd", "coverage")
COSTS = ("cpu_fit", "cpu_predict")


class Features:
    """Transforms with scalers, side by side: series (n_cases, n_channels, n_timepoints) to a table (n_cases, p)."""

    def __init__(self, parts: Sequence[tuple[Any, Any]]) -> None:
        self.parts = parts

    def table(self, X: np.ndarray, method: str = "transform") -> np.ndarray:
        """The table of X, by `transform` or `fit_transform` of all transforms and scalers."""
        columns = []
        for transform, scaler in self.parts:
            table = np.asarray(getattr(transform, method)(X))
            columns.append(table if scaler is None else getattr(scaler, method)(table))
        return np.nan_to_num(columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1), copy=False)

    def by_chunks(self, X: np.ndarray, call: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """`call` on the table of X, a few hundred series at a time: tables may have tens of thousands of columns."""
        starts = range(0, len(X), _CHUNK)
        return np.concatenate([call(self.table(X[start : start + _CHUNK])) for start in starts])


class SparseScaler:
    """Hydra's scaling of counts: roots, standardised by columns, with zeros left at zero."""

    def fit_transform(self, counts: np.ndarray) -> np.ndarray:
        roots = np.sqrt(np.maximum(counts, 0))
        self._mean = roots.mean(axis=0)
        self._scale = roots.std(axis=0, ddof=1) + (roots == 0).mean(axis=0, dtype=roots.dtype) ** 4 + 1e-8
        return self.transform(counts)

    def transform(self, counts: np.ndarray) -> np.ndarray:
        roots = np.sqrt(np.maximum(counts, 0))
        return (roots - self._mean) * (roots != 0) / self._scale


def aeon_features(name: str, run: Run) -> Features:
    """The features of one of `PEERS`, by transforms of aeon."""
    from aeon.transformations.collection import convolution_based, interval_based  # noqa: PLC0415 - optional

    if name == "quant":
        return Features([(interval_based.QUANTTransformer(), None)])
    settings: dict[str, Any] = {"random_state": run.seed, "n_jobs": run.jobs}
    if name == "minirocket":
        return Features([(convolution_based.MiniRocket(**settings), StandardScaler(with_mean=False))])
    hydra = [(convolution_based.HydraTransformer(**settings), SparseScaler())] if name == "mr-hydra" else []
    return Features([*hydra, (convolution_based.MultiRocket(**settings), StandardScaler())])


@dataclass(frozen=True)
class Link:
    """Temperature and lapse."""

    temperature: float
    lapse: float

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """(n, C) from scores (n, C)."""
        classes = scores.shape[1]
        return (1 - self.lapse) * softmax(self.temperature * scores, axis=1) + self.lapse / classes


def lapse_of(series: int) -> float:
    """The share of labels that nothing can foresee, for a method that learned from so many series."""
    return 1.0 / (series + 2)


def temperature_loss(logarithm: float, scores: np.ndarray, y: np.ndarray, lapse: float, centre: float) -> float:
    """Minus the log posterior of log T: -sum log p(y), and the prior N(centre, 1)."""
    chances = Link(math.exp(logarithm), lapse).probabilities(scores)[np.arange(len(y)), y]
    return 0.5 * (logarithm - centre) ** 2 - float(np.log(chances).sum())


def fit_link(scores: np.ndarray, y: np.ndarray, lapse: float, centre: float) -> Link:
    """The most probable temperature for scores (n, C) of left-out series and their classes y (n,)."""
    losses = [temperature_loss(at, scores, y, lapse, centre) for at in _LOGARITHMS]
    best = int(np.argmin(losses))
    low, high = (float(end) for end in _LOGARITHMS[max(best - 1, 0) : best + 2][[0, -1]])
    logarithm = minimize_bounded(lambda at: temperature_loss(at, scores, y, lapse, centre), low, high)
    return Link(math.exp(logarithm), lapse)


class RidgeHead:
    """Regressions on ±1, the penalty by leave-one-out."""

    centre: ClassVar[float | None] = RIDGE_CENTRE

    def fit(self, table: np.ndarray, y: np.ndarray, seed: int) -> None:
        self._model = RidgeClassifierCV(alphas=RIDGE_PENALTIES).fit(table, y)

    def scores(self, table: np.ndarray) -> np.ndarray:
        scores = self._model.decision_function(table)
        return np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores


class TreesHead:
    """Extremely randomised trees; log probabilities with one more tree, which knows nothing."""

    centre: ClassVar[float | None] = LOG_PROBABILITY_CENTRE
    _TREES = 200

    def fit(self, table: np.ndarray, y: np.ndarray, seed: int) -> None:
        settings: dict[str, Any] = {"max_features": 0.1, "criterion": "entropy", "random_state": seed}
        self._model = ExtraTreesClassifier(self._TREES, **settings).fit(table, y)

    def scores(self, table: np.ndarray) -> np.ndarray:
        chances = np.asarray(self._model.predict_proba(table))
        return np.log((self._TREES * chances + 1 / chances.shape[1]) / (self._TREES + 1))


class LogisticHead:
    """Logistic regression, its penalty by cross-validation; with more columns than rows in their span."""

    centre: ClassVar[float | None] = None
    _WEIGHTS = np.logspace(-1, 5, 10)

    def fit(self, table: np.ndarray, y: np.ndarray, seed: int) -> None:
        self._rows, self._into = _coordinates(table)
        inside = self._inside(table)
        splits = [(split.train, split.test) for split in held_out(y, seed, stratify=True)]
        settings: dict[str, Any] = {"Cs": self._WEIGHTS, "scoring": _mean_log_probability}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # defaults that scikit-learn will change; weak penalties may not converge
            self._model = LogisticRegressionCV(cv=splits, max_iter=300, **settings).fit(inside, y)

    def scores(self, table: np.ndarray) -> np.ndarray:
        return np.asarray(self._model.predict_log_proba(self._inside(table)))

    def _inside(self, table: np.ndarray) -> np.ndarray:
        """Coordinates (n, r) of the rows of a table (n, p)."""
        return table @ self._into if self._rows is None else (table @ self._rows.T) @ self._into


def _coordinates(table: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """Rows (m, p) or None, and a matrix into coordinates: from inner products with the rows, or from columns."""
    length = np.sqrt(np.square(table, dtype=np.float64).sum(axis=1).mean()) or 1.0
    if table.shape[1] <= table.shape[0]:
        return None, np.eye(table.shape[1]) / length
    values, vectors = np.linalg.eigh((table @ table.T).astype(np.float64))
    kept = values > 1e-6 * values[-1]  # tables are in single precision
    return table, vectors[:, kept] / (np.sqrt(values[kept]) * length)


def _mean_log_probability(model: Any, table: np.ndarray, y: np.ndarray) -> float:
    chances = np.asarray(model.predict_proba(table))
    lapse = lapse_of(len(y))
    return float(np.log((1 - lapse) * chances[np.arange(len(y)), y] + lapse / chances.shape[1]).mean())


Head = RidgeHead | TreesHead | LogisticHead
"""Scores of classes (n, C) from tables (n, p); `centre` is that of log T's prior, None for log probabilities."""


class FeatureClassifier:
    """Features of equally long series, a head, and probabilities by the temperature `link_` of left-out scores."""

    def __init__(self, features: Features, head: type[Head], seed: int, time_channel: int | None = None) -> None:
        self.features, self.head = features, head
        self.seed, self.time_channel = seed, time_channel

    def fit(self, X: Any, y: Any, groups: np.ndarray | None = None) -> FeatureClassifier:
        """Series of one of the `groups` (n_cases,) are left out together."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has only one class, {self.classes_.tolist()}; a classifier needs two or more")
        self.length_ = common_length(X)
        table = self.features.table(equal_lengths(X, self.length_, self.time_channel), "fit_transform")
        started, lapse = cpu_seconds(), lapse_of(len(codes))
        self.link_ = Link(1.0, lapse)
        if self.head.centre is not None:
            splits = held_out(codes, self.seed, stratify=True, groups=groups)
            scores = [self._fitted_head(table[s.train], codes[s.train]).scores(table[s.test]) for s in splits]
            truth = np.concatenate([codes[s.test] for s in splits])
            self.link_ = fit_link(np.concatenate(scores), truth, lapse, self.head.centre)
        self.calibration_seconds_ = cpu_seconds() - started
        self.head_ = self._fitted_head(table, codes)
        return self

    def _fitted_head(self, table: np.ndarray, codes: np.ndarray) -> Head:
        head = self.head()
        head.fit(table, codes, self.seed)
        return head

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n_cases, n_classes), columns in the order of `classes_`."""
        even = equal_lengths(X, self.length_, self.time_channel)
        return self.link_.probabilities(self.features.by_chunks(even, self.head_.scores))


class FrequencyClassifier:
    """The shares of the classes among the training series, for every series: what one knows without looking."""

    def fit(self, X: Any, y: Any, groups: np.ndarray | None = None) -> FrequencyClassifier:
        self.classes_, counts = np.unique(y, return_counts=True)
        self._chances = (counts + 1) / (counts + 1).sum()
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.tile(self._chances, (len(X), 1))


class NormalRegressor:
    """Predictions with one standard deviation for all, `std_`; the methods are those of `SigGPRegressor`."""

    std_: float

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Means (n_cases,), with `return_std` standard deviations (n_cases,) as well."""
        mean = self._mean(X)
        return (mean, np.full(len(mean), self.std_)) if return_std else mean

    def predict_quantiles(self, X: Any, quantiles: Sequence[float]) -> np.ndarray:
        """(n_cases, quantiles)."""
        return self._mean(X)[:, None] + self.std_ * norm.ppf(np.asarray(quantiles))[None, :]

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        """log p(y | X), (n_cases,)."""
        return norm.logpdf(np.asarray(y, dtype=float), self._mean(X), self.std_)

    def _mean(self, X: Any) -> np.ndarray:
        raise NotImplementedError


class FeatureRegressor(NormalRegressor):
    """Features and a ridge regression, its penalty by leave-one-out; `std_` is the root mean squared error on folds."""

    def __init__(self, features: Features, seed: int, time_channel: int | None = None) -> None:
        self.features, self.seed, self.time_channel = features, seed, time_channel

    def fit(self, X: Any, y: Any, groups: np.ndarray | None = None) -> FeatureRegressor:
        """Series of one of the `groups` (n_cases,) are left out together."""
        target = np.asarray(y, dtype=float)
        self.length_ = common_length(X)
        table = self.features.table(equal_lengths(X, self.length_, self.time_channel), "fit_transform")
        started, errors = cpu_seconds(), []
        for split in held_out(target, self.seed, stratify=False, groups=groups):
            model = RidgeCV(alphas=RIDGE_PENALTIES).fit(table[split.train], target[split.train])
            errors.append(model.predict(table[split.test]) - target[split.test])
        self.std_ = _positive(float(np.sqrt(np.square(np.concatenate(errors)).mean())), target)
        self.calibration_seconds_ = cpu_seconds() - started
        self._model = RidgeCV(alphas=RIDGE_PENALTIES).fit(table, target)
        return self

    def _mean(self, X: Any) -> np.ndarray:
        even = equal_lengths(X, self.length_, self.time_channel)
        return self.features.by_chunks(even, self._model.predict)


class MeanRegressor(NormalRegressor):
    """Mean and standard deviation of the training targets, for every series: what one knows without looking."""

    def fit(self, X: Any, y: Any, groups: np.ndarray | None = None) -> MeanRegressor:
        target = np.asarray(y, dtype=float)
        self._centre, self.std_ = float(target.mean()), _positive(float(target.std()), target)
        return self

    def _mean(self, X: Any) -> np.ndarray:
        return np.full(len(X), self._centre)


def _positive(std: float, target: np.ndarray) -> float:
    """A standard deviation that has a density, also where all targets are the same."""
    return max(std, 1e-9 * max(1.0, float(np.abs(target).max())))


@dataclass(frozen=True)
class Run:
    """What a method is told: the seed, threads, and the channel of X that holds time stamps, if any."""

    seed: int = 0
    jobs: int = 1
    time_channel: int | None = None


@dataclass(frozen=True)
class Method:
    """A method by name, what makes its estimators (None where it has none), and the package to be installed."""

    name: str
    title: str
    classifier: Callable[[Run], Any] | None
    regressor: Callable[[Run], Any] | None
    package: str | None = None

    def maker(self, task: str) -> Callable[[Run], Any] | None:
        """What makes an estimator for "classification" or "regression"."""
        return self.classifier if task == "classification" else self.regressor

    def make(self, task: str, run: Run) -> Any:
        maker = self.maker(task)
        if maker is None:
            raise ValueError(f"{self.name} is no method for a {task}; leave it out")
        return maker(run)

    def is_installed(self) -> bool:
        return self.package is None or importlib.util.find_spec(self.package) is not None


def ours(name: str = "siggpde", title: str = "siggpde", **settings: Any) -> Method:
    """`SigGPClassifier` and `SigGPRegressor` with these settings, the others at their defaults."""

    def make(kind: type, run: Run) -> Any:
        return kind(**{"random_state": run.seed, "n_jobs": run.jobs, "time_channel": run.time_channel, **settings})

    return Method(name, title, partial(make, SigGPClassifier), partial(make, SigGPRegressor))


def _peer(name: str, title: str, head: type[Head]) -> Method:
    """Features of aeon with a head; those for a ridge regression are for numbers too."""

    def classifier(run: Run) -> FeatureClassifier:
        return FeatureClassifier(aeon_features(name, run), head, run.seed, run.time_channel)

    def regressor(run: Run) -> FeatureRegressor:
        return FeatureRegressor(aeon_features(name, run), run.seed, run.time_channel)

    return Method(name, title, classifier, regressor if head is RidgeHead else None, "aeon")


PEERS = (
    _peer("minirocket", "MiniRocket, ridge regression", RidgeHead),
    _peer("mr-hydra", "MultiRocket-Hydra, ridge regression", RidgeHead),
    _peer("quant", "QUANT, extra trees", TreesHead),
    _peer("multirocket", "MultiRocket, logistic regression", LogisticHead),
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
    unfit = [name for name in names or () if METHODS[name].maker(task) is None]
    if unfit:
        raise ValueError(f"{unfit[0]} is no method for a {task}; leave it out")
    chosen = [METHODS[name] for name in names or METHODS if METHODS[name].maker(task)]
    ready = [method for method in chosen if method.is_installed()]
    return ready, [method for method in chosen if not method.is_installed()]


def judge(
    method: Method, task: str, X: Any, y: np.ndarray, split: Split, run: Run, groups: np.ndarray | None = None
) -> dict[str, float]:
    """Fits on `split.train` and judges on `split.test`; the cost `cpu_calibration` of the peers is in `cpu_fit`."""
    train, test = take(X, split.train), take(X, split.test)
    estimator, classes = method.make(task, run), task == "classification"
    with threads(run.jobs), threadpool_limits(None if run.jobs < 1 else run.jobs):
        started = cpu_seconds()
        estimator.fit(train, y[split.train], **({} if groups is None else {"groups": groups[split.train]}))
        fitted = cpu_seconds()
        predicted = estimator.predict_proba(test) if classes else estimator.predict(test, return_std=True)
        costs = {"cpu_fit": fitted - started, "cpu_predict": cpu_seconds() - fitted}
        costs["cpu_calibration"] = float(getattr(estimator, "calibration_seconds_", 0.0))
        if classes:
            values = classifier_figures(estimator, test, y[split.test], predicted)
        else:
            values = regressor_figures(estimator, test, y[split.test], *predicted)
            values["coverage"] = values["coverage"]["0.9"]
    return {name: float(values[name]) for name in (CLASS_FIGURES if classes else NUMBER_FIGURES)} | costs


def judge_on_splits(
    method: Method,
    task: str,
    X: Any,
    y: np.ndarray,
    runs: Sequence[tuple[Run, Split]],
    step: Callable[[str, int], None],
    groups: np.ndarray | None = None,
) -> dict[str, Any]:
    """The figures of `judge` on every split, with means and standard errors, or why a method of others fails."""
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
    """Mean and standard error of the mean; None for the error of a single value, or where the mean is infinite."""
    given = list(values)
    mean = statistics.fmean(given)
    if len(given) < 2 or not math.isfinite(mean):
        return mean, None
    return mean, statistics.stdev(given) / math.sqrt(len(given))
