"""Weights of members by stacking, and the sharpness of their average, from left-out series."""

import math

import pytest
import torch
from torch import Tensor

from siggpde.ensemble.stacking import sharpen, stack


def objective(weights: Tensor, log_densities: Tensor) -> float:
    mixture = (log_densities + weights.log()[:, None]).logsumexp(dim=0).sum()
    return float(mixture + 10 * weights.log().sum())


@pytest.mark.parametrize(("count", "n", "spread"), [(2, 30, 1.0), (4, 200, 0.3), (5, 2000, 0.1), (3, 0, 1.0)])
def test_weights_are_the_maximum_of_their_objective(count: int, n: int, spread: float):
    random = torch.Generator().manual_seed(count)
    densities = spread * torch.randn(count, n, generator=random, dtype=torch.float64)
    densities[0] += spread / 3
    weights = stack(densities)
    assert weights.sum().item() == pytest.approx(1.0, abs=1e-12) and bool((weights > 0).all())
    best = objective(weights, densities)
    for _ in range(20):
        change = torch.randn(count, generator=random, dtype=torch.float64)
        moved = (weights * (1e-3 * change).exp()) / (weights * (1e-3 * change).exp()).sum()
        assert objective(moved, densities) < best + 1e-9


def test_equal_members_weigh_the_same_and_a_far_better_one_wins():
    same = torch.randn(1, 50, generator=torch.Generator().manual_seed(0)).double().expand(3, -1)
    assert torch.allclose(stack(same), torch.full((3,), 1 / 3).double())
    for n, least in ((3, 0.34), (100, 0.8), (5000, 0.99)):
        better = torch.zeros(3, n).double()
        better[1] = 5.0
        assert stack(better)[1] > least
    assert stack(better[:, :3])[1] < 0.5, "three series prove little"


def test_series_that_some_or_all_members_find_impossible():
    densities = torch.zeros(2, 40).double()
    densities[1, :20] = -torch.inf
    assert stack(densities)[0] > 0.6
    densities[:, 0] = -torch.inf
    weights = stack(densities)
    assert torch.isfinite(weights).all() and weights.sum().item() == pytest.approx(1.0)


def test_averages_that_are_not_sure_enough_are_sharpened():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(600) % 3
    logits = 3.0 * torch.nn.functional.one_hot(y, 3) + 1.5 * torch.randn(600, 3, generator=generator)
    ones = torch.ones(600, dtype=torch.float64)
    flat, steep = (torch.softmax(factor * logits.double(), dim=1) for factor in (0.4, 2.0))
    assert sharpen(flat, y, ones) > 1.2 and sharpen(steep, y, ones) < 0.9
    best = max(torch.arange(0.3, 4.0, 0.01).tolist(), key=lambda power: _likelihood(flat, y, power))
    assert sharpen(flat, y, ones) == pytest.approx(best**0.5, rel=0.03)
    one = torch.zeros(600, dtype=torch.float64)
    assert sharpen(flat, y, one) == pytest.approx(1.0, abs=1e-2), "series that do not count leave it alone"


def _likelihood(chances: Tensor, y: Tensor, power: float) -> float:
    found = torch.log_softmax(power * chances.log(), dim=1).gather(1, y[:, None]).sum()
    return float(found) - 0.5 * (math.log(power) / 0.5) ** 2
