"""The predictive distribution of numbers: a mixture F of the members' normal distributions, its tails recalibrated to
G(y) = T_df(Phi^-1(F(y)) / scale), whose median is that of F."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class NormalMixture:
    """Means and variances of y from every member, two (K, n), with weights (K,) that sum to 1."""

    means: Tensor
    variances: Tensor
    weights: Tensor
    recalibration: Recalibration | None = None

    def mean_and_variance(self) -> tuple[Tensor, Tensor]:
        """Returns means and variances, (n,) each."""
        weights = self.weights[:, None]
        mean = (weights * self.means).sum(dim=0)
        variance = (weights * (self.variances + (self.means - mean).square())).sum(dim=0)
        return mean, variance * (1.0 if self.recalibration is None else self.recalibration.spread**2)

    def log_density(self, y: Tensor) -> Tensor:
        """Returns log p(y), (n,)."""
        from torch.distributions import Normal  # noqa: PLC0415 - takes long to import, and predictions need none

        weighted = Normal(self.means, self.variances.sqrt()).log_prob(y.double()) + self.weights.log()[:, None]
        density = weighted.logsumexp(dim=0)
        return density if self.recalibration is None else self.recalibration.log_density(density, self.deviations(y))

    def deviations(self, y: Tensor) -> Tensor:
        """Returns Phi^-1(F(y)), (n,), before recalibration."""
        return deviations(y.double(), self.means, self.variances.sqrt(), self.weights)

    def quantiles(self, levels: list[float]) -> Tensor:
        """Returns the quantiles at these levels, (n, levels)."""
        for level in levels:
            if not 0 < level < 1:
                raise ValueError(f"p must be between 0 and 1, got {level}")
        z_at = NormalDist().inv_cdf if self.recalibration is None else self.recalibration.z_quantile
        spreads = self.variances.sqrt()
        columns = [mixture_quantile(z_at(level), self.means, spreads, self.weights) for level in levels]
        return torch.stack(columns, dim=1)


DEGREES = (3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 1e6)
_SCALES = tuple(2.0 ** (k / 16) for k in range(-32, 33))
_PRIOR_SERIES, _PRIOR_SPREAD = 30, 1.15


@dataclass(frozen=True)
class Recalibration:
    """Degrees of freedom and scale of the Student-t distribution of Phi^-1(F(y)); (1e6, 1) is nearly the identity."""

    degrees: float
    scale: float

    @property
    def spread(self) -> float:
        """The factor by which the standard deviation grows or shrinks."""
        return self.scale * math.sqrt(self.degrees / (self.degrees - 2))

    def log_density(self, log_density: Tensor, z: Tensor) -> Tensor:
        """Returns log g(y) = log f(y) + log t_df(z / scale) - log(scale phi(z)), (n,), from log f(y) and z of y."""
        from scipy import stats  # noqa: PLC0415 - takes long to import, and not all predictions need it

        t = torch.from_numpy(stats.t.logpdf((z / self.scale).cpu().numpy(), self.degrees)).to(z.device)
        normal = -0.5 * (z.square() + math.log(2 * math.pi))
        return log_density + t - math.log(self.scale) - normal

    def z_quantile(self, probability: float) -> float:
        """Returns the z below which y lies with this probability."""
        from scipy import special  # noqa: PLC0415 - takes long to import, and not all predictions need it

        return self.scale * float(special.stdtrit(self.degrees, probability))


def recalibrate(z: Tensor) -> Recalibration:
    """Returns the most probable recalibration for the deviations z (n,) of left-out series; the prior is worth 30
    series with deviations 1.15 times as large as predicted, because the same left-out series chose the settings."""
    from scipy import stats  # noqa: PLC0415 - takes long to import, and not all predictions need it

    prior = _PRIOR_SPREAD * stats.norm.ppf((np.arange(_PRIOR_SERIES) + 0.5) / _PRIOR_SERIES)
    values = np.concatenate([z.detach().double().cpu().numpy(), prior])
    best, chosen = -math.inf, Recalibration(DEGREES[-1], 1.0)
    for degrees in DEGREES:
        for scale in _SCALES:
            value = float(stats.t.logpdf(values / scale, degrees).sum()) - len(values) * math.log(scale)
            if value > best:
                best, chosen = value, Recalibration(degrees, scale)
    return chosen


def deviations(y: Tensor, means: Tensor, spreads: Tensor, weights: Tensor) -> Tensor:
    """Returns Phi^-1(F(y)), (n,), for y (n,) under mixtures of normals with means and spreads (K, n) and weights (K,),
    from the logarithm of F or of 1 - F, whichever is smaller, which is accurate however far out y is."""
    from scipy import special  # noqa: PLC0415 - takes long to import, and not all predictions need it

    standardised = ((y - means) / spreads).detach().double().cpu().numpy()
    log_weights = weights.detach().double().log().cpu().numpy()[:, None]
    below = special.logsumexp(log_weights + special.log_ndtr(standardised), axis=0)
    above = special.logsumexp(log_weights + special.log_ndtr(-standardised), axis=0)
    z = np.where(below < above, special.ndtri_exp(below), -special.ndtri_exp(above))
    return torch.from_numpy(z).to(means.device)


def mixture_quantile(z: float, means: Tensor, spreads: Tensor, weights: Tensor) -> Tensor:
    """Returns the y (n,) with Phi^-1(F(y)) = z, by bisection between the quantiles of the single normals."""
    device = means.device
    means, spreads, weights = means.cpu(), spreads.cpu(), weights.cpu()  # once, for scipy
    single = means + z * spreads
    low, high = single.amin(dim=0), single.amax(dim=0)
    for _ in range(60):
        middle = (low + high) / 2
        under = deviations(middle, means, spreads, weights) < z
        low, high = torch.where(under, middle, low), torch.where(under, high, middle)
    return ((low + high) / 2).to(device)
