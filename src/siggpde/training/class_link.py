"""From latents to probabilities: the link of `LeastSquares`, fitted to series that were left out.

The regression on ±1 knows neither how sure it is nor which classes are taken for each other. Both show in its
predictions of left-out series, to which temperature, mixing and offset of the link are fitted as a multinomial
logistic regression would be. Priors keep them where few series speak: log temperature about N(log 4, 1), and
temperature times mixing about N(temperature I, 1), offset about N(0, 1).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from siggpde.gp.golden import least
from siggpde.gp.likelihoods import LeastSquares
from siggpde.gp.quadrature import sobol_normal

_LOWEST, _HIGHEST = math.log(0.25), math.log(32.0)
_CENTRE, _SPREAD = math.log(4.0), 1.0
_POINTS = 16
_ITERATIONS = 60


def best_temperature(likelihood: LeastSquares, mean: Tensor, variance: Tensor, y: Tensor) -> float:
    """By golden-section search over its logarithm; the loss has one minimum there in practice.

    mean and variance (n, classes) are those of the latents of left-out series, y (n,) their labels.
    """
    weights = class_weights(likelihood, y)

    def loss(logarithm: float) -> float:
        likelihood.calibration[0] = math.exp(logarithm)
        prior = 0.5 * ((logarithm - _CENTRE) / _SPREAD) ** 2
        return prior - float(weights @ likelihood.log_predictive(mean, variance, y))

    return math.exp(least(loss, _LOWEST, _HIGHEST))


def mix(likelihood: LeastSquares, mean: Tensor, variance: Tensor, y: Tensor) -> None:
    """Sets mixing and offset of the likelihood, at its temperature, to the most probable ones."""
    classes, temperature = likelihood.classes, likelihood.temperature
    points = sobol_normal(_POINTS, classes, likelihood.seed).to(mean.device)
    link = temperature * torch.eye(classes, classes + 1, dtype=torch.float64, device=mean.device)
    link.requires_grad_()
    start, weights = link.detach().clone(), class_weights(likelihood, y)
    optimizer = torch.optim.LBFGS([link], max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        likelihood.mixing, likelihood.offset = link[:, :-1] / temperature, link[:, -1]
        chances = likelihood.log_chances(mean, variance, points)
        value = 0.5 * (link - start).square().sum() - weights @ chances.gather(1, y.long()[:, None])[:, 0]
        value = value / len(y)
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(loss)  # pyright: ignore[reportArgumentType]
    found = link.detach()
    if not bool(torch.isfinite(found).all()):
        found = start
    likelihood.mixing, likelihood.offset = (found[:, :-1] / temperature).clone(), found[:, -1].clone()


def class_weights(likelihood: LeastSquares, y: Tensor) -> Tensor:
    """What every series counts: the weight of its class, on average 1."""
    weights = likelihood.weights(y, torch.empty(0, dtype=torch.float64, device=y.device))
    return weights * (len(weights) / weights.sum())
