"""Scores of forecasts of rain, with intervals by a bootstrap over days.

Dry windows are thinned: a share b of them is kept, and all wet ones. By Bayes' rule the odds of rain in the thinned
sample are the natural ones divided by b, so that

    log-odds (natural) = log-odds (thinned) + log b,

for every forecaster that was trained on the thinned sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

MEASURES = ("accuracy", "nlpp", "auc", "brier")


@dataclass(frozen=True)
class Forecasts:
    """Log-odds of rain (n,) for some windows, whether it rained (n,), and the day of the forecast (n,)."""

    log_odds: np.ndarray
    wet: np.ndarray
    day: np.ndarray

    def __post_init__(self) -> None:
        if not len(self.log_odds) == len(self.wet) == len(self.day):
            raise ValueError(f"got {len(self.log_odds)} log-odds, {len(self.wet)} outcomes and {len(self.day)} days")
        if not self.wet.any() or self.wet.all():
            raise ValueError("all windows are wet, or all are dry; a score needs both kinds")


def to_natural(log_odds: np.ndarray, kept: float) -> np.ndarray:
    """Log-odds at the natural rate, from those of a sample that kept the share `kept` of the dry windows.

    Examples:
        >>> to_natural(np.array([0.0]), 0.25).round(4)  # one to one where three of four dry ones were left out
        array([-1.3863])
    """
    if not 0 < kept <= 1:
        raise ValueError(f"the share of dry windows that were kept must be above 0 and at most 1, got {kept}")
    return log_odds + np.log(kept)


def scores(forecasts: Forecasts, counts: np.ndarray | None = None, days: np.ndarray | None = None) -> np.ndarray:
    """Accuracy, NLPP, AUC and Brier score of each bootstrap sample, (samples, 4).

    Sample s has day days[k] of the `days` (D,) counts[s, k] times; by default there is one sample, with all days once.

    The Brier score is the mean of (p - wet)², half of that in `siggpde.metrics`, which sums over both classes. The AUC
    is NaN for a sample in which all windows are wet, or all are dry.
    """
    if days is None:
        days = np.unique(forecasts.day)
    if counts is None:
        counts = np.ones((1, len(days)))
    day_index = np.searchsorted(days, forecasts.day)
    sign = np.where(forecasts.wet, 1.0, -1.0)
    each = np.stack([
        (forecasts.log_odds > 0) == forecasts.wet,
        -log_expit(sign * forecasts.log_odds),
        (expit(forecasts.log_odds) - forecasts.wet) ** 2,
        np.ones(len(day_index)),
    ])  # fmt: skip
    daily = np.stack([np.bincount(day_index, row, len(days)) for row in each])
    with np.errstate(invalid="ignore", divide="ignore"):  # samples of days without a window
        right, loss, square, number = (counts @ row for row in daily)
        areas = _areas(forecasts, counts, day_index)
        return np.stack([right / number, loss / number, areas, square / number], axis=1)


def _areas(forecasts: Forecasts, counts: np.ndarray, day_index: np.ndarray) -> np.ndarray:
    """Areas under the ROC curve, (samples,): how often a wet window has the higher log-odds; ties count half.

    scikit-learn's roc_auc_score with sample weights gives the same, but sorts again for each of thousands of samples.
    """
    _, group = np.unique(forecasts.log_odds, return_inverse=True)
    size = int(group.max()) + 1
    areas = np.empty(len(counts))
    for sample, count in enumerate(counts):
        weight = count[day_index]
        wet = np.bincount(group, weight * forecasts.wet, size)
        dry = np.bincount(group, weight * ~forecasts.wet, size)
        below = dry.cumsum() - dry / 2
        areas[sample] = (wet @ below) / (wet.sum() * dry.sum()) if wet.any() and dry.any() else np.nan
    return areas


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its interval."""

    value: float
    low: float
    high: float


def draw_days(count: int, samples: int, seed: int) -> np.ndarray:
    """How often each of `count` days is drawn in samples of `count` days with replacement, (samples, count)."""
    if count < 2 or samples < 1:
        raise ValueError(f"a bootstrap needs two days or more and a sample, got {count} days and {samples} samples")
    return np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=samples)


def bootstrap(
    methods: Mapping[str, Sequence[Forecasts]], *, samples: int, level: float = 0.95, seed: int = 0
) -> tuple[dict[str, dict[str, Estimate]], dict[tuple[str, str], Estimate]]:
    """The measures of every method, averaged over its runs, and the differences in NLPP of every two methods.

    The same days are drawn for all methods and runs, so that the differences are paired. Intervals are percentiles. The
    first result is by method and measure; the second by (method, other), the NLPP of the one minus that of the other.
    """
    days = np.unique(np.concatenate([run.day for runs in methods.values() for run in runs]))
    counts = draw_days(len(days), samples, seed)
    point = {name: np.mean([scores(run)[0] for run in runs], axis=0) for name, runs in methods.items()}
    drawn = {name: np.mean([scores(run, counts, days) for run in runs], axis=0) for name, runs in methods.items()}
    ends = [(1 - level) / 2, (1 + level) / 2]

    def estimate(value: float, values: np.ndarray) -> Estimate:
        low, high = np.nanquantile(values, ends)
        return Estimate(float(value), float(low), float(high))

    single = {
        name: {m: estimate(point[name][i], drawn[name][:, i]) for i, m in enumerate(MEASURES)} for name in methods
    }
    nlpp = MEASURES.index("nlpp")
    pairs = {
        (one, other): estimate(point[one][nlpp] - point[other][nlpp], drawn[one][:, nlpp] - drawn[other][:, nlpp])
        for one in methods
        for other in methods
        if one != other
    }
    return single, pairs
