"""Metrics of class probabilities: of the most probable class, its calibration, withheld predictions, sets of classes;
NaN where one is not defined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np

_TOLERANCE = 1e-4  # for sums of float32 probabilities over thousands of classes


@dataclass(frozen=True)
class ClassificationMetrics:
    """How well class probabilities fit the true labels of n series.

    Attributes
    ----------
    n : int
        Number of series.
    accuracy : float
        Share of series whose most probable class is the true one.
    balanced_accuracy : float
        Mean recall of the classes that occur.
    nlpp : float
        Mean of -log p(true label); infinite where a true label has probability 0.
    brier : float
        Mean over series of the sum over classes of (p - 1[true])², from 0 to 2.
    ece : float
        Expected calibration error: mean over series of |confidence - accuracy| of their bin of `calibration_bins`.
    f1 : float
        Mean of 2 precision recall / (precision + recall) over the classes that occur or are predicted.
    auc : float
        Mean area under the ROC curve of one class against the rest, over the classes that occur; NaN unless two do.
    aurc : float
        Area under the risk-coverage curve, see `risk_coverage`.
    confusion : tuple of tuples of int
        How often class i (row) was predicted as class j (column), in the order of `classes`.
    recall, precision : tuple of float
        One number a class; NaN where the class never occurs, or is never predicted.
    classes : tuple
        The classes (C,).

    Examples
    --------
    >>> classification_metrics(["a", "b"], [[0.9, 0.1], [0.6, 0.4]], ["a", "b"]).confusion
    ((1, 0), (1, 0))
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
        """Returns the attributes as plain values, None where a number is not defined; an infinite `nlpp` stays so."""
        return without_nan(asdict(self))


