"""Regressors to compare with: a normal distribution about the prediction, as wide as out-of-fold errors are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.linear_model import RidgeCV

from siggpde_paper.compare.classifiers import RIDGE_PENALTIES
from siggpde_paper.compare.clock import cpu_seconds
from siggpde_paper.compare.features import Features
from siggpde_paper.compare.series import common_length, equal_lengths
from siggpde_paper.compare.splits import held_out


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
    """Features and a ridge regression, its penalty by leave-one-out; `std_` is the root of the mean squared error of
    series that were left out.
    """

    def __init__(self, features: Features, seed: int, time_channel: int | None = None) -> None:
        self.features, self.seed, self.time_channel = features, seed, time_channel

    def fit(self, X: Any, y: Any, groups: np.ndarray | None = None) -> FeatureRegressor:
        """Series of one of the `groups` (n_cases,) are left out together."""
        target = np.asarray(y, dtype=float)
        self.length_ = common_length(X)
        table = self.features.fit_transform(equal_lengths(X, self.length_, self.time_channel))
        started, errors = cpu_seconds(), []
        for split in held_out(target, self.seed, stratify=False, groups=groups):
            model = _ridge().fit(table[split.train], target[split.train])
            errors.append(model.predict(table[split.test]) - target[split.test])
        self.std_ = _positive(float(np.sqrt(np.square(np.concatenate(errors)).mean())), target)
        self.calibration_seconds_ = cpu_seconds() - started
        self._model = _ridge().fit(table, target)
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


def _ridge() -> RidgeCV:
    return RidgeCV(alphas=RIDGE_PENALTIES)


def _positive(std: float, target: np.ndarray) -> float:
    """A standard deviation that has a density, also where all targets are the same."""
    return max(std, 1e-9 * max(1.0, float(np.abs(target).max())))
