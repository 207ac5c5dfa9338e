"""How good predictions are, and how honest: from labels and probabilities, or numbers and predictive distributions.

Arrays in, plain floats out. What is not defined, such as the recall of a class that never occurs, is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from siggpde.metrics.inputs import checked_classes, interval_ends, numbers, refuse


@dataclass(frozen=True)
class ClassificationMetrics:
    """How well class probabilities fit the true labels of n series.

    - `accuracy`: the share of series whose most probable class is the true one; `balanced_accuracy`: the mean of the
      recalls of the classes that occur.
    - `nlpp`: the mean of -log p(true label), infinite where a true label was given probability 0.
    - `brier`: the mean over series of the sum over classes of (p - 1[true])², from 0 to 2.
    - `ece`: the mean distance of the highest probability from the share that it is right, in bins of it.
    - `confusion`: how often class i (row) was taken for class j (column), both in the order of `classes`.
    - `recall`, `precision`: for every class; NaN where it never occurs, or is never predicted.
    """

    n: int
    accuracy: float
    balanced_accuracy: float
    nlpp: float
    brier: float
    ece: float
    confusion: tuple[tuple[int, ...], ...]
    recall: tuple[float, ...]
    precision: tuple[float, ...]
    classes: tuple[Any, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values; None where a number is not defined. An infinite `nlpp` stays infinite."""
        return _plain(asdict(self))


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
        return _plain(asdict(self))


@dataclass(frozen=True)
class CalibrationBins:
    """Series by the probability of their most probable class: bins (edges[i], edges[i + 1]], each (bins,).

    `confidence` is the mean probability and `accuracy` the share that is right, both NaN where `count` is 0.
    """

    edges: np.ndarray
    count: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray


def classification_metrics(y: Any, probabilities: Any, classes: Any, *, bins: int = 15) -> ClassificationMetrics:
    """Metrics of `probabilities` (n, C), columns in the order of `classes` (C,), for true labels y (n,).

    Examples:
        >>> found = classification_metrics(["a", "b"], [[0.75, 0.25], [0.5, 0.5]], ["a", "b"])
        >>> found.accuracy, found.brier, found.confusion
        (0.5, 0.3125, ((1, 0), (1, 0)))
    """
    truth, p, labels = checked_classes(y, probabilities, classes)
    rows, count = np.arange(len(p)), len(labels)
    guess = p.argmax(axis=1)
    confusion = np.zeros((count, count), dtype=np.int64)
    np.add.at(confusion, (truth, guess), 1)
    right = confusion.diagonal()
    recall, precision = _ratio(right, confusion.sum(axis=1)), _ratio(right, confusion.sum(axis=0))
    with np.errstate(divide="ignore"):
        nlpp = -np.log(p[rows, truth]).mean()
    wrong = p.copy()
    wrong[rows, truth] -= 1
    curve = _bins(truth, p, bins)
    filled = curve.count > 0
    gap = np.abs(curve.confidence - curve.accuracy)[filled] * curve.count[filled]
    return ClassificationMetrics(
        n=len(p),
        accuracy=float((guess == truth).mean()),
        balanced_accuracy=float(np.nanmean(recall)),
        nlpp=float(nlpp) + 0.0,  # no minus zero
        brier=float(np.square(wrong).sum(axis=1).mean()),
        ece=float(gap.sum() / len(p)),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        recall=tuple(recall.tolist()),
        precision=tuple(precision.tolist()),
        classes=labels,
    )


def calibration_bins(y: Any, probabilities: Any, classes: Any, *, bins: int = 15) -> CalibrationBins:
    """The most probable class of every series and how often it is right, in `bins` equally wide bins."""
    truth, p, _ = checked_classes(y, probabilities, classes)
    return _bins(truth, p, bins)


def regression_metrics(
    y: Any, mean: Any, std: Any, log_density: Any, quantiles_by_level: Mapping[float, tuple[Any, Any]] | None = None
) -> RegressionMetrics:
    """Metrics of predictions for y (n,): their `mean`, `std` and log p(y), each (n,).

    `quantiles_by_level` has for levels such as 0.9 the ends (lower, upper), each (n,), of central intervals.

    Examples:
        >>> found = regression_metrics([1, 3], [1, 2], [1, 1], [-0.9, -1.4], {0.5: ([0.3, 1.3], [1.7, 2.7])})
        >>> found.mae, found.coverage
        (0.5, {0.5: 0.5})
    """
    target = numbers("y", y, finite=True)
    if len(target) == 0:
        raise ValueError("y is empty: there is nothing to judge; give at least one number")
    guess = numbers("mean", mean, target, finite=True)
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
    error = target - guess
    varies = np.ptp(target) > 0
    return RegressionMetrics(
        n=len(target),
        rmse=float(np.sqrt(np.square(error).mean())),
        mae=float(np.abs(error).mean()),
        r2=float(1 - np.square(error).mean() / target.var()) if varies else math.nan,
        nlpd=float(-density.mean()) + 0.0,
        mean_std=float(spread.mean()),
        coverage=coverage,
        width=width,
    )


def _bins(truth: np.ndarray, p: np.ndarray, bins: int) -> CalibrationBins:
    if not isinstance(bins, int) or bins < 1:
        raise ValueError(f"bins must be a whole number of at least 1, got {bins!r}")
    top, right = p.max(axis=1), p.argmax(axis=1) == truth
    edges = np.linspace(0, 1, bins + 1)
    place = np.searchsorted(edges[1:-1], top, side="left")
    count = np.bincount(place, minlength=bins)
    confidence = _ratio(np.bincount(place, top, bins), count)
    return CalibrationBins(edges, count, confidence, _ratio(np.bincount(place, right, bins), count))


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.full(len(part), math.nan), where=whole > 0)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {f"{key:g}" if isinstance(key, float) else key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and math.isnan(value) else value
