r"""A committee of Gaussian processes on views of the series: the default model of the estimators.

Every member is a regression on a sum of kernels (`ensemble.recipes`), its posterior in closed form
(`ensemble.regression`). Latents are averaged,

.. math:: \mu = \sum_k w_k \mu_k, \qquad v = \sum_k w_k (v_k + (\mu_k - \mu)^2),

and become class probabilities by one link (`ensemble.link`); numbers are a mixture of the members' normal
distributions with recalibrated tails.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.ensemble.link import ClassLink
from siggpde.ensemble.mixture import NormalMixture
from siggpde.ensemble.recalibration import Recalibration
from siggpde.ensemble.recipes import Recipe
from siggpde.ensemble.regression import Regression
from siggpde.paths import SeriesBatch
from siggpde.views.base import Block, Rows
from siggpde.views.standard import Standard

_CHUNK = 1024
_LARGEST_CHUNK = 2**24  # numbers of series handled at a time


class Latents(NamedTuple):
    """Mean (n, outputs) and variance (n,) of the committee's latents."""

    mean: Tensor
    variance: Tensor


@dataclass
class ViewMember:
    """A recipe of kernels and its regression; `norms` are the rows of the landmarks before a power, if it has one.

    `score`: leave-one-out loss, in nats a series.
    """

    recipe: Recipe
    regression: Regression
    norms: Rows | None
    score: float

    def predict(self, rows: dict[str, Rows]) -> tuple[Tensor, Tensor]:
        """Mean (n, outputs) and variance (n,) of the latents."""
        return self.regression.predict(self.mixed(rows))

    def mixed(self, rows: dict[str, Rows]) -> Rows:
        """The rows of the member's own kernel, from those of all kernels."""
        return self.recipe.mix(rows, Rows(torch.empty(0), torch.empty(0)) if self.norms is None else self.norms)

    def with_regression(self, regression: Regression) -> ViewMember:
        return replace(self, regression=regression)

    def to(self, device: torch.device | str) -> ViewMember:
        norms = None if self.norms is None else Rows(*(part.to(device) for part in self.norms))
        return replace(self, regression=self.regression.to(device), norms=norms)


@dataclass
class ViewCommittee:
    """Members and their weights (K,), which sum to 1; `link` for classes, `recalibration` for numbers.

    `landmarks` are the series, standardised, that all blocks and members refer to; `class_weights` (classes,) what a
    series of each class counts, 1 on average over the training series, None for all alike. `spans` keeps what updates
    need of the landmarks (`ensemble.updating`) from one to the next, and is not part of the model.
    """

    standard: Standard
    landmarks: SeriesBatch
    blocks: list[Block]
    members: list[ViewMember]
    weights: Tensor
    link: ClassLink | None = None
    recalibration: Recalibration | None = None
    class_weights: Tensor | None = None
    spans: list[Tensor] | None = field(default=None, repr=False, compare=False)

    @property
    def device(self) -> torch.device:
        """The device of the members, on which batches have to be."""
        return self.weights.device

    def to(self, device: torch.device | str) -> ViewCommittee:
        """Moves everything to a device, in place, and returns the committee; after an error nothing has moved."""
        moved = replace(
            self,
            standard=self.standard.to(device),
            landmarks=self.landmarks.to(torch.device(device)),
            blocks=[block.to(device) for block in self.blocks],
            members=[member.to(device) for member in self.members],
            weights=self.weights.to(device),
            link=None if self.link is None else self.link.to(device),
            class_weights=None if self.class_weights is None else self.class_weights.to(device),
            spans=None,
        )
        vars(self).update(vars(moved))
        return self

    def rows(self, batch: SeriesBatch) -> dict[str, Rows]:
        """The rows of all kernels at n series."""
        seen = self.standard(batch)
        rows: dict[str, Rows] = {}
        for block in self.blocks:
            rows |= block.rows(seen)
        return rows

    def member_latents(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        """Means (K, n, outputs) and variances (K, n) of the members' latents."""
        means, variances = [], []
        size = max(1, min(_CHUNK, _LARGEST_CHUNK // (batch.values.shape[1] * batch.channels)))
        for chunk in batch.split(size):
            rows = self.rows(chunk)
            predictions = [member.predict(rows) for member in self.members]
            means.append(torch.stack([mean for mean, _ in predictions]))
            variances.append(torch.stack([variance for _, variance in predictions]))
        return torch.cat(means, dim=1), torch.cat(variances, dim=1)

    def latents(self, batch: SeriesBatch) -> Latents:
        """Mean and variance of the committee's latents."""
        return average_latents(*self.member_latents(batch), self.weights)

    def probabilities(self, batch: SeriesBatch) -> Tensor:
        """Class probabilities (n, classes) in float64, rows summing to 1."""
        assert self.link is not None
        chances = self.link.probabilities(*self.latents(batch))
        return chances / chances.sum(dim=1, keepdim=True)

    def mixture(self, batch: SeriesBatch) -> NormalMixture:
        """The predictive distribution of numbers."""
        means, variances = self.member_latents(batch)
        noises = [member.regression.noise * member.regression.amplitude for member in self.members]
        total = variances + torch.tensor(noises, dtype=variances.dtype, device=variances.device)[:, None]
        return NormalMixture(means[:, :, 0], total, self.weights, self.recalibration)

    def mean_and_variance(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        """Mean and variance of y, two (n,)."""
        return self.mixture(batch).mean_and_variance()

    def log_predictive(self, batch: SeriesBatch, y: Tensor) -> Tensor:
        """log p(y | x) of every series, (n,)."""
        y = y.to(self.device)
        if self.link is None:
            return self.mixture(batch).log_density(y)
        return self.probabilities(batch).gather(1, y.long()[:, None])[:, 0].log()

    def quantiles(self, batch: SeriesBatch, probabilities: list[float]) -> Tensor:
        """Quantiles of y, (n, probabilities)."""
        return self.mixture(batch).quantiles(probabilities)


def average_latents(means: Tensor, variances: Tensor, weights: Tensor) -> Latents:
    """Of the members' means (K, n, outputs) and variances (K, n): what they disagree about is variance too."""
    share = weights.to(means)
    mean = (share[:, None, None] * means).sum(0)
    disagreement = (means - mean).square().mean(2)
    return Latents(mean, (share[:, None] * (variances + disagreement)).sum(0))
