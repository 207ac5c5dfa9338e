"""Landmark series as inducing variables, and the Newton basis with its pivots against plain algorithms."""

import logging
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.lifted_paths import paths
from helpers.pretend_device import DEVICE, PretendTensor, pretend_device
from helpers.random_paths import few, generator, make, modest
from helpers.refusals import assert_refused
from helpers.small_models import gradients_are_right, series, targets
from siggpde import (
    LandmarkFeatures,
    NewtonBasis,
    PaperSchedule,
    SignatureGP,
    SignatureKernel,
    SparseGP,
    average_points,
    fit,
    signature_kernel,
    signature_kernel_diag,
)
from siggpde.gp.kernel import PathKernel
from siggpde.gp.landmarks import PivotedCholesky, pivoted_cholesky
from siggpde.likelihoods import Gaussian

STATIC = ["linear", "rbf", "matern52"]


def lifted(static: str, normalized: bool = True) -> SignatureKernel:
    return SignatureKernel(2, static=static, theta=0.5, normalized=normalized)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("static", STATIC)
@pytest.mark.parametrize("normalized", [True, False])
def test_all_series_as_landmarks_give_the_kernel(static: str, normalized: bool):
    k, x = lifted(static, normalized), paths(0, 12, 6, 2)
    projection = LandmarkFeatures(x, jitter=0)(k, x)
    torch.testing.assert_close(projection.features @ projection.features.T, k(x), rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(projection.variance, k(x, diag=True))
    assert float(projection.tail.detach().max()) < 1e-6


def test_features_are_those_of_the_newton_basis():
    k, x, lengths = lifted("rbf"), paths(1, 20, 7, 2), torch.randint(2, 8, (20,), generator=torch.manual_seed(1))
    basis = NewtonBasis(k, 8).fit(x, lengths=lengths)
    features = LandmarkFeatures.choose(k, x, 8, lengths=lengths, jitter=0)
    wanted, got = basis(x, lengths=lengths), features(k, x, lengths=lengths)
    assert features.size == 8
    torch.testing.assert_close(got.features.detach(), wanted.features, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(got.tail.detach(), wanted.tail, rtol=1e-6, atol=1e-6)


def test_gradients_in_the_parameters_of_the_kernel():
    k, x = lifted("matern32"), paths(2, 5, 5, 2)
    features = LandmarkFeatures(paths(3, 3, 4, 2))
    assert "log_static_amplitude" in dict(k.named_parameters())
    assert gradients_are_right(k, lambda: features(k, x).tail, atol=1e-5)


def test_a_gaussian_process_of_lifted_paths_learns():
    x = paths(4, 80, 10, 2).cumsum(1) * 0.3
    y = torch.sin(x[:, -1, 0] - x[:, 0, 0])
    k = SignatureKernel(2, static="rbf", static_amplitude=2.0, normalized=True)
    model = SparseGP(k, LandmarkFeatures.choose(k, x[:60], 40), Gaussian(noise=0.1))
    before = float(k.log_static_amplitude.detach())
    fit(model, (x[:60], y[:60]), PaperSchedule(iterations=300, evaluate_every=100, learning_rate=0.02))
    assert float(k.log_static_amplitude.detach()) != before
    mean, _ = model.predict_f(x[60:])
    assert float((mean[:, 0] - y[60:]).square().mean()) < 0.5 * float(y[60:].var())


LOGGER = "siggpde.gp.landmarks"
LIFTED: dict[str, Any] = {"static": "rbf", "bandwidth": 0.8, "tol": 1e-12}


def ones(x: Tensor, **_: Any) -> Tensor:
    return torch.ones(len(x)).double()


def kernels() -> dict[str, Any]:
    return {
        "all words": SignatureKernel(2, theta=[0.7, 1.3], amplitude=2.0, tol=1e-12),
        "normalised": SignatureKernel(2, normalized=True, tol=1e-12),
        "words": SignatureKernel(2, depth=4),
        "functions": (partial(signature_kernel, tol=1e-12), partial(signature_kernel_diag, tol=1e-12)),
        "lifted": (partial(signature_kernel, **LIFTED), partial(signature_kernel_diag, **LIFTED)),
        "lifted, normalised": (partial(signature_kernel, normalize=True, **LIFTED), ones),
    }


def matrix(kernel: Any, x: Any, y: Any = None, **lengths: Any) -> Tensor:
    gram = kernel if isinstance(kernel, PathKernel) else kernel[0]
    return gram(x, y, **lengths).detach()


@pytest.mark.parametrize("name", kernels())
def test_features_reproduce_the_kernel_and_tails_are_the_variance_left(name: str):
    """At the landmarks Z the kernel is reproduced; k(X, X) - k(X, Z) K_ZZ^-1 k(Z, X) is left elsewhere."""
    kernel, x, new = kernels()[name], series(12), series(5, seed=1)
    basis = NewtonBasis(kernel, 6, threshold=0).fit(x)
    landmarks = x[basis.landmarks_]
    seen, chosen, across = basis(new), basis(landmarks), matrix(kernel, new, landmarks)
    assert basis.size == 6 and seen.features.shape == (5, 6) and seen.features.dtype == torch.float64
    assert torch.allclose(seen.features @ chosen.features.T, across, rtol=1e-9)
    assert torch.allclose(chosen.features, basis.factor_, atol=1e-8) and float(chosen.tail.max()) < 1e-8
    assert torch.allclose(basis(x).features, basis.features_, atol=1e-8)
    assert torch.allclose(basis(x).tail, basis.tails_, atol=1e-8)
    explained = (across * torch.linalg.solve(matrix(kernel, landmarks), across.T).T).sum(dim=1)
    assert torch.allclose(seen.variance, matrix(kernel, new).diagonal(), rtol=1e-9)
    assert torch.allclose(seen.tail, seen.variance - explained, atol=1e-8) and seen.rounded == 0


@pytest.mark.parametrize("name", kernels())
def test_with_all_series_as_landmarks_it_is_the_exact_gaussian_process(name: str):
    kernel, x, new = kernels()[name], series(10), series(6, seed=3)
    y, noise = targets(x), 0.05
    basis = NewtonBasis(kernel, 10, threshold=0).fit(x)
    assert sorted(basis.landmarks_.tolist()) == list(range(10))
    seen, ours = basis(new), basis.features_
    precision = ours.T @ ours / noise + torch.eye(basis.size).double()
    mean = seen.features @ torch.linalg.solve(precision, ours.T @ y / noise)
    variance = seen.tail + (seen.features * torch.linalg.solve(precision, seen.features.T).T).sum(dim=1)
    noisy = matrix(kernel, x) + noise * torch.eye(10).double()
    across = matrix(kernel, new, x)
    assert torch.allclose(mean, across @ torch.linalg.solve(noisy, y), atol=1e-7)
    dual = matrix(kernel, new).diagonal() - (across * torch.linalg.solve(noisy, across.T).T).sum(dim=1)
    assert torch.allclose(variance, dual, atol=1e-7)


@few
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=20), count=st.integers(1, 25),
    seed=st.integers(0, 10**6), size=st.floats(0.05, 2), family=st.sampled_from(["brownian", "smooth", "drift"]),
)  # fmt: skip
def test_ragged_series(lengths: list[int], count: int, seed: int, size: float, family: str):
    """A list, or padding that is NaN: tails fall to those that brute force leaves, and are never negative."""
    x = [make(family, seed + i, 1, length, 2, size)[0] for i, length in enumerate(lengths)]
    basis = NewtonBasis(SignatureKernel(2, tol=1e-10), count).fit(x)
    assert basis.size <= min(count, len(x)) and len(set(basis.landmarks_.tolist())) == basis.size
    gram = signature_kernel(x, tol=1e-12)
    rest = gram - basis.features_ @ basis.features_.T
    assert torch.allclose(basis.tails_, rest.diagonal(), atol=1e-7 * float(gram.diagonal().max()))
    assert (basis.tails_ >= 0).all()
    limit = 1e-6 * float(gram.diagonal().mean())
    assert basis.size == min(count, len(x)) or float(basis.tails_.max()) <= limit * (1 + 1e-6)
    padded = torch.full((len(x), max(lengths), 2), torch.nan).double()
    for i, one in enumerate(x):
        padded[i, : len(one)] = one
    same = NewtonBasis(SignatureKernel(2, tol=1e-10), count).fit(padded, lengths=lengths)
    assert torch.equal(same.landmarks_, basis.landmarks_) and torch.equal(same.features_, basis.features_)
    assert torch.equal(same(padded, lengths=lengths).features, basis(x).features)


