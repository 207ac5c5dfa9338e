"""Gradients of paths so long that their cells are not kept: blocks of rows, of blocks, are computed again."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

import siggpde


def walks(n: int, length: int, channels: int, seed: int = 0) -> Tensor:
    """Random walks with a root mean square length of about 2."""
    steps = torch.randn(n, length, channels, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (steps * (2 / (length * channels) ** 0.5)).cumsum(1)


LONG = [250, 700, pytest.param(2600, marks=pytest.mark.slow)]  # one, two and three levels of blocks


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("length", LONG)
def test_the_gradient_of_the_diagonal_is_the_slope_of_its_values(length: int, log: bool):
    x, way = walks(2, length, 2), walks(2, length, 2, seed=1)
    lengths = torch.tensor([length, length // 2 + 1])
    leaf = x.clone().requires_grad_()
    siggpde.signature_kernel_diag(leaf, lengths=lengths, log=log, tol=1e-12).sum().backward()
    assert leaf.grad is not None
    h = 1e-5
    high, low = (siggpde.signature_kernel_diag(x + s * h * way, lengths=lengths, log=log, tol=1e-12) for s in (1, -1))
    torch.testing.assert_close((leaf.grad * way).sum(dim=(1, 2)), (high - low) / (2 * h), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("length", LONG)
def test_the_gradient_in_the_scales_is_that_of_the_path(length: int):
    """d/d log theta_c of k(theta X, theta X) is the sum of theta X times its gradient, channel by channel."""
    x, theta = walks(2, length, 3), torch.tensor([0.5, 1.0, 1.5]).double()
    value, slope = siggpde.signature_kernel_diag_scales(x, theta, tol=1e-12)
    leaf = (x * theta).requires_grad_()
    plain = siggpde.signature_kernel_diag(leaf, tol=1e-12)
    plain.sum().backward()
    assert leaf.grad is not None
    torch.testing.assert_close(value, plain.detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close(slope, (leaf * leaf.grad).sum(dim=1).detach(), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("length", LONG)
def test_the_gradient_of_a_gram_matrix_is_the_slope_of_its_values(length: int):
    x, y = walks(2, length, 2), walks(1, length - 37, 2, seed=2)
    there, back = walks(2, length, 2, seed=3), walks(1, length - 37, 2, seed=4)
    a, b = x.clone().requires_grad_(), y.clone().requires_grad_()
    siggpde.signature_kernel(a, b, tol=1e-12).sum().backward()
    assert a.grad is not None and b.grad is not None
    h = 1e-5
    high, low = (siggpde.signature_kernel(x + s * h * there, y + s * h * back, tol=1e-12).sum() for s in (1, -1))
    derivative = (a.grad * there).sum() + (b.grad * back).sum()
    torch.testing.assert_close(derivative, (high - low) / (2 * h), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("length", [100, 600, 1500])
@pytest.mark.parametrize("settings", [{}, {"solver": "fd"}], ids=["series", "fd"])
def test_a_path_that_goes_straight_on_is_not_taken_for_one_that_comes_back(length: int, settings: Any):
    """Rows that are swept again for the gradient are compared with those before them, not with all."""
    line = torch.linspace(0, 16, length, dtype=torch.float64)[None, :, None]
    expected = siggpde.signature_kernel_diag(line, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        leaf = line.clone().requires_grad_()
        value = siggpde.signature_kernel_diag(leaf, **settings)
        value.sum().backward()
    torch.testing.assert_close(value.detach(), expected, rtol=1e-12, atol=0)
    assert leaf.grad is not None
    # k of a line of length r is I_0(2 r): d/dr = 2 I_1(2 r), all of it at the ends
    if not settings:
        slope = 2 * torch.special.i1(torch.tensor(32.0).double())
        torch.testing.assert_close(leaf.grad[0, -1, 0], slope, rtol=1e-6, atol=0)
