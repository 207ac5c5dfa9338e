"""Thresholds near quantiles: against a search through all gaps, and what must hold of them."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.random_paths import modest
from siggpde.numerics import reference
from siggpde.numerics.windows import separating_thresholds


def plain_thresholds(column: list[float], count: int, distinct: float, clearance: float) -> list[float]:
    v, out = sorted(column), []
    gaps = [k for k in range(1, len(v)) if v[k] - v[k - 1] > distinct]
    for j in range(1, count + 1):
        rank = Fraction(j * (len(v) - 1), count + 1)
        k = min(gaps, key=lambda k: (abs(Fraction(2 * k - 1, 2) - rank), -k), default=None)
        out.append(v[-1] + clearance if k is None else (v[k - 1] + v[k]) / 2)
    return out


@modest
@given(
    st.integers(1, 300),
    st.integers(1, 30),
    st.integers(0, 7),
    st.sampled_from([0.0, 1e-3, 0.1, 10.0]),
    st.sampled_from([torch.float64, torch.float32]),
)
def test_a_search_through_all_gaps_says_the_same(m, columns, count, distinct, dtype):
    values = torch.randn(m, columns, generator=torch.Generator().manual_seed(m)).double()
    values[:, ::3] = values[:, ::3].round()  # ties
    values[:, 1::4] = torch.where(values[:, 1::4] > 1, values[:, 1::4], 0.0)  # most are equal
    values[:, ::7] = 1.0
    values = values.to(dtype)
    before = values.clone()
    found = separating_thresholds(values, count, distinct=distinct, clearance=0.5)
    by_column = [plain_thresholds(column, count, distinct, 0.5) for column in values.double().T.tolist()]
    assert torch.equal(found, torch.tensor(by_column, dtype=torch.float64).T)
    assert torch.equal(values, before)
    assert torch.equal(reference.separating_thresholds(values.double(), count, distinct, 0.5, 1), found)


@modest
@given(st.integers(1, 300), st.integers(1, 6), st.integers(0, 2**31))
def test_roundings_and_the_order_of_values_move_none_across(m, count, seed):
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(m, 8, generator=random).double()
    values[:, ::2] = values[:, ::2].mul(3).round() / 3
    thresholds = separating_thresholds(values, count, distinct=1e-10, clearance=1e-6)
    assert bool((thresholds.diff(dim=0) >= 0).all())
    assert float((values[:, None] - thresholds).abs().min()) > 4.9e-11
    rounded = values + 1e-13 * torch.randn(m, 8, generator=random).double()
    again = separating_thresholds(rounded[torch.randperm(m, generator=random)], count, distinct=1e-10, clearance=1e-6)
    torch.testing.assert_close(again, thresholds, rtol=0, atol=1e-12)
    assert torch.equal(rounded[:, None] > again, values[:, None] > thresholds)


def test_errors():
    with pytest.raises(ValueError, match=r"shape \(m, M\) with m at least 1, got \(0, 3\)"):
        separating_thresholds(torch.zeros(0, 3), 2, distinct=1e-10, clearance=1e-6)
