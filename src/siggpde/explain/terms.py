r"""The terms of the latents of a committee: what its explanations are made of.

With a direction d(X) in the space of the outputs (`Logits`), what is explained is :math:`f(X) = d(X)^T \mu(X)` plus a
constant. The mean latents are a constant and a sum over features and over kernels without features,

.. math:: \mu(X) = \mu_0 + \sum_p \sum_j (\phi_{pj}(X) - m_{pj}) \, W_{pj}(X) + \sum_b \sum_Z k_b(X, Z) \, a_b(X, Z).

Every term is exact. They come from three kinds of models:

- The paper's: features are words :math:`s_a(X)`, and with the mean m of q(u) W is m, rotated back to words.
- Views without landmark series: m and W are kept as they are.
- Views with landmark series Z, weights :math:`\alpha` (m, outputs) of the landmarks for each member, and m the mean of
  a feature over the landmarks. A feature of a kernel b of q parts, at scale s, has

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.committee.recipes import CONSTANT, Recipe, kernels_of, sizes
from siggpde.committee.view_committee import ViewCommittee, WeightCommittee
from siggpde.explain.results import Letters
from siggpde.explain.vocabulary import Vocabulary, unique_names, view_vocabulary, word_vocabulary
from siggpde.gp.likelihoods import Bernoulli, Likelihood, Poisson
from siggpde.gp.likelihoods.base import Classification
from siggpde.gp.model import SignatureGP
from siggpde.numerics.signature import signature
from siggpde.series import SeriesBatch
from siggpde.views.base import Block, FeatureBlock, Part, Rows, parts_of, rows_of
from siggpde.views.kernels import KernelBlock
from siggpde.views.paths import PathBlock

AnyCommittee: TypeAlias = "Committee | ViewCommittee | WeightCommittee"

CHUNK = 256
_CHUNK_OF_MEANS = 1024
_LARGEST_CHUNK = 2**24  # numbers of series, or of the features of a part, handled at a time
_SMALLEST = 1e-9
_TOGETHER = 128  # series among which powers of kernels are computed at a time


class Logits(NamedTuple):
    r"""From mean latents to what is explained: logits of classes are :math:`A \mu + b` of the mean latents
    :math:`\mu` (outputs,), and a number is the only row.

    `mixing` is A (classes, outputs) and `offset` b (classes,), float64. In closed form both are those of the link; a
    number has A = 1 and b = 0. Other likelihoods of classes have their latents as logits, A = I; that of two classes
    with one latent f has f for class 1 and 0 for class 0. The latent of counts is the logarithm of the rate, but for
    its constant b.
    """

    mixing: Tensor
    offset: Tensor

    @property
    def classes(self) -> int | None:
        """How many classes there are; None for numbers."""
        return None if len(self.mixing) == 1 else len(self.mixing)

    def directions(self, pairs: Tensor | None, series: int) -> tuple[Tensor, Tensor]:
        """Returns d (n, outputs) and what b adds (n,), for the pairs (n, 2) of classes that are compared; None for
        numbers."""
        if pairs is None:
            return self.mixing.expand(series, -1), self.offset.expand(series)
        first, second = pairs[:, 0], pairs[:, 1]
        return self.mixing[first] - self.mixing[second], self.offset[first] - self.offset[second]

    def class_directions(self) -> Tensor:
        """Returns the directions (classes, outputs) of the logit of each class less the mean over all of them; of a
        number, the number."""
        return self.mixing if self.classes is None else self.mixing - self.mixing.mean(0)

    @staticmethod
    def of_likelihood(likelihood: Likelihood, device: torch.device) -> Logits:
        """Returns those of a model with this likelihood."""
        if not isinstance(likelihood, Classification):
            return Logits.of_number(likelihood.offset if isinstance(likelihood, Poisson) else 0.0, device)
        mixing = torch.eye(likelihood.classes, dtype=torch.float64, device=device)
        if isinstance(likelihood, Bernoulli):
            mixing = mixing[:, 1:]
        return Logits(mixing, torch.zeros(likelihood.classes, dtype=torch.float64, device=device))

    @staticmethod
    def of_number(offset: float, device: torch.device) -> Logits:
        """Returns those of a number."""
        offsets = torch.full((1,), offset, dtype=torch.float64, device=device)
        return Logits(torch.ones(1, 1, dtype=torch.float64, device=device), offsets)


class LinearPart(NamedTuple):
    """Of the p features of a part: m (p,) and the W (p, outputs) of all members of power 1."""

    mean: Tensor
    weights: Tensor


class Bend(NamedTuple):
    """What a member of a power above 1 adds to a kernel: a_b(X, Z) = factor(X, Z) alpha(Z), with `factor` (n, m) and
    `alpha` (m, outputs), the weight of the member included."""

    kernel: str
    factor: Tensor
    alpha: Tensor


class Gram(NamedTuple):
    """The covariance of n prepared series among themselves, (n, n), that features do not give.

    `coefficients`: that of each member that has it. A member of a `power` above 1 has the `shares` of its kernels;
    `together`: how many series one call may have where several sums are asked for.
    """

    of: Callable[[SeriesBatch], Tensor]
    coefficients: dict[int, float]
    shares: Mapping[str, float] = {}
    power: int = 1
    together: int = 0


class Watched(NamedTuple):
    """Features of the part `number` as they pass by: `values` (u, p) of all of its columns, or of these `columns`.

    `state` (n,): which of the u rows each of the n series has; None where u = n. `centre` (p,) is the mean to be taken
    off, and `scale` what a product counts, where a member raises the kernel `name` to a power.
    """

    number: int
    name: str
    values: Tensor
    columns: Tensor | None = None
    state: Tensor | None = None
    centre: Tensor | None = None
    scale: float = 1.0


class Compact(NamedTuple):
    """Features (u, p) of the distinct states that a group of channels has in n series, the state of every series (n,),
    and where they belong: the number of the part in its block, the columns in it (p,), the features of the landmarks
    (m, p), and their mean (p,)."""

    name: str
    channels: tuple[int, ...]
    part: int
    columns: Tensor
    landmarks: Tensor
    centre: Tensor
    values: Tensor
    state: Tensor


Watch: TypeAlias = Callable[[Watched], None]
CompactParts: TypeAlias = Callable[[SeriesBatch], Iterator[Compact]]


class Moments(NamedTuple):
    """Mean and variance of q sums for every output of a member, two (q, outputs)."""

    mean: Tensor
    variance: Tensor


class Terms(ABC):
    """What the latents of a committee of K members are made of.

    - `logits`; `weights` (K,) of the members.
    - `constant` (outputs,): mu_0; `widths`: the number of features of every part.
    - `kernels`: the kernels without features, each with the a_b (m, outputs) of the members of power 1.
    - `spread` (channels,): the standard deviations over all points of the training series.
    - `model`: the paper's, if it is that.
    - `landmarks`, as features see them, and their `blocks`; `shares`: for every member the kernels that it averages,
      with shares that sum to 1; `bent`: the numbers of the members of a power above 1. Models without landmarks have
      none of these.
    """

    logits: Logits
    weights: Tensor
    constant: Tensor
    widths: Sequence[int]
    kernels: Mapping[str, Tensor]
    spread: Tensor
    model: SignatureGP | None = None
    landmarks: SeriesBatch | None = None
    blocks: Sequence[Block] = ()
    shares: Sequence[Mapping[str, float]] = ()
    bent: Sequence[int] = ()

    @abstractmethod
    def names(self, names: Sequence[str]) -> Letters:
        """Returns the names of the channels, each of which stands for one channel alone."""

    @abstractmethod
    def vocabulary(self, names: Sequence[str]) -> Vocabulary:
        """Returns the names of all terms, for series whose channels have these names."""

    @abstractmethod
    def average(self) -> Tensor:
        """Returns the ordinary series (length, channels) that takes the place of what is cut out, in the units of the
        series: the mean over the landmarks, to which shorter ones are stretched, or (1, channels) the mean of every
        channel over all points of the training series, where no landmarks are kept."""

    @abstractmethod
    def prepare(self, batch: SeriesBatch) -> SeriesBatch:
        """Returns the series as features see them."""

    @abstractmethod
    def parts(self, seen: SeriesBatch) -> Iterator[Part]:
        """Yields the features of n prepared series, part by part."""

    @abstractmethod
    def part(self, number: int) -> LinearPart:
        """Returns the mean and the weights of the features of a part."""

    @abstractmethod
    def means(
        self, seen: SeriesBatch, watch: Watch | None = None, compact: Mapping[int, CompactParts] | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Returns the mean latents (K, n, outputs) of the members at n prepared series, float64, and their kernels with
        the landmarks (n, m), if there are any.

        Features are shown to `watch` as they pass by. Those of blocks in `compact`, by number, are computed there.
        """

    def latents(self, batch: SeriesBatch) -> Tensor:
        """Returns the mean latents (K, n, outputs) of the members, float64."""
        size = max(1, min(_CHUNK_OF_MEANS, _LARGEST_CHUNK // (batch.values.shape[1] * batch.channels)))
        return torch.cat([self.means(self.prepare(chunk))[0] for chunk in batch.split(size)], dim=1)

    def chunk_size(self, batch: SeriesBatch) -> int:
        """Returns how many series are handled at a time where all features are kept."""
        return max(1, min(CHUNK, _LARGEST_CHUNK // max([batch.values.shape[1] * batch.channels, *self.widths])))

    def rows(self, seen: SeriesBatch) -> dict[str, Rows]:
        """Returns the rows, at n prepared series, of the kernels without features and of those that are bent."""
        return {}

    def bends(self, rows: Mapping[str, Rows]) -> Iterator[Bend]:
        """Yields what members of a power above 1 add, for n series."""
        return iter(())

    def bent_weights(self, number: int, coefficients: Tensor) -> Tensor:
        """Returns W (n, p) of the features of a part, from coefficients a_b (n, m) of its kernel."""
        raise NotImplementedError("there are no landmarks")

    def slopes(self, seen: SeriesBatch) -> dict[int, tuple[Tensor, Tensor]]:
        """Returns h(c) / (|X| |Y|) of every member of a power above 1, among n prepared series (n, n) and with the
        landmarks (n, m)."""
        return {}

    def part_grams(self, number: int, centred: Tensor, columns: Tensor | None) -> tuple[Tensor, Tensor]:
        """Returns the kernel of features of a part, less their mean (n, p), or of these columns, among n series (n, n)
        and with the landmarks (n, m)."""
        raise NotImplementedError("there are no landmarks")

    def kernel_grams(self, seen: SeriesBatch) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Yields the name of every kernel without features, centred, among n prepared series (n, n) and with the
        landmarks (n, m)."""
        return iter(())

    # What the posterior is made of (`explain.posterior`).

    @abstractmethod
    def coefficients(self, number: int) -> dict[int, float]:
        """Returns the coefficient of the kernel of a part in each member that is linear in it."""

    @abstractmethod
    def grams(self) -> Iterator[Gram]:
        """Yields the covariances that a member has beside those of features in which it is linear."""

    @abstractmethod
    def statistics(self, number: int, sums: Tensor, columns: Tensor | None = None) -> Iterator[tuple[int, Tensor]]:
        """Yields, for each member that is linear in a part, what its posterior looks at (r, d) in sums (r, p) of the
        features of the part, less their mean, or of some `columns` of them; d is that of `widths_of_statistics`."""

    @property
    @abstractmethod
    def widths_of_statistics(self) -> list[int]:
        """The numbers that the posterior of each member looks at."""

    @abstractmethod
    def moments(self, member: int, prior: Tensor, statistics: Tensor) -> Moments:
        """Returns the moments of q sums of latents of a member, from their prior variance (q,) and the statistics
        (q, d)."""

    def along(self, variances: Tensor, directions: Tensor) -> Tensor:
        """Returns the variances (..) of latents with variances (.., outputs) in directions (.., outputs).

        Latents of classes in closed form have one variance and the correlations of `committee.link`, for their sum is
        known; other latents none.
        """
        outputs = directions.shape[-1]
        if outputs == 1:
            return (variances * directions.square()).sum(-1)
        eye = torch.eye(outputs, dtype=directions.dtype, device=directions.device)
        joint = (outputs * eye - 1) / (outputs - 1)
        return variances[..., 0] * ((directions @ joint) * directions).sum(-1).clamp_min(0.0)


def terms_of(committee: AnyCommittee) -> Terms:
    """Returns the terms of a committee."""
    if isinstance(committee, Committee):
        return WordTerms(committee)
    return WeightTerms(committee) if isinstance(committee, WeightCommittee) else LandmarkTerms(committee)


class WordTerms(Terms):
    """Those of the paper's model, whose one part of features are the words but the empty one, which is constant."""

    def __init__(self, committee: Committee) -> None:
        (member,) = committee.members
        self.transform, self.weights = member.transform, committee.weights
        self.gp = self.model = member.model
        model, device = self.gp, committee.device
        self.logits = Logits.of_likelihood(model.likelihood, device)
        assert self.transform.spread is not None
        self.spread, self.kernels = self.transform.spread, {}
        # Of a normalised kernel the empty word is 1 / norm.
        words = model.features.words
        self.kept = [index for index, word in enumerate(words) if word or model.kernel.normalized]
        self.widths = [len(self.kept)]
        mean = model.variational.mean.detach().double()
        self.mean = (mean if model.features.basis is None else mean @ model.features.basis.T.double()).T  # (M, outputs)
        empty = [index for index in range(len(words)) if index not in set(self.kept)]
        self.constant = model.kernel.amplitude.detach().double().sqrt() * self.mean[empty].sum(0)

    def names(self, names: Sequence[str]) -> Letters:
        return unique_names(names, [self.transform.names(names)])

    def vocabulary(self, names: Sequence[str]) -> Vocabulary:
        channels = self.names(names)
        letters, words = self.transform.names(channels), self.gp.features.words
        spelled = [tuple(letters[letter] for letter in words[index]) for index in self.kept]
        return word_vocabulary(spelled, channels, self.weights.device)

    def average(self) -> Tensor:
        assert self.transform.mean is not None
        return self.transform.mean[None]

    def prepare(self, batch: SeriesBatch) -> SeriesBatch:
        return self.transform.paths(batch)

    def parts(self, seen: SeriesBatch) -> Iterator[Part]:
        yield Part("words", word_features(self.gp, seen)[:, self.kept])

    def part(self, number: int) -> LinearPart:
        return LinearPart(self.mean.new_zeros(len(self.kept)), self.mean[self.kept])

    def means(
        self, seen: SeriesBatch, watch: Watch | None = None, compact: Mapping[int, CompactParts] | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        features = word_features(self.gp, seen)
        if watch is not None:
            watch(Watched(0, "words", features[:, self.kept]))
        return (features @ self.mean)[None], []

    def coefficients(self, number: int) -> dict[int, float]:
        return {0: 1.0}

    def grams(self) -> Iterator[Gram]:
        def beyond(paths: SeriesBatch) -> Tensor:
            features = word_features(self.gp, paths)
            return self.gp.kernel(paths.values, lengths=paths.lengths).detach().double() - features @ features.T

        yield Gram(beyond, {0: 1.0})  # longer words

    def statistics(self, number: int, sums: Tensor, columns: Tensor | None = None) -> Iterator[tuple[int, Tensor]]:
        words = torch.tensor(self.kept, device=sums.device)
        whole = sums.new_zeros(len(sums), len(self.mean))
        whole[:, words if columns is None else words[columns]] = sums
        yield 0, whole

    @property
    def widths_of_statistics(self) -> list[int]:
        return [len(self.mean)]

    def moments(self, member: int, prior: Tensor, statistics: Tensor) -> Moments:
        """Returns those of q(u) = N(m, Sigma): with the features phi the variance k - |phi|² + phi^T Sigma phi."""
        basis = self.gp.features.basis
        features = statistics if basis is None else statistics @ basis.double()
        _, spread = self.gp.variational(features.to(self.gp.dtype))
        left = prior - features.square().sum(1)
        return Moments(statistics @ self.mean, (left[:, None] + spread.detach().double()).clamp_min(0.0))

    def along(self, variances: Tensor, directions: Tensor) -> Tensor:
        return (variances * directions.square()).sum(-1)


def word_features(model: SignatureGP, paths: SeriesBatch) -> Tensor:
    """Returns s_a(X) of every path and word, (n, M), float64, before any rotation."""
    kernel, words = model.kernel, model.features.words
    values = signature(paths.values * kernel.theta.detach(), words=words, lengths=paths.lengths)
    if kernel.normalized:
        values = values / kernel.squared_norm(paths.values, lengths=paths.lengths).detach().sqrt()[:, None]
    return values * kernel.amplitude.detach().sqrt()


class ViewTerms(Terms):
    """What terms of committees of views have in common."""

    def __init__(self, committee: ViewCommittee | WeightCommittee) -> None:
        self.committee, self.weights, link = committee, committee.weights, committee.link
        self.logits = Logits.of_number(0.0, committee.device) if link is None else Logits(link.mixing, link.offset)
        self.spread = committee.standard.spread

    def names(self, names: Sequence[str]) -> Letters:
        paths = [block.transform.names(names) for block in self.committee.blocks if isinstance(block, PathBlock)]
        return unique_names(names, paths)

    def vocabulary(self, names: Sequence[str]) -> Vocabulary:
        kernels = kernels_of(member.recipe for member in self.committee.members)
        return view_vocabulary(self.committee.blocks, kernels, self.names(names), self.committee.device)

    def prepare(self, batch: SeriesBatch) -> SeriesBatch:
        return self.committee.standard(batch)

    def parts(self, seen: SeriesBatch) -> Iterator[Part]:
        return parts_of(self.committee.blocks, seen)


class WeightTerms(ViewTerms):
    """Those of views without landmark series."""

    def __init__(self, committee: WeightCommittee) -> None:
        super().__init__(committee)
        self.members, self.centres, self.kernels = committee.members, committee.centres, {}
        self.widths = [len(centre) for centre in committee.centres]
        self.constant = committee.weights @ torch.stack([member.constant for member in committee.members]).double()

    def average(self) -> Tensor:
        return self.committee.standard.mean[None]

    def means(
        self, seen: SeriesBatch, watch: Watch | None = None, compact: Mapping[int, CompactParts] | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        means = [member.constant.double().expand(len(seen), -1).clone() for member in self.members]
        for number, (name, values) in enumerate(self.parts(seen)):
            users = self.coefficients(number)
            if not users:
                continue
            if watch is not None:
                watch(Watched(number, name, values))
            centred = values.double() - self.centres[number]
            for k in users:
                means[k] += centred @ self.members[k].parts[number].weights.double()
        return torch.stack(means), []

    def part(self, number: int) -> LinearPart:
        total = self.constant.new_zeros(self.widths[number], len(self.constant))
        for weight, member in zip(self.weights.tolist(), self.members, strict=True):
            if number in member.parts:
                total += weight * member.parts[number].weights.double()
        return LinearPart(self.centres[number], total)

    def coefficients(self, number: int) -> dict[int, float]:
        return {k: member.parts[number].coefficient for k, member in enumerate(self.members) if number in member.parts}

    def grams(self) -> Iterator[Gram]:
        return iter(())

    def statistics(self, number: int, sums: Tensor, columns: Tensor | None = None) -> Iterator[tuple[int, Tensor]]:
        for k, member in enumerate(self.members):
            if number in member.parts:
                part = member.parts[number]
                both = [each if columns is None else each[columns] for each in (part.weights, part.factor)]
                yield k, torch.cat([sums @ each.to(sums) for each in both], dim=1)

    @property
    def widths_of_statistics(self) -> list[int]:
        return [len(member.constant) + len(member.root) for member in self.members]

    def moments(self, member: int, prior: Tensor, statistics: Tensor) -> Moments:
        chosen, outputs = self.members[member], len(self.constant)
        mean, explained = statistics[:, :outputs], statistics[:, outputs:].square().sum(1)
        variance = chosen.amplitude * (prior - explained).clamp_min(0.0)  # what is negative is rounding
        return Moments(mean, variance[:, None].expand_as(mean))


class LandmarkTerms(ViewTerms):
    """Those of views with landmark series."""

    def __init__(self, committee: ViewCommittee) -> None:
        super().__init__(committee)
        self.blocks = list(committee.blocks)
        self.members = committee.members
        self.landmarks = committee.landmarks
        self.features = [
            (block, part) for block in self.blocks if isinstance(block, FeatureBlock) for part in block.landmarks
        ]
        self.counts = Counter(part.name for _, part in self.features)
        self.widths = [part.values.shape[1] for _, part in self.features]
        self.shares = [shares_of(member.recipe) for member in self.members]
        self.bent = [k for k, member in enumerate(self.members) if member.recipe.power > 1]
        self.raised = {name for k in self.bent for name in self.shares[k]}
        used = {name for shares in self.shares for name in shares}
        linear = {name: torch.zeros_like(self.members[0].alpha) for name in used}
        self.constant = torch.zeros_like(self.members[0].alpha[0])
        for k, (weight, member) in enumerate(zip(self.weights.tolist(), self.members, strict=True)):
            alpha = weight * member.alpha
            self.constant += (CONSTANT + (2.0**-member.recipe.power if k in self.bent else 0.0)) * alpha.sum(0)
            for name, share in self.shares[k].items() if k not in self.bent else ():
                linear[name] += share * alpha
        self.linear = linear
        self.kernels = {name: weights for name, weights in linear.items() if name not in self.counts}
        wanted = self.raised.union(self.kernels)
        self.row_blocks = [block for block in self.blocks if not wanted.isdisjoint(block.centring)]
        self.known: dict[int, LinearPart] = {}

    def average(self) -> Tensor:
        standard, landmarks = self.committee.standard, self.landmarks
        assert landmarks is not None
        longest = landmarks.values.shape[1]
        if landmarks.lengths is None:
            mean = landmarks.values.mean(0)
        else:
            counts = zip(landmarks.values, landmarks.lengths.tolist(), strict=True)
            mean = torch.stack([stretched(series[:count], longest) for series, count in counts]).mean(0)
        return mean * standard.spread.to(mean) + standard.mean.to(mean)

    def means(
        self, seen: SeriesBatch, watch: Watch | None = None, compact: Mapping[int, CompactParts] | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        rows: dict[str, Rows] = {}
        first = 0
        for index, block in enumerate(self.blocks):
            if not isinstance(block, FeatureBlock):
                rows |= block.rows(seen)
            elif compact and index in compact:
                rows |= self._compact_rows(block, compact[index](seen), first, watch)
            else:
                rows |= block.rows_from(self._watched(block, seen, first, watch))
            first += len(block.landmarks) if isinstance(block, FeatureBlock) else 0
        grams = [member.mixed(rows).gram for member in self.members]
        return torch.stack([gram @ member.alpha for gram, member in zip(grams, self.members, strict=True)]), grams

    def _watched(self, block: FeatureBlock, seen: SeriesBatch, first: int, watch: Watch | None) -> Iterator[Part]:
        for number, (part, landmarks) in enumerate(zip(block.parts(seen), block.landmarks, strict=True), first):
            if watch is not None:
                centre = landmarks.values.double().mean(0) if part.name in self.raised else None
                watch(Watched(number, part.name, part.values, None, None, centre, self.scale(number)))
            yield part

    def _compact_rows(
        self, block: FeatureBlock, parts: Iterator[Compact], first: int, watch: Watch | None
    ) -> dict[str, Rows]:
        """Returns the rows from features of groups of channels, of every state of a group once."""
        sums: dict[tuple[str, tuple[int, ...]], tuple[Tensor, Tensor, Tensor]] = {}
        for name, channels, part, columns, landmarks, centre, values, state in parts:
            gram, variance = (values @ landmarks.T).double(), values.double().square().sum(1)
            if (name, channels) in sums:
                sums[name, channels][0].add_(gram)
                sums[name, channels][1].add_(variance)
            else:
                sums[name, channels] = gram, variance, state
            if watch is not None:
                number, mean = first + part, centre if name in self.raised else None
                watch(Watched(number, name, values, columns, state, mean, self.scale(number)))
        rows: dict[str, Rows] = {}
        for (name, _), (gram, variance, state) in sums.items():
            more = Rows(gram[state], variance[state])
            rows[name] = (
                Rows(rows[name].gram + more.gram, rows[name].variance + more.variance) if name in rows else more
            )
        return {
            name: block.centring[name](Rows(raw.gram / self.counts[name], raw.variance / self.counts[name]))
            for name, raw in rows.items()
        }

    def part(self, number: int) -> LinearPart:
        if number not in self.known:
            part = self.features[number][1]
            weights = self.bent_weights(number, self.linear[part.name].T).T
            self.known[number] = LinearPart(part.values.double().mean(0), weights)
        return self.known[number]

    def scale(self, number: int) -> float:
        """Returns s / q of a part: what the product of its features counts in its kernel."""
        block, part = self.features[number]
        return block.centring[part.name].scale / self.counts[part.name]

    def bent_weights(self, number: int, coefficients: Tensor) -> Tensor:
        values = self.features[number][1].values.double()
        return self.scale(number) * (coefficients @ (values - values.mean(0)))

    def rows(self, seen: SeriesBatch) -> dict[str, Rows]:
        return rows_of(self.row_blocks, seen)

    def bends(self, rows: Mapping[str, Rows]) -> Iterator[Bend]:
        for k in self.bent:
            member = self.members[k]
            assert member.norms is not None
            plain = member.recipe.average(rows)
            slopes = slope(plain.gram, sizes(plain, member.norms), member.recipe.power)
            for name, share in self.shares[k].items():
                yield Bend(name, share * slopes, float(self.weights[k]) * member.alpha)

    def coefficients(self, number: int) -> dict[int, float]:
        name, scale = self.features[number][1].name, self.scale(number)
        users = [(k, shares) for k, shares in enumerate(self.shares) if name in shares and k not in self.bent]
        return {k: scale * shares[name] for k, shares in users}

    def statistics(self, number: int, sums: Tensor, columns: Tensor | None = None) -> Iterator[tuple[int, Tensor]]:
        """Yields c k_J(v, Z), (r, m)."""
        coefficients = self.coefficients(number)
        if coefficients:
            values = self.features[number][1].values
            landmarks = (values if columns is None else values[:, columns]).double()
            cross = sums @ (landmarks - landmarks.mean(0)).T
            for k, coefficient in coefficients.items():
                yield k, coefficient * cross

    @property
    def widths_of_statistics(self) -> list[int]:
        return [len(member.alpha) for member in self.members]

    def moments(self, member: int, prior: Tensor, statistics: Tensor) -> Moments:
        regression = self.members[member].regression
        mean = statistics @ regression.alpha
        explained = (statistics @ regression.root.to(statistics)).square().sum(1)
        variance = regression.amplitude * (prior - explained).clamp_min(0.0)  # what is negative is rounding
        return Moments(mean, variance[:, None].expand_as(mean))

    def grams(self) -> Iterator[Gram]:
        """Yields those of kernels without features, not centred, which makes no difference to sums with weights that
        sum to 0; then those of members of a power above 1."""
        for block in self._kernel_blocks():
            name, scale = block.view.name, block.centring[block.view.name].scale
            users = [(k, shares) for k, shares in enumerate(self.shares) if name in shares and k not in self.bent]
            if users:
                yield Gram(block.gram, {k: scale * shares[name] for k, shares in users})
        for k in self.bent:
            shares, power = self.shares[k], self.members[k].recipe.power
            blocks = [kept for block in self.blocks if (kept := block.keep(set(shares))) is not None]
            gram = partial(_raised_gram, blocks, shares, power)
            yield Gram(gram, {k: 1.0}, shares, power, _TOGETHER)

    def kernel_grams(self, seen: SeriesBatch) -> Iterator[tuple[str, Tensor, Tensor]]:
        for block in self._kernel_blocks():
            name, raw = block.view.name, block.raw(seen)
            ((_, inside),) = grams_among(block, seen, {name}, raw)
            yield name, inside, block.centring[name](raw[name]).gram

    def _kernel_blocks(self) -> list[KernelBlock]:
        return [block for block in self.blocks if isinstance(block, KernelBlock) and block.view.name in self.kernels]

    def part_grams(self, number: int, centred: Tensor, columns: Tensor | None) -> tuple[Tensor, Tensor]:
        values, scale = self.features[number][1].values, self.scale(number)
        landmarks = (values if columns is None else values[:, columns]).double()
        return scale * (centred @ centred.T), scale * (centred @ (landmarks - landmarks.mean(0)).T)

    def slopes(self, seen: SeriesBatch) -> dict[int, tuple[Tensor, Tensor]]:
        if not self.bent:
            return {}
        rows, among = self.rows(seen), _summed(self.row_blocks, seen, self.raised)
        slopes = {}
        for k in self.bent:
            member = self.members[k]
            assert member.norms is not None
            plain, power = member.recipe.average(rows), member.recipe.power
            gram = torch.stack([share * among[name] for name, share in self.shares[k].items()]).sum(0)
            gram.diagonal().copy_(plain.variance)  # that of predictions, which has a floor
            inside = Rows(gram, plain.variance)
            slopes[k] = slope(gram, sizes(inside, inside), power), slope(plain.gram, sizes(plain, member.norms), power)
        return slopes


def shares_of(recipe: Recipe) -> dict[str, float]:
    """Returns the kernels of a member and their shares, which sum to 1."""
    total = sum(weight for _, weight in recipe.weights)
    return {name: weight / total for name, weight in recipe.weights}


def slope(gram: Tensor, size: Tensor, power: int) -> Tensor:
    """Returns h(c) / (|X| |Y|) of the kernel before a power, and the products |X| |Y| of norms."""
    above = 1 + gram / size
    total = sum((above**i for i in range(1, power)), torch.ones_like(above))
    return total / (2**power * size)


def raised(plain: Tensor, power: int) -> Tensor:
    """Returns ((1 + cosine) / 2)^power of kernels (.., n, n)."""
    norms = plain.diagonal(dim1=-2, dim2=-1).clamp_min(_SMALLEST).sqrt()
    cosine = plain / (norms[..., :, None] * norms[..., None, :]).clamp_min(_SMALLEST)
    return ((1 + cosine) / 2) ** power


def _raised_gram(blocks: Sequence[Block], shares: Mapping[str, float], power: int, seen: SeriesBatch) -> Tensor:
    among = _summed(blocks, seen, set(shares))
    return raised(torch.stack([share * among[name] for name, share in shares.items()]).sum(0), power)


def _summed(blocks: Sequence[Block], seen: SeriesBatch, names: set[str]) -> dict[str, Tensor]:
    among: dict[str, Tensor] = {}
    for block in blocks:
        for name, gram in grams_among(block, seen, names):
            among[name] = among[name] + gram if name in among else gram
    return among


def grams_among(
    block: Block, seen: SeriesBatch, names: set[str], raw: Mapping[str, Rows] | None = None
) -> Iterator[tuple[str, Tensor]]:
    """Yields kernels of a block among n series (n, n), centred and scaled: of kernels without features one, whose `raw`
    rows may be known, of others the share of every part."""
    if isinstance(block, KernelBlock):
        name = block.view.name
        if name in names:
            centring, mean = block.centring[name], (raw or block.raw(seen))[name].gram.mean(1)
            yield name, (block.gram(seen) - mean[:, None] - mean + centring.mean) * centring.scale
        return
    assert isinstance(block, FeatureBlock)
    counts = Counter(block.kernels)
    for part, landmarks in zip(block.parts(seen), block.landmarks, strict=True):
        if part.name in names:
            values = part.values.double() - landmarks.values.double().mean(0)
            yield part.name, block.centring[part.name].scale / counts[part.name] * (values @ values.T)


def stretched(series: Tensor, length: int) -> Tensor:
    """Returns the series (points, channels) at `length` evenly spaced times from its first point to its last."""
    if len(series) == length:
        return series
    scaled = torch.nn.functional.interpolate(series.T[None], size=length, mode="linear", align_corners=True)
    return scaled[0].T


def check_inputs(terms: Terms, batch: SeriesBatch, names: Sequence[str], min_series: int = 1) -> None:
    """Raises a ValueError where there are too few series, or the names or channels do not fit the committee."""
    if len(batch) < min_series:
        what = "there are no series to explain" if min_series == 1 else f"{len(batch)} series do not show what varies"
        raise ValueError(f"{what}; give at least {min_series}")
    if isinstance(names, str) or len(names) != batch.channels:
        raise ValueError(f"names must be one for each of the {batch.channels} channels of the series, got {names!r}")
    if len(terms.spread) != batch.channels:
        raise ValueError(f"the series have {batch.channels} channels, but those of training had {len(terms.spread)}")


def checked_labels(terms: Terms, classes: Any) -> list[Any] | None:
    """Returns the labels as plain values, after checking that there are as many as the model has; None for numbers."""
    count = terms.logits.classes
    if count is None:
        if classes is not None:
            raise ValueError("the committee predicts numbers, not classes; leave classes out")
        return None
    labels = None if classes is None else list(np.asarray(classes).tolist())
    if labels is None or len(labels) != count:
        got = "none" if labels is None else f"{len(labels)}"
        raise ValueError(f"the committee predicts {count} classes; give their labels as classes, got {got}")
    return labels


def evenly_spaced(batch: SeriesBatch, most: int) -> SeriesBatch:
    """Returns the batch, or of more than `most` series that many."""
    return batch if len(batch) <= most else batch[torch.arange(most) * len(batch) // most]
