"""From latents to probabilities: the link of `LeastSquares`, fitted to series that were left out.

The regression on ±1 knows neither how sure it is nor which classes are taken for each other. Both show in its
predictions of left-out series, to which temperature, mixing and offset of the link are fitted as a multinomial
logistic regression would be. Priors keep them where few series speak: log temperature about N(log 4, 1), and
temperature times mixing about N(temperature I, 1), offset about N(0, 1).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from siggpde.gp.bounded_search import minimize_bounded
from siggpde.gp.likelihoods import LeastSquares

_LOWEST, _HIGHEST = math.log(0.25), math.log(32.0)
_CENTRE, _SPREAD = math.log(4.0), 1.0
_POINTS = 16
_OPTIONS = {"maxiter": 1000, "maxfun": 2000, "ftol": 1e-15, "gtol": 1e-9}


def best_temperature(likelihood: LeastSquares, mean: Tensor, variance: Tensor, y: Tensor) -> float:
    """The most probable temperature, by a search over its logarithm; the loss has one minimum there in practice.

    mean and variance (n, classes) are those of the latents of left-out series, y (n,) their labels.
    """
    weights = class_weights(likelihood, y)

    def loss(logarithm: float) -> float:
        likelihood.calibration[0] = math.exp(logarithm)
        prior = 0.5 * ((logarithm - _CENTRE) / _SPREAD) ** 2
        return prior - float(weights @ likelihood.log_predictive(mean, variance, y))

    return math.exp(minimize_bounded(loss, _LOWEST, _HIGHEST))


def fit_class_mixing(likelihood: LeastSquares, mean: Tensor, variance: Tensor, y: Tensor) -> None:
    """Sets mixing and offset of the likelihood, at its temperature, to the most probable ones, by L-BFGS."""
    from scipy.optimize import minimize  # noqa: PLC0415 - takes long to import, and predictions need none

    classes, temperature = likelihood.classes, likelihood.temperature
    points = likelihood.normal_points(_POINTS).to(mean.device)
    start = temperature * torch.eye(classes, classes + 1, dtype=torch.float64, device=mean.device)
    weights, labels = class_weights(likelihood, y), y.long()[:, None]

    def set_link(link: Tensor) -> None:
        likelihood.mixing, likelihood.offset = link[:, :-1] / temperature, link[:, -1].clone()

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        link = torch.tensor(values).to(start).view_as(start).requires_grad_()
        with torch.enable_grad():
            set_link(link)
            chances = likelihood.log_chances(mean, variance, points)
            value = 0.5 * (link - start).square().sum() - weights @ chances.gather(1, labels)[:, 0]
            (gradient,) = torch.autograd.grad(value / len(y), [link])
        return float(value.detach()) / len(y), gradient.flatten().cpu().numpy()

    result = minimize(loss, start.flatten().cpu().numpy(), jac=True, method="L-BFGS-B", options=_OPTIONS)
    best = torch.tensor(result.x).to(start).view_as(start)
    set_link(best if bool(torch.isfinite(best).all()) else start)


def class_weights(likelihood: LeastSquares, y: Tensor) -> Tensor:
    """What every series counts: the weight of its class, on average 1."""
    weights = likelihood.weights(y, torch.empty(0, dtype=torch.float64, device=y.device))
    return weights * (len(weights) / weights.sum())
