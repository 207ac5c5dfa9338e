"""A committee on views without its landmark series: weights of features in place of weights of series (docs/design.md,
The regression of a member)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from siggpde.committee.recipes import CONSTANT
from siggpde.views.base import FeatureBlock, Learned, Part, rows_of
from siggpde.views.kinds import SavedBlocks, block_state
from siggpde.views.transformers import TransformerBlock

if TYPE_CHECKING:
    from siggpde.committee.committee import Member, ViewCommittee

log = logging.getLogger(__name__)


_BYTES = 40_000_000  # of the weights and factors of all members
_EXACT_BYTES = 2**20  # of the weights of a member, up to which they are float64
_FOLDS = 5


@dataclass
class PartWeights(Learned):
    """The weights of a part with p features: its coefficient c_p, W_p (p, outputs) and F_p (p, r), in float32."""

    coefficient: float
    weights: Tensor
    factor: Tensor


@dataclass
class FeatureWeights(Learned):
    """The posterior of a member in the space of features: `parts` by their numbers among those of all blocks, and for
    the constant kernel `constant` (outputs,), c_0 1^T alpha, and `root` (r,), c_0 1^T B."""

    parts: dict[int, PartWeights]
    constant: Tensor
    root: Tensor
    noise: float
    amplitude: float

    def to(self, device: torch.device | str) -> FeatureWeights:
        return replace(super().to(device), parts={number: part.to(device) for number, part in self.parts.items()})

    def state(self) -> dict[str, Any]:
        return {**super().state(), "parts": {str(number): part.state() for number, part in self.parts.items()}}

    @staticmethod
    def from_state(state: Mapping[str, Any]) -> FeatureWeights:
        parts = {int(number): PartWeights(**part) for number, part in state["parts"].items()}
        return FeatureWeights(parts, state["constant"], state["root"], state["noise"], state["amplitude"])


@torch.no_grad()
def feature_latents(
    posteriors: Sequence[FeatureWeights], parts: Iterable[Part], centres: Sequence[Tensor], n: int
) -> tuple[Tensor, Tensor]:
    """Returns means (K, n, outputs) and variances (K, n) of the latents of K members at n series, part by part."""
    means = [posterior.constant.expand(n, -1).clone() for posterior in posteriors]
    explained = [posterior.root.expand(n, -1).clone() for posterior in posteriors]
    variances = [torch.full_like(mean[:, 0], CONSTANT) for mean in means]
    for number, (part_of_series, centre) in enumerate(zip(parts, centres, strict=True)):
        users = [index for index, posterior in enumerate(posteriors) if number in posterior.parts]
        if not users:
            continue
        centred = part_of_series.values.double() - centre
        norms, single = centred.square().sum(1), centred.float()
        for index in users:
            part = posteriors[index].parts[number]
            means[index] += (single if part.weights.dtype == torch.float32 else centred) @ part.weights
            explained[index] += single @ part.factor
            variances[index] += part.coefficient * norms
    left = [
        posterior.amplitude * (variance - root.square().sum(1)).clamp_min(0.0)
        for posterior, variance, root in zip(posteriors, variances, explained, strict=True)
    ]
    return torch.stack(means), torch.stack(left)


@torch.no_grad()
def without_series(
    committee: ViewCommittee, *, complete: bool, most_bytes: int = _BYTES
) -> tuple[ViewCommittee, Tensor]:
    """Returns the committee without its series, whose members have power 1 and about `most_bytes` of weights and
    factors, and by how much larger the variances (K, m) of its members are for series like the m landmarks but not
    among the training series; `complete`: whether all training series are landmarks."""
    blocks = [block for block in committee.blocks if isinstance(block, FeatureBlock)]
    if len(blocks) < len(committee.blocks) or any(member.recipe.power != 1 for member in committee.members):
        raise ValueError("kernels by the PDE and powers of kernels need the landmark series, and have no weight space")
    features = [part for block in blocks for part in block.landmarks]
    counts = Counter(part.name for part in features)
    scales = {name: centring.scale for block in blocks for name, centring in block.centring.items()}
    centres = [part.values.double().mean(0) for part in features]
    rows = rows_of(blocks)
    reduced, more = [], []
    for member in committee.members:
        total = sum(weight for _, weight in member.recipe.weights)
        shares = {name: weight / total * scales[name] / counts[name] for name, weight in member.recipe.weights}
        used = {number: shares[part.name] for number, part in enumerate(features) if part.name in shares}
        gram = member.recipe.mix(rows).gram
        root, exact = _fewer_directions(member, gram, features, used, most_bytes // len(committee.members))
        reduced.append(replace(member, posterior=_reduced(member, root, exact, used, features, centres), norms=None))
        more.append(_missing(member, gram, root, complete))
    transformers = {block.name: block.transformer for block in blocks if isinstance(block, TransformerBlock)}
    bare = SavedBlocks([block_state(block) for block in blocks], None, transformers)
    for state in bare.states:
        state["centring"] = dict.fromkeys(state["centring"])
    bare_committee = replace(
        committee, landmarks=None, blocks=bare, members=reduced, centres=centres, class_weights=None, posteriors=None
    )
    return bare_committee, torch.stack(more)


def _fewer_directions(
    member: Member, gram: Tensor, features: Sequence[Part], used: Mapping[int, float], most_bytes: int
) -> tuple[Tensor, bool]:
    """Returns B U (m, count), for the orthonormal U with which it explains most of the variance of the landmarks; and
    whether there is room for weights in float64."""
    root, outputs = member.regression.root.double(), member.regression.alpha.shape[1]
    width = sum(features[number].width for number in used)
    exact = 8 * width * outputs <= min(_EXACT_BYTES, most_bytes // 2)
    count = max(1, most_bytes // (4 * width) - outputs * (2 if exact else 1))
    if root.shape[1] <= count:
        return root, exact
    log.info("member %s: %d of %d directions of its variance are kept", member.recipe.name, count, root.shape[1])
    explained = gram @ root
    return root @ torch.linalg.eigh(explained.T @ explained).eigenvectors[:, -count:], exact


def _reduced(
    member: Member,
    root: Tensor,
    exact: bool,
    used: Mapping[int, float],
    features: Sequence[Part],
    centres: Sequence[Tensor],
) -> FeatureWeights:
    regression, parts = member.regression, {}
    for number, coefficient in used.items():
        centred = (features[number].values.double() - centres[number]) * coefficient
        weights = centred.T @ regression.alpha
        factor = centred.T.float() @ root.float()
        parts[number] = PartWeights(coefficient, weights if exact else weights.float(), factor)
    constant = CONSTANT * regression.alpha.sum(0)
    return FeatureWeights(parts, constant, CONSTANT * root.sum(0), regression.noise, regression.amplitude)


def _missing(member: Member, gram: Tensor, root: Tensor, complete: bool) -> Tensor:
    """Returns how much of the variance (m,) of series like the landmarks the directions left out would explain, by
    cross-validation where all training series are landmarks, which a regression knows better than new series."""
    regression, count = member.regression, root.shape[1]
    if count == regression.root.shape[1]:
        return torch.zeros_like(gram[:, 0])
    if not complete:
        learned, kept = (gram @ regression.root.double()).square().sum(1), (gram @ root).square().sum(1)
        return regression.amplitude * (learned - kept).clamp_min(0.0)
    missing = torch.zeros_like(gram[:, 0])
    fold = torch.arange(len(gram), device=gram.device) % _FOLDS
    for number in range(_FOLDS):
        held, others = fold == number, fold != number
        share, vectors = torch.linalg.eigh(gram[others][:, others])
        rest = slice(0, max(0, len(share) - count))
        learned = gram[held][:, others] @ vectors[:, rest] / (share[rest].clamp_min(0.0) + regression.noise).sqrt()
        missing[held] = regression.amplitude * learned.square().sum(1)
    return missing
