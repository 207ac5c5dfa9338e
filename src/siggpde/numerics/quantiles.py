"""Thresholds near the quantiles of the columns of a table, which keep away from every value."""

from __future__ import annotations

from torch import Tensor

from siggpde.numerics import inputs
from siggpde.numerics.backend import backend_for


def separating_thresholds(
    values: Tensor, count: int, *, distinct: float, clearance: float, n_jobs: int | None = None
) -> Tensor:
    """For every column thresholds next to the quantiles 1 / (count + 1), .., count / (count + 1): (m, M) -> (count, M).

    Values are finite, float64; thresholds ascend. With the values of a column sorted, v_0 <= .. <= v_(m-1), the
    quantile p has the rank p (m - 1). Its threshold is (v_(k-1) + v_k) / 2 for the k with v_k - v_(k-1) > `distinct`
    whose rank k - 1/2 is nearest, the larger k of two; v_(m-1) + `clearance` where there is no such k. So no value is
    nearer to a threshold than the smaller of distinct / 2 and clearance.

    Examples:
        >>> import torch
        >>> values = torch.tensor([[4.0], [0.0], [2.0], [1.0], [3.0]]).double()
        >>> separating_thresholds(values, 3, distinct=0.1, clearance=1.0).flatten().tolist()
        [1.5, 2.5, 3.5]
    """
    if values.ndim != 2 or not len(values):
        raise ValueError(f"values must have shape (m, M) with m at least 1, got {tuple(values.shape)}")
    values, threads = values.detach().double().contiguous(), inputs.thread_count(n_jobs)
    return backend_for(values).separating_thresholds(values, count, distinct, clearance, threads)
