"""Arrays given to plots, checked: errors name the argument, what it is and what it should be."""

from __future__ import annotations

from typing import Any

import numpy as np


def vector(name: str, values: Any, length: int | None = None, *, unit: str = "series") -> np.ndarray:
    """Returns finite numbers (n,), one for each `unit` and at least one; with `length` there must be so many."""
    array = numbers(name, values)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"{name} must have shape (n,), one number a {unit}, got {array.shape}")
    if length is not None and len(array) != length:
        raise ValueError(f"{name} must have {length} numbers, one a {unit}, got {len(array)}")
    if not np.isfinite(array).all():
        index = int((~np.isfinite(array)).argmax())
        raise ValueError(f"{name} of {unit} {index} is {array[index]}; it must be finite to be drawn")
    return array


def matrix(
    name: str, values: Any, shape: tuple[int | None, int | None], what: str, *, gaps: bool = False
) -> np.ndarray:
    """Finite numbers (rows, columns), with `gaps` also NaN; None is any size but 0, `what` names rows and columns."""
    array = numbers(name, values)
    fits = array.ndim == 2 and all(
        (wanted is None or size == wanted) and size > 0 for size, wanted in zip(array.shape, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("n" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must have shape ({wanted}), {what}, got {array.shape}")
    bad = np.isinf(array) if gaps else ~np.isfinite(array)
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        raise ValueError(f"{name}[{row}, {column}] is {array[row, column]}; it must be finite to be drawn")
    return array


def numbers(name: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, in an array or nested lists of one length") from None


def check_level(level: float) -> None:
    """Refuses a level that is not between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, such as 0.95, got {level!r}")
