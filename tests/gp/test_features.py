"""Orthogonal signature features: what they explain of the kernel, never more than there is."""

import pytest
import torch
from hypothesis import given
from torch import Tensor

from helpers.random_paths import batches, few, generator
from helpers.refusals import assert_refused
from helpers.small_models import series
from siggpde import signature
from siggpde.datasets import load_dataset, load_pendigits
from siggpde.gp import features as inducing
from siggpde.gp.features import OrthogonalSignatureFeatures, grow_pool, most_energetic, principal_directions
from siggpde.gp.kernel import SignatureKernel
from siggpde.numerics.words import parents
from siggpde.series import PathOptions, PathTransform, SeriesBatch

THETA = torch.tensor([0.7, 1.3], dtype=torch.float64)


def real_paths(name: str, most: int, append: str = "none") -> Tensor:
    try:
        data = load_pendigits() if name == "PenDigits" else load_dataset(name)
    except FileNotFoundError as error:
        pytest.skip(f"{name} is not here: {str(error).splitlines()[0]}")
    x = torch.from_numpy(data.X_train).mT[:most]
    return PathTransform(PathOptions(append=append)).fit(x)(x)[0]


def orthonormal(rows: int, columns: int, seed: int = 0) -> Tensor:
    return torch.linalg.qr(torch.randn(rows, columns, generator=generator(seed), dtype=torch.float64))[0]


@torch.no_grad()
def test_features_covary_with_f_as_the_kernel_says():
    """E[u f(X)] = S^m(X) makes k(X, Y) of all the words the features' product, and leaves no tail."""
    x, y = series(4), series(3, seed=1)
    for normalized in (False, True):
        kernel = SignatureKernel(2, theta=THETA, amplitude=2.0, normalized=normalized, depth=3)
        features = OrthogonalSignatureFeatures(2, 15)
        left, right = features(kernel, x), features(kernel, y)
        assert torch.allclose(left.features @ right.features.T, kernel(x, y), rtol=1e-12)
        assert torch.equal(left.tail, torch.zeros(4).double()) and left.rounded == 0
        features.rotate(orthonormal(15, 15))
        turned = features(kernel, x)
        assert torch.allclose(turned.features @ turned.features.T, kernel(x), rtol=1e-12)
        assert turned.tail.abs().max() < 1e-12


def timed_paths(n: int, durations: Tensor) -> Tensor:
    """Random walks (n, 9, 2) whose first channel is time, from 0 to their duration."""
    time = durations[:, None] * torch.linspace(0, 1, 9).double()
    return torch.stack([time, torch.randn(n, 9, generator=generator(3), dtype=torch.float64).cumsum(dim=1)], dim=2)


def rkhs_products(kernel: SignatureKernel, features: OrthogonalSignatureFeatures, x: Tensor) -> Tensor:
    """Inner products in the RKHS of the kernel of the functions S^m, from their values at x: S^T K^+ S, (M, M).

    Where the x determine all functions of the RKHS, a function with values v at them has the squared norm v^T K^+ v.
    """
    values = features(kernel, x).features
    return values.T @ torch.linalg.pinv(kernel(x), rtol=1e-13, hermitian=True) @ values


@torch.no_grad()
@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(("theta", "amplitude"), [(1.0, 1.0), (THETA, 2.0)])
def test_features_are_orthonormal_functions_of_the_kernel(theta, amplitude: float, normalized: bool, rotated: bool):
    """C_uu = I: E[u_l u_m] = <S^l, S^m> in the RKHS, which the kernel's own values at paths decide."""
    kernel = SignatureKernel(2, theta=theta, amplitude=amplitude, normalized=normalized, depth=2)
    features = OrthogonalSignatureFeatures(2, 7)
    if rotated:
        features.rotate(orthonormal(7, 5))
    x = timed_paths(30, torch.linspace(0.5, 2, 30).double())
    assert torch.allclose(rkhs_products(kernel, features, x), features.inducing_covariance(), atol=1e-8)
    assert torch.equal(features.inducing_covariance(), torch.eye(features.size).double())
    if theta is THETA:  # with one duration the words of time alone are multiples of the empty word
        products = rkhs_products(kernel, features, timed_paths(30, torch.ones(30).double()))
        assert (products - torch.eye(features.size).double()).abs().max() > 0.1


