"""Deletion and insertion curves: whether an explanation points to what a prediction rests on.

Pieces are cut out, those with the largest contributions first, and f is computed after each. Of a good explanation it
falls at once: the area below the curve is small. An insertion curve puts the same pieces back, the largest first, from
nothing on: it rises at once, and its area is large. All explanations of one series have curves with the same ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Curve(NamedTuple):
    """The `values` (pieces + 1,) of f after 0, 1, .. pieces, and the `area` below them, their width being 1."""

    values: np.ndarray
    area: float


def deletion_curve(f: Callable[[np.ndarray], ArrayLike], contributions: ArrayLike, *, insertion: bool = False) -> Curve:
    """The curve of an explanation.

    `f` gives numbers (n,) for masks (n, pieces) of True for pieces that are there and False for those that are cut out;
    `contributions` (pieces,) are those of the explanation.

    Examples:
        >>> weights = np.array([3.0, 1.0, 0.0, 0.0])
        >>> deletion_curve(lambda masks: masks @ weights, weights).values.tolist()
        [4.0, 1.0, 0.0, 0.0, 0.0]
        >>> deletion_curve(lambda masks: masks @ weights, weights, insertion=True).area
        3.25
    """
    given = np.asarray(contributions, dtype=float)
    if given.ndim != 1 or not len(given) or not np.isfinite(given).all():
        raise ValueError(f"contributions must be finite numbers (pieces,), got an array of shape {given.shape}")
    order = np.argsort(-given, kind="stable")
    rank = np.empty(len(order), dtype=int)
    rank[order] = np.arange(len(order))
    steps = np.arange(len(order) + 1)[:, None]
    values = np.asarray(f(rank < steps if insertion else rank >= steps), dtype=float)
    return Curve(values, float(((values[1:] + values[:-1]) / 2).mean()))