@pytest.mark.parametrize("n", [20, 700])
def test_only_columns_of_landmarks_are_solved(n: int):
    pairs, widths = [], []

    def gram(x: Tensor, y: Tensor | None = None, **lengths: Any) -> Tensor:
        pairs.append(len(x) * (len(x) - 1) // 2 if y is None else len(x) * len(y))
        widths.extend([] if y is None else [len(y)])
        return signature_kernel(x, y, **lengths, tol=1e-6)

    x = make("brownian", 0, n, 5, 2)
    basis = NewtonBasis((gram, partial(signature_kernel_diag, tol=1e-6)), 12, tol=1e-6).fit(x)
    assert basis.size == 12 and sum(widths) == 12, "one column for each landmark"
    calls = len(widths)
    assert n * 12 <= sum(pairs) <= n * 12 + calls * 32 * 31 // 2, "and the few pairs that say which come next"
    assert n == 20 or calls <= 6
    pairs.clear()
    basis(x[:10])
    assert sum(pairs) == 10 * 12


def test_duplicates_leave_nothing_and_the_log_says_so(caplog: pytest.LogCaptureFixture):
    x = series(4)[[0, 1, 2, 3, 0, 1, 2, 3, 0]]
    with caplog.at_level(logging.INFO, LOGGER):
        basis = NewtonBasis(SignatureKernel(2, tol=1e-12), 9).fit(x)
    assert sorted(basis.landmarks_.tolist()) == [0, 1, 2, 3], "of the same series the first is taken"
    assert float(basis.tails_.max()) < 1e-10 * float(basis(x).variance.mean())
    assert "stopped at 4 of 9 landmarks" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO, LOGGER):
        NewtonBasis(SignatureKernel(2), 100).fit(series(3))
    assert not caplog.records, "all series are landmarks: nothing was stopped"


