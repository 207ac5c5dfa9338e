"""Thresholds near quantiles by the native core."""

from __future__ import annotations

from torch import Tensor

from siggpde.numerics.core import core


def separating_thresholds(values: Tensor, count: int, distinct: float, clearance: float, threads: int) -> Tensor:
    """Thresholds (count, M) near the quantiles of every column (m, M), float64."""
    rows, columns = values.shape
    out = values.new_empty(count, columns)
    core.separating_thresholds(values.data_ptr(), rows, columns, count, distinct, clearance, out.data_ptr(), threads)
    return out
