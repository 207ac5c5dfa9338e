r"""A committee of views without its landmark series: weights of features in place of weights of series.

The kernel of a member on finite features is :math:`k(X, Z) = c_0 + \sum_p c_p \, \psi_p(X)^T \psi_p(Z)` over the parts
p of its blocks, :math:`\psi_p` being features less their mean over the landmarks. So what a prediction needs is

.. math:: \mu(X) = c_0 1^T \alpha + \sum_p \psi_p(X)^T W_p, \qquad W_p = c_p \, \psi_p(Z)^T \alpha,

.. math:: v(X) = \sigma^2 \Big(c_0 + \sum_p c_p |\psi_p(X)|^2 - \Big|c_0 1^T B + \sum_p \psi_p(X)^T F_p\Big|^2\Big),
          \qquad F_p = c_p \, \psi_p(Z)^T B,

with :math:`\alpha` and the root B of `committee.regression`. F has a column for every direction in which the training
series told something. Of directions that are too many to be kept, those that explain most of the variance of the
landmarks are: without the others the variance is larger, never smaller. Powers of kernels, and kernels by the PDE, have
no finite features.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from siggpde.committee.averaging import AveragedMembers
from siggpde.committee.left_out_record import LeftOutRecord
from siggpde.committee.link import ClassLink
from siggpde.committee.novelty import Novelty
from siggpde.committee.recalibration import Recalibration
from siggpde.committee.recipes import CONSTANT, Recipe
from siggpde.committee.view_committee import ViewCommittee, ViewMember
from siggpde.series import SeriesBatch
from siggpde.views.base import Block, FeatureBlock, Part, Rows, parts_of
from siggpde.views.features import TransformerBlock
from siggpde.views.saved import SavedBlocks, block_state
from siggpde.views.standard import Standard

log = logging.getLogger(__name__)

_BYTES = 40_000_000  # of the weights and factors of all members
_EXACT_BYTES = 2**20  # of the weights of a member, up to which they are float64
_FOLDS = 5


@dataclass
class PartWeights:
    """Of a part of p features: its coefficient c_p, W_p (p, outputs) and F_p (p, r), float32."""

    coefficient: float
    weights: Tensor
    factor: Tensor


@dataclass
class WeightMember:
    """A member's `parts`, by their numbers among the parts of all blocks; `constant` (outputs,) and `root` (r,) are
    those of the constant kernel, c_0 1^T alpha and c_0 1^T B."""

    recipe: Recipe
    parts: dict[int, PartWeights]
    constant: Tensor
    root: Tensor
    noise: float
    amplitude: float
    score: float

    @property
    def noise_variance(self) -> float:
        """Of numbers."""
        return self.noise * self.amplitude

    def to(self, device: torch.device | str) -> WeightMember:
        parts = {
            number: PartWeights(part.coefficient, part.weights.to(device), part.factor.to(device))
            for number, part in self.parts.items()
        }
        return replace(self, parts=parts, constant=self.constant.to(device), root=self.root.to(device))


@dataclass
class WeightCommittee(AveragedMembers):
    """`blocks` give features and hold nothing of the landmarks but `centres` (p,), their mean, one for every part."""

    standard: Standard
    blocks: Sequence[Block]
    centres: list[Tensor]
    members: list[WeightMember]
    weights: Tensor
    link: ClassLink | None = None
    recalibration: Recalibration | None = None
    left_out: LeftOutRecord | None = None
    novelty: Novelty | None = None

    @property
    def averaged(self) -> Sequence[WeightMember]:
        return self.members

    def to(self, device: torch.device | str) -> WeightCommittee:
        """Moves everything to a device, in place, and returns the committee; after an error nothing has moved."""
        moved = replace(
            self,
            standard=self.standard.to(device),
            blocks=[block.to(device) for block in self.blocks],
            centres=[centre.to(device) for centre in self.centres],
            members=[member.to(device) for member in self.members],
            weights=self.weights.to(device),
            link=None if self.link is None else self.link.to(device),
            left_out=None if self.left_out is None else self.left_out.to(device),
        )
        vars(self).update(vars(moved))
        return self

    def part_weights(self, number: int) -> Tensor:
        """sum_k w_k W_p (p, outputs) of a part in float64: the mean latents are psi_p(X)^T of these, summed over the
        parts, and sum_k w_k times the `constant` of the members."""
        first = self.members[0].constant
        total = first.new_zeros(len(self.centres[number]), len(first), dtype=torch.float64)
        for weight, member in zip(self.weights.tolist(), self.members, strict=True):
            if number in member.parts:
                total += weight * member.parts[number].weights.double()
        return total

    @torch.no_grad()
    def chunk_latents(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        seen, n = self.standard(batch), len(batch)
        means = [member.constant.expand(n, -1).clone() for member in self.members]
        told = [member.root.expand(n, -1).clone() for member in self.members]
        variances = [torch.full_like(mean[:, 0], CONSTANT) for mean in means]
        for number, ((_, values), centre) in enumerate(zip(parts_of(self.blocks, seen), self.centres, strict=True)):
            users = [index for index, member in enumerate(self.members) if number in member.parts]
            centred = values.double() - centre if users else values
            norms, single = centred.square().sum(1), centred.float()
            for index in users:
                part = self.members[index].parts[number]
                means[index] += (single if part.weights.dtype == torch.float32 else centred) @ part.weights
                told[index] += single @ part.factor
                variances[index] += part.coefficient * norms
        left = [
            member.amplitude * (variance - each.square().sum(1)).clamp_min(0.0)
            for member, variance, each in zip(self.members, variances, told, strict=True)
        ]
        return torch.stack(means), torch.stack(left)


@torch.no_grad()
def without_series(
    committee: ViewCommittee, *, complete: bool, most_bytes: int = _BYTES
) -> tuple[WeightCommittee, list[Tensor]]:
    """The committee in weight space, whose weights and factors together have `most_bytes`, about.

    Also by how much larger the variances of its members are, (m,) each, for series like the landmarks that are not
    among the training series; `complete`: whether these are the landmarks and no others. The members must have power 1
    and the blocks finite features.
    """
    blocks = [block for block in committee.blocks if isinstance(block, FeatureBlock)]
    if len(blocks) < len(committee.blocks) or any(member.recipe.power != 1 for member in committee.members):
        raise ValueError("kernels by the PDE and powers of kernels need the landmark series, and have no weight space")
    features = [part for block in blocks for part in block.landmarks]
    counts = Counter(part.name for part in features)
    scales = {name: centring.scale for block in blocks for name, centring in block.centring.items()}
    centres = [part.values.double().mean(0) for part in features]
    rows: dict[str, Rows] = {}
    for block in blocks:
        rows |= {name: block.centring[name](raw) for name, raw in block.own_rows().items()}
    reduced, more = [], []
    for member in committee.members:
        total = sum(weight for _, weight in member.recipe.weights)
        shares = {name: weight / total * scales[name] / counts[name] for name, weight in member.recipe.weights}
        used = {number: shares[part.name] for number, part in enumerate(features) if part.name in shares}
        gram = member.recipe.mix(rows, rows).gram
        root, exact = _fewer_directions(member, gram, features, used, most_bytes // len(committee.members))
        reduced.append(_reduced(member, root, exact, used, features, centres))
        more.append(_missing(member, gram, root, complete))
    bare = SavedBlocks([block_state(block) for block in blocks], None, _transformers(blocks))
    for state in bare.states:
        state["centring"] = dict.fromkeys(state["centring"])
    weights, link, recalibration = committee.weights, committee.link, committee.recalibration
    return WeightCommittee(committee.standard, bare, centres, reduced, weights, link, recalibration), more


def _fewer_directions(
    member: ViewMember, gram: Tensor, features: Sequence[Part], used: Mapping[int, float], most_bytes: int
) -> tuple[Tensor, bool]:
    """B U (m, count), for the orthonormal U with which it explains most of the variance of the landmarks; and whether
    there is room for weights in float64."""
    root, outputs = member.regression.root.double(), member.regression.alpha.shape[1]
    width = sum(features[number].values.shape[1] for number in used)
    exact = 8 * width * outputs <= min(_EXACT_BYTES, most_bytes // 2)
    count = max(1, most_bytes // (4 * width) - outputs * (2 if exact else 1))
    if root.shape[1] <= count:
        return root, exact
    log.info("member %s: %d of %d directions of its variance are kept", member.recipe.name, count, root.shape[1])
    explained = gram @ root
    return root @ torch.linalg.eigh(explained.T @ explained).eigenvectors[:, -count:], exact


def _reduced(
    member: ViewMember,
    root: Tensor,
    exact: bool,
    used: Mapping[int, float],
    features: Sequence[Part],
    centres: Sequence[Tensor],
) -> WeightMember:
    regression, parts = member.regression, {}
    for number, coefficient in used.items():
        centred = (features[number].values.double() - centres[number]) * coefficient
        weights = centred.T @ regression.alpha
        factor = centred.T.float() @ root.float()
        parts[number] = PartWeights(coefficient, weights if exact else weights.float(), factor)
    return WeightMember(
        member.recipe, parts, CONSTANT * regression.alpha.sum(0), CONSTANT * root.sum(0),
        regression.noise, regression.amplitude, member.score,
    )  # fmt: skip


def _missing(member: ViewMember, gram: Tensor, root: Tensor, complete: bool) -> Tensor:
    """How much of the variance of series like the landmarks, (m,), directions would tell that are not kept.

    Where all training series are landmarks, which a regression knows better than new ones, by cross-validation: with
    K = V s V^T of the other folds, the columns of the root are V (s + noise)^(-1/2), those with the largest s kept.
    """
    regression, count = member.regression, root.shape[1]
    if count == regression.root.shape[1]:
        return torch.zeros_like(gram[:, 0])
    if not complete:
        told, kept = (gram @ regression.root.double()).square().sum(1), (gram @ root).square().sum(1)
        return regression.amplitude * (told - kept).clamp_min(0.0)
    missing = torch.zeros_like(gram[:, 0])
    fold = torch.arange(len(gram), device=gram.device) % _FOLDS
    for number in range(_FOLDS):
        held, others = fold == number, fold != number
        share, vectors = torch.linalg.eigh(gram[others][:, others])
        rest = slice(0, max(0, len(share) - count))
        told = gram[held][:, others] @ vectors[:, rest] / (share[rest].clamp_min(0.0) + regression.noise).sqrt()
        missing[held] = regression.amplitude * told.square().sum(1)
    return missing


def _transformers(blocks: Sequence[FeatureBlock]) -> dict[str, Any]:
    return {block.name: block.transformer for block in blocks if isinstance(block, TransformerBlock)}
