"""A committee on views for likelihoods without closed form: members with a variational posterior each.

Kernels and landmarks are those of a `ViewCommittee`; every member has a `FeatureGP` in place of a regression. Class
probabilities and the distributions of numbers are averaged with the weights of the members. Latents of classes are
scaled first, by what left-out series say (`committee.variational_calibration`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from siggpde.committee.feature_gp import FeatureGP, Features, whitened
from siggpde.committee.mixture_quantiles import mixture_quantiles
from siggpde.committee.novelty import Novelty
from siggpde.committee.recipes import Recipe
from siggpde.committee.variational_calibration import LatentScale
from siggpde.gp.likelihoods import Likelihood
from siggpde.series import SeriesBatch
from siggpde.training.history import History
from siggpde.views.base import Block, Rows, rows_of
from siggpde.views.standard import Standard

MemberLatents: TypeAlias = tuple[Tensor, Tensor]

_CHUNK = 1024
_LARGEST_CHUNK = 2**24  # numbers of series handled at a time


@dataclass
class VariationalMember:
    """A recipe of kernels, the whitening R (m, r) of its landmarks and a Gaussian process on their features.

    `norms` are the rows of the landmarks before a power, if the recipe has one; `score` is the leave-one-out loss of
    the regression by which the recipe was chosen; `scale` is what its latents are multiplied by for predictions.
    """

    recipe: Recipe
    whitening: Tensor
    norms: Rows | None
    gp: FeatureGP
    score: float
    history: History | None = None
    scale: LatentScale = field(default_factory=LatentScale)

    @property
    def alpha(self) -> Tensor:
        """Weights of the landmarks (m, latents): the mean of the latents, scaled, is k(X, landmarks) alpha."""
        return self.scale.mean * (self.whitening @ self.gp.weights)

    def features(self, rows: dict[str, Rows]) -> Features:
        """The features of n series, from the rows of all kernels."""
        landmarks = Rows(torch.empty(0), torch.empty(0)) if self.norms is None else self.norms
        return whitened(self.recipe.mix(rows, landmarks), self.whitening)

    def to(self, device: torch.device | str) -> VariationalMember:
        norms = None if self.norms is None else Rows(*(part.to(device) for part in self.norms))
        gp = copy.deepcopy(self.gp).to(device)
        return replace(self, whitening=self.whitening.to(device), norms=norms, gp=gp)

    def state(self) -> dict[str, Any]:
        """Everything but the history, as plain values and tensors."""
        gp = self.gp
        return {
            "recipe": self.recipe.state(),
            "whitening": self.whitening,
            "norms": None if self.norms is None else self.norms.variance,
            "likelihood": gp.likelihood.settings(),
            "model": dict(gp.state_dict()),
            "score": self.score,
            "scale": asdict(self.scale),
        }

    @staticmethod
    def from_state(state: dict[str, Any]) -> VariationalMember:
        gp = FeatureGP(Likelihood.from_settings(state["likelihood"]), state["whitening"].shape[1])
        gp.load_state_dict(state["model"])
        norms = None if state["norms"] is None else Rows(torch.empty(0), state["norms"])
        recipe, scale = Recipe.from_state(state["recipe"]), LatentScale(**state.get("scale", {}))
        return VariationalMember(recipe, state["whitening"], norms, gp, state["score"], scale=scale)


@dataclass
class VariationalViewCommittee:
    """Members and their weights (K,), which sum to 1; `landmarks` are the standardised series they refer to;
    `novelty` tells how unlike the training series a series is."""

    standard: Standard
    landmarks: SeriesBatch
    blocks: Sequence[Block]
    members: list[VariationalMember]
    weights: Tensor
    novelty: Novelty | None = None

    @property
    def device(self) -> torch.device:
        """The device of the members, on which batches have to be."""
        return self.weights.device

    @property
    def likelihood(self) -> Likelihood:
        """That of the first member; the others have the same with parameters of their own."""
        return self.members[0].gp.likelihood

    def to(self, device: torch.device | str) -> VariationalViewCommittee:
        """Moves everything to a device, in place, and returns the committee; after an error nothing has moved."""
        moved = replace(
            self,
            standard=self.standard.to(device),
            landmarks=self.landmarks.to(torch.device(device)),
            blocks=[block.to(device) for block in self.blocks],
            members=[member.to(device) for member in self.members],
            weights=self.weights.to(device),
        )
        vars(self).update(vars(moved))
        return self

    def rows(self, batch: SeriesBatch) -> dict[str, Rows]:
        """The rows of all kernels at n series."""
        return rows_of(self.blocks, self.standard(batch))

    def features(self, batch: SeriesBatch) -> list[Features]:
        """The features of n series for every member."""
        parts: list[list[Features]] = [[] for _ in self.members]
        for chunk in self._chunks(batch):
            rows = self.rows(chunk)
            for member, own in zip(self.members, parts, strict=True):
                own.append(member.features(rows))
        return [Features(torch.cat([f.values for f in own]), torch.cat([f.tail for f in own])) for own in parts]

    def member_latents(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        """Means and variances of the members' latents, two (K, n, latents), scaled."""
        pairs = [
            member.scale(*member.gp.latents(own))
            for member, own in zip(self.members, self.features(batch), strict=True)
        ]
        return torch.stack([mean for mean, _ in pairs]), torch.stack([variance for _, variance in pairs])

    def probabilities(self, batch: SeriesBatch, latents: MemberLatents | None = None) -> Tensor:
        """Class probabilities (n, classes), rows summing to 1."""
        weighted = [weight * likelihood.predict(*own) for weight, likelihood, own in self._predicted(batch, latents)]
        chances = torch.stack(weighted).sum(0)
        return chances / chances.sum(dim=1, keepdim=True)

    def mean_and_variance(self, batch: SeriesBatch, latents: MemberLatents | None = None) -> tuple[Tensor, Tensor]:
        """Mean and variance of y, two (n,)."""
        moments = [likelihood.predict(*own) for _, likelihood, own in self._predicted(batch, latents)]
        means, variances = (torch.stack(parts) for parts in zip(*moments, strict=True))
        weights = self.weights[:, None]
        mean = (weights * means).sum(0)
        return mean, (weights * (variances + (means - mean).square())).sum(0)

    def log_predictive(self, batch: SeriesBatch, y: Tensor) -> Tensor:
        """log p(y | x) of every series, (n,)."""
        y = y.to(self.device)
        weighted = [
            likelihood.log_predictive(*latents, y) + weight.log()
            for weight, likelihood, latents in self._predicted(batch)
        ]
        return torch.stack(weighted).logsumexp(0)

    def quantiles(self, batch: SeriesBatch, probabilities: list[float], latents: MemberLatents | None = None) -> Tensor:
        """Quantiles of y, (n, probabilities)."""
        return mixture_quantiles(list(self._predicted(batch, latents)), probabilities)

    def _predicted(
        self, batch: SeriesBatch, latents: MemberLatents | None = None
    ) -> Iterator[tuple[Tensor, Likelihood, MemberLatents]]:
        """Weight, likelihood and latents of every member; `latents`, if given, are those of `member_latents`."""
        means, variances = self.member_latents(batch) if latents is None else latents
        for weight, member, mean, variance in zip(self.weights, self.members, means, variances, strict=True):
            yield weight, member.gp.likelihood, (mean, variance)

    def _chunks(self, batch: SeriesBatch) -> Iterator[SeriesBatch]:
        return batch.split(max(1, min(_CHUNK, _LARGEST_CHUNK // (batch.values.shape[1] * batch.channels))))
