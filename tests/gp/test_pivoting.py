"""Pivoted Cholesky: the pivots of the plain algorithm, and no column that is not needed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.random_paths import generator, modest
from siggpde.gp.landmarks import PivotedCholesky, pivoted_cholesky


class Recorded:
    """A matrix that remembers which of its entries were asked for."""

    def __init__(self, k: Tensor) -> None:
        self.k = k
        self.columns_asked: list[int] = []
        self.among_asked: list[int] = []

    def columns(self, rows: Tensor) -> Tensor:
        self.columns_asked += rows.tolist()
        return self.k[:, rows]

    def among(self, rows: Tensor) -> Tensor:
        self.among_asked.append(len(rows))
        return self.k[rows][:, rows]

    def factorised(self, count: int, threshold: float = 0.0) -> PivotedCholesky:
        return pivoted_cholesky(self.k.diagonal(), self.columns, self.among, count, threshold)


def naive(k: Tensor, count: int, threshold: float = 0.0) -> tuple[list[int], Tensor]:
    """Pivots and the whole remainder K - Phi Phi^T, from the whole matrix."""
    rest, pivots = k.clone(), []
    while len(pivots) < count:
        tails = rest.diagonal().tolist()
        row = tails.index(max(tails))
        if tails[row] <= max(threshold, 1e-13 * float(k[row, row])):
            break
        rest = rest - rest[:, row, None] * rest[row] / rest[row, row]
        pivots.append(row)
    return pivots, rest


def positive(n: int, rank: int, seed: int, spread: float = 1.0) -> Tensor:
    """A matrix of the given rank, whose eigenvalues fall by a factor of up to 10^spread."""
    random = generator(seed)
    weights = 10 ** (-spread * torch.linspace(0, 1, rank).double())
    rows = torch.randn(n, rank, generator=random, dtype=torch.float64) * weights
    return rows @ rows.T


@given(
    n=st.integers(1, 150), rank=st.integers(1, 40), count=st.integers(1, 60), seed=st.integers(0, 10**6),
    spread=st.floats(0, 2), threshold=st.sampled_from([0.0, 1e-4, 1e-1]),
)  # fmt: skip
@modest
def test_it_is_the_plain_algorithm(n: int, rank: int, count: int, seed: int, spread: float, threshold: float):
    k = positive(n, rank, seed, spread)
    limit = max(threshold, 1e-9) * float(k.diagonal().mean())  # above the rounding of either
    matrix = Recorded(k)
    done = matrix.factorised(count, limit)
    pivots, rest = naive(k, min(count, n), limit)
    assert done.landmarks.tolist() == pivots and len(pivots) <= min(n, rank, count)
    assert sorted(matrix.columns_asked) == sorted(pivots), "every column asked for is used, once"
    largest = float(k.diagonal().max())
    assert torch.allclose(k - done.features @ done.features.T, rest, atol=1e-12 * largest * (n + 1))
    assert torch.allclose(done.tails, rest.diagonal(), atol=1e-12 * largest * (n + 1)) and (done.tails >= 0).all()
    assert len(pivots) == min(n, count) or float(done.tails.max()) <= limit
    factor = done.features[done.landmarks]
    assert torch.equal(factor, factor.tril()) and torch.allclose(factor.diagonal().square(), done.pivots, rtol=1e-12)
    assert (done.pivots[1:] <= done.pivots[:-1] * (1 + 1e-9)).all()


def test_several_columns_are_solved_at_a_time():
    matrix = Recorded(positive(1000, 60, 3))
    done = matrix.factorised(50)
    calls = len(matrix.among_asked)
    assert len(done.landmarks) == 50 and calls < 25, "at least two columns a call"
    assert sum(size * size for size in matrix.among_asked) < 0.5 * 1000 * 50 and max(matrix.among_asked) <= 32


def test_equal_tails_are_taken_in_order():
    for n in (5, 200):
        assert Recorded(torch.eye(n).double()).factorised(4).landmarks.tolist() == [0, 1, 2, 3]
    blocks = torch.block_diag(*[torch.ones(2, 2).double()] * 100)
    assert Recorded(blocks).factorised(5).landmarks.tolist() == [0, 2, 4, 6, 8]


def test_it_stops_where_nothing_is_left():
    rows = positive(6, 6, 1)[[0, 1, 2, 0, 1, 2, 3]][:, [0, 1, 2, 0, 1, 2, 3]]
    done = Recorded(rows).factorised(7)
    assert len(done.landmarks) == 4 and not done.tails.any()
    nothing = Recorded(torch.zeros(3, 3).double()).factorised(2)
    assert len(nothing.landmarks) == 0 and nothing.features.shape == (3, 0) and nothing.pivots.shape == (0,)


@pytest.mark.parametrize("n", [3, 100])
def test_a_diagonal_that_promises_too_much_is_no_pivot(n: int):
    """A kernel whose diagonal is computed apart is larger there by its error: what is left of that is nothing."""
    k = torch.ones(n, n).double()
    matrix = Recorded(k)
    done = pivoted_cholesky(k.diagonal() * (1 + 1e-6), matrix.columns, matrix.among, 3)
    assert done.landmarks.tolist() == [0] and torch.allclose(done.features, torch.ones(n, 1).double())
