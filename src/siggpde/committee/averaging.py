r"""The average of members with Gaussian latents, whatever they are made of.

.. math:: \mu = \sum_k w_k \mu_k, \qquad v = \sum_k w_k (v_k + (\mu_k - \mu)^2).

The latents become class probabilities by one link (`committee.link`); numbers are a mixture of the members' normal
distributions with recalibrated tails.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from siggpde.committee.link import ClassLink
from siggpde.committee.mixture import NormalMixture
from siggpde.committee.novelty import Novelty, Scores
from siggpde.committee.recalibration import Recalibration
from siggpde.committee.recipes import Recipe
from siggpde.series import SeriesBatch

_CHUNK = 1024
_LARGEST_CHUNK = 2**24  # numbers of series handled at a time


class Latents(NamedTuple):
    """Mean (n, outputs) and variance (n,) of the committee's latents."""

    mean: Tensor
    variance: Tensor


class AveragedMember(Protocol):
    """What all members have: their kernel, leave-one-out loss (nats a series) and variance of the noise of numbers."""

    recipe: Recipe
    score: float

    @property
    def noise_variance(self) -> float: ...


class Judged(NamedTuple):
    """Means (K, n, outputs) and variances (K, n) of the members' latents, and how unlike the training series the n
    series are; None where that is not known."""

    means: Tensor
    variances: Tensor
    scores: Scores | None


class AveragedMembers(ABC):
    """Members and their weights (K,), which sum to 1; `link` for classes, `recalibration` for numbers.

    With `novelty`, predictions of series that are unlike all training series tend to what is known without looking.
    `tried` are the candidates of the fit, for people: name, loss of left-out series and weight, 0 for most.
    """

    weights: Tensor
    link: ClassLink | None
    recalibration: Recalibration | None
    novelty: Novelty | None
    tried: Sequence[tuple[str, float, float]] = ()

    @property
    @abstractmethod
    def averaged(self) -> Sequence[AveragedMember]:
        """The members."""

    @abstractmethod
    def chunk_latents(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        """Means (K, n, outputs) and variances (K, n) of the members' latents, for few series."""

    @property
    def device(self) -> torch.device:
        """The device of the members, on which batches have to be."""
        return self.weights.device

    def member_latents(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        """Means (K, n, outputs) and variances (K, n) of the members' latents."""
        size = max(1, min(_CHUNK, _LARGEST_CHUNK // (batch.values.shape[1] * batch.channels)))
        means, variances = self.chunk_latents(batch[:size])
        if len(batch) <= size:
            return means, variances
        # Into one place: parts kept from chunk to chunk would keep the memory between them from being used again.
        count, _, outputs = means.shape
        whole = means.new_empty(count, len(batch), outputs), variances.new_empty(count, len(batch))
        whole[0][:, :size], whole[1][:, :size] = means, variances
        for start in range(size, len(batch), size):
            part = slice(start, start + size)
            whole[0][:, part], whole[1][:, part] = self.chunk_latents(batch[part])
        return whole

    def latents(self, batch: SeriesBatch) -> Latents:
        """Mean and variance of the committee's latents."""
        return average_latents(*self.member_latents(batch), self.weights)

    def judged(self, batch: SeriesBatch) -> Judged:
        """Everything that predictions of the series are made of."""
        means, variances = self.member_latents(batch)
        if self.novelty is None or batch.facts is None:
            return Judged(means, variances, None)
        return Judged(means, variances, self.novelty.scores(self.target_variances(variances), batch.facts))

    def target_variances(self, variances: Tensor) -> Tensor:
        """Variances (K, n) of targets, from those of latents."""
        noises = [member.noise_variance for member in self.averaged]
        return variances + torch.tensor(noises, dtype=variances.dtype, device=variances.device)[:, None]

    def probabilities(self, batch: SeriesBatch, judged: Judged | None = None) -> Tensor:
        """Class probabilities (n, classes) in float64, rows summing to 1; `judged`, if given, is of this batch."""
        assert self.link is not None
        judged = judged or self.judged(batch)
        chances = self.link.probabilities(*average_latents(judged.means, judged.variances, self.weights))
        chances = chances / chances.sum(dim=1, keepdim=True)
        if judged.scores is None or self.link.frequencies is None:
            return chances
        assert self.novelty is not None
        return self.novelty.mixed(chances, judged.scores, self.link.frequencies)

    def mixture(self, batch: SeriesBatch, judged: Judged | None = None) -> NormalMixture:
        """The predictive distribution of numbers: far from all training series it has their mean 0 and variance 1."""
        judged = judged or self.judged(batch)
        means, total = judged.means[:, :, 0], self.target_variances(judged.variances)
        if judged.scores is not None:
            assert self.novelty is not None
            trust = self.novelty.trust(judged.scores.score).to(means)
            total = trust * total + (1 - trust) * (1 + trust * means.square())
            means = trust * means
        return NormalMixture(means, total, self.weights, self.recalibration)

    def mean_and_variance(self, batch: SeriesBatch, judged: Judged | None = None) -> tuple[Tensor, Tensor]:
        """Mean and variance of y, two (n,)."""
        return self.mixture(batch, judged).mean_and_variance()

    def log_predictive(self, batch: SeriesBatch, y: Tensor) -> Tensor:
        """log p(y | x) of every series, (n,)."""
        y = y.to(self.device)
        if self.link is None:
            return self.mixture(batch).log_density(y)
        return self.probabilities(batch).gather(1, y.long()[:, None])[:, 0].log()

    def quantiles(self, batch: SeriesBatch, probabilities: list[float], judged: Judged | None = None) -> Tensor:
        """Quantiles of y, (n, probabilities)."""
        return self.mixture(batch, judged).quantiles(probabilities)


def average_latents(means: Tensor, variances: Tensor, weights: Tensor) -> Latents:
    """Of the members' means (K, n, outputs) and variances (K, n): what they disagree about is variance too."""
    share = weights.to(means)
    mean = (share[:, None, None] * means).sum(0)
    disagreement = (means - mean).square().mean(2)
    return Latents(mean, (share[:, None] * (variances + disagreement)).sum(0))
