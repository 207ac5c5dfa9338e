r"""The average of members with Gaussian latents, whatever they are made of.

.. math:: \mu = \sum_k w_k \mu_k, \qquad v = \sum_k w_k (v_k + (\mu_k - \mu)^2).

The latents become class probabilities by one link (`committee.link`); numbers are a mixture of the members' normal
distributions with recalibrated tails.

A committee of Gaussian processes on views of the series: the default model of the estimators.

Every member is a regression on a sum of kernels (`committee.recipes`), its posterior in closed form
(`committee.regression`) against landmark series; `committee.view_committee` has what comes of their latents.

What a committee keeps of its training series, predicted from the others: to compare new series with them.

A committee of views without its landmark series: weights of features in place of weights of series.

The kernel of a member on finite features is :math:`k(X, Z) = c_0 + \sum_p c_p \, \psi_p(X)^T \psi_p(Z)` over the parts
p of its blocks, :math:`\psi_p` being features less their mean over the landmarks. So what a prediction needs is

.. math:: \mu(X) = c_0 1^T \alpha + \sum_p \psi_p(X)^T W_p, \qquad W_p = c_p \, \psi_p(Z)^T \alpha,

.. math:: v(X) = \sigma^2 \Big(c_0 + \sum_p c_p |\psi_p(X)|^2 - \Big|c_0 1^T B + \sum_p \psi_p(X)^T F_p\Big|^2\Big),
          \qquad F_p = c_p \, \psi_p(Z)^T B,

with :math:`\alpha` and the root B of `committee.regression`. F has a column for every direction in which the training
series told something. Of directions that are too many to be kept, those that explain most of the variance of the
landmarks are: without the others the variance is larger, never smaller. Powers of kernels, and kernels by the PDE, have
no finite features.

The committees of views that there are, and what all of them have in common.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from siggpde.committee.link import ClassLink
from siggpde.committee.mixture import NormalMixture, Recalibration
from siggpde.committee.novelty import Novelty, Scores
from siggpde.committee.recipes import CONSTANT, Recipe
from siggpde.committee.regression import LeftOut, Regression, Targets
from siggpde.series import SeriesBatch
from siggpde.views.base import Block, FeatureBlock, Part, Rows, Standard, parts_of, rows_of
from siggpde.views.saved import SavedBlocks, block_state
from siggpde.views.transformers import TransformerBlock

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


@dataclass
class ViewMember:
    """A recipe of kernels and its regression; `norms` are the rows of the landmarks before a power, if it has one.

    `score`: leave-one-out loss, in nats a series.
    """

    recipe: Recipe
    regression: Regression
    norms: Rows | None
    score: float

    @property
    def noise_variance(self) -> float:
        """Of numbers."""
        return self.regression.noise * self.regression.amplitude

    @property
    def alpha(self) -> Tensor:
        """Weights of the landmarks (m, outputs): the mean of the latents is k(X, landmarks) alpha."""
        return self.regression.alpha

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
class ViewCommittee(AveragedMembers):
    """Members and their weights (K,), which sum to 1; `link` for classes, `recalibration` for numbers.

    `landmarks` are the series, standardised, that all blocks and members refer to; `class_weights` (classes,) what a
    series of each class counts, 1 on average over the training series, None for all alike. `left_out` are training
    series as the others predict them; models saved by earlier versions have none. `spans` keeps what updates
    need of the landmarks (`committee.update`) from one to the next, and is not part of the model.
    """

    standard: Standard
    landmarks: SeriesBatch
    blocks: Sequence[Block]
    members: list[ViewMember]
    weights: Tensor
    link: ClassLink | None = None
    recalibration: Recalibration | None = None
    class_weights: Tensor | None = None
    left_out: LeftOutRecord | None = None
    novelty: Novelty | None = None
    spans: list[Tensor] | None = field(default=None, repr=False, compare=False)

    @property
    def averaged(self) -> Sequence[ViewMember]:
        return self.members

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
            left_out=None if self.left_out is None else self.left_out.to(device),
            spans=None,
        )
        vars(self).update(vars(moved))
        return self

    def rows(self, batch: SeriesBatch) -> dict[str, Rows]:
        """The rows of all kernels at n series."""
        return rows_of(self.blocks, self.standard(batch))

    def chunk_latents(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        rows = self.rows(batch)
        predictions = [member.predict(rows) for member in self.members]
        return torch.stack([mean for mean, _ in predictions]), torch.stack([variance for _, variance in predictions])


@dataclass(frozen=True)
class LeftOutRecord:
    """Of n training series, left out one by one or group by group.

    - `y` (n,): their targets, labels 0..classes-1 or numbers in the units of the committee.
    - `mean` (n, outputs), `variance` (n,): the committee's latents.
    - `variances` (K, n): of the members' latents.
    - `groups` (n,): integers, or None.
    - `exact`: the series are the landmarks, in their order, and nothing else was learned from.
    - `means` (K, n, outputs), float32: of the members' latents, where `exact`; records of earlier versions have none.
    """

    y: Tensor
    mean: Tensor
    variance: Tensor
    variances: Tensor
    groups: Tensor | None
    exact: bool
    means: Tensor | None = None

    @staticmethod
    def of(committee: AveragedMembers, left_out: Sequence[LeftOut], targets: Targets, exact: bool) -> LeftOutRecord:
        """Of the members' predictions of left-out series with these targets."""
        means = torch.stack([each.mean for each in left_out])
        variances = torch.stack([each.variance for each in left_out])
        average = average_latents(means, variances, committee.weights)
        kept = means.float() if exact else None
        return LeftOutRecord(targets.y, average.mean, average.variance, variances, targets.groups, exact, kept)

    def state(self) -> dict[str, Any]:
        return vars(self).copy()

    @staticmethod
    def from_state(state: Mapping[str, Any]) -> LeftOutRecord:
        return LeftOutRecord(**state)

    def to(self, device: torch.device | str) -> LeftOutRecord:
        moved: dict[str, Any] = {name: part.to(device) for name, part in vars(self).items() if isinstance(part, Tensor)}
        return replace(self, **moved)


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


OfViews: TypeAlias = "ViewCommittee | WeightCommittee"
"""With landmark series, and the same without."""


@torch.no_grad()
def mean_latents(committee: OfViews, batch: SeriesBatch) -> Tensor:
    """The means of the latents (n, outputs), averaged over the members with their weights."""
    means, _ = committee.member_latents(batch)
    return (committee.weights.to(means)[:, None, None] * means).sum(0)
