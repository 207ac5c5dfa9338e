"""Gradients of the signature kernel: exact, the same by every route, and honest about what they cannot do."""

from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor

from helpers.random_paths import batches, few, make
from siggpde import (
    signature_kernel,
    signature_kernel_diag,
    signature_kernel_diag_gradient,
    signature_kernel_diag_scales,
)
from siggpde.numerics import goursat as reference
from siggpde.numerics.goursat import scheme_of

SOLVERS: list[dict[str, Any]] = [{"solver": "series", "tol": 1e-11}, {"solver": "fd"}, {"solver": "fd", "refine": 2}]
EXACT: dict[str, Any] = {"tol": 1e-13}
solvers = pytest.mark.parametrize("settings", SOLVERS, ids=["series", "fd", "fd refined"])
# Size 1: whole segments. Size 9: segments longer than 1, which the series solver splits.
sizes = pytest.mark.parametrize("size", [1.0, 9.0])


def leaf(x: Tensor) -> Tensor:
    return x.clone().requires_grad_()


def gradient(value: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Of a fixed weighting of the values, so that no symmetry hides a mistake."""
    weight = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).reshape(value.shape)
    return torch.autograd.grad((value * weight).sum(), inputs)


def agree(got: tuple[Tensor, ...], wanted: tuple[Tensor, ...], rtol: float) -> bool:
    return all((a - b).abs().max() <= rtol * b.abs().max() for a, b in zip(got, wanted, strict=True))


@solvers
@sizes
@pytest.mark.parametrize("log", [False, True])
def test_gradcheck_of_the_diagonal(settings: dict[str, Any], size: float, log: bool):
    x = leaf(make("smooth", 0, 3, 6, 2, size))
    lengths = torch.tensor([6, 4, 1])
    assert torch.autograd.gradcheck(lambda a: signature_kernel_diag(a, lengths=lengths, log=log, **settings), x)


@solvers
@sizes
def test_gradcheck_of_gram_matrices(settings: dict[str, Any], size: float):
    x, y = leaf(make("smooth", 1, 3, 5, 2, size)), leaf(make("smooth", 2, 2, 4, 2, size))
    lengths: dict[str, Any] = {"lengths": [5, 2, 1], "y_lengths": [3, 4]}
    assert torch.autograd.gradcheck(lambda a: signature_kernel(a, lengths=[5, 3, 1], **settings), x)
    assert torch.autograd.gradcheck(lambda a, b: signature_kernel(a, b, **lengths, **settings), (x, y))
    assert torch.autograd.gradcheck(lambda b: signature_kernel(x.detach(), b, **settings), y)


@few
@given(batches(n=2, min_length=2, max_length=12, max_channels=8))
def test_the_native_gradient_is_autograd_through_the_reference(x: Tensor):
    y = make("brownian", 3, 2, 6, x.shape[2])
    for settings in SOLVERS:
        scheme = scheme_of(-1 if settings["solver"] == "series" else settings.get("refine", 0))
        a, b = leaf(x), leaf(y)
        wanted = gradient(reference.diagonal(a, None, scheme), a)
        assert agree(gradient(signature_kernel_diag(a, **settings), a), wanted, 1e-8)
        wanted = gradient(reference.gram(a, None, b, None, scheme), a, b)
        assert agree(gradient(signature_kernel(a, b, **settings), a, b), wanted, 1e-8)
        wanted = gradient(reference.gram(a, None, a, None, scheme), a)
        assert agree(gradient(signature_kernel(a, **settings), a), wanted, 1e-8)


@pytest.mark.parametrize("rule", ["variation", "augmented"])
def test_the_rules_of_the_paper_agree_with_the_adjoint(rule: Any):
    x, y = leaf(make("smooth", 4, 2, 7, 2, 2.0)), leaf(make("brownian", 5, 2, 5, 2, 2.0))
    lengths = [7, 5]
    wanted = gradient(signature_kernel_diag(x, lengths=lengths, **EXACT), x)
    assert agree(gradient(signature_kernel_diag(x, lengths=lengths, gradient=rule), x), wanted, 1e-7)
    wanted = gradient(signature_kernel_diag(x, log=True, **EXACT), x)
    assert agree(gradient(signature_kernel_diag(x, log=True, gradient=rule), x), wanted, 1e-7)
    wanted = gradient(signature_kernel(x, y, **EXACT), x, y)
    assert agree(gradient(signature_kernel(x, y, gradient=rule), x, y), wanted, 1e-7)
    wanted = gradient(signature_kernel(x, **EXACT), x)
    assert agree(gradient(signature_kernel(x, gradient=rule), x), wanted, 1e-7)


@pytest.mark.parametrize("rule", ["adjoint", "variation", "augmented"])
def test_gradients_of_finite_differences_converge(rule: Any):
    x, y = leaf(make("smooth", 6, 2, 5, 2, 1.5)), leaf(make("smooth", 7, 2, 4, 2, 1.5))
    exact = gradient(signature_kernel_diag(x, **EXACT), x)[0], gradient(signature_kernel(x, y, **EXACT), x)[0]
    errors = []
    for refine in range(4):
        settings: dict[str, Any] = {"solver": "fd", "refine": refine, "gradient": rule}
        diag, gram = signature_kernel_diag(x, **settings), signature_kernel(x, y, **settings)
        got = gradient(diag, x)[0], gradient(gram, x)[0]
        errors.append([float((a - b).norm()) for a, b in zip(got, exact, strict=True)])
    ratio = torch.tensor(errors[:-1]) / torch.tensor(errors[1:])
    assert (ratio > 2.5).all(), ratio


@solvers
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_scales(settings: dict[str, Any], log: bool, dtype: torch.dtype):
    x = make("brownian", 8, 5, 20, 3, 2.0).to(dtype)
    lengths = [20, 1, 7, 20, 13]
    theta = torch.tensor([0.5, 1.5, -0.8]).to(dtype)
    value, slope = signature_kernel_diag_scales(x, theta, lengths=lengths, log=log, **settings)
    assert value.dtype == slope.dtype == dtype
    assert not value.requires_grad
    assert not slope.requires_grad
    logarithm = torch.zeros(5, 3, dtype=torch.float64, requires_grad=True)
    scaled = x.double() * (theta * logarithm.exp())[:, None]
    wanted = signature_kernel_diag(scaled, lengths=lengths, log=log, **settings)
    wanted_slope = torch.autograd.grad(wanted.sum(), logarithm)[0]
    rtol = 1e-9 if dtype == torch.float64 else 1e-4
    assert torch.allclose(value.double(), wanted, rtol=rtol, atol=rtol)
    assert torch.allclose(slope.double(), wanted_slope, rtol=rtol, atol=rtol * float(wanted_slope.abs().max()))
    if dtype == torch.float64:
        for channel in range(3):
            step = torch.zeros(3, dtype=dtype)
            step[channel] = 1e-5
            up, down = (
                signature_kernel_diag_scales(x, theta * (sign * step).exp(), lengths=lengths, log=log, **settings)[0]
                for sign in (1, -1)
            )
            assert torch.allclose((up - down) / 2e-5, slope[:, channel], rtol=1e-6, atol=1e-5)


@solvers
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_one_pass_gives_what_autograd_gives(settings: dict[str, Any], log: bool, dtype: torch.dtype):
    x = make("brownian", 8, 5, 20, 3, 2.0).to(dtype).requires_grad_()
    lengths = [20, 1, 7, 20, 13]
    wanted = signature_kernel_diag(x, lengths=lengths, log=log, **settings)
    (wanted_slope,) = torch.autograd.grad(wanted.sum(), x)
    value, slope = signature_kernel_diag_gradient(x, lengths=lengths, log=log, **settings)
    assert value.dtype == slope.dtype == dtype
    assert not value.requires_grad
    assert not slope.requires_grad
    assert torch.equal(value, wanted)
    assert torch.equal(slope, wanted_slope)
    with torch.no_grad():
        series = [item[:length] for item, length in zip(x, lengths, strict=True)]
        assert torch.equal(signature_kernel_diag_gradient(series, log=log, **settings)[1], slope)
    if dtype == torch.float64:
        step = 1e-6 * make("smooth", 9, 5, 20, 3)
        up, down = (
            signature_kernel_diag_gradient(x + sign * step, lengths=lengths, log=log, **settings)[0] for sign in (1, -1)
        )
        assert torch.allclose((up - down) / 2, (step * slope).sum((1, 2)), rtol=1e-5, atol=1e-9)


def test_a_channel_scaled_to_zero_has_no_slope():
    x = make("smooth", 9, 3, 10, 2, 2.0)
    value, slope = signature_kernel_diag_scales(x, torch.tensor([1.0, 0.0]).double())
    assert torch.equal(slope[:, 1], torch.zeros(3).double())
    assert torch.allclose(value, signature_kernel_diag(x[:, :, :1]), rtol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_padding_gets_no_gradient(dtype: torch.dtype):
    x = make("brownian", 10, 3, 12, 2).to(dtype)
    x[0, 5:] = float("nan")
    x[2, 1:] = float("inf")
    lengths = torch.tensor([5, 12, 1])
    x.requires_grad_()
    for rule in ("adjoint", "variation"):
        diag = signature_kernel_diag(x, lengths=lengths, gradient=rule)
        gram = signature_kernel(x, lengths=lengths, gradient=rule)
        for value in (diag, gram, signature_kernel(x.detach()[1:2], x, y_lengths=lengths, gradient=rule)):
            (got,) = gradient(value, x)
            assert torch.equal(got[0, 5:], torch.zeros(7, 2, dtype=dtype))
            assert torch.equal(got[2], torch.zeros(12, 2, dtype=dtype))
            assert torch.isfinite(got).all()
            assert (got[1] != 0).any()
