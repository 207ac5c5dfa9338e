"""Targets y of the estimators, checked: labels and class weights of classifiers, numbers of regressors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.estimators.label_types import as_classes

_LARGEST = 1e150


def check_labels(y: Any) -> np.ndarray:
    """Labels (n,) of classes; a ValueError where there are none, or some are missing or of a regression."""
    from sklearn.utils.multiclass import check_classification_targets  # noqa: PLC0415 - predictions need none

    values = _as_array(y)
    if values.dtype.kind == "O" and any(
        label is None or (isinstance(label, float) and np.isnan(label)) for label in values.ravel()
    ):
        raise ValueError("y has missing labels (None or NaN); leave these series out")
    labels = _column(values)
    if labels.dtype.kind == "f":
        _check_finite(labels)
    check_classification_targets(labels)
    return labels


def class_indices(labels: np.ndarray, classes: np.ndarray, name: str = "y") -> Tensor:
    """The index (n,) of every label among the classes, int64; a ValueError for labels that are not among them.

    Labels of another type that are written like the classes, such as "1" and 1, are these classes.
    """
    labels = as_classes(labels, classes)
    index = {label: number for number, label in enumerate(classes.tolist())}
    unknown = sorted({str(label) for label in labels.tolist() if label not in index})
    if unknown:
        raise ValueError(
            f"{name} has labels that the training set had not: {', '.join(unknown[:5])}; known are "
            f"{', '.join(str(label) for label in classes[:10])}. Fit again with all the classes"
        )
    return torch.tensor([index[label] for label in labels.tolist()], dtype=torch.int64)


def class_weights(class_weight: Any, classes: np.ndarray, indices: np.ndarray) -> tuple[float, ...] | None:
    """The weights of the classes from the setting `class_weight`; `indices` (n,) are the classes of the series."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced":
        counts = np.bincount(indices, minlength=len(classes))
        return tuple((len(indices) / (len(classes) * counts)).tolist())
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dictionary, got {class_weight!r}")
    names = classes.tolist()
    for label, weight in class_weight.items():
        if label not in names:
            raise ValueError(f"class_weight names {label!r}, which is not among the labels {names[:10]}")
        if not isinstance(weight, int | float | np.number) or not 0 < weight < np.inf:
            raise ValueError(f"class_weight of {label!r} must be a positive number, got {weight!r}")
    return tuple(float(class_weight.get(label, 1.0)) for label in names)


def check_numbers(y: Any, *, counts: bool = False) -> Tensor:
    """Targets (n,) of a regression, finite float64; with `counts` whole numbers from 0."""
    values = _column(_as_array(y))
    if values.dtype.kind == "c":
        raise ValueError(f"y must be real numbers, got {values.dtype}; Complex data not supported")
    try:
        values = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must be numbers for a regression, got {values.dtype}") from error
    _check_finite(values)
    largest = np.abs(values).max(initial=0.0)
    if largest > _LARGEST or 0 < largest < 1 / _LARGEST:
        series = int(np.abs(values).argmax())
        raise ValueError(
            f"y is {values[series]} for series {series}, beyond what can be squared; give y in other units"
        )
    no_count = (values < 0) | (values != np.round(values))
    if counts and no_count.any():
        series = int(no_count.argmax())
        raise ValueError(
            f"likelihood='poisson' is for counts, whole numbers from 0, but y is {values[series]} for series "
            f"{series}; take 'gaussian' for other numbers"
        )
    return torch.from_numpy(values)


def _column(values: np.ndarray) -> np.ndarray:
    from sklearn.utils.validation import column_or_1d  # noqa: PLC0415 - predictions need none

    return column_or_1d(values, warn=True)


def _as_array(y: Any) -> np.ndarray:
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    values = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    if values.size == 0:
        raise ValueError("y is empty: found 0 sample(s) while a minimum of 2 is required")
    return values


def _check_finite(values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise ValueError(f"y is not finite (NaN or infinity) for series {int((~np.isfinite(values)).argmax())}")
