"""Labels whose type a file has lost: 1, 1.0 and "1" are the same class, and so are True and "true"."""

from __future__ import annotations

from typing import Any

import numpy as np


def as_classes(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The labels (n,) in the type of the classes, where they are written like one of them; others as they are.

    Nothing is converted if two classes would be the same, such as "1" and "1.0".

    Examples:
        >>> as_classes(np.array(["1", "2.0"]), np.array([1, 2]))
        array([1, 2])
        >>> as_classes(np.array([1.0, 10.0]), np.array(["1", "10", "x"]))
        array(['1', '10'], dtype='<U2')
        >>> as_classes(np.array(["1", "3"]), np.array([1, 2])).tolist()
        [1, '3']
    """
    if labels.dtype.kind == classes.dtype.kind and set(labels.tolist()) <= set(classes.tolist()):
        return labels
    index = {_plain(label): number for number, label in enumerate(classes.tolist())}
    wanted = [index.get(_plain(label)) for label in labels.tolist()]
    if len(index) < len(classes) or all(number is None for number in wanted):
        return labels
    if None in wanted:
        known = classes.tolist()
        mixed = [
            label if number is None else known[number] for label, number in zip(labels.tolist(), wanted, strict=True)
        ]
        return np.array(mixed, dtype=object)
    return classes[np.array(wanted, dtype=np.int64)]


def _plain(label: Any) -> str:
    """How a label is written in all types: whole numbers without a point, truth in small letters."""
    text = str(label).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    whole, point, decimals = text.partition(".")
    if point and not decimals.strip("0") and whole.lstrip("+-").isdecimal():
        text = whole
    return text
