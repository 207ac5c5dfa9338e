"""Metrics of predictive distributions of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from siggpde.metrics.inputs import interval_ends, numbers, refuse, without_nan

_COVERAGES = (0.5, 0.9, 0.95)  # of the intervals that `regressor_figures` judges


@dataclass(frozen=True)
class RegressionMetrics:
    """How well predictive distributions fit n numbers.

    - `r2`: 1 - mean squared error / variance of y; NaN where y does not vary.
    - `nlpd`: the mean of -log p(y); `mean_std`: the mean standard deviation of the predictions.
    - `coverage`: for each level the share of y inside its interval, ends included; `width`: their mean widths.
    """

    n: int
    rmse: float
    mae: float
    r2: float
    nlpd: float
    mean_std: float
    coverage: dict[float, float]
    width: dict[float, float]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, levels as text ("0.9"); None where a number is not defined."""
        return without_nan(asdict(self))


def regression_metrics(
    y: Any, mean: Any, std: Any, log_density: Any, quantiles_by_level: Mapping[float, tuple[Any, Any]] | None = None
) -> RegressionMetrics:
    """Metrics of predictions for y (n,): their `mean`, `std` and log p(y), each (n,).

    `quantiles_by_level` has for levels such as 0.9 the ends (lower, upper), each (n,), of central intervals.

    Examples:
        >>> metrics = regression_metrics([1, 3], [1, 2], [1, 1], [-0.9, -1.4], {0.5: ([0.3, 1.3], [1.7, 2.7])})
        >>> metrics.mae, metrics.coverage
        (0.5, {0.5: 0.5})
    """
    target = numbers("y", y, finite=True)
    if len(target) == 0:
        raise ValueError("y is empty: there is nothing to judge; give at least one number")
    predicted = numbers("mean", mean, target, finite=True)
    spread = numbers("std", std, target)
    density = numbers("log_density", log_density, target)
    refuse(spread < 0, "std", spread, "a standard deviation cannot be negative; give the root of the variance")
    refuse(density == math.inf, "log_density", density, "a density is finite; was a variance zero?")
    coverage, width = {}, {}
    for level, ends in (quantiles_by_level or {}).items():
        if not 0 < level < 1:
            raise ValueError(f"the level of an interval must be between 0 and 1, such as 0.9, got {level!r}")
        low, high = (
            numbers(f"the {end} ends at {level:g}", given, target) for end, given in interval_ends(level, ends)
        )
        refuse(low > high, f"the lower end at {level:g}", low, "it is above the upper one; give (lower, upper)")
        coverage[float(level)] = float(((low <= target) & (target <= high)).mean())
        width[float(level)] = float((high - low).mean())
    return RegressionMetrics(
        n=len(target),
        rmse=float(root_mean_squared_error(target, predicted)),
        mae=float(mean_absolute_error(target, predicted)),
        r2=_r2(target, predicted),
        nlpd=float(-density.mean()) + 0.0,  # no minus zero
        mean_std=float(spread.mean()),
        coverage=coverage,
        width=width,
    )


def regressor_figures(estimator: Any, X: Any, y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> dict[str, Any]:
    """Plain values of `RegressionMetrics`, for targets y (n,) and the means and standard deviations of a regressor."""
    density = estimator.log_likelihood(X, y)
    ends = [end for coverage in _COVERAGES for end in ((1 - coverage) / 2, (1 + coverage) / 2)]
    quantiles = estimator.predict_quantiles(X, ends)
    lower, upper = quantiles[:, 0::2].T, quantiles[:, 1::2].T
    intervals = dict(zip(_COVERAGES, zip(lower, upper, strict=True), strict=True))
    return regression_metrics(y, mean, std, density, intervals).to_dict()


def _r2(target: np.ndarray, predicted: np.ndarray) -> float:
    if np.ptp(target) == 0:  # r2_score is 0 or 1 here
        return math.nan
    return float(1 - np.square(target - predicted).mean() / target.var())
