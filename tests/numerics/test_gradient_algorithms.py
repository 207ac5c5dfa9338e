"""The paper's two gradient algorithms by themselves: directional derivatives, time reversal, boundary conditions."""

import torch

from helpers.random_paths import make
from siggpde.numerics.gradients.augmented import directional_derivatives, gradient, localised_impulses
from siggpde.numerics.gradients.variation import kernel_variation, solution, time_reversed_solution
from siggpde.numerics.reference.goursat import boundary
from siggpde.numerics.reference.kernel import LEGENDRE, solve_pairs


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
    torch.testing.assert_close(gradient(dx.detach(), dy, LEGENDRE), wanted, rtol=1e-10, atol=1e-12)
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
