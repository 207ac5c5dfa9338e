"""The paper's two gradient algorithms by themselves: directional derivatives, time reversal, boundary conditions."""

from typing import Any

import pytest
import torch

from helpers.random_paths import make
from siggpde import signature_kernel, signature_kernel_diag
from siggpde.numerics import gradients
from siggpde.numerics.goursat import LEGENDRE, boundary, solve_pairs
from siggpde.numerics.gradients import (
    augmented_gradient,
    augmented_gradients,
    directional_derivatives,
    kernel_variation,
    localised_impulses,
    solution,
    time_reversed_solution,
    variation_gradients,
)


def increments(seed: int, length: int) -> torch.Tensor:
    return make("brownian", seed, 1, length + 1, 2, 1.5)[0].diff(dim=0)


def kernel(dx: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    return solve_pairs(dx[None], dy[None], LEGENDRE, False)[0]


def test_a_localised_impulse_changes_one_channel_of_one_increment():
    impulses = localised_impulses(increments(0, 3))
    assert impulses.shape == (6, 3, 2)
    assert torch.equal(impulses.sum(0), torch.ones(3, 2).double())
    assert impulses[3, 1, 1] == 1 and impulses[3].abs().sum() == 1


def test_directional_derivatives_are_the_limit_of_differences():
    dx, dy = increments(1, 4), increments(2, 3)
    directions = torch.stack([increments(3, 4), *localised_impulses(dx)[:2]])
    got = directional_derivatives(dx, dy, directions, LEGENDRE)
    step = 1e-5
    for derivative, gamma in zip(got, directions, strict=True):
        difference = (kernel(dx + step * gamma, dy) - kernel(dx - step * gamma, dy)) / (2 * step)
        torch.testing.assert_close(derivative, difference, rtol=1e-8, atol=1e-9)


def test_both_algorithms_give_the_gradient_of_the_solver():
    dx, dy = increments(4, 4).requires_grad_(), increments(5, 3)
    (wanted,) = torch.autograd.grad(kernel(dx, dy), dx)
    rho = (dx @ dy.T)[None].detach()
    torch.testing.assert_close(augmented_gradient(dx.detach(), dy, LEGENDRE), wanted, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(kernel_variation(rho, LEGENDRE)[0] @ dy, wanted, rtol=1e-10, atol=1e-12)


def test_the_time_reversed_solution_is_the_kernel_of_the_rest():
    """Near the end of both paths V is close to U of nothing, which is 1, and near their start to the whole kernel."""
    dx, dy = increments(6, 3), increments(7, 3)
    rho = (dx @ dy.T)[None]
    u, v = solution(rho, LEGENDRE)[0], time_reversed_solution(rho, LEGENDRE)[0]
    assert abs(u[0, 0, 0, 0] - 1) < 1e-2 and abs(v[-1, -1, -1, -1] - 1) < 1e-2
    torch.testing.assert_close(u[-1, -1, -1, -1], v[0, 0, 0, 0], rtol=5e-2, atol=0)
    torch.testing.assert_close(v[0, 0, 0, 0], kernel(dx, dy), rtol=5e-2, atol=0)


def test_the_boundary_is_one_on_both_axes():
    left, bottom, corner = boundary(torch.zeros(2, 3, 4).double(), 5)
    assert torch.equal(corner, torch.ones(2, 3).double())
    assert not left.any() and not bottom.any()  # derivatives along the axes


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch):
    dx, dy = (torch.stack([increments(seed + i, 5) for i in range(3)]) for seed in (8, 20))
    grad = torch.tensor([1.0, -2.0, 0.5]).double()
    wanted = [rule(dx, dy, grad, LEGENDRE) for rule in (variation_gradients, augmented_gradients)]
    for name, size in (("_CELLS_AT_ONCE", 30), ("_CELLS_EVALUATED_AT_ONCE", 11)):
        monkeypatch.setattr(gradients, name, size)
    monkeypatch.setattr(gradients, "_DIRECTIONS_AT_ONCE", 3)
    for rule, (of_x, of_y) in zip((variation_gradients, augmented_gradients), wanted, strict=True):
        again = rule(dx, dy, grad, LEGENDRE)
        torch.testing.assert_close(again[0], of_x, rtol=1e-13, atol=1e-15)
        torch.testing.assert_close(again[1], of_y, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("rule", ["variation", "augmented"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_huge_numbers_are_refused_before_the_work(rule: Any, dtype: torch.dtype):
    """As by the adjoint; and grids that would take minutes are refused with what to do instead."""
    for size in (1e3, 1e6, 1e30, torch.finfo(dtype).max / 64):
        x = make("brownian", 0, 3, 8, 2).to(dtype)
        x[1] *= size / x[1].diff(dim=0).norm(dim=1).max()
        x.requires_grad_()
        for each in ("adjoint", rule):
            with pytest.raises(OverflowError, match=rf"of series 1 of x is too large for {dtype}"):
                signature_kernel_diag(x, gradient=each)
            with pytest.raises(OverflowError, match=rf"of series 1 of [xy] is too large for {dtype}"):
                signature_kernel(x[:1].detach(), x, gradient=each)
    large = make("brownian", 0, 1, 60, 2, 8).to(dtype)
    assert large.diff(dim=1).norm(dim=2).max() < 87
    many = large[:, torch.arange(1200) % 60].requires_grad_()
    with pytest.raises(ValueError, match=rf"gradient='{rule}' would solve a grid of .* take gradient='adjoint', or"):
        signature_kernel_diag(many, gradient=rule)


@pytest.mark.parametrize("rule", ["variation", "augmented"])
def test_logarithms_reach_further_than_float32(rule: Any):
    x = (14 * torch.linspace(0, 1, 4)[None, :, None] ** 2).requires_grad_()  # k is about exp(28) / 13
    value = signature_kernel_diag(4 * x, log=True, gradient=rule)
    (slope,) = torch.autograd.grad(value.sum(), x)
    wanted = signature_kernel_diag(4 * x, log=True)
    assert wanted > 89 and value.dtype == torch.float32
    torch.testing.assert_close(value, wanted)
    torch.testing.assert_close(slope, torch.autograd.grad(wanted.sum(), x)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rule", ["variation", "augmented"])
@pytest.mark.parametrize("shape", [(0, 4, 2), (3, 1, 2), (0, 1, 1)])
def test_nothing_to_differentiate(rule: Any, shape: tuple[int, ...]):
    x = torch.ones(shape).double().requires_grad_()
    for value in (signature_kernel_diag(x, gradient=rule), signature_kernel(x, gradient=rule)):
        assert torch.equal(torch.autograd.grad(value.sum(), x)[0], torch.zeros(shape).double())
