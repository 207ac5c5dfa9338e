"""Classifiers to compare with: a table of features, a head that scores classes, a temperature for probabilities."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Protocol

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegressionCV, RidgeClassifierCV

from siggpde_paper.compare.clock import cpu_seconds
from siggpde_paper.compare.features import Features
from siggpde_paper.compare.series import common_length, equal_lengths
from siggpde_paper.compare.splits import Split, held_out
from siggpde_paper.compare.temperature import LOG_PROBABILITY_CENTRE, RIDGE_CENTRE, Link, fit_link, lapse_of

RIDGE_PENALTIES = np.logspace(-3, 3, 10)  # those of aeon's classifiers


class Head(Protocol):
    """Scores of classes from tables (n, p). `centre` is that of log T's prior; None: scores are log probabilities."""

    centre: ClassVar[float | None]

    def fit(self, table: np.ndarray, y: np.ndarray, seed: int) -> Any:
        """Learns classes y (n,), all of 0 to C - 1."""
        ...

    def scores(self, table: np.ndarray) -> np.ndarray:
        """(n, C)."""
        ...


class RidgeHead:
    """Regressions on ±1, the penalty by leave-one-out."""

    centre: ClassVar[float | None] = RIDGE_CENTRE

    def fit(self, table: np.ndarray, y: np.ndarray, seed: int) -> None:
        self._model = RidgeClassifierCV(alphas=RIDGE_PENALTIES).fit(table, y)

    def scores(self, table: np.ndarray) -> np.ndarray:
        found = self._model.decision_function(table)
        return np.stack([-found, found], axis=1) if found.ndim == 1 else found


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
    """Logistic regression with a squared penalty, chosen by cross-validated log probabilities.

    It depends on the table through inner products alone. So where there are more columns than rows it is fitted, with
    the same result, to the coordinates Z of the rows in the space that they span, Z Z' = table table'. Rows are scaled
    to length 1 on average, which the penalties are for.
    """

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


class FeatureClassifier:
    """Features, a head, and probabilities by a temperature fitted to the head's out-of-fold scores.

    X is (n_cases, n_channels, n_timepoints) or a list of (n_channels, n_timepoints_i); it is brought to the length of
    the longest training series. After `fit`: `classes_`, `link_`, and `calibration_seconds_`, CPU seconds of the folds.
    """

    def __init__(self, features: Features, head: type[Head], seed: int, time_channel: int | None = None) -> None:
        self.features, self.head = features, head
        self.seed, self.time_channel = seed, time_channel

    def fit(self, X: Any, y: Any, groups: np.ndarray | None = None) -> FeatureClassifier:
        """Series of one of the `groups` (n_cases,) are left out together."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has only one class, {self.classes_.tolist()}; a classifier needs two or more")
        self.length_ = common_length(X)
        table = self.features.fit_transform(equal_lengths(X, self.length_, self.time_channel))
        started, lapse = cpu_seconds(), lapse_of(len(codes))
        self.link_ = Link(1.0, lapse)
        if self.head.centre is not None:
            scores, truth = self._left_out(table, codes, groups)
            self.link_ = fit_link(scores, truth, lapse, self.head.centre)
        self.calibration_seconds_ = cpu_seconds() - started
        self.head_ = self.head()
        self.head_.fit(table, codes, self.seed)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n_cases, n_classes), columns in the order of `classes_`."""
        even = equal_lengths(X, self.length_, self.time_channel)
        return self.link_.probabilities(self.features.by_chunks(even, self.head_.scores))

    def _left_out(
        self, table: np.ndarray, codes: np.ndarray, groups: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores (m, C) of series by a head that did not learn from them, and their classes (m,)."""

        def scores(split: Split) -> np.ndarray:
            head = self.head()
            head.fit(table[split.train], codes[split.train], self.seed)
            return head.scores(table[split.test])

        splits = held_out(codes, self.seed, stratify=True, groups=groups)
        return np.concatenate([scores(split) for split in splits]), np.concatenate([codes[s.test] for s in splits])


class FrequencyClassifier:
    """The shares of the classes among the training series, for every series: what one knows without looking."""

    def fit(self, X: Any, y: Any, groups: np.ndarray | None = None) -> FrequencyClassifier:
        self.classes_, counts = np.unique(y, return_counts=True)
        self._chances = (counts + 1) / (counts + 1).sum()
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.tile(self._chances, (len(X), 1))
