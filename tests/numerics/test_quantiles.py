"""Quantiles of columns: native and reference against numpy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.random_paths import modest
from siggpde.numerics.core import core
from siggpde.numerics.native import operations as native
from siggpde.numerics.quantiles import column_quantiles
from siggpde.numerics.reference import operations as reference


@modest
@given(
    st.integers(1, 700),
    st.integers(1, 40),
    st.integers(1, 7),
    st.sampled_from([1, 5, 9]),
    st.sampled_from([1e-38, 1.0, 1e35]),
    st.sampled_from([torch.float64, torch.float32]),
)
def test_numpy_says_the_same(m, columns, count, power, size, dtype):
    values = torch.randn(m, columns, generator=torch.Generator().manual_seed(m)).double() ** power
    values[:, ::3] = values[:, ::3].round()  # ties
    values[:, ::7] = 1.0
    values = (values / values.abs().max() * size).to(dtype)
    before = values.clone()
    found = column_quantiles(values, count)
    expected = np.quantile(values.double().numpy(), np.arange(1, count + 1) / (count + 1), axis=0)
    torch.testing.assert_close(found, torch.from_numpy(expected), rtol=1e-12, atol=1e-15 * size)
    assert torch.equal(values, before)
    ranks = sorted({0, m // 2, m - 1})
    if core is not None:
        assert torch.equal(native.order_statistics(values, ranks, 2), reference.order_statistics(values, ranks, 1))


def test_errors():
    with pytest.raises(ValueError, match=r"shape \(m, M\) with m at least 1, got \(0, 3\)"):
        column_quantiles(torch.zeros(0, 3), 2)
