r"""How far the latents of a variational member can be trusted: two factors, fitted to left-out series.

The kernels of views have many directions in which series differ and labels do not. Under such a prior a new series has
nearly all of its variance left, :math:`k(X, X) - |\phi|^2` above all, and class probabilities are far too flat, however
well the means separate classes. So predictions take :math:`t \mu` and :math:`c v` in place of :math:`\mu` and
:math:`v`, with the factors under which left-out series are most probable.

What q(u) would say of a series without its label follows from the marginal :math:`N(m, s)` of
:math:`\sigma \phi \cdot u` and the site :math:`a, g` that the likelihood adds to it where natural gradients settle,

.. math:: 1 / s_{-i} = 1 / s - a, \qquad m_{-i} = s_{-i} (m / s - (g + a m)), \qquad v_{-i} = s_{-i} + \sigma^2 e,

with the part e that no feature explains: for a Gaussian likelihood exactly what a fit without the series gives. Priors:
log t about N(0, 1), log c about N(0, 2²).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from siggpde.committee.feature_gp import FeatureGP, Features
from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.gp.likelihoods.base import Classification

_LAPSE = 0.3  # of n + 2 labels so many are taken to be unpredictable
_SPREADS = (1.0, 2.0)  # of the priors of log t and log c
_GRID = ((-1.5, -0.75, 0.0, 0.75, 1.5), (-6.0, -4.5, -3.0, -1.5, 0.0))
_HALVINGS = 3
_LARGEST_SEARCH = 150
_LEAST_PRECISION = 0.01  # the share of a marginal's precision that is left without a site, at least


@dataclass(frozen=True)
class LatentScale:
    """The factors t of means and c of variances."""

    mean: float = 1.0
    variance: float = 1.0

    def __call__(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Latents as the likelihood takes them for predictions."""
        return self.mean * mean, self.variance * variance


@torch.no_grad()
def left_out_latents(gp: FeatureGP, features: Features, y: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance, two (n, latents), of training series without their own labels y (n,)."""
    projection = gp.project(features)
    mean, spread = gp.variational(projection.features)
    tail = projection.tail[:, None]
    _, g, a = gp.likelihood.statistics(mean, spread + tail, y)
    if gp.variational.shared:
        a = a.mean(dim=1, keepdim=True).expand_as(a)
    kept = (1 - a * spread).clamp_min(_LEAST_PRECISION)  # 1 / s_-i in units of 1 / s
    return mean - g * spread / kept, spread / kept + tail


@torch.no_grad()
def fit_scale(gp: FeatureGP, features: Features, y: Tensor, ranks: Ranks = ALONE) -> LatentScale:
    """The most probable factors for class labels y (n,) of the training series of all ranks."""
    likelihood = gp.likelihood
    assert isinstance(likelihood, Classification)
    total = float(ranks.all_reduce_sum(torch.tensor(float(len(y)), dtype=torch.float64))[0])
    mean, variance = left_out_latents(gp, features, y)
    weights = torch.ones(len(y), dtype=torch.float64, device=mean.device)
    if likelihood.class_weight is not None:
        weights = likelihood.class_weight.to(weights)[y.long()]
    lapse = _LAPSE / (total + 2)
    seen: dict[tuple[float, float], float] = {}

    def best(places: Sequence[tuple[float, float]]) -> tuple[float, float]:
        new = [place for place in places if place not in seen]
        losses = []
        for place in new:
            scale = LatentScale(*map(math.exp, place))
            chances = likelihood.log_predictive(*scale(mean, variance), y).double().exp()
            losses.append(-(weights * ((1 - lapse) * chances + lapse / likelihood.classes).log()).sum())
        if new:
            (sums,) = ranks.all_reduce_sum(torch.stack(losses).cpu())
            prior = [0.5 * sum((x / s) ** 2 for x, s in zip(place, _SPREADS, strict=True)) for place in new]
            seen.update(zip(new, (sums + torch.tensor(prior)).tolist(), strict=True))
        return min(places, key=lambda place: seen[place])

    # A coarse grid, then steps to the best of eight neighbours, halved where none is better.
    at = best(list(product(*_GRID)))
    steps = [(grid[1] - grid[0]) / 2 for grid in _GRID]
    halvings = 0
    while halvings < _HALVINGS and len(seen) < _LARGEST_SEARCH:
        near = best([(at[0] + i * steps[0], at[1] + j * steps[1]) for i, j in product((0, -1, 1), repeat=2)])
        if near == at:
            steps, halvings = [step / 2 for step in steps], halvings + 1
        at = near
    return LatentScale(math.exp(at[0]), math.exp(at[1]))
