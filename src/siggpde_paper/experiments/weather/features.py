"""Features that a model of the weather rests on, as the report shows them."""

from __future__ import annotations

import numpy as np


def before_rain(values: np.ndarray, wet: np.ndarray) -> float | None:
    """Mean of the values (n,) of wet windows minus that of dry ones, in standard deviations; None for a constant.

    Examples:
        >>> before_rain(np.array([1.0, 1.0, 0.0, 0.0]), np.array([True, True, False, False]))
        2.0
    """
    spread = float(values.std())
    if spread <= 1e-9 * float(np.abs(values).max()):  # constant but for rounding
        return None
    return float(values[wet].mean() - values[~wet].mean()) / spread
