"""Predictions that may be withheld: the risk-coverage curve, and sets of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from siggpde.metrics.inputs import as_list, checked_classes


@dataclass(frozen=True)
class RiskCoverage:
    """How often predictions are wrong if only the surest are made, one entry for each share of the series, ascending.

    - `coverage`: the share of series that are predicted, those whose most probable class has the probability
      `threshold` or more; series that are equally sure come together.
    - `risk`: the share of these that are predicted wrong.
    - `area`: the mean risk over all shares (AURC); 0 is best, and the share of wrong predictions is what one gets
      where being sure means nothing.
    """

    coverage: np.ndarray
    risk: np.ndarray
    threshold: np.ndarray
    area: float

    def risk_at(self, coverage: float) -> float:
        """The risk where this share of the series is predicted, or more where series are equally sure."""
        if not 0 < coverage <= 1:
            raise ValueError(f"coverage must be above 0 and at most 1, got {coverage!r}")
        return float(self.risk[int((self.coverage >= coverage - 1e-9).argmax())])


def risk_coverage(y: Any, probabilities: Any, classes: Any) -> RiskCoverage:
    """The risk-coverage curve of `probabilities` (n, C), columns in the order of `classes` (C,), for labels y (n,).

    Examples:
        >>> curve = risk_coverage(["a", "a", "b"], [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], ["a", "b"])
        >>> curve.coverage.round(2).tolist(), curve.risk.round(2).tolist()
        ([0.33, 0.67, 1.0], [0.0, 0.5, 0.33])
    """
    truth, p, _ = checked_classes(y, probabilities, classes)
    return curve_of(truth, p)


def curve_of(truth: np.ndarray, p: np.ndarray) -> RiskCoverage:
    """The curve for true classes 0..C-1 (n,) and probabilities (n, C).

    The k-th surest series adds risk(k) / n to the area. Of equally sure ones any could be the k-th: all have the risk
    that is expected of them in random order.
    """
    top, wrong = p.max(axis=1), p.argmax(axis=1) != truth
    negative, tie = np.unique(-top, return_inverse=True)
    each, errors = np.bincount(tie), np.bincount(tie, wrong)
    count, total = np.cumsum(each), np.cumsum(errors)
    rank, tie = np.arange(1, len(top) + 1), np.sort(tie)
    expected = (total - errors)[tie] + (rank - (count - each)[tie]) * (errors / each)[tie]
    return RiskCoverage(count / len(top), total / count, -negative, float((expected / rank).mean()))


@dataclass(frozen=True)
class SetMetrics:
    """Of sets of classes: the share that hold the true one, `coverage`, their mean `size`, and the shares that are
    `empty` and that hold one class only, `single`."""

    coverage: float
    size: float
    empty: float
    single: float


def set_metrics(y: Any, sets: Any, classes: Any) -> SetMetrics:
    """Metrics of `sets` (n, C) of bools, columns in the order of `classes` (C,), for true labels y (n,).

    Examples:
        >>> set_metrics(["a", "b"], [[True, False], [True, False]], ["a", "b"])
        SetMetrics(coverage=0.5, size=1.0, empty=0.0, single=1.0)
    """
    labels, given, inside = as_list(classes), as_list(y), np.asarray(sets)
    if inside.dtype != bool or inside.shape != (len(given), len(labels)) or not len(given):
        raise ValueError(
            f"sets must be bools of shape ({len(given)}, {len(labels)}), a row for each label of y, at least one, and "
            f"a column for each of the classes; got {inside.dtype} {inside.shape}"
        )
    place = {label: number for number, label in enumerate(labels)}
    # A label that the model has never seen is in no set.
    held = [label in place and bool(row[place[label]]) for label, row in zip(given, inside, strict=True)]
    size = inside.sum(axis=1)
    return SetMetrics(float(np.mean(held)), float(size.mean()), float((size == 0).mean()), float((size == 1).mean()))
