"""Batches of series, compared and read in tests."""

import numpy as np
from torch import Tensor

from siggpde.series import SeriesBatch


def same(a: SeriesBatch, b: SeriesBatch) -> bool:
    """Bitwise the same, NaN in the same places."""

    def equal(x: Tensor | None, y: Tensor | None) -> bool:
        if x is None or y is None:
            return x is y
        return np.array_equal(x.numpy(), y.numpy(), equal_nan=x.is_floating_point())

    return equal(a.values, b.values) and equal(a.lengths, b.lengths) and equal(a.times, b.times)


def times_of(batch: SeriesBatch) -> Tensor:
    assert batch.times is not None
    return batch.times
