r"""Sums over the nodes of walks, committee by committee: what means and variances of credits are made of.

Nodes X come in batches with weights c (pieces, n), whose rows sum to 0 over all nodes. Every batch gives the means of
the members' latents; over all of them are summed, for every piece,

- features :math:`\Psi = \sum_X c_X \, \psi(X)` (pieces, p), part by part, of kernels that are linear in them;
- for members with landmarks Z, :math:`\sum_X c_X \, k(X, Z)` (pieces, m).

Where all nodes come in one batch, kernels of features that are raised to a power are also computed among the nodes next
to each piece: later their features would have to be made again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Generic, TypeAlias, TypeVar

import torch
from torch import Tensor

from siggpde.ensemble.committee import Committee
from siggpde.ensemble.of_views import OfViews
from siggpde.ensemble.variational_views import VariationalViewCommittee
from siggpde.ensemble.view_committee import ViewCommittee
from siggpde.ensemble.weight_space import WeightCommittee
from siggpde.explain.predictions import AnyCommittee
from siggpde.paths import SeriesBatch
from siggpde.views.base import FeatureBlock, Part, Rows, parts_of

WithLandmarks: TypeAlias = ViewCommittee | VariationalViewCommittee
_PIECES = 16  # of which inner products are taken at a time

Kind = TypeVar("Kind", Committee, WeightCommittee, WithLandmarks)


class CreditSums(ABC, Generic[Kind]):
    """The sums so far; `features` by the number of their part among those of all blocks."""

    def __init__(self, committee: Kind) -> None:
        self.committee: Kind = committee
        self.features: dict[int, Tensor] = {}

    @abstractmethod
    def add(self, batch: SeriesBatch, weights: Tensor, around: Tensor | None = None) -> Tensor:
        """The means of the members' latents at n nodes, (K, n, outputs), float64; their weights are (pieces, n).

        `around` (pieces, k) are the numbers of the nodes next to each piece, where the batch has all nodes.
        """

    def _tell(self, number: int, values: Tensor, weights: Tensor) -> None:
        told = weights.to(values) @ values
        self.features[number] = self.features[number] + told if number in self.features else told


class LandmarkSums(CreditSums[WithLandmarks]):
    """`rows`: for every member the sums (pieces, m) of its kernel with the landmarks; `among`: of kernels of features
    that are raised to a power, by name, centred and scaled, (pieces, k, k), where all nodes came in one batch."""

    def __init__(self, committee: WithLandmarks) -> None:
        super().__init__(committee)
        self.rows: list[Tensor] = []
        members = [member.recipe for member in committee.members]
        self.linear = {name for recipe in members if recipe.power == 1 for name, _ in recipe.weights}
        self.raised = {name for recipe in members if recipe.power > 1 for name, _ in recipe.weights}
        self.among: dict[str, Tensor] = {}

    def add(self, batch: SeriesBatch, weights: Tensor, around: Tensor | None = None) -> Tensor:
        seen, number = self.committee.standard(batch), 0
        rows: dict[str, Rows] = {}
        for block in self.committee.blocks:
            if isinstance(block, FeatureBlock):
                rows |= block.rows_from(self._told(block, block.parts(seen), number, weights, around))
                number += len(block.landmarks)
            else:
                rows |= block.rows(seen)
        means, sums = [], []
        for member in self.committee.members:
            norms = Rows(torch.empty(0), torch.empty(0)) if member.norms is None else member.norms
            gram = member.recipe.mix(rows, norms).gram
            means.append(gram @ member.alpha)
            sums.append(weights.to(gram) @ gram)
        self.rows = [a + b for a, b in zip(self.rows, sums, strict=True)] if self.rows else sums
        return torch.stack(means)

    def _told(
        self, block: FeatureBlock, parts: Iterable[Part], first: int, weights: Tensor, around: Tensor | None
    ) -> Iterator[Part]:
        counts = Counter(block.kernels)
        for number, (part, landmarks) in enumerate(zip(parts, block.landmarks, strict=True)):
            if part.name in self.linear:
                self._tell(first + number, part.values, weights)
            if around is not None and part.name in self.raised:
                centred = part.values - landmarks.values.double().mean(0).to(part.values)
                factor = block.centring[part.name].scale / counts[part.name]
                own = torch.cat([_among(centred, some) for some in around.split(_PIECES)]).double() * factor
                self.among[part.name] = self.among[part.name] + own if part.name in self.among else own
            yield part


def _among(features: Tensor, nodes: Tensor) -> Tensor:
    """Inner products (pieces, k, k) of the features (n, p) of nodes (pieces, k)."""
    chosen = features[nodes]
    return chosen @ chosen.mT


class WeightSums(CreditSums[WeightCommittee]):
    """Without landmarks features are all there is."""

    def add(self, batch: SeriesBatch, weights: Tensor, around: Tensor | None = None) -> Tensor:
        committee = self.committee
        means = [member.constant.double().expand(len(batch), -1).clone() for member in committee.members]
        parts = parts_of(committee.blocks, committee.standard(batch))
        for number, ((_, values), centre) in enumerate(zip(parts, committee.centres, strict=True)):
            users = [index for index, member in enumerate(committee.members) if number in member.parts]
            if not users:
                continue
            self._tell(number, values, weights)
            centred = values.double() - centre
            for index in users:
                means[index] += centred @ committee.members[index].parts[number].weights.double()
        return torch.stack(means)


class WordSums(CreditSums[Committee]):
    """Words are features, those of member k being part k."""

    def add(self, batch: SeriesBatch, weights: Tensor, around: Tensor | None = None) -> Tensor:
        means = []
        for number, member in enumerate(self.committee.members):
            paths = member.paths(batch)
            features = member.model.project(paths.values, lengths=paths.lengths).features.detach()
            self._tell(number, features.double(), weights)
            means.append((features @ member.model.variational.mean.detach().T).double())
        return torch.stack(means)


AnySums: TypeAlias = LandmarkSums | WeightSums | WordSums


def sums_of(committee: AnyCommittee) -> AnySums:
    """Empty sums of a committee."""
    if isinstance(committee, Committee):
        return WordSums(committee)
    return WeightSums(committee) if isinstance(committee, WeightCommittee) else LandmarkSums(committee)


def widths_of(committee: Committee | OfViews) -> int:
    """How many features are summed for every piece."""
    if isinstance(committee, Committee):
        return sum(member.model.features.size for member in committee.members)
    if isinstance(committee, WeightCommittee):
        return sum(len(centre) for centre in committee.centres)
    return sum(block.width for block in committee.blocks)
