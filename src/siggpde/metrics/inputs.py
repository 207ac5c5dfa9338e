"""Checks of the labels, probabilities and numbers given to metrics (errors name the series), and plain results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_TOLERANCE = 1e-4  # for sums of float32 probabilities over thousands of classes


def checked_classes(y: Any, probabilities: Any, classes: Any) -> tuple[np.ndarray, np.ndarray, tuple[Any, ...]]:
    """The index (n,) of every label among the classes, probabilities (n, C) in float64, and the classes."""
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
    """An array (n,) in float64 without NaN, as long as `like`; with `finite` without infinities too."""
    array = _array(name, values)
    wanted = "(n,)" if like is None else f"({len(like)},), one number for each of y"
    if array.ndim != 1 or (like is not None and len(array) != len(like)):
        raise ValueError(f"{name} must have shape {wanted}, got {array.shape}")
    refuse(np.isnan(array), name, array, "drop these series or predict them anew")
    if finite:
        refuse(np.isinf(array), name, array, "it must be finite")
    return array


def refuse(bad: np.ndarray, name: str, values: np.ndarray, fix: str) -> None:
    """A ValueError for the first series that is `bad` (n,)."""
    if bad.any():
        series = int(bad.argmax())
        raise ValueError(f"{name} of series {series} is {values[series]}; {fix}")


def interval_ends(level: float, ends: Any) -> Sequence[tuple[str, Any]]:
    """The lower and upper ends of intervals, each with its name."""
    try:
        low, high = ends
    except (TypeError, ValueError):
        raise ValueError(f"the interval at {level:g} must be a pair of arrays (lower, upper)") from None
    return ("lower", low), ("upper", high)


def as_list(labels: Any) -> list[Any]:
    """Labels as plain Python values."""
    values = list(labels) if isinstance(labels, list | tuple) else np.asarray(labels).tolist()
    if not isinstance(values, list) or any(isinstance(label, list | np.ndarray) for label in values):
        raise ValueError("labels must have shape (n,), one for each series; got an array of another shape")
    return [label.item() if isinstance(label, np.generic) else label for label in values]


def without_nan(value: Any) -> Any:
    """Nested dictionaries and tuples as JSON has them: None for NaN, lists, and text for keys that are floats."""
    if isinstance(value, dict):
        return {f"{key:g}" if isinstance(key, float) else key: without_nan(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _types(labels: Sequence[Any]) -> str:
    return " and ".join(sorted({type(label).__name__ for label in labels}))
