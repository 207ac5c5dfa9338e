r"""The terms of the latents of a committee of views: what its explanations are made of.

With a direction d(X) in the space of the outputs (for classes the difference of two rows of the matrix A of the link,
for numbers 1), what is explained is :math:`f(X) = d(X)^T \mu(X)` plus the link's offset. A member k of power 1 with
weight w has the kernel :math:`\sum_b s_b k_b + 10`, with shares s that sum to 1, so that with its weights
:math:`\alpha` of the landmarks Z

.. math:: w \, d^T \mu_k(X) = \sum_b \sum_Z a_b(X, Z) \, k_b(X, Z) + \text{constant}, \qquad
          a_b(X, Z) = w \, s_b \, d(X)^T \alpha_Z.

A member of power p has the kernel :math:`((1 + c) / 2)^p + 10` of the cosine :math:`c = \sum_b c_b`,
:math:`c_b = s_b k_b(X, Z) / (|X| |Z|)`, and by the geometric sum

.. math:: \Big(\frac{1 + c}{2}\Big)^p = 2^{-p} + c \, h(c), \qquad h(c) = 2^{-p} \sum_{i < p} (1 + c)^i,

so that the same holds with :math:`a_b(X, Z) = w \, s_b \, d^T \alpha_Z \, h(c) / (|X| |Z|)`. For p = 2 this shares the
product of two features equally between both, which is their Shapley value at a fixed norm |X|.

In both cases a kernel's term is exact, and so is that of feature j of a part of a kernel with features (of q parts, at
scale s, with the mean m over the landmarks):

.. math:: t_j(X) = (\phi_j(X) - m_j) \, W_j(X), \qquad W_j(X) = \frac{s}{q} \sum_Z a_b(X, Z) (\phi_j(Z) - m_j).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.ensemble.recipes import CONSTANT, sizes
from siggpde.ensemble.view_committee import ViewCommittee, ViewMember
from siggpde.views.base import FeatureBlock, Part, Rows

Linear = dict[str, Tensor]
"""For each kernel the weights (m, outputs) of the members of power 1: a_b(X, Z) = d(X)^T linear(Z)."""

Bent = dict[str, Tensor]
"""For each kernel a_b (n, m) of the members of a higher power."""


class Landmarks(NamedTuple):
    """The features of the landmarks in one part, less their mean (m, p), that mean (p,), and s / q."""

    centred: Tensor
    mean: Tensor
    scale: float

    def weights(self, coefficients: Tensor) -> Tensor:
        """W (n, p) of coefficients a (n, m)."""
        return self.scale * (coefficients @ self.centred)


def directions(committee: ViewCommittee, pairs: Tensor | None, series: int) -> Tensor:
    """d (n, outputs): for the pairs (n, 2) of classes that are compared, or of n numbers."""
    if committee.link is None or pairs is None:
        return torch.ones(series, 1, dtype=torch.float64, device=committee.device)
    mixing = committee.link.mixing
    return mixing[pairs[:, 0]] - mixing[pairs[:, 1]]


def link_offsets(committee: ViewCommittee, pairs: Tensor | None, series: int) -> Tensor:
    """What the link adds to the difference of the logits, (n,)."""
    if committee.link is None or pairs is None:
        return torch.zeros(series, dtype=torch.float64, device=committee.device)
    offset = committee.link.offset
    return offset[pairs[:, 0]] - offset[pairs[:, 1]]


def linear_weights(committee: ViewCommittee) -> Linear:
    """Of the members of power 1; kernels that none of them has are left out."""
    linear: Linear = {}
    for weight, member in zip(committee.weights.tolist(), committee.members, strict=True):
        if member.recipe.power == 1:
            for name, share in shares(member):
                each = (weight * share) * member.regression.alpha
                linear[name] = linear[name] + each if name in linear else each
    return linear


def bent_coefficients(committee: ViewCommittee, rows: Mapping[str, Rows], direction: Tensor) -> Bent:
    """Of the members of a higher power, for the rows of n series."""
    bent: Bent = {}
    for weight, member in zip(committee.weights.tolist(), committee.members, strict=True):
        if member.recipe.power > 1:
            own = weight * (direction @ member.regression.alpha.T) * slopes(member, rows)
            for name, share in shares(member):
                bent[name] = bent[name] + share * own if name in bent else share * own
    return bent


def slopes(member: ViewMember, rows: Mapping[str, Rows]) -> Tensor:
    """h(c) / (|X| |Z|) of a member of a power above 1, (n, m)."""
    assert member.norms is not None
    plain, power = member.recipe.average(rows), member.recipe.power
    size = sizes(plain, member.norms)
    above = 1 + plain.gram / size
    total = sum((above**i for i in range(1, power)), torch.ones_like(above))
    return total / (2**power * size)


def shares(member: ViewMember) -> list[tuple[str, float]]:
    """The kernels of a member and their shares, which sum to 1."""
    total = sum(weight for _, weight in member.recipe.weights)
    return [(name, weight / total) for name, weight in member.recipe.weights]


def constants(committee: ViewCommittee, direction: Tensor, offsets: Tensor) -> Tensor:
    """The part of f(X) that no kernel has a share in, (n,)."""
    out = offsets.clone()
    for weight, member in zip(committee.weights.tolist(), committee.members, strict=True):
        power = member.recipe.power
        level = CONSTANT + (0.0 if power == 1 else 2.0**-power)
        out += (weight * level) * (direction @ member.regression.alpha.sum(0))
    return out


def coefficients(name: str, linear: Linear, bent: Bent, direction: Tensor) -> Tensor | None:
    """a_b (n, m) of a kernel; None where no member has it."""
    if name not in linear:
        return bent.get(name)
    whole = direction @ linear[name].T
    return whole + bent[name] if name in bent else whole


def landmark_features(block: FeatureBlock) -> Iterator[tuple[str, Landmarks]]:
    """For every part of a block the name of its kernel and the features of the landmarks, in float64."""
    counts = Counter(part.name for part in block.landmarks)
    for part in block.landmarks:
        values = part.values.double()
        mean = values.mean(0)
        yield part.name, Landmarks(values - mean, mean, block.centring[part.name].scale / counts[part.name])


def part_terms(part: Part, landmarks: Landmarks, coefficients: Tensor, origin: Tensor | None = None) -> Tensor:
    """t_j(X) (n, p) of the features of a part, for coefficients a (n, m); `origin` (p,) takes the place of the mean."""
    return (part.values.double() - (landmarks.mean if origin is None else origin)) * landmarks.weights(coefficients)


def kernel_terms(gram: Tensor, coefficients: Tensor, origin: Tensor | None = None) -> Tensor:
    """The term (n,) of a kernel with centred rows (n, m), less that of the row `origin` (m,) at the same a."""
    return (coefficients * (gram if origin is None else gram - origin)).sum(1)
