"""Gradients of signature kernels of lifted paths, in points, bandwidth and amplitude."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.lifted_paths import LIFTS, as_reference, lifts, paths, seeds
from helpers.random_paths import modest
from siggpde import (
    signature_kernel,
    signature_kernel_diag,
    signature_kernel_diag_gradient,
    signature_kernel_diag_scales,
)
from siggpde.numerics import reference
from siggpde.numerics.static_kernels import KernelSettings, check_static


@pytest.mark.parametrize("name", LIFTS)
@pytest.mark.parametrize("amplitude", [0.7, 2.5])
def test_gradcheck_in_points_bandwidth_and_amplitude(name: str, amplitude: float):
    x, y = paths(6, 3, 4, 2).requires_grad_(), paths(7, 2, 5, 2).requires_grad_()
    width, height = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (1.3, amplitude))
    alpha = {"alpha": 1.7} if name == "rational_quadratic" else {}

    def settings(h: Tensor, a: Tensor) -> dict[str, Any]:
        return {"static": name, "bandwidth": h, "amplitude": a, "tol": 1e-13, **alpha}

    def gram(x: Tensor, y: Tensor, h: Tensor, a: Tensor) -> Tensor:
        return signature_kernel(x, y, lengths=[4, 3, 1], **settings(h, a))

    def symmetric(x: Tensor, h: Tensor, a: Tensor) -> Tensor:
        return signature_kernel(x, **settings(h, a))

    def diagonal(x: Tensor, h: Tensor, a: Tensor) -> Tensor:
        return signature_kernel_diag(x, lengths=[4, 2, 1], **settings(h, a))

    def logarithm(x: Tensor, h: Tensor, a: Tensor) -> Tensor:
        return signature_kernel_diag(x, log=True, **settings(h, a))

    for function, points in ((gram, (x, y)), (symmetric, (x,)), (diagonal, (x,)), (logarithm, (x,))):
        assert torch.autograd.gradcheck(function, (*points, width, height), rtol=1e-5, atol=1e-6)


@modest
@given(seeds, lifts(), st.integers(2, 60), st.integers(1, 3))
def test_gradients_are_those_of_the_reference(seed: int, settings: dict[str, Any], length: int, channels: int):
    x = (paths(seed, 3, length, channels).cumsum(1) * 0.3).requires_grad_()
    lengths = torch.tensor([length, max(1, length // 2), 1])
    parameters = [
        torch.tensor(settings[k], dtype=torch.float64, requires_grad=True) for k in ("bandwidth", "amplitude")
    ]
    settings = {**settings, "bandwidth": parameters[0], "amplitude": parameters[1]}
    got = torch.autograd.grad(signature_kernel_diag(x, lengths=lengths, tol=1e-13, **settings).sum(), [x, *parameters])
    k = reference.diagonal(x, lengths, KernelSettings(as_reference(settings), -1, 1e-13), False, True)
    wanted = torch.autograd.grad(k.sum(), [x, *parameters])
    for mine, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-7 * float(k.detach().max()))


def test_gradients_of_long_paths_whose_states_are_computed_again():
    x = (paths(8, 2, 700, 2).cumsum(1) * 0.02).requires_grad_()
    y = paths(9, 2, 500, 2).cumsum(1) * 0.02
    direction = paths(10, 2, 700, 2)
    settings = {"static": "rbf", "bandwidth": 0.5, "tol": 1e-12}
    functions = (
        lambda z: signature_kernel(z, y, **settings).sum(),
        lambda z: signature_kernel_diag(z, **settings).sum(),
    )
    for function in functions:
        slope = float((torch.autograd.grad(function(x), x)[0] * direction).sum())
        step = 1e-5
        difference = float((function(x + step * direction) - function(x - step * direction)).detach()) / (2 * step)
        assert slope == pytest.approx(difference, rel=1e-6)


def test_scales_and_gradients_in_one_pass():
    x, theta = paths(15, 5, 9, 3), torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64)
    lengths = [9, 7, 1, 4, 9]
    settings = {"static": "matern52", "bandwidth": 0.8, "amplitude": 1.6, "lengths": lengths}
    log_theta = theta.log().requires_grad_()
    k = signature_kernel_diag(x * log_theta.exp(), **settings)
    value, slope = signature_kernel_diag_scales(x, theta, **settings)
    torch.testing.assert_close(value, k.detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close(slope.sum(0), torch.autograd.grad(k.sum(), log_theta)[0], rtol=1e-10, atol=1e-10)
    leaf = x.clone().requires_grad_()
    value, slope = signature_kernel_diag_gradient(leaf, **settings)
    torch.testing.assert_close(slope, torch.autograd.grad(signature_kernel_diag(leaf, **settings).sum(), leaf)[0])


def test_matern12_has_no_gradient_where_points_coincide_and_is_given_none():
    x = paths(18, 2, 5, 2).requires_grad_()
    (slope,) = torch.autograd.grad(signature_kernel_diag(x, static="matern12").sum(), x)
    assert bool(torch.isfinite(slope).all())
    k = reference.diagonal(x, None, KernelSettings(check_static("matern12", 1.0, 1.0, None)[0]), False, True)
    torch.testing.assert_close(slope, torch.autograd.grad(k.sum(), x)[0], rtol=1e-7, atol=1e-7)


def test_the_amplitude_of_the_linear_kernel_scales_the_path():
    x = paths(14, 3, 6, 2).requires_grad_()
    amplitude = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(signature_kernel(x, amplitude=0.6), signature_kernel(0.6 * x))
    assert torch.autograd.gradcheck(lambda x, a: signature_kernel_diag(x, amplitude=a), (x, amplitude), rtol=1e-5)
    value, slope = signature_kernel_diag_gradient(x, amplitude=0.6)
    k = signature_kernel_diag(x, amplitude=0.6)
    torch.testing.assert_close(value, k.detach())
    torch.testing.assert_close(slope, torch.autograd.grad(k.sum(), x)[0])
