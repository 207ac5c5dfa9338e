"""Weights of the members of a committee, and the power that its average is raised to, from left-out series.

Weights maximise the probability of the left-out series (stacking), drawn towards equal weights where there are few. The
average of well calibrated probabilities is not confident enough, for the members err on different series, so the
average of class probabilities is sharpened, p^s / sum p^s, by the power s that suits the left-out series best.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from siggpde.gp.bounded_search import minimize_bounded

_PRIOR_SERIES = 10.0
_SHARPNESS_SPREAD = 0.5
_MAX_STEPS = 2000
_MIN_LOG_DENSITY = -1e12  # a series to which every member gave a lower density does not tell them apart


def stack(log_densities: Tensor) -> Tensor:
    """Weights w (K,) from the log densities log p_kn (K, n) of members k at left-out series n.

    By expectation maximisation of sum_n log sum_k w_k p_kn + 10 sum_k log w_k, where the second term is a prior worth
    ten series for each member.
    """
    count, n = log_densities.shape
    densities = log_densities.double().clamp_min(_MIN_LOG_DENSITY)
    weights = torch.full((count,), 1.0 / count, dtype=torch.float64, device=densities.device)
    for _ in range(_MAX_STEPS):
        shares = torch.softmax(densities + weights.log()[:, None], dim=0)
        before, weights = weights, (shares.sum(dim=1) + _PRIOR_SERIES) / (n + count * _PRIOR_SERIES)
        if float((weights - before).abs().max()) < 1e-9:
            break
    return weights


def sharpen(probabilities: Tensor, y: Tensor, weights: Tensor) -> float:
    """The power s for probabilities (n, classes) of left-out series with labels y (n,) and `weights` (n,) in the loss.

    s = sqrt(s*), where s* is the most probable power under the prior log s ~ N(0, 0.5²). Half of the way on the
    logarithmic scale, because members, links and weights were chosen by the same series, which makes predictions for
    these look more certain than those for new ones.
    """
    log_p, label = probabilities.double().log(), y.long()[:, None]

    def loss(logarithm: float) -> float:
        log_likelihood = torch.log_softmax(math.exp(logarithm) * log_p, dim=1).gather(1, label)[:, 0]
        return 0.5 * (logarithm / _SHARPNESS_SPREAD) ** 2 - float(weights @ log_likelihood)

    return math.exp(minimize_bounded(loss, math.log(0.5), math.log(4.0)) / 2)
