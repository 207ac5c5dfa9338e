"""A committee: several models of one data set, and the average of their predictions.

A few hundred series do not decide which way of making paths is the best. The committee keeps the best model of each of
several kinds; its predictive distribution is a mixture,

    p(y | x) = sum_k w_k p_k(y | x).

Class probabilities are sharpened, p^s / sum p^s, and the tails of regressions recalibrated (`committee.mixture`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from siggpde.committee.mixture import NormalMixture, Recalibration
from siggpde.committee.novelty import Novelty
from siggpde.gp.likelihoods import Gaussian
from siggpde.gp.model import SignatureGP
from siggpde.gp.trainer import History
from siggpde.series import PathTransform, SeriesBatch

_CHUNK = 1024


@dataclass
class Member:
    """A model and the transform that makes its paths.

    `settings` are those of the candidate it was built from, `score` its leave-one-out or validation NLPP.
    """

    transform: PathTransform
    model: SignatureGP
    settings: dict[str, Any]
    score: float | None
    history: History | None = None

    def paths(self, batch: SeriesBatch) -> SeriesBatch:
        """The paths of the series, as the model takes them."""
        return self.transform.paths(batch)

    def predict(self, batch: SeriesBatch) -> Any:
        """The model's prediction: class probabilities (n, classes), or mean and variance of y, two (n,)."""
        paths = self.paths(batch)
        return self.model.predict(paths.values, lengths=paths.lengths)


@dataclass
class Committee:
    """Members and their weights (K,), which sum to 1.

    `recalibration` corrects the tails of regressions; class probabilities are raised to the power `sharpness`.
    """

    members: list[Member]
    weights: Tensor
    recalibration: Recalibration | None = None
    sharpness: float = 1.0
    novelty: Novelty | None = None

    @property
    def device(self) -> torch.device:
        """The device of the members, on which batches have to be."""
        return self.weights.device

    def to(self, device: torch.device | str) -> Committee:
        """Moves the members to a device, in place, and returns the committee."""
        for member in self.members:
            member.model.to(device)
            member.transform.to(device)
        self.weights = self.weights.to(device)
        return self

    @torch.no_grad()
    def member_latents(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        """Means and variances of the members' latents, two (K, n, latents) in float64."""
        parts = []
        for member in self.members:
            paths = member.paths(batch)
            parts.append([part.double() for part in member.model.predict_f(paths.values, lengths=paths.lengths)])
        return torch.stack([mean for mean, _ in parts]), torch.stack([variance for _, variance in parts])

    def probabilities(self, batch: SeriesBatch) -> Tensor:
        """Class probabilities (n, classes) in float64, rows summing to 1."""
        averages = []
        for chunk in batch.split(_CHUNK):
            weighted = [weight * member.predict(chunk).double() for weight, member in self._weighted()]
            averages.append(torch.stack(weighted).sum(dim=0))
        probabilities = torch.cat(averages)
        if self.sharpness != 1.0:
            probabilities = probabilities**self.sharpness
        return probabilities / probabilities.sum(dim=1, keepdim=True)

    def moments(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        """Means and variances of y from every member, two (K, n) in float64."""
        means, variances = [], []
        for chunk in batch.split(_CHUNK):
            predictions = [member.predict(chunk) for member in self.members]
            means.append(torch.stack([mean.double() for mean, _ in predictions]))
            variances.append(torch.stack([variance.double() for _, variance in predictions]))
        return torch.cat(means, dim=1), torch.cat(variances, dim=1)

    def mean_and_variance(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        """Mean and variance of y, two (n,)."""
        return self._mixture(batch).mean_and_variance()

    def _mixture(self, batch: SeriesBatch) -> NormalMixture:
        return NormalMixture(*self.moments(batch), self.weights, self.recalibration)

    def log_predictive(self, batch: SeriesBatch, y: Tensor) -> Tensor:
        """log p(y | x) of every series, (n,)."""
        y = y.to(self.device)
        if self.sharpness != 1.0:
            return self.probabilities(batch).log().gather(1, y.long()[:, None])[:, 0]
        if self.recalibration is not None:
            return self._mixture(batch).log_density(y)
        mixtures = []
        for chunk, targets in zip(batch.split(_CHUNK), y.split(_CHUNK), strict=True):
            weighted = []
            for weight, member in self._weighted():
                paths = member.paths(chunk)
                density = member.model.log_predictive(paths.values, targets, lengths=paths.lengths)
                weighted.append(density.double() + weight.log())
            mixtures.append(torch.stack(weighted).logsumexp(dim=0))
        return torch.cat(mixtures)

    def quantiles(self, batch: SeriesBatch, probabilities: list[float]) -> Tensor:
        """Quantiles of y, (n, probabilities)."""
        if all(isinstance(member.model.likelihood, Gaussian) for member in self.members):
            return self._mixture(batch).quantiles(probabilities)
        if len(self.members) > 1:
            raise NotImplementedError("quantiles of several members are there for the Gaussian likelihood only")
        model, quantiles = self.members[0].model, []
        for chunk in batch.split(_CHUNK):
            paths = self.members[0].paths(chunk)
            latent = model.predict_f(paths.values, lengths=paths.lengths)
            quantiles.append(
                torch.stack([model.likelihood.quantile(*latent, p).double() for p in probabilities], dim=1)
            )
        return torch.cat(quantiles)

    def _weighted(self) -> Iterator[tuple[Tensor, Member]]:
        return iter(zip(self.weights, self.members, strict=True))
