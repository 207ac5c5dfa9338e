"""The link of least squares: temperature, mixing and offset are the most probable ones for left-out series."""

import math

import pytest
import torch
from torch import Tensor

from siggpde.gp.likelihoods import LeastSquares
from siggpde.gp.quadrature import sobol_normal
from siggpde.training.class_link import best_temperature, fit_class_mixing


def left_out(n: int = 400, classes: int = 3, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Latents as of a regression that takes class 1 for class 0, and never is sure of the last."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % classes
    mean = 2 * torch.nn.functional.one_hot(y, classes).double() - 1
    mean[y == 1, 0] += 1.2
    mean[:, -1] *= 0.3
    mean = mean + 0.6 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    return mean, torch.full_like(mean, 0.05), y


def penalised(likelihood: LeastSquares, mean: Tensor, variance: Tensor, y: Tensor) -> float:
    """What `mix` minimises, written out."""
    points = sobol_normal(16, likelihood.classes, likelihood.seed).double()
    chances = likelihood.log_chances(mean, variance, points)
    link = likelihood.temperature * (likelihood.mixing - torch.eye(likelihood.classes).double())
    prior = 0.5 * (link.square().sum() + likelihood.offset.square().sum())
    return -float(chances.gather(1, y[:, None]).mean()) + float(prior) / len(y)


def test_the_temperature_is_the_most_probable():
    mean, variance, y = left_out()
    likelihood = LeastSquares(3)
    found = best_temperature(likelihood, mean, variance, y)

    def loss(temperature: float) -> float:
        likelihood.calibration[0] = temperature
        prior = 0.5 * (math.log(temperature / 4.0) / 1.0) ** 2 / len(y)
        return prior - float(likelihood.log_predictive(mean, variance, y).mean())

    assert loss(found) < min(loss(0.95 * found), loss(1.05 * found)) < min(loss(0.5 * found), loss(2 * found))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_few_series_do_not_make_certain(sign: float):
    mean = sign * torch.tensor([[3.0, -3.0], [-3.0, 3.0]]).double()
    found = best_temperature(LeastSquares(2), mean, torch.full_like(mean, 0.01), torch.tensor([0, 1]))
    assert 0.25 < found < 16.0


def test_no_link_nearby_is_more_probable():
    mean, variance, y = left_out()
    likelihood = LeastSquares(3, temperature=3.0)
    before = penalised(likelihood, mean, variance, y)
    fit_class_mixing(likelihood, mean, variance, y)
    best = penalised(likelihood, mean, variance, y)
    assert best < before - 0.01
    mixing, offset = likelihood.mixing.clone(), likelihood.offset.clone()
    generator = torch.Generator().manual_seed(1)
    for _ in range(20):
        likelihood.mixing = mixing + 0.05 * torch.randn(3, 3, generator=generator, dtype=torch.float64)
        likelihood.offset = offset + 0.05 * torch.randn(3, generator=generator, dtype=torch.float64)
        assert penalised(likelihood, mean, variance, y) > best


def test_the_gradient_vanishes_at_the_link():
    mean, variance, y = left_out()
    likelihood = LeastSquares(3, temperature=3.0)
    fit_class_mixing(likelihood, mean, variance, y)
    points = sobol_normal(16, 3, likelihood.seed).double()
    likelihood.mixing, likelihood.offset = likelihood.mixing.requires_grad_(), likelihood.offset.requires_grad_()
    link = 3.0 * (likelihood.mixing - torch.eye(3).double())
    prior = 0.5 * (link.square().sum() + likelihood.offset.square().sum())
    loss = prior / len(y) - likelihood.log_chances(mean, variance, points).gather(1, y[:, None]).mean()
    for gradient in torch.autograd.grad(loss, [likelihood.mixing, likelihood.offset]):
        assert gradient.abs().max() < 1e-7


def test_classes_that_are_taken_for_each_other_are_told_apart_on_other_series():
    likelihood = LeastSquares(3)
    mean, variance, y = left_out(seed=0)
    likelihood.calibration[0] = best_temperature(likelihood, mean, variance, y)
    new, spread, truth = left_out(seed=1)
    before = -float(likelihood.log_predictive(new, spread, truth).mean())
    fit_class_mixing(likelihood, mean, variance, y)
    after = -float(likelihood.log_predictive(new, spread, truth).mean())
    assert after < 0.9 * before


def test_the_same_series_give_the_same_link_and_nothing_carries_a_graph():
    links = []
    for _ in range(2):
        likelihood = LeastSquares(3)
        with torch.no_grad():
            fit_class_mixing(likelihood, *left_out())
        assert not likelihood.mixing.requires_grad and not likelihood.offset.requires_grad
        assert "mixing" in likelihood.state_dict()
        links.append(likelihood.mixing)
    assert torch.equal(*links)
