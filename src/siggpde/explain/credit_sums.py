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

from siggpde.committee.committee import Committee
from siggpde.committee.of_views import OfViews
from siggpde.committee.view_committee import ViewCommittee
from siggpde.committee.weight_space import WeightCommittee
from siggpde.explain.by_groups import Compact, GroupPlan, States, compact_parts, plan_of
from siggpde.explain.nodes import Nodes
from siggpde.explain.predictions import AnyCommittee
from siggpde.views.base import FeatureBlock, Part, Rows, parts_of
from siggpde.views.windows import WindowsBlock

Plans: TypeAlias = dict[int, list[GroupPlan]]
"""Of blocks of windows, by their number."""

WithLandmarks: TypeAlias = ViewCommittee
_LARGEST_PLAN = 2**25  # numbers of the landmarks' features, of which a plan has a copy
_PIECES = 16  # of which inner products are taken at a time

Kind = TypeVar("Kind", Committee, WeightCommittee, WithLandmarks)


class CreditSums(ABC, Generic[Kind]):
    """The sums so far; `features` by the number of their part among those of all blocks."""

    def __init__(self, committee: Kind) -> None:
        self.committee: Kind = committee
        self.features: dict[int, Tensor] = {}

    @abstractmethod
    def add(self, nodes: Nodes, numbers: Tensor, weights: Tensor, around: Tensor | None = None) -> Tensor:
        """The means of the members' latents at nodes (n,), (K, n, outputs), float64; their weights are (pieces, n).

        `around` (pieces, k) are the places of the nodes next to each piece, where these are all nodes.
        """

    def _tell(self, number: int, values: Tensor, weights: Tensor) -> None:
        told = weights.to(values) @ values
        self.features[number] = self.features[number] + told if number in self.features else told


class LandmarkSums(CreditSums[WithLandmarks]):
    """`rows`: for every member the sums (pieces, m) of its kernel with the landmarks; `among`: of kernels of features
    that are raised to a power, by name, centred and scaled, (pieces, k, k), where all nodes came in one batch."""

    def __init__(self, committee: WithLandmarks, plans: Plans) -> None:
        super().__init__(committee)
        self.plans = plans
        self.rows: list[Tensor] = []
        members = [member.recipe for member in committee.members]
        self.linear = {name for recipe in members if recipe.power == 1 for name, _ in recipe.weights}
        self.raised = {name for recipe in members if recipe.power > 1 for name, _ in recipe.weights}
        self.among: dict[str, Tensor] = {}

    def add(self, nodes: Nodes, numbers: Tensor, weights: Tensor, around: Tensor | None = None) -> Tensor:
        seen, number = self.committee.standard(nodes.series(numbers)), 0
        states = States(*nodes.kept(numbers))
        rows: dict[str, Rows] = {}
        for index, block in enumerate(self.committee.blocks):
            plan = self.plans.get(index)
            if plan is not None and isinstance(block, WindowsBlock):
                rows |= self._by_groups(block, compact_parts(block, plan, seen, states), number, weights, around)
                number += len(block.landmarks)
            elif isinstance(block, FeatureBlock):
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
            if part.name in self.linear and len(weights):
                self._tell(first + number, part.values, weights)
            if around is not None and part.name in self.raised:
                centred = part.values - landmarks.values.double().mean(0).to(part.values)
                self._compare(part.name, centred, around, block.centring[part.name].scale / counts[part.name])
            yield part

    def _compare(self, name: str, centred: Tensor, around: Tensor, factor: float) -> None:
        own = torch.cat([_among(centred, some) for some in around.split(_PIECES)]).double() * factor
        self.among[name] = self.among[name] + own if name in self.among else own

    def _by_groups(
        self, block: WindowsBlock, parts: Iterable[Compact], first: int, weights: Tensor, around: Tensor | None
    ) -> dict[str, Rows]:
        """The same from features of groups of channels, of every state of a group once; and the rows."""
        counts = Counter(block.kernels)
        found: dict[tuple[str, tuple[int, ...]], tuple[Tensor, Tensor, Tensor]] = {}
        for name, channels, columns, values, state in parts:
            gram, variance = (values @ columns.landmarks.T).double(), values.double().square().sum(1)
            if (name, channels) in found:
                found[name, channels][0].add_(gram)
                found[name, channels][1].add_(variance)
            else:
                found[name, channels] = gram, variance, state
            if name in self.linear and len(weights):
                own = weights.new_zeros(len(weights), len(values)).index_add_(1, state, weights)
                told = self.features.get(first + columns.part)
                if told is None:
                    width = block.landmarks[columns.part].values.shape[1]
                    told = self.features[first + columns.part] = values.new_zeros(len(weights), width)
                told[:, columns.columns] += own.to(values) @ values
            if around is not None and name in self.raised:
                factor = block.centring[name].scale / counts[name]
                self._compare(name, values - columns.centre.to(values), state[around], factor)
        rows: dict[str, Rows] = {}
        for (name, _), (gram, variance, state) in found.items():
            own = Rows(gram[state], variance[state])
            rows[name] = Rows(rows[name].gram + own.gram, rows[name].variance + own.variance) if name in rows else own
        return {
            name: block.centring[name](Rows(raw.gram / counts[name], raw.variance / counts[name]))
            for name, raw in rows.items()
        }


def _among(features: Tensor, nodes: Tensor) -> Tensor:
    """Inner products (pieces, k, k) of the features (n, p) of nodes (pieces, k)."""
    chosen = features[nodes]
    return chosen @ chosen.mT


class WeightSums(CreditSums[WeightCommittee]):
    """Without landmarks features are all there is."""

    def add(self, nodes: Nodes, numbers: Tensor, weights: Tensor, around: Tensor | None = None) -> Tensor:
        committee, batch = self.committee, nodes.series(numbers)
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

    def add(self, nodes: Nodes, numbers: Tensor, weights: Tensor, around: Tensor | None = None) -> Tensor:
        means, batch = [], nodes.series(numbers)
        for number, member in enumerate(self.committee.members):
            paths = member.paths(batch)
            features = member.model.project(paths.values, lengths=paths.lengths).features.detach()
            self._tell(number, features.double(), weights)
            means.append((features @ member.model.variational.mean.detach().T).double())
        return torch.stack(means)


AnySums: TypeAlias = LandmarkSums | WeightSums | WordSums


def sums_of(committee: AnyCommittee, plans: Plans) -> AnySums:
    """Empty sums of a committee."""
    if isinstance(committee, Committee):
        return WordSums(committee)
    return WeightSums(committee) if isinstance(committee, WeightCommittee) else LandmarkSums(committee, plans)


def plans_of(committee: AnyCommittee) -> Plans:
    """How the features of cut series are computed, for blocks of windows with several groups of channels."""
    if isinstance(committee, Committee | WeightCommittee):
        return {}
    found = {index: plan_of(block) for index, block in enumerate(committee.blocks) if isinstance(block, WindowsBlock)}
    return {index: plan for index, plan in found.items() if plan is not None}


def widths_of(committee: Committee | OfViews) -> int:
    """How many features are summed for every piece."""
    if isinstance(committee, Committee):
        return sum(member.model.features.size for member in committee.members)
    if isinstance(committee, WeightCommittee):
        return sum(len(centre) for centre in committee.centres)
    return sum(block.width for block in committee.blocks)
