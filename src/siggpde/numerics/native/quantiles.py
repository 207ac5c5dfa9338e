"""Order statistics by the native core."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from siggpde.numerics.core import core


def order_statistics(values: Tensor, ranks: Sequence[int], threads: int) -> Tensor:
    """The values of ascending ranks (0 is the smallest) in every column: (m, M) -> (ranks, M)."""
    count, columns = values.shape
    out = values.new_empty(len(ranks), columns)
    run = core.order_statistics_double if values.dtype == torch.float64 else core.order_statistics_float
    run(values.data_ptr(), count, columns, list(ranks), out.data_ptr(), threads)
    return out
