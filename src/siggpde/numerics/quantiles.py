"""Quantiles of the columns of a table."""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.numerics import inputs
from siggpde.numerics.backend import backend_for


def column_quantiles(values: Tensor, count: int, *, n_jobs: int | None = None) -> Tensor:
    """The quantiles 1 / (count + 1), .., count / (count + 1) of every column: (m, M), finite -> (count, M), float64.

    With the values of a column sorted, v_0 <= .. <= v_(m-1), the quantile p is v at p (m - 1), interpolated linearly.

    Examples:
        >>> column_quantiles(torch.tensor([[4.0], [0.0], [2.0], [1.0], [3.0]]), 3).flatten().tolist()
        [1.0, 2.0, 3.0]
    """
    if values.ndim != 2 or not len(values):
        raise ValueError(f"values must have shape (m, M) with m at least 1, got {tuple(values.shape)}")
    last = len(values) - 1
    # In whole numbers: rank j (m - 1) / (count + 1), its floor and what is left.
    below = [j * last // (count + 1) for j in range(1, count + 1)]
    rest = torch.tensor([j * last % (count + 1) / (count + 1) for j in range(1, count + 1)], dtype=torch.float64)
    ranks = sorted({*below, *(min(rank + 1, last) for rank in below)})
    found = backend_for(values).order_statistics(values.contiguous(), ranks, inputs.thread_count(n_jobs)).double()
    place = {rank: i for i, rank in enumerate(ranks)}
    low = found[[place[rank] for rank in below]]
    high = found[[place[min(rank + 1, last)] for rank in below]]
    return low + rest.to(values.device)[:, None] * (high - low)
