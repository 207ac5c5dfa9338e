r"""Sums over series of parts of the latents of a committee of views, with their posterior (`explain.posterior`).

Parts are given piece by piece: features of one part of a block, or a kernel without features. A piece with the features
:math:`\psi` (less their mean over the landmarks), in a member of power 1 with the coefficient c, adds

.. math:: k(v, v) = c \, |v^T \psi(X)|^2, \qquad k(v, Z) = c \, \psi(Z) \psi(X)^T v .
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping

from torch import Tensor

from siggpde.committee.of_views import OfViews
from siggpde.committee.recipes import kernels_of
from siggpde.committee.view_committee import ViewCommittee
from siggpde.committee.weight_space import WeightCommittee
from siggpde.explain.between import Between, kernel_between, shares_of, slopes_of
from siggpde.explain.posterior import Moments, moments
from siggpde.series import SeriesBatch
from siggpde.views.base import FeatureBlock, Part, parts_of
from siggpde.views.kernel import KernelBlock


class PartSums(ABC):
    """The moments of q sums over n series with weights (q, n), from the pieces that are added to them."""

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights

    @abstractmethod
    def features(self, number: int, values: Tensor, rows: Tensor, columns: Tensor | None = None) -> None:
        """Adds features of the part `number` to the sums `rows`: all of its values (n, p), or these `columns`."""

    def kernel(self, name: str, between: Between, rows: Tensor) -> None:
        """Adds a kernel without features to the sums `rows`."""
        raise NotImplementedError("there are no landmarks")

    @abstractmethod
    def moments(self) -> list[Moments]:
        """Of every member."""


class WeightSums(PartSums):
    """Of a committee without landmarks."""

    def __init__(self, committee: WeightCommittee, weights: Tensor) -> None:
        super().__init__(weights)
        self.committee, count = committee, len(weights)
        self.own = [weights.new_zeros(count) for _ in committee.members]
        self.means = [weights.new_zeros(count, len(member.constant)) for member in committee.members]
        self.told = [weights.new_zeros(count, len(member.root)) for member in committee.members]

    def features(self, number: int, values: Tensor, rows: Tensor, columns: Tensor | None = None) -> None:
        centre = self.committee.centres[number].double()
        sums = self.weights[rows] @ _taken(values.double() - centre, columns)
        for k, member in enumerate(self.committee.members):
            if number in member.parts:
                part = member.parts[number]
                weights, factor = (_rows(each, columns).to(sums) for each in (part.weights, part.factor))
                self.own[k].index_add_(0, rows, part.coefficient * sums.square().sum(1))
                self.means[k].index_add_(0, rows, sums @ weights)
                self.told[k].index_add_(0, rows, sums @ factor)

    def moments(self) -> list[Moments]:
        found = []
        for member, own, mean, told in zip(self.committee.members, self.own, self.means, self.told, strict=True):
            variance = member.amplitude * (own - told.square().sum(1)).clamp_min(0.0)
            found.append(Moments(mean, variance[:, None].expand_as(mean)))
        return found


class LandmarkSums(PartSums):
    """Of a committee with landmarks; `slopes` are h(c) / (|X| |Y|) of the members of a power above 1, by number;
    to a member with None nothing is added."""

    def __init__(
        self,
        committee: ViewCommittee,
        weights: Tensor,
        slopes: Mapping[int, Between | None],
    ) -> None:
        super().__init__(weights)
        self.members, self.slopes = committee.members, slopes
        blocks = [block for block in committee.blocks if isinstance(block, FeatureBlock)]
        self.parts = [(block, part) for block in blocks for part in block.landmarks]
        self.counts = Counter(part.name for _, part in self.parts)
        self.shares = [shares_of(member) for member in committee.members]
        self.own = [weights.new_zeros(len(weights)) for _ in self.members]
        self.cross = [weights.new_zeros(len(weights), len(member.alpha)) for member in self.members]

    def features(self, number: int, values: Tensor, rows: Tensor, columns: Tensor | None = None) -> None:
        block, part = self.parts[number]
        users = [(k, shares[part.name]) for k, shares in enumerate(self.shares) if part.name in shares]
        if not users:
            return
        scale = block.centring[part.name].scale / self.counts[part.name]
        there = _taken(part.values, columns)
        mean = there.mean(0)
        here, there = _taken(values, columns) - mean, there - mean
        weights = self.weights[rows]
        sums = weights @ here
        own, cross = sums.square().sum(1), sums @ there.T
        for k, share in users:
            if k not in self.slopes:
                self.own[k].index_add_(0, rows, scale * share * own)
                self.cross[k].index_add_(0, rows, scale * share * cross)
        if any(self.slopes.get(k) is not None for k, _ in users):
            between = Between(scale * (here @ here.T), scale * (here @ there.T))
            self._bent(part.name, between, rows)

    def kernel(self, name: str, between: Between, rows: Tensor) -> None:
        weights = self.weights[rows]
        for k, shares in enumerate(self.shares):
            if name in shares and k not in self.slopes:
                self.own[k].index_add_(0, rows, shares[name] * ((weights @ between.own) * weights).sum(1))
                self.cross[k].index_add_(0, rows, shares[name] * (weights @ between.cross))
        self._bent(name, between, rows)

    def _bent(self, name: str, between: Between, rows: Tensor) -> None:
        weights = self.weights[rows]
        for k, slope in self.slopes.items():
            share = self.shares[k].get(name)
            if share is not None and slope is not None:
                own = ((weights @ (between.own * slope.own)) * weights).sum(1)
                self.own[k].index_add_(0, rows, share * own)
                self.cross[k].index_add_(0, rows, share * (weights @ (between.cross * slope.cross)))

    def moments(self) -> list[Moments]:
        sums = zip(self.members, self.cross, self.own, strict=True)
        return [moments(member, cross, own) for member, cross, own in sums]


def sums_of(committee: OfViews, seen: SeriesBatch, weights: Tensor) -> PartSums:
    """Empty sums over n standardised series with weights (q, n)."""
    if isinstance(committee, WeightCommittee):
        return WeightSums(committee, weights)
    return LandmarkSums(committee, weights, slopes_of(committee, seen))


def pieces(committee: OfViews, seen: SeriesBatch) -> Iterator[tuple[int | str, Part | Between]]:
    """Everything that the latents of n standardised series are made of: parts of features, by number and part by part,
    then the kernels without features that members have, by name."""
    yield from enumerate(parts_of(committee.blocks, seen))
    used = kernels_of(member.recipe for member in committee.members)
    for block in committee.blocks:
        if isinstance(block, KernelBlock) and block.view.name in used:
            yield block.view.name, kernel_between(block, seen)


def _taken(values: Tensor, columns: Tensor | None) -> Tensor:
    return (values if columns is None else values[:, columns]).double()


def _rows(values: Tensor, columns: Tensor | None) -> Tensor:
    return values if columns is None else values[columns]
