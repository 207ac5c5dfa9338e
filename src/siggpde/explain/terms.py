"""The terms of the latents of a committee, of which its explanations are made (docs/design.md, Explanations)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from siggpde.committee.committee import Committee, ViewCommittee
from siggpde.committee.recipes import CONSTANT, Recipe, kernels_of, sizes
from siggpde.committee.weight_space import FeatureWeights, PartWeights
from siggpde.explain.text import Letters, Vocabulary, unique_names, view_vocabulary, word_vocabulary
from siggpde.gp.likelihoods import Bernoulli, Poisson
from siggpde.gp.likelihoods.base import Classification
from siggpde.gp.model import SignatureGP
from siggpde.numerics.signature import signature
from siggpde.series import SeriesBatch
from siggpde.views.base import Block, FeatureBlock, Part, Rows, parts_of, rows_of
from siggpde.views.kernels import KernelBlock
from siggpde.views.paths import PathBlock

CHUNK = 256
_CHUNK_OF_MEANS = 1024
_LARGEST_CHUNK = 2**24  # numbers of series, or of the features of a part, handled at a time
_SMALLEST = 1e-9
_NO_LANDMARKS = "there are no landmarks"
_TOGETHER = 128  # series whose features are computed at a time, where powers need them


class Logits(NamedTuple):
    """From mean latents mu (outputs,) to what is explained, A mu + b: logits of classes, or the number as the only row,
    with `mixing` A (classes, outputs) and `offset` b (classes,), float64, of the link in closed form. Two classes with
    one latent f have f for class 1 and 0 for class 0; counts have b in the logarithm of the rate."""

    mixing: Tensor
    offset: Tensor

    @property
    def classes(self) -> int | None:
        """How many classes there are; None for numbers."""
        return None if len(self.mixing) == 1 else len(self.mixing)

    def directions(self, pairs: Tensor | None, series: int) -> tuple[Tensor, Tensor]:
        """Returns d (n, outputs) and what b adds (n,), for pairs (n, 2) of classes, or None for numbers."""
        if pairs is None:
            return self.mixing.expand(series, -1), self.offset.expand(series)
        first, second = pairs[:, 0], pairs[:, 1]
        return self.mixing[first] - self.mixing[second], self.offset[first] - self.offset[second]

    def class_directions(self) -> Tensor:
        """Returns the directions (classes, outputs) of each logit less the mean of all; of a number, the number."""
        return self.mixing if self.classes is None else self.mixing - self.mixing.mean(0)


class Bend(NamedTuple):
    """What a member of a power above 1 adds to a kernel: a_b(X, Z) = factor(X, Z) alpha(Z), (n, m) and (m, outputs)."""

    kernel: str
    factor: Tensor
    alpha: Tensor


class Features(NamedTuple):
    """The `values` (u, p) of a part or some columns of it; `state` (n,) are the rows of n series, None for u = n."""

    number: int
    part: Part
    columns: Tensor | None = None
    state: Tensor | None = None

    @property
    def values(self) -> Tensor:
        return self.part.values


class Group(NamedTuple):
    """A block of some channels, its features of the u states that these have in n series, and their state (n,)."""

    block: FeatureBlock
    features: Iterable[Features]
    state: Tensor


Watch: TypeAlias = Callable[[Features], None]
Groups: TypeAlias = Mapping[int, Sequence[Group]]  # of some blocks, by their number
Means: TypeAlias = tuple[Tensor, list[Tensor]]
Covariances: TypeAlias = list[list[tuple[int, Tensor]]]  # by slice, with the number of the member


class Moments(NamedTuple):
    """Mean and variance of q sums for every output of a member, two (q, outputs)."""

    mean: Tensor
    variance: Tensor


class InnerProducts(NamedTuple):
    """Among n series, and with landmarks: h(c) / (|X| |Y|) of members of a power, and kernels without features."""

    slopes: dict[int, tuple[Tensor, Tensor]]
    kernels: dict[str, tuple[Tensor, Tensor]]


class Terms:
    """What the latents of a committee of K members are made of: here of views without landmark series.

    - `constant` (outputs,) is mu_0; `widths` are numbers of features of the parts, `kernel_of_part` its kernel.
    - `ordinary` (length, channels) takes the place of what is cut out, in the units of the series: the mean over the
      landmarks, or (1, channels) over all training points; `spread` (channels,) is their standard deviation.
    - `statistic_widths`: how many numbers the posterior of each member looks at. `model` is the paper's, if it is that.
    - `posteriors`, without landmarks only: weights of features less their `centres`.

    Only with landmarks there are:

    - `landmarks`, as features see them, and their `blocks`; `scales`: s / q of every part, what the product of its
      features counts in its kernel; `kernels`: those without features, with a_b (m, outputs) of the members of power 1.
    - `shares`: for every member the kernels that it averages, with shares that sum to 1; `powers`: to which it raises
      them; `bent`: the numbers of the members of a power above 1, and `raised` their kernels.
    - `together`: for how many series at least `covariances` are to be asked for at a time.
    """

    constant: Tensor
    widths: Sequence[int]
    ordinary: Tensor
    statistic_widths: Sequence[int]
    posteriors: Sequence[FeatureWeights]
    centres: Sequence[Tensor]
    model: SignatureGP | None = None
    landmarks: SeriesBatch | None = None
    blocks: Sequence[Block] = ()
    scales: Sequence[float] = ()
    kernels: Mapping[str, Tensor] = {}
    shares: Sequence[Mapping[str, float]] = ()
    powers: Sequence[int] = ()
    bent: Sequence[int] = ()
    raised: Collection[str] = ()
    together: int = 0

    def __init__(self, committee: ViewCommittee) -> None:
        self.committee, self.weights, link = committee, committee.weights, committee.link
        one = torch.ones(1, 1, dtype=torch.float64, device=committee.device)
        self.logits = Logits(one, 0 * one[0]) if link is None else Logits(link.mixing, link.offset)
        self.spread = committee.standard.spread
        features = [block for block in committee.blocks if isinstance(block, FeatureBlock)]
        self.kernel_of_part = [name for block in features for name in block.kernels]
        if committee.landmarks is None:
            self.posteriors, self.centres = [member.features for member in committee.members], committee.centres
            self.ordinary, self.widths = committee.standard.mean[None], [len(centre) for centre in self.centres]
            self.constant = committee.weights @ torch.stack([one.constant for one in self.posteriors]).double()
            self.statistic_widths = [len(one.constant) + len(one.root) for one in self.posteriors]

    def names(self, names: Sequence[str]) -> Letters:
        """Returns the names of the channels, each of which stands for one channel alone."""
        paths = [block.transform.names(names) for block in self.committee.blocks if isinstance(block, PathBlock)]
        return unique_names(names, paths)

    def vocabulary(self, names: Sequence[str]) -> Vocabulary:
        """Returns the names of all terms, for series whose channels have these names."""
        kernels = kernels_of(member.recipe for member in self.committee.members)
        return view_vocabulary(self.committee.blocks, kernels, self.names(names), self.committee.device)

    def prepare(self, batch: SeriesBatch) -> SeriesBatch:
        """Returns the series as features see them."""
        return self.committee.standard(batch)

    def parts(self, seen: SeriesBatch) -> Iterator[Part]:
        """Yields the features of n prepared series, part by part."""
        return parts_of(self.committee.blocks, seen)

    def centre(self, number: int) -> Tensor:
        """Returns m (p,) of the features of a part."""
        return self.centres[number]

    def part_weights(self, number: int) -> Tensor:
        """Returns the W (p, outputs) of a part, of all members of power 1."""
        total = self.constant.new_zeros(self.widths[number], len(self.constant))
        for k in self.coefficients(number):
            total += self.weights[k] * self.posteriors[k].parts[number].weights.double()
        return total

    def means(self, seen: SeriesBatch, watch: Watch | None = None, groups: Groups | None = None) -> Means:
        """Returns the mean latents (K, n, outputs) of prepared series, float64, and kernels (n, m), if any."""
        means = [posterior.constant.double().expand(len(seen), -1).clone() for posterior in self.posteriors]
        for number, part in enumerate(self.parts(seen)):
            users = self.coefficients(number)
            if users and watch is not None:
                watch(Features(number, part))
            if not users:
                continue
            centred = part.values.double() - self.centres[number]
            for k in users:
                means[k] += centred @ self.posteriors[k].parts[number].weights.double()
        return torch.stack(means), []

    def latents(self, batch: SeriesBatch) -> Tensor:
        """Returns the mean latents (K, n, outputs) of the members, float64."""
        size = max(1, min(_CHUNK_OF_MEANS, _LARGEST_CHUNK // (batch.values.shape[1] * batch.channels)))
        return torch.cat([self.means(self.prepare(chunk))[0] for chunk in batch.split(size)], dim=1)

    def chunk_size(self, batch: SeriesBatch) -> int:
        """Returns how many series are handled at a time where all features are kept."""
        return max(1, min(CHUNK, _LARGEST_CHUNK // max(batch.values.shape[1] * batch.channels, sum(self.widths))))

    # What kernels without features, and members of a power above 1, add.

    def rows(self, seen: SeriesBatch) -> dict[str, Rows]:
        """Returns the rows, at n prepared series, of the kernels without features and of those that are bent."""
        return {}

    def bends(self, rows: Mapping[str, Rows]) -> Iterator[Bend]:
        """Yields what members of a power above 1 add, for n series."""
        return iter(())

    def bent_weights(self, number: int, coefficients: Tensor) -> Tensor:
        """Returns W (n, p) of the features of a part, from coefficients a_b (n, m) of its kernel."""
        raise NotImplementedError(_NO_LANDMARKS)

    # What the posterior is made of (`explain.posterior`).

    def coefficients(self, number: int) -> dict[int, float]:
        """Returns the coefficient of the kernel of a part in each member that is linear in it."""
        return {k: one.parts[number].coefficient for k, one in enumerate(self.posteriors) if number in one.parts}

    def statistics(self, number: int, sums: Tensor, columns: Tensor | None = None) -> Iterator[tuple[int, Tensor]]:
        """Yields, for members linear in a part, what their posterior looks at (r, d) in sums (r, p) of its features."""
        for k in self.coefficients(number):
            part = self.posteriors[k].parts[number]
            both = [some if columns is None else some[columns] for some in (part.weights, part.factor)]
            yield k, torch.cat([sums @ some.to(sums) for some in both], dim=1)

    def moments(self, member: int, prior: Tensor, statistics: Tensor) -> Moments:
        """Returns the moments of q sums of latents of a member, from prior variance (q,) and statistics (q, d)."""
        mean, explained = statistics.tensor_split([len(self.constant)], dim=1)
        return _closed_form(mean, self.posteriors[member].amplitude, prior, explained)

    def along(self, variances: Tensor, directions: Tensor) -> Tensor:
        """Returns variances (..) in directions (.., outputs), of latents with variances (.., outputs)."""
        outputs = directions.shape[-1]
        if outputs == 1:
            return (variances * directions.square()).sum(-1)
        eye = torch.eye(outputs, dtype=directions.dtype, device=directions.device)
        joint = (outputs * eye - 1) / (outputs - 1)
        return variances[..., 0] * ((directions @ joint) * directions).sum(-1).clamp_min(0.0)

    def covariances(self, seen: SeriesBatch, slices: Sequence[slice], members: Collection[int]) -> Covariances:
        """Returns, for each slice, the covariances (n, n) that features do not give, with their members."""
        return [[] for _ in slices]

    def mixture(self, member: int, grams: Mapping[str, Tensor]) -> Tensor:
        """Returns the kernel (.., n, n) of a member among some series, from those it averages, without its constant."""
        raise NotImplementedError(_NO_LANDMARKS)

    def inner(self, seen: SeriesBatch) -> InnerProducts:
        """Returns what sums of parts need of n prepared series."""
        return InnerProducts({}, {})

    def part_grams(self, number: int, centred: Tensor, columns: Tensor | None) -> tuple[Tensor, Tensor]:
        """Returns the kernel of features of a part, or of some columns, among n series and with landmarks (n, m)."""
        raise NotImplementedError(_NO_LANDMARKS)


def _closed_form(mean: Tensor, amplitude: float, prior: Tensor, explained: Tensor) -> Moments:
    """Returns moments from the prior variance (q,) and what the training series told, (q, r)."""
    variance = amplitude * (prior - explained.square().sum(1)).clamp_min(0.0)  # what is negative is rounding
    return Moments(mean, variance[:, None].expand_as(mean))


def terms_of(committee: Committee) -> Terms:
    """Returns the terms of a committee: of one without views, without landmark series, or with both."""
    if committee.method == "paper":
        return WordTerms(committee)
    views = cast(ViewCommittee, committee)
    return Terms(views) if views.landmarks is None else LandmarkTerms(views)


class WordTerms(Terms):
    """Terms of the paper's model, whose one part of features are the words but the empty one, which is constant."""

    def __init__(self, committee: Committee) -> None:
        (member,) = committee.members
        self.transform, self.weights = member.transform, committee.weights
        self.gp = self.model = gp = member.model
        classes = gp.likelihood.classes if isinstance(gp.likelihood, Classification) else 1
        mixing = torch.eye(classes, dtype=torch.float64, device=committee.device)
        offset = torch.full_like(mixing[0], gp.likelihood.offset if isinstance(gp.likelihood, Poisson) else 0.0)
        self.logits = Logits(mixing[:, 1:] if isinstance(gp.likelihood, Bernoulli) else mixing, offset)
        assert self.transform.mean is not None and self.transform.spread is not None
        self.ordinary, self.spread = self.transform.mean[None], self.transform.spread
        words, mean = gp.features.words, gp.variational.mean.detach().double()
        rotation = torch.eye(len(words)).to(mean) if gp.features.basis is None else gp.features.basis.double()
        weights = (mean @ rotation.T).T  # (M, outputs)
        # Of a normalised kernel the empty word is 1 / norm.
        self.kept = [index for index, word in enumerate(words) if word or gp.kernel.normalized]
        empty = [index for index, word in enumerate(words) if not (word or gp.kernel.normalized)]
        self.constant = gp.kernel.amplitude.detach().double().sqrt() * weights[empty].sum(0)
        part = PartWeights(1.0, weights[self.kept], rotation[self.kept])
        self.posteriors = [FeatureWeights({0: part}, self.constant, mean.new_zeros(0), noise=0.0, amplitude=1.0)]
        self.centres, self.widths = [mean.new_zeros(len(self.kept))], [len(self.kept)]
        self.statistic_widths, self.kernel_of_part = [weights.shape[1] + rotation.shape[1]], ["words"]

    def names(self, names: Sequence[str]) -> Letters:
        return unique_names(names, [self.transform.names(names)])

    def vocabulary(self, names: Sequence[str]) -> Vocabulary:
        channels, words = self.names(names), self.gp.features.words
        letters = self.transform.names(channels)
        spelled = [tuple(letters[letter] for letter in words[index]) for index in self.kept]
        return word_vocabulary(spelled, channels, self.weights.device)

    def prepare(self, batch: SeriesBatch) -> SeriesBatch:
        return self.transform.paths(batch)

    def parts(self, seen: SeriesBatch) -> Iterator[Part]:
        yield Part("words", word_features(self.gp, seen)[:, self.kept])

    def covariances(self, seen: SeriesBatch, slices: Sequence[slice], members: Collection[int]) -> Covariances:
        """Returns those of longer words."""
        among = [(paths, word_features(self.gp, paths)) for paths in (seen[some] for some in slices)]
        kernels = [self.gp.kernel(paths.values, lengths=paths.lengths).detach().double() for paths, _ in among]
        return [[(0, kernel - words @ words.T)] for kernel, (_, words) in zip(kernels, among, strict=True)]

    def moments(self, member: int, prior: Tensor, statistics: Tensor) -> Moments:
        """Returns those of q(u) = N(m, Sigma): with the features phi the variance k - |phi|² + phi^T Sigma phi."""
        mean, features = statistics.tensor_split([len(self.constant)], dim=1)
        _, spread = self.gp.variational(features.to(self.gp.dtype))
        left = prior - features.square().sum(1)
        return Moments(mean, (left[:, None] + spread.detach().double()).clamp_min(0.0))

    def along(self, variances: Tensor, directions: Tensor) -> Tensor:
        return (variances * directions.square()).sum(-1)


