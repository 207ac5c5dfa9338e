"""Several models of one data set, and the average of what they predict.

A few hundred series do not tell for sure which way of making paths is the best. The committee keeps the best of several
kinds; its predictive distribution is a mixture,

    p(y | x) = sum_k w_k p_k(y | x),

with weights that give the left-out series the highest probability (stacking), drawn towards equal ones where there are
few series.

The average of well calibrated probabilities is not sure enough of itself, for members err in different places. So the
average of classes is sharpened, p^s / sum p^s, by the power s that suits the left-out series best.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Normal

from siggpde.ensemble.recalibration import Recalibration, deviations, mixture_quantile
from siggpde.gp.golden import least
from siggpde.gp.likelihoods import Gaussian
from siggpde.gp.model import SignatureGP
from siggpde.gp.quadrature import as_levels
from siggpde.paths import PathTransform, SeriesBatch
from siggpde.training.history import History

_CHUNK = 1024
_PRIOR_SERIES = 10.0
_SHARPNESS_SPREAD = 0.5
_MOST_STEPS = 2000
_LEAST = -1e12  # a series that no member foresaw at all says nothing about them


@dataclass
class Member:
    """A model, how its paths are made, and how both came about. `score` is its leave-one-out or validation NLPP."""

    transform: PathTransform
    model: SignatureGP
    settings: dict[str, Any]
    score: float | None
    history: History | None = None

    def paths(self, batch: SeriesBatch) -> tuple[Tensor, Tensor | None]:
        return self.transform(batch.values, lengths=batch.lengths, times=batch.times)

    def predict(self, batch: SeriesBatch) -> Any:
        paths, lengths = self.paths(batch)
        return self.model.predict(paths, lengths=lengths)


@dataclass
class Committee:
    """Members and their weights (K,), which sum to 1; for regressions what their tails are like, for classes how much
    sharper the average should be: its probabilities are raised to the power `sharpness`."""

    members: list[Member]
    weights: Tensor
    recalibration: Recalibration | None = None
    sharpness: float = 1.0

    @property
    def device(self) -> torch.device:
        """Where the members are, and so where batches have to be."""
        return self.weights.device

    def to(self, device: torch.device | str) -> Committee:
        """Moves the members to a device, in place, and returns the committee."""
        for member in self.members:
            member.model.to(device)
            member.transform.to(device)
        self.weights = self.weights.to(device)
        return self

    def probabilities(self, batch: SeriesBatch) -> Tensor:
        """Class probabilities (n, classes) in float64, rows summing to 1."""
        parts = []
        for piece in batch.split(_CHUNK):
            found = [weight * member.predict(piece).double() for weight, member in self._weighted()]
            parts.append(torch.stack(found).sum(dim=0))
        chances = torch.cat(parts)
        if self.sharpness != 1.0:
            chances = chances**self.sharpness
        return chances / chances.sum(dim=1, keepdim=True)

    def moments(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        """Means and variances of y from every member, two (K, n) in float64."""
        means, variances = [], []
        for piece in batch.split(_CHUNK):
            found = [member.predict(piece) for member in self.members]
            means.append(torch.stack([mean.double() for mean, _ in found]))
            variances.append(torch.stack([variance.double() for _, variance in found]))
        return torch.cat(means, dim=1), torch.cat(variances, dim=1)

    def mean_and_variance(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        """Mean and variance of y, two (n,)."""
        means, variances = self.moments(batch)
        weights = self.weights[:, None]
        mean = (weights * means).sum(dim=0)
        variance = (weights * (variances + (means - mean).square())).sum(dim=0)
        return mean, variance * (1.0 if self.recalibration is None else self.recalibration.spread**2)

    def log_predictive(self, batch: SeriesBatch, y: Tensor) -> Tensor:
        """log p(y | x) of every series, (n,)."""
        y = y.to(self.device)
        if self.sharpness != 1.0:
            return self.probabilities(batch).log().gather(1, y.long()[:, None])[:, 0]
        if self.recalibration is not None:
            means, variances = self.moments(batch)
            each = Normal(means, variances.sqrt()).log_prob(y.double()) + self.weights.log()[:, None]
            z = deviations(y.double(), means, variances.sqrt(), self.weights)
            return self.recalibration.log_density(each.logsumexp(dim=0), z)
        parts = []
        for start, piece in enumerate(batch.split(_CHUNK)):
            own = y[start * _CHUNK : start * _CHUNK + len(piece)]
            found = []
            for weight, member in self._weighted():
                paths, lengths = member.paths(piece)
                found.append(member.model.log_predictive(paths, own, lengths=lengths).double() + weight.log())
            parts.append(torch.stack(found).logsumexp(dim=0))
        return torch.cat(parts)

    def quantiles(self, batch: SeriesBatch, levels: list[float]) -> Tensor:
        """Quantiles of y, (n, levels)."""
        if all(isinstance(member.model.likelihood, Gaussian) for member in self.members):
            for level in levels:
                as_levels(level, self.weights[:0])  # refuses what is not between 0 and 1
            means, variances = self.moments(batch)
            at = NormalDist().inv_cdf if self.recalibration is None else self.recalibration.level
            found = [mixture_quantile(at(level), means, variances.sqrt(), self.weights) for level in levels]
            return torch.stack(found, dim=1)
        if len(self.members) > 1:
            raise NotImplementedError("quantiles of several members are there for the Gaussian likelihood only")
        parts = []
        for piece in batch.split(_CHUNK):
            paths, lengths = self.members[0].paths(piece)
            model = self.members[0].model
            latent = model.predict_f(paths, lengths=lengths)
            found = [model.likelihood.quantile(*latent, level).double() for level in levels]
            parts.append(torch.stack(found, dim=1))
        return torch.cat(parts)

    def _weighted(self) -> Iterator[tuple[Tensor, Member]]:
        return iter(zip(self.weights, self.members, strict=True))


def stack(log_densities: Tensor) -> Tensor:
    """Weights (K,) from what every member gave the left-out series, (K, n), by expectation maximisation.

    They maximise sum_n log sum_k w_k p_kn + 10 sum_k log w_k: the second term counts as ten series more for each.
    """
    count, n = log_densities.shape
    densities = log_densities.double().clamp_min(_LEAST)
    weights = torch.full((count,), 1.0 / count, dtype=torch.float64, device=densities.device)
    for _ in range(_MOST_STEPS):
        shares = torch.softmax(densities + weights.log()[:, None], dim=0)
        before, weights = weights, (shares.sum(dim=1) + _PRIOR_SERIES) / (n + count * _PRIOR_SERIES)
        if float((weights - before).abs().max()) < 1e-9:
            break
    return weights


def sharpen(chances: Tensor, y: Tensor, weights: Tensor) -> float:
    """A power for probabilities (n, classes) of left-out series with labels y, which count by their `weights` (n,).

    It is half way, on a logarithmic scale, from 1 to the most probable one (of which the logarithm is about N(0, 0.5²)
    beforehand): members, links and weights were chosen by the same series, which makes these look surer than new ones.
    """
    logits, own = chances.double().log(), y.long()[:, None]

    def loss(logarithm: float) -> float:
        found = torch.log_softmax(math.exp(logarithm) * logits, dim=1).gather(1, own)[:, 0]
        return 0.5 * (logarithm / _SHARPNESS_SPREAD) ** 2 - float(weights @ found)

    return math.exp(least(loss, math.log(0.5), math.log(4.0)) / 2)
