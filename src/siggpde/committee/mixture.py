"""The predictive distribution of numbers: a mixture of the members' normal distributions, its tails recalibrated."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

from siggpde.committee.recalibration import Recalibration, deviations, mixture_quantile
from siggpde.gp.quadrature import as_probabilities


@dataclass(frozen=True)
class NormalMixture:
    """Means and variances of y from every member, two (K, n), with weights (K,) that sum to 1."""

    means: Tensor
    variances: Tensor
    weights: Tensor
    recalibration: Recalibration | None = None

    def mean_and_variance(self) -> tuple[Tensor, Tensor]:
        """Two (n,)."""
        weights = self.weights[:, None]
        mean = (weights * self.means).sum(dim=0)
        variance = (weights * (self.variances + (self.means - mean).square())).sum(dim=0)
        return mean, variance * (1.0 if self.recalibration is None else self.recalibration.spread**2)

    def log_density(self, y: Tensor) -> Tensor:
        """log p(y), (n,)."""
        from torch.distributions import Normal  # noqa: PLC0415 - takes long to import, and predictions need none

        weighted = Normal(self.means, self.variances.sqrt()).log_prob(y.double()) + self.weights.log()[:, None]
        density = weighted.logsumexp(dim=0)
        return density if self.recalibration is None else self.recalibration.log_density(density, self.deviations(y))

    def deviations(self, y: Tensor) -> Tensor:
        """How far out y (n,) is: Phi^-1 of the distribution function before recalibration, (n,)."""
        return deviations(y.double(), self.means, self.variances.sqrt(), self.weights)

    def quantiles(self, levels: list[float]) -> Tensor:
        """(n, levels)."""
        for level in levels:
            as_probabilities(level, self.weights[:0])  # refuses what is not between 0 and 1
        z_at = NormalDist().inv_cdf if self.recalibration is None else self.recalibration.z_quantile
        spreads = self.variances.sqrt()
        columns = [mixture_quantile(z_at(level), self.means, spreads, self.weights) for level in levels]
        return torch.stack(columns, dim=1)
