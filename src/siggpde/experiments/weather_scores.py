"""How good forecasts of rain are, with intervals by a bootstrap whose blocks are days.

Dry windows are thinned: of the natural ones a share b is kept, of the wet ones all. By Bayes the odds of rain in the
thinned sample are the natural ones divided by b, so that

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
    """Log-odds of rain (n,) of some windows, whether it came (n,), and the days they were made on (n,)."""

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
    """Accuracy, NLPP, AUC and Brier score, (samples, 4).

    Each of the `days` (D,) counts as often as `counts` (samples, D) says; by default all count once.

    The Brier score is the mean of (p - wet)², half of that in `siggpde.metrics`, which sums over both classes. A sample
    without rain, or without anything else, has no AUC: NaN.
    """
    if days is None:
        days = np.unique(forecasts.day)
    if counts is None:
        counts = np.ones((1, len(days)))
    place = np.searchsorted(days, forecasts.day)
    sign = np.where(forecasts.wet, 1.0, -1.0)
    each = np.stack([
        (forecasts.log_odds > 0) == forecasts.wet,
        -log_expit(sign * forecasts.log_odds),
        (expit(forecasts.log_odds) - forecasts.wet) ** 2,
        np.ones(len(place)),
    ])  # fmt: skip
    daily = np.stack([np.bincount(place, row, len(days)) for row in each])
    with np.errstate(invalid="ignore", divide="ignore"):  # samples of days without a window
        right, loss, square, number = (counts @ row for row in daily)
        areas = _areas(forecasts, counts, place)
        return np.stack([right / number, loss / number, areas, square / number], axis=1)


def _areas(forecasts: Forecasts, counts: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Areas under the receiver's curve, (samples,): how often a wet window has the higher log-odds; ties count half."""
    _, group = np.unique(forecasts.log_odds, return_inverse=True)
    size = int(group.max()) + 1
    found = np.empty(len(counts))
    for sample, count in enumerate(counts):
        weight = count[place]
        wet = np.bincount(group, weight * forecasts.wet, size)
        dry = np.bincount(group, weight * ~forecasts.wet, size)
        below = dry.cumsum() - dry / 2
        found[sample] = (wet @ below) / (wet.sum() * dry.sum()) if wet.any() and dry.any() else np.nan
    return found


@dataclass(frozen=True)
class Estimate:
    """A number with the ends of its interval."""

    value: float
    low: float
    high: float


def draw_days(count: int, samples: int, seed: int) -> np.ndarray:
    """How often each of `count` days comes in samples of as many days, drawn with replacement, (samples, count)."""
    if count < 2 or samples < 1:
        raise ValueError(f"a bootstrap needs two days or more and a sample, got {count} days and {samples} samples")
    return np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=samples)


def bootstrap(
    methods: Mapping[str, Sequence[Forecasts]], *, samples: int, level: float = 0.95, seed: int = 0
) -> tuple[dict[str, dict[str, Estimate]], dict[tuple[str, str], Estimate]]:
    """Every measure of every method, the mean over its runs, and the differences in NLPP of every two methods.

    Days are drawn for all methods and runs together, so that the differences are paired. Intervals are percentiles.
    The first result is by method and measure, the second by (method, other) and says NLPP of the one minus the other's.
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