def test_one_series_constant_series_and_series_of_float32_with_a_graph():
    basis = NewtonBasis(SignatureKernel(2), 5).fit(series(1))
    assert basis.landmarks_.tolist() == [0] and basis.tails_.tolist() == [0.0]
    assert torch.allclose(basis.factor_[0, 0].square(), signature_kernel_diag(series(1))[0])
    constant = torch.cat([torch.zeros(3, 6, 2).double(), series(2)])
    basis = NewtonBasis(SignatureKernel(2), 5).fit(constant)
    assert basis.size == 3 and len({0, 1, 2} & set(basis.landmarks_.tolist())) == 1
    points = NewtonBasis(SignatureKernel(2), 5).fit(torch.zeros(4, 1, 2).double())
    assert points.landmarks_.tolist() == [0] and torch.equal(points.features_, torch.ones(4, 1).double())
    x = series(6).float().requires_grad_()
    seen = NewtonBasis((signature_kernel, signature_kernel_diag), 3).fit(x)(x)
    for tensor in (seen.features, seen.variance, seen.tail):
        assert tensor.dtype == torch.float64 and not tensor.requires_grad


def test_the_threshold_is_a_share_of_the_mean_variance():
    """What comes after changes no column before it."""
    x = series(40, size=0.5)
    sizes, whole = [], NewtonBasis(SignatureKernel(2), 40, threshold=1e-7).fit(x)
    for threshold in (1e-1, 1e-2, 1e-3, 1e-6):
        basis = NewtonBasis(SignatureKernel(2), 40, threshold=threshold).fit(x)
        limit = threshold * float(signature_kernel_diag(x).mean())
        assert float(basis.tails_.max()) <= limit and float(basis.pivots_.min()) > limit
        sizes.append(basis.size)
        assert torch.equal(basis.landmarks_, whole.landmarks_[: basis.size])
        assert torch.allclose(basis.features_, whole.features_[:, : basis.size], rtol=1e-10, atol=1e-12)
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]
    for amplitude in (1e-5, 1e5):
        scaled = NewtonBasis(SignatureKernel(2, amplitude=amplitude), 40, threshold=1e-3).fit(x)
        assert scaled.size == sizes[2], "the same share, whatever the amplitude"


