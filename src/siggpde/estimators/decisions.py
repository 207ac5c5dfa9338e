"""What to make of predictions: sets of classes, intervals, and decisions of least expected cost."""

from typing import Any

import numpy as np

DONT_KNOW = "don't know"
"""What `predict` with `reject_cost` returns for a series that it leaves alone, where labels are strings."""


def check_level(level: Any) -> float:
    """Returns the level of sets or intervals; a ValueError where it is no probability between 0 and 1."""
    if not isinstance(level, int | float | np.number) or not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level!r}")
    return float(level)


def least_cost(
    probabilities: np.ndarray, classes: np.ndarray, costs: Any = None, reject_cost: float | None = None
) -> np.ndarray:
    """The label (n,) with the least cost sum_t p_t C_td for probabilities p (n, classes) and costs C (classes,
    classes), by default 0 for right and 1 for wrong. Where all costs are above `reject_cost` it is "don't know" for
    labels that are strings, and None, in an array of objects, for others."""
    count = len(classes)
    try:
        matrix = np.asarray(1.0 - np.eye(count) if costs is None else costs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"costs must be a matrix of numbers ({error})") from None
    if matrix.shape != (count, count):
        raise ValueError(
            f"costs must have shape ({count}, {count}), a row for each true class and a column for each decision, in "
            f"the order of classes_; got {matrix.shape}"
        )
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0].tolist()
        raise ValueError(
            f"the cost of deciding {classes[column]!s} where {classes[row]!s} is true is {matrix[row, column]}; "
            "costs must be finite: give a large number instead"
        )
    expected = probabilities @ matrix
    decided = classes[expected.argmin(axis=1)]
    if reject_cost is None:
        return decided
    if not isinstance(reject_cost, int | float | np.number) or not np.isfinite(reject_cost):
        raise ValueError(f"reject_cost must be a number, in the units of costs; got {reject_cost!r}")
    words = classes.dtype.kind == "U"
    if words and DONT_KNOW in classes:
        raise ValueError(f"one of the classes is called {DONT_KNOW!r} already; rename it to use reject_cost")
    answers = decided.astype(np.result_type(decided, np.array(DONT_KNOW)) if words else object)
    answers[expected.min(axis=1) > reject_cost] = DONT_KNOW if words else None
    return answers
