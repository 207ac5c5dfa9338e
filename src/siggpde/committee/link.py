"""From the latents of a committee to class probabilities (docs/design.md, Link and Nesting)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from siggpde.committee.regression import Targets
from siggpde.views.base import Learned

_PROBIT = math.pi / 8
_LAPSE = 0.3
_USUAL = 0.999  # the quantile of the variances of left-out series above which variance counts
_TEMPER = 2.0  # of the evidence against labels that mean nothing
_LOWEST, _HIGHEST = math.log(0.25), math.log(512.0)
_LARGEST_EXPONENT = 80.0
_CHUNK = 2**22
_OPTIONS = {"maxiter": 200, "maxfun": 400, "ftol": 1e-10, "gtol": 1e-6}


@dataclass
class ClassLink(Learned):
    """A (classes, classes), b (classes,), the usual variance, the lapse, which is the share of labels nothing foresees,
    the `frequencies` (classes,) of the training series, and the probability that the series tell `nothing` more."""

    mixing: Tensor
    offset: Tensor
    usual_variance: float
    lapse: float
    frequencies: Tensor | None = None
    nothing: float = 0.0

    @torch.no_grad()
    def probabilities(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Returns (n, classes), from mean latents (n, classes) and variances (n,)."""
        classes = mean.shape[1]
        excess = (variance - self.usual_variance).clamp_min(0.0)
        rows = max(1, _CHUNK // classes**2)
        parts = map(partial(_chances, self.mixing, self.offset), mean.split(rows), excess.split(rows))
        chances = torch.cat(list(parts)) * (1 - self.lapse) + self.lapse / classes
        if self.frequencies is None:
            return chances
        return (1 - self.nothing) * chances + self.nothing * self.frequencies


def _chances(mixing: Tensor, offset: Tensor, mean: Tensor, excess: Tensor) -> Tensor:
    """Returns p_k ∝ 1 / sum_i exp((l_i - l_k) / sqrt(1 + pi/8 w g_ki)), (n, classes), from mean latents and w (n,),
    with g_ki = (A_k - A_i) C (A_k - A_i)^T, C_kk = 1 and C_ki = -1 / (c - 1), for the sum of all latents is known."""
    logits = mean @ mixing.T + offset
    if not bool((excess > 0).any()):
        return torch.softmax(logits, dim=1)
    classes = len(offset)
    eye = torch.eye(classes, dtype=mixing.dtype, device=mixing.device)
    spread = mixing @ ((classes * eye - 1) / (classes - 1)) @ mixing.T
    variances = spread.diagonal()
    pairs = (variances[:, None] + variances - 2 * spread).clamp_min(0.0)
    shrink = 1 / (1 + _PROBIT * excess[:, None, None] * pairs).sqrt()
    gaps = (logits[:, None, :] - logits[:, :, None]) * shrink
    chances = 1 / gaps.clamp_max(_LARGEST_EXPONENT).exp().sum(dim=2)
    return chances / chances.sum(dim=1, keepdim=True)


def fit_link(mean: Tensor, variance: Tensor, targets: Targets) -> ClassLink:
    """Returns the most probable link for left-out series with mean latents (n, classes) and variances (n,), at excess
    variance 0, with the priors log temperature about N(log 4, 1), A about N(temperature I, 1) and b about N(0, 1).
    Labels mean nothing with probability 1 / (1 + exp(L / 2)), L being the gain in log likelihood, counted once a
    group."""
    from scipy.optimize import minimize  # noqa: PLC0415 - takes long to import, and predictions need none

    classes, n = mean.shape[1], len(targets)
    lapse = _LAPSE / (n + 2)
    labels = targets.y.long()[:, None]
    weights = targets.counts

    def log_likelihood(logits: Tensor) -> Tensor:
        chances = torch.softmax(logits, dim=1).gather(1, labels)[:, 0]
        return weights @ ((1 - lapse) * chances + lapse / classes).log()

    def loss_at(logarithm: float) -> float:
        return 0.5 * (logarithm - math.log(4.0)) ** 2 - float(log_likelihood(math.exp(logarithm) * mean))

    # More than one minimum is possible where every series is predicted right: a coarse search first.
    grid = np.linspace(_LOWEST, _HIGHEST, 23)
    coarse = int(np.argmin(list(map(loss_at, grid))))
    low, high = grid[max(0, coarse - 1)], grid[min(len(grid) - 1, coarse + 1)]
    temperature = math.exp(minimize_bounded(loss_at, float(low), float(high), steps=10))
    start = temperature * torch.eye(classes, classes + 1, dtype=torch.float64, device=mean.device)

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        link = torch.tensor(values).to(start).view_as(start).requires_grad_()
        with torch.enable_grad():
            value = 0.5 * (link - start).square().sum() - log_likelihood(mean @ link[:, :-1].T + link[:, -1])
            (gradient,) = torch.autograd.grad(value / n, [link])
        return float(value.detach()) / n, gradient.flatten().cpu().numpy()

    result = minimize(loss, start.flatten().cpu().numpy(), jac=True, method="L-BFGS-B", options=_OPTIONS)
    best = torch.tensor(result.x).to(start).view_as(start)
    link = best if bool(torch.isfinite(best).all()) else start
    usual = float(variance.quantile(_USUAL)) if n else 0.0
    counts = torch.zeros(classes, dtype=torch.float64, device=mean.device).index_add_(0, labels[:, 0], weights)
    frequencies = counts / counts.sum()
    gain = float(log_likelihood(mean @ link[:, :-1].T + link[:, -1]) - weights @ frequencies.log()[labels[:, 0]])
    counted = 1.0 if targets.groups is None else len(targets.groups.unique()) / n
    nothing = 1 / (1 + math.exp(min(counted * gain / _TEMPER, _LARGEST_EXPONENT)))
    return ClassLink(link[:, :-1].clone(), link[:, -1].clone(), usual, lapse, frequencies, nothing)


_DRAWS = 256


@torch.no_grad()
def probability_spread(link: ClassLink, mean: Tensor, variance: Tensor) -> Tensor:
    """Returns standard deviations (n, classes) of probabilities, for mean latents (n, classes) and variances (n,);
    draws are the same for all series and calls, and come in pairs of opposite sign."""
    classes = mean.shape[1]
    half = torch.randn(_DRAWS // 2, classes, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    half = (half - half.mean(1, keepdim=True)) * (classes / (classes - 1)) ** 0.5
    draws = torch.cat([half, -half]).to(mean)
    rows = max(1, _CHUNK // (_DRAWS * classes))
    parts = []
    for mu, v in zip(mean.split(rows), variance.split(rows), strict=True):
        latents = mu[:, None] + v.sqrt()[:, None, None] * draws
        chances = link.probabilities(latents.flatten(0, 1), torch.zeros_like(latents[:, :, 0]).flatten())
        parts.append(chances.view(len(mu), _DRAWS, classes).std(1, correction=0))
    return torch.cat(parts)


_RATIO = (math.sqrt(5) - 1) / 2


def minimize_bounded(function: Callable[[float], float], low: float, high: float, steps: int = 16) -> float:
    """Returns where a function that falls and then rises between `low` and `high` is least, to (high - low) / 2000, by
    golden-section search; scipy's, which is more exact, moves probabilities by up to 1.2e-4."""
    left, right = high - _RATIO * (high - low), low + _RATIO * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(steps):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _RATIO * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _RATIO * (high - low)
            at_right = function(right)
    return (low + high) / 2