def test_max_points_is_averaging_before_the_kernel(caplog: pytest.LogCaptureFixture):
    x, new = make("brownian", 0, 12, 50, 2), make("brownian", 1, 4, 30, 2)
    basis = NewtonBasis(SignatureKernel(2), 5, max_points=10).fit(x)
    wanted = NewtonBasis(SignatureKernel(2), 5).fit(average_points(x, 10)[0])
    assert basis.series_.values.shape == (5, 10, 2) and torch.equal(basis.features_, wanted.features_)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        seen = basis(new)
    assert [record.getMessage() for record in caplog.records] == ["4 of 4 series, of up to 30 points, averaged to 10"]
    assert torch.equal(seen.features, wanted(average_points(new, 10)[0]).features)


def test_state_is_plain_tensors_and_restores_everything():
    x = [make("brownian", i, 1, 3 + i, 2)[0] for i in range(8)]
    kernel = SignatureKernel(2)
    basis = NewtonBasis(kernel, 4, max_points=6).fit(x)
    state = basis.state_dict()
    assert all(type(value) is Tensor and not value.requires_grad for value in state.values())
    again = NewtonBasis(kernel, 4, max_points=6).load_state_dict(state)
    for before, after in zip(vars(basis(x)).values(), vars(again(x)).values(), strict=True):
        assert before is after or torch.equal(torch.as_tensor(before), torch.as_tensor(after))
    assert torch.equal(again.landmarks_, basis.landmarks_) and torch.equal(again.tails_, basis.tails_)
    assert_refused("max_points=6, this one has None", NewtonBasis(kernel, 4).load_state_dict, state)
    del state["factor_"]
    assert_refused("not the state of a NewtonBasis: factor_ missing", again.load_state_dict, state)


@pytest.mark.parametrize("on_device", [False, True])
def test_another_device_gives_the_same(on_device: bool):
    """Series on the CPU or on the device of the kernel; the results stay on the device."""
    x, new = series(18, length=4), series(3, length=4, seed=1)
    wanted = NewtonBasis(SignatureKernel(2), 4, max_points=3).fit(x)
    with pretend_device():
        kernel = SignatureKernel(2).to(DEVICE)
        given, others = (x.to(DEVICE), new.to(DEVICE)) if on_device else (x, new)
        basis = NewtonBasis(kernel, 4, max_points=3).fit(given)
        seen = basis(others)
        assert isinstance(seen.features, PretendTensor) and isinstance(basis.landmarks_, PretendTensor)
        assert torch.equal(basis.landmarks_.held, wanted.landmarks_)
        assert torch.allclose(seen.features.held, wanted(new).features, rtol=1e-6)


