r"""The terms of the latents of a committee of views: what its explanations are made of.

With a direction d(X) in the space of the outputs (`explain.logits`), what is explained is :math:`f(X) = d(X)^T \mu(X)`
plus a constant. The mean latents are a constant and a sum over features and over kernels without features,

.. math:: \mu(X) = \mu_0 + \sum_p \sum_j (\phi_{pj}(X) - m_{pj}) \, W_{pj}(X) + \sum_b \sum_Z k_b(X, Z) \, a_b(X, Z),

with the mean m of a feature over the landmarks Z. Every term is exact. A committee without landmarks has W as it is
(`committee.weight_space`). One with landmarks has weights :math:`\alpha` (m, outputs) of the landmarks for each member,
and a feature of a kernel b of q parts, at scale s, has

.. math:: W_{pj}(X) = \frac{s}{q} \sum_Z a_b(X, Z) \, (\phi_{pj}(Z) - m_{pj}).

A member of power 1 with weight w has the kernel :math:`\sum_b s_b k_b + 10`, with shares s that sum to 1, and so
:math:`a_b(X, Z) = w \, s_b \, \alpha_Z`: its W are the same for all X. A member of power p has the kernel
:math:`((1 + c) / 2)^p + 10` of the cosine :math:`c = \sum_b c_b`, :math:`c_b = s_b k_b(X, Z) / (|X| |Z|)`, and by the
geometric sum

.. math:: \Big(\frac{1 + c}{2}\Big)^p = 2^{-p} + c \, h(c), \qquad h(c) = 2^{-p} \sum_{i < p} (1 + c)^i,

so that :math:`a_b(X, Z) = w \, s_b \, \alpha_Z \, h(c) / (|X| |Z|)`. For p = 2 this shares the product of two features
equally between both, which is their Shapley value at a fixed norm |X|.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.committee.of_views import OfViews
from siggpde.committee.recipes import CONSTANT, kernels_of, sizes
from siggpde.committee.view_committee import ViewCommittee, ViewMember
from siggpde.committee.weight_space import WeightCommittee
from siggpde.series import SeriesBatch
from siggpde.views.base import Block, FeatureBlock, Rows, rows_of


class LinearPart(NamedTuple):
    """Of the p features of a part: m (p,) and the W (p, outputs) of all members of power 1."""

    mean: Tensor
    weights: Tensor


class Bend(NamedTuple):
    """What a member of a power above 1 adds to a kernel: a_b(X, Z) = factor(X, Z) alpha(Z).

    `factor` (n, m) and `alpha` (m, outputs), the weight of the member included.
    """

    kernel: str
    factor: Tensor
    alpha: Tensor


class ViewTerms(ABC):
    """The terms of a committee whose members are all of power 1 and have finite features, and what others add.

    - `constant` (outputs,): mu_0; `widths`: the number of features of every part of all blocks, in their order.
    - `kernels`: the kernels without features, each with the a_b (m, outputs) of the members of power 1.
    """

    constant: Tensor
    widths: Sequence[int]
    kernels: Mapping[str, Tensor]

    @abstractmethod
    def part(self, number: int) -> LinearPart:
        """The weights of the features of a part."""

    def rows(self, seen: SeriesBatch) -> dict[str, Rows]:
        """The rows, at n standardised series, of the kernels without features and of those that are bent."""
        return {}

    def bends(self, rows: Mapping[str, Rows]) -> Iterator[Bend]:
        """What members of a power above 1 add, for n series."""
        return iter(())

    def bent_weights(self, number: int, coefficients: Tensor) -> Tensor:
        """W (n, p) of the features of a part, from coefficients a_b (n, m) of its kernel."""
        raise NotImplementedError("there are no landmarks")


def terms_of(committee: OfViews) -> ViewTerms:
    """The terms of a committee of views."""
    return _WithoutLandmarks(committee) if isinstance(committee, WeightCommittee) else _OfLandmarks(committee)


class _WithoutLandmarks(ViewTerms):
    def __init__(self, committee: WeightCommittee) -> None:
        self.committee, self.kernels = committee, {}
        self.widths = [len(centre) for centre in committee.centres]
        constants = torch.stack([member.constant for member in committee.members])
        self.constant = committee.weights @ constants.double()

    def part(self, number: int) -> LinearPart:
        return LinearPart(self.committee.centres[number], self.committee.part_weights(number))


class _OfLandmarks(ViewTerms):
    def __init__(self, committee: ViewCommittee) -> None:
        blocks: list[Block] = list(committee.blocks)
        self.features = [
            (block, part) for block in blocks if isinstance(block, FeatureBlock) for part in block.landmarks
        ]
        self.counts = Counter(part.name for _, part in self.features)
        self.widths = [part.values.shape[1] for _, part in self.features]
        weighted = list(zip(committee.weights.tolist(), committee.members, strict=True))
        self.members = [(member, weight * member.alpha) for weight, member in weighted]
        self.linear = {name: torch.zeros_like(self.members[0][1]) for name in _kernels(committee.members)}
        self.constant = torch.zeros_like(self.members[0][1][0])
        for member, alpha in self.members:
            power = member.recipe.power
            self.constant += (CONSTANT + (0.0 if power == 1 else 2.0**-power)) * alpha.sum(0)
            for name, share in _shares(member) if power == 1 else ():
                self.linear[name] += share * alpha
        self.kernels = {name: weights for name, weights in self.linear.items() if name not in self.counts}
        bent = _kernels([member for member, _ in self.members if member.recipe.power > 1])
        self.row_blocks = [block for block in blocks if not bent.union(self.kernels).isdisjoint(block.centring)]
        self.parts: dict[int, LinearPart] = {}

    def part(self, number: int) -> LinearPart:
        if number not in self.parts:
            part = self.features[number][1]
            weights = self.bent_weights(number, self.linear[part.name].T).T
            self.parts[number] = LinearPart(part.values.double().mean(0), weights)
        return self.parts[number]

    def bent_weights(self, number: int, coefficients: Tensor) -> Tensor:
        block, part = self.features[number]
        values = part.values.double()
        return (block.centring[part.name].scale / self.counts[part.name]) * (coefficients @ (values - values.mean(0)))

    def rows(self, seen: SeriesBatch) -> dict[str, Rows]:
        return rows_of(self.row_blocks, seen)

    def bends(self, rows: Mapping[str, Rows]) -> Iterator[Bend]:
        for member, alpha in self.members:
            if member.recipe.power > 1:
                slopes = _slopes(member, rows)
                for name, share in _shares(member):
                    yield Bend(name, share * slopes, alpha)


def _kernels(members: Sequence[ViewMember]) -> set[str]:
    return kernels_of(member.recipe for member in members)


def _shares(member: ViewMember) -> list[tuple[str, float]]:
    """The kernels of a member and their shares, which sum to 1."""
    total = sum(weight for _, weight in member.recipe.weights)
    return [(name, weight / total) for name, weight in member.recipe.weights]


def _slopes(member: ViewMember, rows: Mapping[str, Rows]) -> Tensor:
    """h(c) / (|X| |Z|) of a member of a power above 1, (n, m)."""
    assert member.norms is not None
    plain, power = member.recipe.average(rows), member.recipe.power
    size = sizes(plain, member.norms)
    above = 1 + plain.gram / size
    total = sum((above**i for i in range(1, power)), torch.ones_like(above))
    return total / (2**power * size)
