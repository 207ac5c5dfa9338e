"""The normalised signature kernel k(X, Y) / sqrt(k(X, X) k(Y, Y))."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.lifted_paths import as_reference, paths, seeds
from helpers.random_paths import generator, make, modest
from siggpde import signature_kernel, signature_kernel_diag
from siggpde.numerics import reference
from siggpde.numerics.autograd import Pairs
from siggpde.numerics.static_kernels import KernelSettings

STATIC: list[dict[str, Any]] = [{}, {"static": "rbf", "bandwidth": 0.8, "amplitude": 1.5}, {"static": "matern12"}]


@pytest.mark.parametrize("static", STATIC)
@modest
@given(seeds, st.integers(1, 10), st.integers(1, 10), st.integers(1, 3))
def test_it_is_k_divided_by_the_norms(static: dict[str, Any], seed: int, length: int, other: int, channels: int):
    x, y = paths(seed, 9, length, channels) * 0.6, paths(seed + 1, 4, other, channels) * 0.6
    of_x, of_y = (signature_kernel_diag(z, tol=1e-12, **static) for z in (x, y))
    wanted = signature_kernel(x, y, tol=1e-12, **static) / (of_x[:, None] * of_y).sqrt()
    got = signature_kernel(x, y, normalize=True, tol=1e-12, **static)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-10)
    single = signature_kernel(x.float(), y.float(), normalize=True, **static)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), wanted, rtol=0, atol=1e-4)
    lengths = torch.randint(1, length + 1, (9,), generator=generator(seed))
    ragged = signature_kernel(x, y, lengths=lengths, normalize=True, **static)
    for row, series, count in zip(ragged, x, lengths, strict=True):
        assert torch.equal(row[None], signature_kernel(series[None, :count], y, normalize=True, **static))


@pytest.mark.parametrize("static", STATIC)
def test_the_symmetric_matrix_has_ones_on_its_diagonal_and_is_positive(static: dict[str, Any]):
    gram = signature_kernel(paths(2, 25, 8, 2), normalize=True, **static)
    assert bool((gram.diagonal() == 1).all()) and torch.equal(gram, gram.T)
    assert float(torch.linalg.eigvalsh(gram)[0]) > -25 * 1e-8


@pytest.mark.parametrize("length", [20.0, 300.0, 3000.0])
def test_long_paths_do_not_overflow(length: float):
    """k of paths this long is out of range from about 700 on; against the reference, which rescales in its own way."""
    x = make("drift", 0, 3, 40, 2, length)
    y = torch.cat([x[:1] * 0.9, -x[:1], make("smooth", 1, 1, 40, 2, length)])
    got = signature_kernel(x, y, normalize=True)
    assert bool((got.abs() <= 1 + 1e-6).all())
    if length <= 300:
        norms = tuple(signature_kernel_diag(z, log=True) / 2 for z in (x, y))
        torch.testing.assert_close(got, reference.gram(Pairs(x, y=y, norms=norms), False), rtol=0, atol=1e-7)
    straight = torch.linspace(0, 1, 30).double()[None, :, None] * length
    same = signature_kernel(straight, straight[:, ::29].clone(), normalize=True)
    torch.testing.assert_close(same, torch.ones(1, 1).double(), rtol=0, atol=1e-7)


def test_lifted_paths_do_not_overflow():
    x = paths(3, 5, 300, 2)
    settings = {"static": "rbf", "bandwidth": 1.0, "amplitude": 6.0}
    got = signature_kernel(x, normalize=True, **settings)
    assert bool(torch.isfinite(got).all()) and bool((got.abs() <= 1 + 1e-6).all())
    with pytest.raises(OverflowError):
        signature_kernel(x, **settings)


@pytest.mark.parametrize("static", STATIC)
def test_gradcheck(static: dict[str, Any]):
    x, y = paths(4, 3, 4, 2).requires_grad_(), paths(5, 2, 5, 2).requires_grad_()

    def rectangular(x: Tensor, y: Tensor) -> Tensor:
        return signature_kernel(x, y, normalize=True, tol=1e-13, lengths=[4, 3, 1], **static)

    def symmetric(x: Tensor) -> Tensor:
        return signature_kernel(x, normalize=True, tol=1e-13, **static)

    assert torch.autograd.gradcheck(rectangular, (x, y), rtol=1e-5, atol=1e-7)
    assert torch.autograd.gradcheck(symmetric, (x,), rtol=1e-5, atol=1e-7)


def test_gradients_where_k_overflows():
    """The slope along a direction, by differences, for paths of 200 points and k near e^800."""
    x = make("drift", 6, 3, 200, 2, 400.0).requires_grad_()
    y = make("drift", 6, 2, 150, 2, 401.0)
    direction = make("smooth", 8, 3, 200, 2, 1.0)
    for other in (y, None):
        weight = paths(9, 1, 3, 3 if other is None else 2)[0]

        def total(z: Tensor, other: Tensor | None = other, weight: Tensor = weight) -> Tensor:
            return (signature_kernel(z, other, normalize=True, tol=1e-12) * weight).sum()

        (gradient,) = torch.autograd.grad(total(x), x)
        assert bool(torch.isfinite(gradient).all())
        step = 1e-5
        difference = float((total(x + step * direction) - total(x - step * direction)).detach()) / (2 * step)
        assert float((gradient * direction).sum()) == pytest.approx(difference, rel=1e-4, abs=1e-7)


def test_it_is_signed_and_has_one_rule_of_the_gradient():
    x = torch.tensor([[[0.0], [1.0]]]).double()
    assert float(signature_kernel(x, -2 * x, normalize=True)) < -0.03
    with pytest.raises(ValueError, match="take 'adjoint'"):
        signature_kernel(x, normalize=True, gradient="variation")


def test_reference_agrees_for_lifted_paths():
    settings = {"static": "rational_quadratic", "bandwidth": 0.8, "amplitude": 1.5, "alpha": 2.0}
    x, y = paths(10, 4, 7, 2), paths(11, 3, 6, 2)
    of_x, of_y = (signature_kernel_diag(z, log=True, **settings) / 2 for z in (x, y))
    wanted = reference.gram(Pairs(x, y=y, norms=(of_x, of_y), settings=KernelSettings(as_reference(settings))), False)
    torch.testing.assert_close(signature_kernel(x, y, normalize=True, **settings), wanted, rtol=0, atol=1e-8)