def word_features(model: SignatureGP, paths: SeriesBatch) -> Tensor:
    """Returns s_a(X) of every path and word, (n, M), float64, before any rotation."""
    kernel, words = model.kernel, model.features.words
    values = signature(paths.values * kernel.theta.detach(), words=words, lengths=paths.lengths)
    if kernel.normalized:
        values = values / kernel.squared_norm(paths.values, lengths=paths.lengths).detach().sqrt()[:, None]
    return values * kernel.amplitude.detach().sqrt()


class LandmarkTerms(Terms):
    """Terms of views with landmark series."""

    def __init__(self, committee: ViewCommittee) -> None:
        super().__init__(committee)
        assert committee.landmarks is not None
        self.landmarks, self.members, self.blocks = committee.landmarks, committee.members, list(committee.blocks)
        values, counts = committee.landmarks.values, committee.landmarks.lengths
        if counts is not None:  # stretched to the longest
            pairs = zip(values, counts.tolist(), strict=True)
            values = torch.stack([stretched(series[:count], values.shape[1]) for series, count in pairs])
        mean = values.mean(0)
        self.ordinary = mean * committee.standard.spread.to(mean) + committee.standard.mean.to(mean)
        self.statistic_widths = [len(member.alpha) for member in self.members]
        blocks = [block for block in self.blocks if isinstance(block, FeatureBlock)]
        self.features = [part for block in blocks for part in block.landmarks]
        self.centred_on = [block.count for block in blocks for _ in block.landmarks]
        self.widths = [part.width for part in self.features]
        self.counts = Counter(self.kernel_of_part)
        self.scales = [block.centring[name].scale / self.counts[name] for block in blocks for name in block.kernels]
        self.shares = [shares_of(member.recipe) for member in self.members]
        self.powers = [member.recipe.power for member in self.members]
        self.bent = [k for k, power in enumerate(self.powers) if power > 1]
        self.raised = {name for k in self.bent for name in self.shares[k]}
        alphas = [weight * member.alpha for weight, member in zip(self.weights.tolist(), self.members, strict=True)]
        self.constant = torch.zeros_like(alphas[0][0])
        columns = {name: len(one.columns) for block in self.blocks for name, one in block.centring.items()}
        width = alphas[0].shape[1]
        self.linear = {name: alphas[0].new_zeros(columns[name], width) for shares in self.shares for name in shares}
        for k, alpha in enumerate(alphas):
            least = 2.0 ** -self.powers[k] if k in self.bent else 0.0
            self.constant += (CONSTANT + least) * alpha.sum(0)
            for name, share in self.shares[k].items() if k not in self.bent else ():
                self.linear[name][: len(alpha)] += share * alpha
        self.kernels = {name: weights for name, weights in self.linear.items() if name not in self.counts}
        self.together = _TOGETHER if self.raised.intersection(self.counts) else 0
        wanted = self.raised.union(self.kernels)
        self.row_blocks = [kept for block in self.blocks if (kept := block.keep(wanted)) is not None]
        self.known_centres: dict[int, Tensor] = {}
        self.known_weights: dict[int, Tensor] = {}

    def means(self, seen: SeriesBatch, watch: Watch | None = None, groups: Groups | None = None) -> Means:
        rows: dict[str, Rows] = {}
        first = 0
        for index, block in enumerate(self.blocks):
            if not isinstance(block, FeatureBlock):
                rows |= block.rows(seen)
                continue
            if groups and index in groups:
                raw = self._raw_of_groups(groups[index], first, watch)
            else:
                features = (Features(number, part) for number, part in enumerate(block.parts(seen)))
                raw = block.raw(self._watched(features, first, watch))
            rows |= {name: block.centring[name](of_kernel) for name, of_kernel in raw.items()}
            first += len(block.landmarks)
        grams = [member.mixed(rows).gram for member in self.members]
        return torch.stack([gram @ member.alpha for gram, member in zip(grams, self.members, strict=True)]), grams

    def _watched(self, features: Iterable[Features], first: int, watch: Watch | None) -> Iterator[Part]:
        """Yields the features of a block, whose first part is the number `first` of all."""
        for one in features:
            number = first + one.number
            if watch is not None:
                watch(one._replace(number=number))
            yield one.part

    def _raw_of_groups(self, groups: Iterable[Group], first: int, watch: Watch | None) -> dict[str, Rows]:
        """Returns the rows of n series, before centring, from features of groups of channels."""
        total: dict[str, Rows] = {}
        for block, features, state in groups:
            counts = Counter(part.name for part in block.landmarks)
            for name, rows in block.raw(self._watched(features, first, watch)).items():
                share = counts[name] / self.counts[name]  # rows are means over parts
                more = Rows(share * rows.gram[state], share * rows.variance[state])
                known = total.get(name)
                total[name] = more if known is None else Rows(known.gram + more.gram, known.variance + more.variance)
        return total

    def part_weights(self, number: int) -> Tensor:
        if number not in self.known_weights:
            linear = self.linear[self.kernel_of_part[number]]
            self.known_weights[number] = self.bent_weights(number, linear.T).T
        return self.known_weights[number]

    def centre(self, number: int) -> Tensor:
        if number not in self.known_centres:
            landmarks = self.features[number].rows(slice(self.centred_on[number]))
            self.known_centres[number] = landmarks.values.double().mean(0)
        return self.known_centres[number]

    def _centred(self, number: int, columns: Tensor | None = None) -> Tensor:
        """Returns the features (m, p) of the landmarks in a part, or in some of its columns, less their mean."""
        values, mean = self.features[number].values.double(), self.centre(number)
        return values - mean if columns is None else values[:, columns] - mean[columns]

    def bent_weights(self, number: int, coefficients: Tensor) -> Tensor:
        return self.scales[number] * (coefficients @ self._centred(number))

    def rows(self, seen: SeriesBatch) -> dict[str, Rows]:
        return rows_of(self.row_blocks, seen)

    def bends(self, rows: Mapping[str, Rows]) -> Iterator[Bend]:
        for k in self.bent:
            slopes = self._slopes(k, rows)
            alpha = float(self.weights[k]) * self.members[k].alpha
            for name, share in self.shares[k].items():
                more = rows[name].gram.shape[1] - len(alpha)  # series that only other members refer to
                yield Bend(name, pad(share * slopes, (0, more)), pad(alpha, (0, 0, 0, more)))

    def _slopes(self, member: int, rows: Mapping[str, Rows]) -> Tensor:
        """Returns h(c) / (|X| |Z|) of a member, (n, m)."""
        one, norms = self.members[member], self.members[member].norms
        plain = one.recipe.average(rows, len(one.alpha))
        assert norms is not None
        return slope(plain.gram, sizes(plain, norms), self.powers[member])

    def coefficients(self, number: int) -> dict[int, float]:
        name, scale = self.kernel_of_part[number], self.scales[number]
        users = [(k, shares) for k, shares in enumerate(self.shares) if name in shares and k not in self.bent]
        return {k: scale * shares[name] for k, shares in users}

    def statistics(self, number: int, sums: Tensor, columns: Tensor | None = None) -> Iterator[tuple[int, Tensor]]:
        """Yields c k_J(v, Z), (r, m)."""
        coefficients = self.coefficients(number)
        if coefficients:
            cross = sums @ self._centred(number, columns).T
            for k, coefficient in coefficients.items():
                yield k, coefficient * cross[:, : self.statistic_widths[k]]

    def moments(self, member: int, prior: Tensor, statistics: Tensor) -> Moments:
        regression = self.members[member].regression
        explained = statistics[:, : len(regression.root)] @ regression.root.to(statistics)
        return _closed_form(statistics @ regression.alpha, regression.amplitude, prior, explained)

    def covariances(self, seen: SeriesBatch, slices: Sequence[slice], members: Collection[int]) -> Covariances:
        """Returns those of kernels without features, uncentred, and of members with a power above 1."""
        centred = {name for k in self.bent if k in members for name in self.shares[k]}
        some = [k for k in members if k in self.bent or not self.kernels.keys().isdisjoint(self.shares[k])]
        names = centred.union(*(self.kernels.keys() & self.shares[k] for k in some))
        return [[(k, self.mixture(k, among)) for k in some] for among in self._among(seen, slices, names, centred)]

    def mixture(self, member: int, grams: Mapping[str, Tensor]) -> Tensor:
        plain = self._plain(member, grams)
        return raised(plain, self.powers[member]) if member in self.bent else plain

    def _plain(self, member: int, grams: Mapping[str, Tensor]) -> Tensor:
        """Returns the sum of the kernels of a member before any power, of a linear one those without features."""
        names, shares = self.raised if member in self.bent else self.kernels, self.shares[member].items()
        return torch.stack([share * grams[name] for name, share in shares if name in names]).sum(0)

    def _among(
        self,
        seen: SeriesBatch,
        slices: Sequence[slice],
        names: set[str],
        centred: Collection[str],
        raw: Mapping[str, Rows] | None = None,
    ) -> list[dict[str, Tensor]]:
        """Returns the kernels `names` among the series of each slice (n, n), scaled; features are centred."""
        grams: list[dict[str, Tensor]] = [{} for _ in slices]
        for block in self.blocks:
            wanted = names.intersection(block.centring)
            if wanted and isinstance(block, KernelBlock):
                ((name, centring),) = block.centring.items()
                mean = (raw or block.raw(seen))[name].gram.mean(1) if name in centred else None
                for gram, some in zip(grams, slices, strict=True):
                    plain = block.gram(seen[some])
                    if mean is not None:
                        plain = plain - mean[some, None] - mean[some] + centring.mean
                    gram[name] = plain * centring.scale
            elif wanted and isinstance(block, FeatureBlock):
                kept = block.keep(wanted)
                assert isinstance(kept, FeatureBlock)
                for part, landmarks in zip(kept.parts(seen), kept.landmarks, strict=True):
                    if part.name in wanted:
                        values = part.values.double() - landmarks.values[: kept.count].double().mean(0)
                        scale = kept.centring[part.name].scale / self.counts[part.name]
                        for gram, some in zip(grams, slices, strict=True):
                            more = scale * (values[some] @ values[some].T)
                            gram[part.name] = gram[part.name] + more if part.name in gram else more
        return grams

    def inner(self, seen: SeriesBatch) -> InnerProducts:
        names = set(self.raised).union(self.kernels)
        raw = {name: rows for block in self.row_blocks for name, rows in block.raw(seen).items()}
        rows = {name: block.centring[name](raw[name]) for block in self.row_blocks for name in block.centring}
        (among,) = self._among(seen, [slice(None)], names, names, raw)
        slopes = {}
        for k in self.bent:
            plain = self.members[k].recipe.average(rows, len(self.members[k].alpha))
            gram = self._plain(k, among)
            gram.diagonal().copy_(plain.variance)  # that of predictions, which has a floor
            inside = Rows(gram, plain.variance)
            slopes[k] = slope(gram, sizes(inside, plain.variance), self.powers[k]), self._slopes(k, rows)
        return InnerProducts(slopes, {name: (among[name], rows[name].gram) for name in self.kernels})

    def part_grams(self, number: int, centred: Tensor, columns: Tensor | None) -> tuple[Tensor, Tensor]:
        scale = self.scales[number]
        return scale * (centred @ centred.T), scale * (centred @ self._centred(number, columns).T)


def shares_of(recipe: Recipe) -> dict[str, float]:
    """Returns the kernels of a member and their shares, which sum to 1."""
    total = sum(weight for _, weight in recipe.weights)
    return {name: weight / total for name, weight in recipe.weights}


def slope(gram: Tensor, size: Tensor, power: int) -> Tensor:
    """Returns h(c) / (|X| |Y|), h(c) = 2^-p sum over i < p of (1 + c)^i, of the kernel before a power, and |X| |Y|."""
    above = 1 + gram / size
    total = sum((above**i for i in range(1, power)), torch.ones_like(above))
    return total / (2**power * size)


def raised(plain: Tensor, power: int) -> Tensor:
    """Returns ((1 + cosine) / 2)^power of kernels (.., n, n)."""
    norms = plain.diagonal(dim1=-2, dim2=-1).clamp_min(_SMALLEST).sqrt()
    cosine = plain / (norms[..., :, None] * norms[..., None, :]).clamp_min(_SMALLEST)
    return ((1 + cosine) / 2) ** power


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
    """Returns the labels as plain values, as many as the model has; None for numbers."""
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
