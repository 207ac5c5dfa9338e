"""The signature kernel as a covariance function."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from torch import Tensor

from helpers.random_paths import batches, few
from helpers.refusals import assert_refused
from helpers.small_models import gradients_are_right, series
from siggpde import signature, signature_kernel, signature_kernel_diag
from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel

THETA = [0.7, 1.3]
KINDS = [{}, {"depth": 3}, {"words": [(), (0,), (1,), (1, 0)]}]
kinds = pytest.mark.parametrize("kind", KINDS, ids=["full", "depth", "words"])
either = pytest.mark.parametrize("normalized", [False, True])


def relative(got: Tensor, wanted: Tensor) -> float:
    return float((got - wanted).abs().max() / wanted.abs().max())


@kinds
@either
@torch.no_grad()
def test_the_diagonal_is_that_of_the_gram_matrix(kind: dict, normalized: bool):
    x = series(5)
    kernel = SignatureKernel(2, theta=THETA, amplitude=1.7, normalized=normalized, tol=1e-12, **kind)
    gram, diagonal = kernel(x), kernel(x, diag=True)
    assert torch.allclose(diagonal, gram.diagonal(), rtol=1e-10)
    assert torch.allclose(gram, gram.T, rtol=1e-12)
    assert torch.allclose(gram, kernel(x, x.clone()), rtol=1e-10)
    assert torch.linalg.eigvalsh(gram).min() > -1e-9
    if normalized:
        assert torch.allclose(diagonal, torch.full((5,), 1.7, dtype=torch.float64), rtol=1e-15)
        assert (gram <= 1.7 * (1 + 1e-10)).all()


@few
@given(batches(n=2, min_length=2, max_length=20, max_channels=5))
@torch.no_grad()
def test_scales_and_amplitude_act_as_defined(x: Tensor):
    theta = torch.linspace(0.5, 1.2, x.shape[2]).double()
    kernel = SignatureKernel(x.shape[2], theta=theta, amplitude=2.5, tol=1e-10)
    assert relative(kernel(x), 2.5 * signature_kernel(x * theta, tol=1e-10)) < 1e-9
    assert relative(kernel(x, diag=True), 2.5 * signature_kernel_diag(x * theta, tol=1e-10)) < 1e-9
    assert relative(kernel.squared_norm(x), signature_kernel_diag(x * theta, tol=1e-10)) < 1e-9


@torch.no_grad()
def test_a_truncated_kernel_is_the_inner_product_of_truncated_signatures():
    x, y = series(4), series(3, length=9, seed=1)
    kernel = SignatureKernel(2, theta=THETA, amplitude=0.4, depth=4)
    theta = torch.tensor(THETA, dtype=torch.float64)
    left, right = signature(x * theta, depth=4), signature(y * theta, depth=4)
    assert torch.allclose(kernel(x, y), 0.4 * left @ right.T, rtol=1e-13)
    words = [(), (0,), (0, 1)]
    chosen = SignatureKernel(2, theta=THETA, words=words)
    left, right = (signature(z * theta, words=words) for z in (x, y))
    assert torch.allclose(chosen(x, y), left @ right.T, rtol=1e-13)
    assert chosen.finite and not SignatureKernel(2).finite


@either
@torch.no_grad()
def test_truncated_kernels_tend_to_the_full_one(normalized: bool):
    x, y = series(3, size=1.0), series(2, seed=1, size=1.0)
    full = SignatureKernel(2, normalized=normalized, tol=1e-13)(x, y)
    errors = [relative(SignatureKernel(2, normalized=normalized, depth=depth)(x, y), full) for depth in range(1, 10)]
    assert errors[-1] < 1e-5
    assert all(later < earlier for earlier, later in pairwise(errors[1:]))


@kinds
@either
def test_gradients_in_scales_and_amplitude(kind: dict, normalized: bool):
    x, y = series(3), series(2, seed=1)
    kernel = SignatureKernel(2, theta=THETA, amplitude=1.7, normalized=normalized, tol=1e-13, **kind)
    for function in (lambda: kernel(x, diag=True), lambda: kernel(x), lambda: kernel(x, y)):
        assert gradients_are_right(kernel, function, rtol=1e-5)


def test_gradients_of_the_fused_diagonal_and_in_the_series():
    x, lengths = series(4, length=8), torch.tensor([8, 3, 1, 5])
    kernel = SignatureKernel(2, theta=THETA, tol=1e-13)
    value = kernel.squared_norm(x, lengths=lengths)
    assert type(value.grad_fn).__name__ == "_WithGradientsBackward"
    assert gradients_are_right(kernel, lambda: kernel.squared_norm(x, lengths=lengths), rtol=1e-7)
    (slope,) = torch.autograd.grad(value.sum(), kernel.log_theta, create_graph=True)
    assert_refused("cannot be differentiated again", slope.sum().backward, error=RuntimeError)
    for function in (kernel.squared_norm, kernel):
        assert torch.autograd.gradcheck(function, series(2).requires_grad_(), rtol=1e-5)


@kinds
@either
def test_ragged_batches_are_the_series_one_by_one(kind: dict, normalized: bool):
    kernel = SignatureKernel(2, theta=THETA, normalized=normalized, tol=1e-12, **kind)
    xs = [series(1, length=length, seed=length)[0] for length in (5, 1, 8)]
    ys = [series(1, length=length, seed=length)[0] for length in (3, 7)]
    with torch.no_grad():
        one_by_one = torch.stack([torch.stack([kernel(x[None], y[None])[0, 0] for y in ys]) for x in xs])
        diagonal = torch.cat([kernel(x[None], diag=True) for x in xs])
    assert torch.allclose(kernel(xs, ys), one_by_one, rtol=1e-10)
    assert torch.allclose(kernel(xs, diag=True), diagonal, rtol=1e-10)
    padded = torch.full((3, 8, 2), float("nan")).double()
    for row, x in zip(padded, xs, strict=True):
        row[: len(x)] = x
    lengths = torch.tensor([5, 1, 8])
    assert torch.equal(kernel(padded, lengths=lengths), kernel(xs))
    assert torch.equal(kernel(padded, diag=True, lengths=lengths), kernel(xs, diag=True))
    for what in (kernel(padded, ys, lengths=lengths), kernel(padded, lengths=lengths)):
        (slope,) = torch.autograd.grad(what.sum(), kernel.log_theta)
        assert torch.isfinite(slope).all(), "what pads a series has no gradient"


def test_float32_series_are_computed_in_float64():
    x = series(3).float()
    kernel = SignatureKernel(2)
    assert kernel(x).dtype == kernel(x, diag=True).dtype == torch.float64
    assert torch.equal(kernel(x), kernel(x.double()))
    assert torch.equal(kernel(x.numpy()), kernel(x))


def test_errors():
    for settings, message in (
        *(
            ({"theta": v}, "theta must be a positive number or 2 of them")
            for v in (0.0, -1.0, [1.0], [1.0, math.nan], [[1.0, 1.0]])
        ),
        *(({"amplitude": v}, "amplitude must be positive") for v in (0.0, -1.0, math.inf)),
        *(({"tol": v}, "tol must be between 0 and 1") for v in (0.0, 1.0, math.nan)),
        ({"depth": 1, "words": [()]}, "depth or words or neither"),
        ({"words": [(), (2,)]}, "letters go from 0 to 1"),
        ({"static": "rbf", "depth": 3}, "depth and words are for static='linear'"),
        ({"static_amplitude": 2.0}, "static_amplitude is for static kernels"),
    ):
        assert_refused(message, SignatureKernel, 2, **settings)
    kernel = SignatureKernel(2)
    assert_refused("x has 3 channels, but the kernel was made for 2", kernel, series(2, channels=3))
    assert_refused("y has 1 channels", kernel, series(2), series(2, channels=1))
    assert_refused("leave y out", kernel, series(2), series(2), diag=True)
    assert_refused("y_lengths", kernel, series(2), y_lengths=[3, 3])
    assert_refused("take landmarks", OrthogonalSignatureFeatures(2, 5).check, SignatureKernel(2, static="rbf"))
    assert "all words" in repr(kernel) and "7 words" in repr(SignatureKernel(2, depth=2))


@pytest.mark.parametrize("normalized", [False, True])
def test_theta_are_inverse_bandwidths_of_a_lifted_kernel(normalized: bool):
    x = torch.randn(4, 6, 2, generator=torch.manual_seed(0)).double()
    kernel = SignatureKernel(
        2, static="matern52", theta=2.0, static_amplitude=1.5, amplitude=3.0, normalized=normalized
    )
    wanted = signature_kernel(x, static="matern52", bandwidth=0.5, amplitude=1.5, normalize=normalized)
    torch.testing.assert_close(kernel(x).detach(), 3 * wanted)
    torch.testing.assert_close(kernel(x, diag=True).detach(), 3 * wanted.diagonal(), rtol=1e-7, atol=0)
