"""Exact leave-one-out predictions of a Gaussian-process regression.

Before a fit, `best_noise` compares many noise levels by one eigendecomposition: with K = F F^T, targets y and noise s,
leaving row i out predicts y_i - [A y]_i / A_ii where A = (K + s I)^-1.

After it, `left_out` leaves series out of the exact posterior. With features s_n, targets t_n and Sigma^-1 =
I + sum s_n s_n^T / noise, v_n = s_n^T Sigma s_n and h_n = v_n / noise, the latent of series n is left with

    mean (mu_n - h_n t_n) / (1 - h_n)    and    variance v_n / (1 - h_n).

Where the noise is small h_n is almost 1. All of it is computed in float64, whatever the model's dtype, and 1 - h_n is
never below its value for a series that no other is like, noise / (noise + |s_n|²).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.gp.inducing import Projection
from siggpde.gp.likelihoods import Gaussian
from siggpde.gp.triangular import times_lower

NOISES = tuple(10.0 ** (-k / 2) for k in range(-4, 17))
_TIE = 1e-6
_SMALLEST_AMPLITUDE = 1e-12


class BestNoise(NamedTuple):
    """The noise level of the least score, minus the mean log density of left-out targets, and the amplitude there."""

    score: float
    noise: float
    amplitude: float

    def amplitude_and_noise(self, spread: float) -> tuple[float, float]:
        """Returns amplitude and noise variance for targets with this spread; features have mean square 1 here.

        The amplitude, at unit spread, is 1e-12 at least: constant targets would have none.
        """
        amplitude = max(self.amplitude, _SMALLEST_AMPLITUDE) * spread**2
        return amplitude, amplitude * self.noise


def best_noise(features: Tensor, y: Tensor) -> BestNoise:
    """Returns the best of `NOISES` for features (n, M) and targets y (n,), judged by left-out targets.

    The score is the log density under the leave-one-out mean and variance, at the amplitude that explains y best.
    """
    n, count = features.shape
    if not bool(torch.isfinite(features).all()):
        raise ArithmeticError("leave-one-out needs finite features")
    targets = y[:, None].to(features)
    dual = n <= count
    share, vectors = torch.linalg.eigh(features @ features.T if dual else features.T @ features)
    share = share.clamp_min(0.0)
    left = vectors if dual else features @ vectors / share.sqrt().clamp_min(1e-150)
    if not dual:
        kept = share > 1e-13 * share[-1]
        share, left = share[kept], left[:, kept]
    turned = left.T @ targets
    outside = targets - left @ turned if not dual else torch.zeros_like(targets)
    best: BestNoise | None = None
    for noise in NOISES:
        gain = 1.0 / (share + noise)
        solved = left @ (gain[:, None] * turned) + outside / noise
        squares = left.square()
        inverse = squares @ gain + (0.0 if dual else (1 - squares.sum(dim=1)).clamp_min(0.0) / noise)
        amplitude = (targets * solved).mean().clamp_min(1e-300)
        variance = amplitude / inverse
        squared = (solved / inverse[:, None])[:, 0].square()
        score = float((0.5 * (squared / variance + variance.log() + math.log(2 * math.pi))).mean())
        # Where all series are predicted exactly, scores differ by rounding alone: then the most noise is the safest.
        if math.isfinite(score) and (best is None or score < best.score - _TIE):
            best = BestNoise(score, noise, float(amplitude))
    if best is None:
        raise ArithmeticError("no noise level gave finite leave-one-out errors")
    return best


def left_out(
    likelihood: Gaussian, root: Tensor, mean: Tensor, projection: Projection, y: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns mean and variance, two (n, 1), of the latent of every series from all the other series.

    `root` (M, M), lower triangular, and `mean` (1, M) are those of the exact q(u), which the n series with targets y
    were part of. The tail, which no inducing variable explains, is added as it is.
    """
    features, targets = projection.features.double(), y.double()[:, None]
    latent_mean = features @ mean.double().T
    variance = times_lower(features, root.double()).square().sum(dim=1, keepdim=True)
    precision = 1 / likelihood.noise.detach()
    alone = 1 / (1 + precision * (projection.variance - projection.tail).detach()[:, None])
    rest = torch.maximum(1 - variance * precision, alone)
    return targets + (latent_mean - targets) / rest, variance / rest + projection.tail.detach()[:, None]