@few
@given(batches(n=2, min_length=1, max_length=20, max_channels=4))
@torch.no_grad()
def test_features_are_scaled_signatures_and_the_tail_is_what_remains(x: Tensor):
    channels = x.shape[2]
    theta = torch.linspace(0.5, 1.2, channels).double()
    kernel = SignatureKernel(channels, theta=theta, amplitude=3.0, tol=1e-10)
    features = OrthogonalSignatureFeatures(channels, 9)
    seen = features(kernel, x)
    assert torch.allclose(seen.features, 3**0.5 * signature(x * theta, words=features.words), rtol=1e-12, atol=1e-14)
    assert torch.allclose(seen.variance, kernel(x, diag=True), rtol=1e-12)
    wanted = seen.variance - seen.features.square().sum(dim=1)
    assert (seen.tail >= 0).all() and torch.allclose(seen.tail, wanted, atol=1e-8 * float(seen.variance.max()))
    shares = SignatureKernel(channels, theta=theta, amplitude=3.0, normalized=True, tol=1e-10)
    divided = features(shares, x)
    assert torch.allclose(divided.features, seen.features * (3 / seen.variance).sqrt()[:, None], rtol=1e-12)
    assert torch.allclose(divided.tail, seen.tail * 3 / seen.variance, atol=1e-7)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(("name", "most"), [("PenDigits", 1000), ("Crop", 500), ("BasicMotions", 20), ("UWave", 20)])
@torch.no_grad()
def test_the_variance_left_over_is_never_negative_on_real_series(name: str, most: int, normalized: bool):
    x = real_paths("UWaveGestureLibrary" if name == "UWave" else name, most, "none" if name == "Crop" else "variation")
    for theta in (0.02, 0.1):
        kernel = SignatureKernel(x.shape[2], theta=theta, normalized=normalized)
        seen = OrthogonalSignatureFeatures(x.shape[2], 300)(kernel, x)
        assert (seen.tail >= 0).all() and (seen.tail <= seen.variance).all()
        assert torch.isfinite(seen.features).all()


@pytest.mark.parametrize("name", ["PenDigits", "Crop", "BasicMotions"])
@torch.no_grad()
def test_words_by_energy_leave_at_most_as_much_as_the_first_words(name: str):
    x = real_paths(name, 100)
    kernel = SignatureKernel(x.shape[2], theta=0.3, normalized=True)
    features = OrthogonalSignatureFeatures(x.shape[2], 30)
    first = features(kernel, x)
    pool = grow_pool(kernel, SeriesBatch(x), 400)
    features.choose(sorted({*pool, *features.words}, key=lambda word: (len(word), word)))
    energy = features(kernel, x).features.square().mean(dim=0)
    features.choose(most_energetic(energy, features.words, 30))
    chosen = features(kernel, x)
    assert len(features.words) == 30 and features.words[0] == ()
    assert chosen.tail.mean() <= first.tail.mean() + 1e-12


@pytest.mark.parametrize(("channels", "limit"), [(1, 5), (1, 40), (2, 1), (2, 2), (2, 50), (3, 7), (5, 300)])
@torch.no_grad()
def test_a_pool_is_prefix_closed_and_within_its_limit(channels: int, limit: int):
    x = series(6, channels=channels)
    for normalized in (False, True):
        pool = grow_pool(SignatureKernel(channels, normalized=normalized), SeriesBatch(x), limit)
        assert len(set(pool)) == len(pool) <= limit
        assert pool == sorted(pool, key=lambda word: (len(word), word)) and pool[0] == ()
        parents(pool)  # raises where a prefix is missing
        assert len(pool) == limit or (channels == 1 and len(pool) == 17)
    ragged = grow_pool(SignatureKernel(channels), SeriesBatch(x, torch.tensor([6, 1, 3, 2, 6, 4])), limit)
    assert ragged[0] == () and len(ragged) <= limit


@torch.no_grad()
def test_a_pool_of_loops_reaches_past_their_ends_and_leaves_out_channels_that_stand_still():
    x = torch.cat([series(5, channels=3), series(5, channels=3).flip(1) * 0.5], dim=1)
    x = torch.cat([x, x[:, :1]], dim=1)
    x[:, :, 1] = 0.3
    pool = grow_pool(SignatureKernel(3), SeriesBatch(x), 15)
    assert len(pool) == 15 and not any(1 in word for word in pool)
    assert {(0,), (2,), (0, 2), (2, 0)} < set(pool)
    assert grow_pool(SignatureKernel(3), SeriesBatch(x[:, :1]), 15) == [()]


