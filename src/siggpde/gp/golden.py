"""The least value of a function of one number, by golden-section search."""

from __future__ import annotations

import math
from collections.abc import Callable

_GOLDEN = (math.sqrt(5) - 1) / 2


def least(function: Callable[[float], float], low: float, high: float, steps: int = 16) -> float:
    """Where the function, which falls and then rises between `low` and `high`, is least, to (high - low) / 2000.

    Examples:
        >>> round(least(lambda x: (x - 0.3) ** 2, 0.0, 1.0), 3)
        0.3
    """
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(steps):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return (low + high) / 2