def test_refusals_name_the_culprit():
    x, rbf, kernel = paths(5, 3, 4, 2), lifted("rbf"), SignatureKernel(2)
    assert_refused("take SparseGP", SignatureGP, rbf, LandmarkFeatures(x), Gaussian(), error=TypeError)
    assert_refused("kernel has 3 channels", SparseGP, SignatureKernel(3, static="rbf"), LandmarkFeatures(x), Gaussian())
    assert_refused("no landmark", LandmarkFeatures, x[:0])
    assert_refused("jitter", LandmarkFeatures, x, jitter=2.0)
    repeated = LandmarkFeatures(x[[0, 0]], jitter=0)
    assert_refused("landmark 1 is a combination", repeated, rbf, x, error=ArithmeticError)
    assert_refused("depends on the kernel", LandmarkFeatures(x).inducing_covariance)
    for count in (0, -1, 2.5, True):
        assert_refused("count must be a positive whole number", NewtonBasis, kernel, count)
    for threshold in (-1e-3, 1.0, float("nan")):
        assert_refused("threshold must be from 0 to below 1", NewtonBasis, kernel, 3, threshold=threshold)
    assert_refused("max_points must be", NewtonBasis, kernel, 3, max_points=0)
    assert_refused(r"pair \(gram, diagonal\) of functions", NewtonBasis, signature_kernel, 3, error=TypeError)
    assert_refused("has no series", NewtonBasis(kernel, 3).fit, torch.zeros(0, 4, 2))
    nothing = NewtonBasis((lambda *a, **_: a[0][:, :, 0], lambda x, **_: torch.zeros(len(x))), 3)
    assert_refused("the mean of k", nothing.fit, torch.zeros(2, 4, 2))
    assert_refused("no landmarks yet; call fit", NewtonBasis(kernel, 3), series(2))
    assert_refused("no landmarks yet; call fit", lambda: NewtonBasis(kernel, 3).size)
    assert "5 found" in repr(NewtonBasis(kernel, 5).fit(series(9)))
    indefinite = torch.tensor([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]]).double()

    def gram(x: Tensor, y: Tensor | None = None, **_: Any) -> Tensor:
        rows = x[:, 0, 0].long()
        return indefinite[rows][:, rows if y is None else y[:, 0, 0].long()]

    message, x = "series 1: its features are longer than the kernel allows", torch.arange(3.0).double().reshape(3, 1, 1)
    assert_refused(message, NewtonBasis((gram, ones), 3).fit, x, error=ArithmeticError)


class Recorded:
    """A matrix that remembers which of its columns were asked for."""

    def __init__(self, k: Tensor) -> None:
        self.k = k
        self.asked: list[int] = []

    def columns(self, rows: Tensor) -> Tensor:
        self.asked += rows.tolist()
        return self.k[:, rows]

    def factorised(self, count: int, threshold: float = 0.0, excess: float = 0.0) -> PivotedCholesky:
        """By a diagonal that is too large by a share."""
        diagonal = self.k.diagonal() * (1 + excess)
        return pivoted_cholesky(diagonal, self.columns, lambda rows: self.k[rows][:, rows], count, threshold)


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
    assert sorted(matrix.asked) == sorted(pivots), "every column asked for is used, once"
    largest = float(k.diagonal().max())
    assert torch.allclose(k - done.features @ done.features.T, rest, atol=1e-12 * largest * (n + 1))
    assert torch.allclose(done.tails, rest.diagonal(), atol=1e-12 * largest * (n + 1)) and (done.tails >= 0).all()
    assert len(pivots) == min(n, count) or float(done.tails.max()) <= limit
    factor = done.features[done.landmarks]
    assert torch.equal(factor, factor.tril()) and torch.allclose(factor.diagonal().square(), done.pivots, rtol=1e-12)
    assert (done.pivots[1:] <= done.pivots[:-1] * (1 + 1e-9)).all()


def test_equal_tails_are_taken_in_order_until_nothing_is_left():
    for n in (5, 200):
        assert Recorded(torch.eye(n).double()).factorised(4).landmarks.tolist() == [0, 1, 2, 3]
    blocks = torch.block_diag(*[torch.ones(2, 2).double()] * 100)
    assert Recorded(blocks).factorised(5).landmarks.tolist() == [0, 2, 4, 6, 8]
    rows = positive(6, 6, 1)[[0, 1, 2, 0, 1, 2, 3]][:, [0, 1, 2, 0, 1, 2, 3]]
    done = Recorded(rows).factorised(7)
    assert len(done.landmarks) == 4 and not done.tails.any()
    nothing = Recorded(torch.zeros(3, 3).double()).factorised(2)
    assert len(nothing.landmarks) == 0 and nothing.features.shape == (3, 0) and nothing.pivots.shape == (0,)
    for n in (3, 100):  # a diagonal that is computed apart is larger by its error: what is left of that is nothing
        done = Recorded(torch.ones(n, n).double()).factorised(3, excess=1e-6)
        assert done.landmarks.tolist() == [0] and torch.allclose(done.features, torch.ones(n, 1).double())