def test_the_most_energetic_words_keep_the_constant_and_break_ties_by_order():
    pool = [(), (0,), (1,), (0, 0), (0, 1)]
    energy = torch.tensor([0.0, 1.0, 5.0, 1.0, 7.0])
    assert most_energetic(energy, pool, 1) == [()]
    assert most_energetic(energy, pool, 3) == [(), (1,), (0, 1)]
    assert most_energetic(energy, pool, 4) == [(), (0,), (1,), (0, 1)]
    assert most_energetic(energy, pool, 9) == pool
    assert_refused("5 words but 2 energies", most_energetic, energy[:2], pool, 1)


@pytest.mark.parametrize(
    ("n", "count", "rank"), [(5, 12, 5), (5, 12, 9), (5, 12, 2), (20, 6, 6), (20, 6, 3), (1, 4, 1)]
)
def test_principal_directions(n: int, count: int, rank: int):
    rows = torch.randn(n, count, generator=generator(n), dtype=torch.float64) * torch.linspace(3, 0.1, count).double()
    basis = principal_directions(rows, rank)
    size = min(rank, n, count)
    assert basis.shape == (count, size)
    assert torch.allclose(basis.T @ basis, torch.eye(size).double(), atol=1e-12)
    left, values, right = torch.linalg.svd(rows, full_matrices=False)
    assert torch.allclose((rows @ basis).norm(dim=0), values[:size], rtol=1e-8)
    best = left[:, :size] * values[:size] @ right[:size]
    assert torch.allclose(rows @ basis @ basis.T, best, atol=1e-7)
    repeated = rows[:2].repeat(3, 1)
    basis = principal_directions(repeated, 5)
    assert basis.shape[1] == min(2, n) and torch.allclose(repeated @ basis @ basis.T, repeated, atol=1e-12)
    assert_refused("all rows are zero", principal_directions, 0 * rows, 1)
    assert_refused("at least one row and one direction", principal_directions, rows[:0], 1)
    assert_refused("at least one row and one direction", principal_directions, rows, 0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@torch.no_grad()
def test_a_tail_negative_within_rounding_is_zero_and_counted(dtype: torch.dtype):
    kernel, features = SignatureKernel(2, tol=1e-8), OrthogonalSignatureFeatures(2, 7)
    scaled = features(kernel, series(4)).features.to(dtype)
    norm = scaled.double().square().sum(dim=1)
    unit = inducing._ROUNDINGS * max(torch.finfo(dtype).eps, 1e-8)
    defect = torch.tensor([0.9, -0.5, 0.0, 0.1]).double() * unit
    seen = features.project(kernel, scaled, norm * (1 - defect))
    assert seen.rounded == 2
    assert torch.equal(seen.tail[[0, 3]], torch.zeros(2).double()) and seen.tail[1] > 0
    defect[2] = 2 * unit
    message = r"series 2: its features are longer.*lower the kernel's tol"
    assert_refused(message, features.project, kernel, scaled, norm * (1 - defect), error=ArithmeticError)
    norm[1] = float("nan")
    assert_refused("series 1", features.project, kernel, scaled, 1.1 * norm, error=ArithmeticError)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_tail_within_rounding_is_zero_and_a_small_one_above_it_is_kept(dtype: torch.dtype):
    """Only then do predictions not depend on the order in which features were summed."""
    eps = torch.finfo(dtype).eps
    features = torch.tensor([[3.0, 4.0]]).to(dtype).expand(6, -1)
    missing = torch.tensor([0.0, eps, 8 * eps, -8 * eps, 100 * eps, 1e-3]).double()
    variance = (25 * (1 + missing)).requires_grad_()
    tail, negative = inducing.positive_tail(variance, features, 1e-8, None)
    assert negative == 1
    assert torch.equal(tail[:4], torch.zeros(4).double())
    assert torch.equal(tail[4:], (variance - 25)[4:])
    (slope,) = torch.autograd.grad(tail.sum(), variance)
    assert slope.tolist() == [0, 0, 0, 0, 1, 1]


def test_errors_and_words_chosen_by_hand():
    assert OrthogonalSignatureFeatures(2, 3, chosen=[(), (1,), (1, 0)]).words == [(), (1,), (1, 0)]
    assert_refused("order must be", OrthogonalSignatureFeatures, 2, 3, "size")
    for rank in (0, 4):
        assert_refused("rank must be from 1", OrthogonalSignatureFeatures, 2, 3, rank=rank)
    features = OrthogonalSignatureFeatures(2, 3)
    assert_refused(r"basis must have shape \(3, directions\)", features.rotate, torch.eye(4))
    assert_refused("orthonormal; they are off by", features.rotate, torch.ones(3, 2))
    features.rotate(orthonormal(3, 2))
    assert features.size == 2 and "2 directions" in repr(features)
    features.rotate(None)
    assert features.size == 3