def classification_metrics(y: Any, probabilities: Any, classes: Any, *, bins: int = 15) -> ClassificationMetrics:
    """Returns the metrics of class probabilities.

    Parameters
    ----------
    y : array-like (n,)
        True labels.
    probabilities : array-like (n, C)
        Columns in the order of `classes`.
    classes : array-like (C,)
        Distinct labels.
    bins : int
        Number of bins of the calibration error.

    Returns
    -------
    ClassificationMetrics

    Examples
    --------
    >>> metrics = classification_metrics(["a", "b"], [[0.75, 0.25], [0.5, 0.5]], ["a", "b"])
    >>> metrics.accuracy, metrics.brier, metrics.confusion
    (0.5, 0.3125, ((1, 0), (1, 0)))
    """
    truth, p, labels = checked_classes(y, probabilities, classes)
    rows, count = np.arange(len(p)), len(labels)
    # By hand, as scikit-learn's metrics take longer to import than all of them to compute.
    confusion = np.bincount(truth * count + p.argmax(axis=1), minlength=count**2).reshape(count, count)
    right, occurs, named = confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0)
    recall, precision, f1 = _mean(right, occurs), _mean(right, named), _mean(2 * right, occurs + named)
    with np.errstate(divide="ignore"):
        nlpp = -np.log(p[rows, truth]).mean()
    difference = p.copy()
    difference[rows, truth] -= 1
    return ClassificationMetrics(
        n=len(p),
        accuracy=float(right.sum() / len(p)),
        balanced_accuracy=float(np.nanmean(recall)),
        nlpp=float(nlpp) + 0.0,  # no minus zero
        brier=float(np.square(difference).sum(axis=1).mean()),
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
    """Returns `ClassificationMetrics` as plain values, for labels y (n,) and probabilities (n, C) of a classifier."""
    values = classification_metrics(y, probabilities, estimator.classes_).to_dict()
    if not math.isfinite(values["nlpp"]) and hasattr(estimator, "log_likelihood"):
        # The logarithm of a probability that underflows is finite.
        values["nlpp"] = -float(estimator.log_likelihood(X, y).mean())
    return values


def _auc(truth: np.ndarray, p: np.ndarray) -> float:
    """Returns the mean AUC of the classes that occur: how often a series of the class ranks above one of another."""
    areas, counts = [], np.bincount(truth, minlength=p.shape[1])
    for index in np.flatnonzero((counts > 0) & (counts < len(truth))):
        _, place, tied = np.unique(p[:, index], return_inverse=True, return_counts=True)
        ranks, inside = (tied.cumsum() - (tied - 1) / 2)[place], int(counts[index])
        above = ranks[truth == index].sum() - inside * (inside + 1) / 2
        areas.append(float(above / (inside * (len(truth) - inside))))
    return fmean(areas) if areas else math.nan


@dataclass(frozen=True)
class CalibrationBins:
    """Series by the probability of their most probable class.

    Attributes
    ----------
    edges : array (bins + 1,)
        Bin i is (edges[i], edges[i + 1]].
    count : array (bins,)
        Number of series.
    confidence, accuracy : array (bins,)
        Mean highest probability, and share of series for which that class is right; NaN where `count` is 0.

    Examples
    --------
    >>> calibration_bins(["a", "b"], [[0.9, 0.1], [0.3, 0.7]], ["a", "b"], bins=4).count.tolist()
    [0, 0, 1, 1]
    """

    edges: np.ndarray
    count: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray


def calibration_bins(y: Any, probabilities: Any, classes: Any, *, bins: int = 15) -> CalibrationBins:
    """Returns how often the most probable class is right, in `bins` equally wide bins of its probability.

    Parameters
    ----------
    y, probabilities, classes
        Those of `classification_metrics`.
    bins : int
        The number of bins.

    Returns
    -------
    CalibrationBins
        The bins with the number of series, mean probability and accuracy of each.

    Examples
    --------
    >>> calibration_bins(["a", "b"], [[0.9, 0.1], [0.6, 0.4]], ["a", "b"], bins=2).confidence.round(2)
    array([ nan, 0.75])
    """
    truth, p, _ = checked_classes(y, probabilities, classes)
    return top_class_bins(truth, p, bins)


def top_class_bins(truth: np.ndarray, p: np.ndarray, bins: int) -> CalibrationBins:
    """The bins of series; scikit-learn's calibration_curve is for two classes, and has the lower ends inside."""
    if not isinstance(bins, int) or bins < 1:
        raise ValueError(f"bins must be a whole number of at least 1, got {bins!r}")
    top, correct = p.max(axis=1), p.argmax(axis=1) == truth
    edges = np.linspace(0, 1, bins + 1)
    index = np.searchsorted(edges[1:-1], top, side="left")
    count = np.bincount(index, minlength=bins)
    confidence = _mean(np.bincount(index, top, bins), count)
    return CalibrationBins(edges, count, confidence, _mean(np.bincount(index, correct, bins), count))


def expected_calibration_error(bins: CalibrationBins) -> float:
    """Returns the mean over all series of |confidence - accuracy| of their bins."""
    filled = bins.count > 0
    gap = np.abs(bins.confidence - bins.accuracy)[filled] * bins.count[filled]
    return float(gap.sum() / bins.count.sum())


def _mean(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.divide(total, count, out=np.full(len(total), math.nan), where=count > 0)


@dataclass(frozen=True)
class RiskCoverage:
    """How often predictions are wrong if only the surest are made, by the share of series that is predicted.

    Attributes
    ----------
    coverage : array (k,)
        Shares of series that are predicted, ascending; equally sure series enter together.
    risk : array (k,)
        Share of the predicted series whose prediction is wrong.
    threshold : array (k,)
        Series whose most probable class has at least this probability are predicted.
    area : float
        Mean risk over all coverages (AURC). 0 is best; confidence that says nothing gives the overall error rate.

    Examples
    --------
    >>> risk_coverage(["a", "b"], [[0.9, 0.1], [0.6, 0.4]], ["a", "b"]).risk_at(0.5)
    0.0
    """

    coverage: np.ndarray
    risk: np.ndarray
    threshold: np.ndarray
    area: float

    def risk_at(self, coverage: float) -> float:
        """Returns the risk at the smallest coverage of the curve that is at least `coverage`."""
        if not 0 < coverage <= 1:
            raise ValueError(f"coverage must be above 0 and at most 1, got {coverage!r}")
        return float(self.risk[int((self.coverage >= coverage - 1e-9).argmax())])


def risk_coverage(y: Any, probabilities: Any, classes: Any) -> RiskCoverage:
    """Returns the risk-coverage curve: the error among the surest predictions, by how many of them are kept.

    Parameters
    ----------
    y, probabilities, classes
        Those of `classification_metrics`.

    Returns
    -------
    RiskCoverage
        The curve.

    Examples
    --------
    >>> curve = risk_coverage(["a", "a", "b"], [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], ["a", "b"])
    >>> curve.coverage.round(2).tolist(), curve.risk.round(2).tolist()
    ([0.33, 0.67, 1.0], [0.0, 0.5, 0.33])
    """
    truth, p, _ = checked_classes(y, probabilities, classes)
    return curve_of(truth, p)


def curve_of(truth: np.ndarray, p: np.ndarray) -> RiskCoverage:
    """The curve for classes (n,) and probabilities (n, C); equally sure ones add the risk of random order."""
    top, wrong = p.max(axis=1), p.argmax(axis=1) != truth
    negative, tie = np.unique(-top, return_inverse=True)
    tied, errors = np.bincount(tie), np.bincount(tie, wrong)
    count, total = np.cumsum(tied), np.cumsum(errors)
    rank, tie = np.arange(1, len(top) + 1), np.sort(tie)
    expected = (total - errors)[tie] + (rank - (count - tied)[tie]) * (errors / tied)[tie]
    return RiskCoverage(count / len(top), total / count, -negative, float((expected / rank).mean()))


@dataclass(frozen=True)
class SetMetrics:
    """How well sets of classes fit the true labels.

    Attributes
    ----------
    coverage : float
        Share of sets that hold the true class.
    size : float
        Mean number of classes in a set.
    empty, single : float
        Shares of sets without a class, and with one class.

    Examples
    --------
    >>> set_metrics(["a", "b"], [[True, False], [True, True]], ["a", "b"])
    SetMetrics(coverage=1.0, size=1.5, empty=0.0, single=0.5)
    """

    coverage: float
    size: float
    empty: float
    single: float


def set_metrics(y: Any, sets: Any, classes: Any) -> SetMetrics:
    """Returns the metrics of prediction sets.

    Parameters
    ----------
    y : array-like (n,)
        True labels.
    sets : array-like of bool (n, C)
        Whether each class is in the set of a series, columns in the order of `classes`.
    classes : array-like (C,)
        Distinct labels.

    Returns
    -------
    SetMetrics
        Coverage and sizes.

    Examples
    --------
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


def checked_classes(y: Any, probabilities: Any, classes: Any) -> tuple[np.ndarray, np.ndarray, tuple[Any, ...]]:
    """Returns the index (n,) of every label among the classes, probabilities (n, C) in float64, and the classes."""
    labels = tuple(as_list(classes))
    index = {label: number for number, label in enumerate(labels)}
    if len(labels) == 0 or len(index) != len(labels):
        raise ValueError(f"classes must be distinct labels, at least one, got {list(labels)}")
    p = _array("probabilities", probabilities)
    if p.ndim != 2 or p.shape[1] != len(labels):
        raise ValueError(
            f"probabilities must have shape (n, {len(labels)}), a column for each of the classes, got {p.shape}"
        )
    given = as_list(y)
    if len(given) != len(p):
        raise ValueError(f"there are {len(given)} labels in y but {len(p)} rows of probabilities; they must be as many")
    if len(p) == 0:
        raise ValueError("y is empty: there is nothing to judge; give at least one label")
    bad = ~((p >= -_TOLERANCE) & (p <= 1 + _TOLERANCE))  # NaN too
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        raise ValueError(
            f"the probability of series {row} for class {labels[column]!r} is {p[row, column]}; "
            "probabilities must be from 0 to 1"
        )
    total = p.sum(axis=1)
    off = np.abs(total - 1) > _TOLERANCE
    if off.any():
        row = int(off.argmax())
        raise ValueError(
            f"the probabilities of series {row} sum to {total[row]:.6g}, not to 1; "
            "divide every row by its sum, or were scores handed in for probabilities?"
        )
    unknown = list(dict.fromkeys(str(label) for label in given if label not in index))
    if unknown:
        shown = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
        types = f"{_types(given)} in y, {_types(labels)} in classes"
        raise ValueError(
            f"y has labels that the model has never seen: {shown} ({types}); "
            "drop these series, write the labels as in training, or train with series of them"
        )
    return np.array([index[label] for label in given]), np.clip(p, 0.0, 1.0), labels


def _array(name: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as trouble:
        raise ValueError(f"{name} must be an array of numbers ({trouble})") from None


def numbers(name: str, values: Any, like: np.ndarray | None = None, *, finite: bool = False) -> np.ndarray:
    """Returns an array (n,) in float64 without NaN, as long as `like`; with `finite` without infinities too."""
    array = _array(name, values)
    wanted = "(n,)" if like is None else f"({len(like)},), one number for each of y"
    if array.ndim != 1 or (like is not None and len(array) != len(like)):
        raise ValueError(f"{name} must have shape {wanted}, got {array.shape}")
    refuse(np.isnan(array), name, array, "drop these series or predict them anew")
    if finite:
        refuse(np.isinf(array), name, array, "it must be finite")
    return array


def refuse(bad: np.ndarray, name: str, values: np.ndarray, fix: str) -> None:
    """Raises ValueError for the first series that is `bad` (n,)."""
    if bad.any():
        series = int(bad.argmax())
        raise ValueError(f"{name} of series {series} is {values[series]}; {fix}")


def as_list(labels: Any) -> list[Any]:
    """Returns labels (n,) as plain Python values."""
    values = list(labels) if isinstance(labels, list | tuple) else np.asarray(labels).tolist()
    if not isinstance(values, list) or any(isinstance(label, list | np.ndarray) for label in values):
        raise ValueError("labels must have shape (n,), one for each series; got an array of another shape")
    return [label.item() if isinstance(label, np.generic) else label for label in values]


def without_nan(value: Any) -> Any:
    """Returns nested dictionaries and tuples as JSON has them: None for NaN, lists, and text for keys of floats."""
    if isinstance(value, dict):
        return {f"{key:g}" if isinstance(key, float) else key: without_nan(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _types(labels: Sequence[Any]) -> str:
    return " and ".join(sorted({type(label).__name__ for label in labels}))
