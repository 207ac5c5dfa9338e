"""Metrics of predictive distributions of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from siggpde.metrics.classification import numbers, refuse, without_nan

_COVERAGES = (0.5, 0.9, 0.95)  # of the intervals that `regressor_figures` judges


@dataclass(frozen=True)
class RegressionMetrics:
    """How well predictive distributions fit n numbers.

    Attributes
    ----------
    n : int
        Number of series.
    rmse, mae : float
        Root mean squared error and mean absolute error of the means.
    r2 : float
        1 - mean squared error / variance of y; NaN where y does not vary.
    nlpd : float
        Mean of -log p(y).
    mean_std : float
        Mean standard deviation of the predictions.
    coverage, width : dict of float
        By level: the share of y inside the intervals, ends included, and the mean width of the intervals.

    Examples
    --------
    >>> regression_metrics([1.0, 2.0], [1.5, 2.5], [0.5, 0.5], [-0.7, -0.7]).rmse
    0.5
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
        """Returns the attributes as plain values, levels as text ("0.9"); None where a number is not defined."""
        return without_nan(asdict(self))


def regression_metrics(
    y: Any, mean: Any, std: Any, log_density: Any, quantiles_by_level: Mapping[float, tuple[Any, Any]] | None = None
) -> RegressionMetrics:
    """Returns the metrics of predictive distributions.

    Parameters
    ----------
    y : array-like (n,)
        True numbers.
    mean, std, log_density : array-like (n,)
        Means and standard deviations of the predictions, and log p(y).
    quantiles_by_level : dict, optional
        For levels such as 0.9 the ends (lower, upper), each (n,), of central intervals.

    Returns
    -------
    RegressionMetrics

    Examples
    --------
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
        try:
            lower, upper = ends
        except (TypeError, ValueError):
            raise ValueError(f"the interval at {level:g} must be a pair of arrays (lower, upper)") from None
        low = numbers(f"the lower ends at {level:g}", lower, target)
        high = numbers(f"the upper ends at {level:g}", upper, target)
        refuse(low > high, f"the lower end at {level:g}", low, "it is above the upper one; give (lower, upper)")
        coverage[float(level)] = float(((low <= target) & (target <= high)).mean())
        width[float(level)] = float((high - low).mean())
    return RegressionMetrics(
        n=len(target),
        rmse=float(np.sqrt(np.square(target - predicted).mean())),
        mae=float(np.abs(target - predicted).mean()),
        # r2_score is 0 or 1 where y does not vary
        r2=math.nan if np.ptp(target) == 0 else float(1 - np.square(target - predicted).mean() / target.var()),
        nlpd=float(-density.mean()) + 0.0,  # no minus zero
        mean_std=float(spread.mean()),
        coverage=coverage,
        width=width,
    )


def regressor_figures(estimator: Any, X: Any, y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> dict[str, Any]:
    """Returns `RegressionMetrics` as plain values, for targets y (n,) and the mean and std (n,) of a regressor."""
    density = estimator.log_likelihood(X, y)
    ends = [end for coverage in _COVERAGES for end in ((1 - coverage) / 2, (1 + coverage) / 2)]
    quantiles = estimator.predict_quantiles(X, ends)
    lower, upper = quantiles[:, 0::2].T, quantiles[:, 1::2].T
    intervals = dict(zip(_COVERAGES, zip(lower, upper, strict=True), strict=True))
    return regression_metrics(y, mean, std, density, intervals).to_dict()
