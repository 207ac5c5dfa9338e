"""Metrics of class probabilities. What is not defined, such as the recall of a class that never occurs, is NaN."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support, roc_auc_score

from siggpde.metrics.calibration import expected_calibration_error, top_class_bins
from siggpde.metrics.inputs import checked_classes, without_nan
from siggpde.metrics.selective import curve_of


@dataclass(frozen=True)
class ClassificationMetrics:
    """How well class probabilities fit the true labels of n series.

    - `accuracy`: the share of series whose most probable class is the true one; `balanced_accuracy`: the mean of the
      recalls of the classes that occur.
    - `nlpp`: the mean of -log p(true label), infinite where a true label was given probability 0.
    - `brier`: the mean over series of the sum over classes of (p - 1[true])², from 0 to 2.
    - `ece`: the expected calibration error, the mean difference in size between the highest probability and the share
      of series for which it is right, over bins of that probability.
    - `confusion`: how often class i (row) was taken for class j (column), both in the order of `classes`.
    - `recall`, `precision`: for every class; NaN where it never occurs, or is never predicted.
    - `f1`: the mean over the classes that occur or are predicted of 2 precision recall / (precision + recall).
    - `auc`: the mean over classes of the area under the ROC curve, one class against the rest; NaN unless two occur.
      A class that does not occur has no curve.
    - `aurc`: the area under the risk-coverage curve, `risk_coverage`.
    """

    n: int
    accuracy: float
    balanced_accuracy: float
    nlpp: float
    brier: float
    ece: float
    f1: float
    auc: float
    aurc: float
    confusion: tuple[tuple[int, ...], ...]
    recall: tuple[float, ...]
    precision: tuple[float, ...]
    classes: tuple[Any, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values; None where a number is not defined. An infinite `nlpp` stays infinite."""
        return without_nan(asdict(self))


def classification_metrics(y: Any, probabilities: Any, classes: Any, *, bins: int = 15) -> ClassificationMetrics:
    """Metrics of `probabilities` (n, C), columns in the order of `classes` (C,), for true labels y (n,).

    Examples:
        >>> metrics = classification_metrics(["a", "b"], [[0.75, 0.25], [0.5, 0.5]], ["a", "b"])
        >>> metrics.accuracy, metrics.brier, metrics.confusion
        (0.5, 0.3125, ((1, 0), (1, 0)))
    """
    truth, p, labels = checked_classes(y, probabilities, classes)
    rows, indices = np.arange(len(p)), np.arange(len(labels))
    predicted = p.argmax(axis=1)
    confusion = confusion_matrix(truth, predicted, labels=indices)
    undefined: Any = np.nan  # scikit-learn's annotation has text only
    ratios = precision_recall_fscore_support(truth, predicted, labels=indices, zero_division=undefined)
    precision, recall, f1 = (np.asarray(ratio) for ratio in ratios[:3])
    with np.errstate(divide="ignore"):  # log_loss clips probabilities, so that it is never infinite
        nlpp = -np.log(p[rows, truth]).mean()
    difference = p.copy()
    difference[rows, truth] -= 1
    return ClassificationMetrics(
        n=len(p),
        accuracy=float(accuracy_score(truth, predicted)),
        balanced_accuracy=float(np.nanmean(recall)),  # balanced_accuracy_score warns of classes that do not occur
        nlpp=float(nlpp) + 0.0,  # no minus zero
        brier=float(np.square(difference).sum(axis=1).mean()),  # brier_score_loss had two classes only before 1.7
        ece=expected_calibration_error(top_class_bins(truth, p, bins)),
        f1=float(np.nanmean(f1)),
        auc=_auc(truth, p),
        aurc=curve_of(truth, p).area,
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        recall=tuple(recall.tolist()),
        precision=tuple(precision.tolist()),
        classes=labels,
    )


def classifier_figures(estimator: Any, X: Any, y: np.ndarray, probabilities: np.ndarray) -> dict[str, Any]:
    """Plain values of `ClassificationMetrics`, for labels y (n,) and the probabilities (n, classes) of a classifier."""
    values = classification_metrics(y, probabilities, estimator.classes_).to_dict()
    if not math.isfinite(values["nlpp"]) and hasattr(estimator, "log_likelihood"):
        # A probability too small for a number has a logarithm all the same.
        values["nlpp"] = -float(estimator.log_likelihood(X, y).mean())
    return values


def _auc(truth: np.ndarray, p: np.ndarray) -> float:
    """The mean over the classes that occur; roc_auc_score of several classes refuses those that do not."""
    occurring = np.unique(truth)
    if len(occurring) < 2:
        return float("nan")
    return fmean(float(roc_auc_score(truth == index, p[:, index])) for index in occurring)
