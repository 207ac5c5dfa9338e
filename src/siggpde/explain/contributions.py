"""The explanation of single predictions: contributions of words, channels and views, and nearest training series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from siggpde.committee.committee import Committee, ViewCommittee
from siggpde.explain.posterior import over_members
from siggpde.explain.results import Contribution, Neighbour, SeriesExplanation
from siggpde.explain.shapley import PermutationSettings, contrast_of, cut_facts, member_logits, segment_contributions
from siggpde.explain.terms import Terms, check_inputs, checked_labels, evenly_spaced, terms_of
from siggpde.explain.text import Vocabulary, group_name
from siggpde.series import SeriesBatch
from siggpde.views.base import FeatureBlock, Rows
from siggpde.views.facts import FactsBlock

OPPOSITE = 0.6
"""The size of a negative correlation from which on two terms are one."""

SAME = 0.9
"""The correlation from which on they are."""

CANDIDATES = 150
"""Of more terms, so many of the largest are looked at."""

FEWEST = 10
"""Series over which terms are compared, at least."""

_VARIES = 1e-9  # of the largest spread: terms of less are constant but for rounding
_REFERENCES = 100
_NUMBERS = 2**24  # of all features of the reference series
_CHUNK, _NEAREST = 256, 2  # series at a time for nearest ones, and how many these are for numbers


@torch.no_grad()
def explain_series(
    committee: Committee,
    batch: SeriesBatch,
    names: Sequence[str],
    classes: Any = None,
    top: int = 10,
    *,
    background: SeriesBatch | None = None,
    walks: PermutationSettings | None = None,
    group: bool = False,
    truths: Tensor | None = None,
) -> list[SeriesExplanation]:
    """Returns an explanation for every series of a batch.

    The latent function is a sum over words and other features, and kernels without features (docs/design.md,
    Explanations). For classes the difference between the most probable one and the runner-up is explained. All terms
    are exact. A Poisson regression is explained on the scale of its latent function, the logarithm of the rate.

    Parameters
    ----------
    committee
        The model, such as `estimator.committee_`.
    batch
        The series, such as `estimator.preparation_(X)`.
    names
        The names of their channels.
    classes
        The labels in the order of the model's classes; None for a regression.
    top
        How many contributions and interactions are listed.
    background
        Some training series. With them a word contributes by the difference of its feature from the mean over them,
        and the mean becomes part of the constant: words equally large for all series do not hide those that make this
        one different.
    walks
        With these, explanations also say what every segment and channel contributes to the latent of each class, which
        takes hundreds of predictions for every series.
    group
        Whether a word is one term, with all features of windows that are made of it, and words that move together are
        one term too: of the 150 largest of a series, compared over the background, else over the landmarks or, in
        models without any, over the batch if it has ten series.
    truths
        The true classes 0..classes-1 (n,): with `walks` a wrong prediction is also explained against the truth.

    Returns
    -------
    The explanations, in the order of the series.

    Examples
    --------
    >>> import siggpde
    >>> X = torch.linspace(0, 1, 6).expand(10, 1, 6) * torch.tensor([1.0, -1.0] * 5)[:, None, None]
    >>> model = siggpde.SigGPClassifier(members=1).fit(X, ["up", "down"] * 5)
    >>> (why,) = explain_series(model.committee_, model.preparation_(X[:1]), ["x"], ["down", "up"], top=3)
    >>> why.label, len(why.contributions)
    ('up', 3)
    """
    terms = terms_of(committee)
    check_inputs(terms, batch, names)
    if background is not None:
        check_inputs(terms, background, names)
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    labels = checked_labels(terms, classes)
    vocabulary, most = (terms.vocabulary(names).by_word(), CANDIDATES) if group else (terms.vocabulary(names), top)
    references = _References.of(terms, batch, background) if group else None
    means = None if background is None else _mean_factors(terms, background)
    explanations: list[SeriesExplanation] = []
    chosen: list[Tensor] = []
    for chunk in batch.split(terms.chunk_size(batch)):
        predictions, pairs = _predictions(committee, chunk, labels)
        if pairs is not None:
            chosen.append(pairs)
        sums = _Sums.of(terms, chunk, pairs, vocabulary, means)
        largest = sums.totals.abs().topk(min(most, len(vocabulary.names)), dim=1).indices
        groups = [[[number] for number in range(largest.shape[1])]] * len(chunk)
        if references is not None:
            groups = [grouped(row.T) for row in references.values(sums, largest)]
        explanations += [
            sums.explanation(chunk.first + row, row, prediction, largest[row].tolist(), groups[row], top)
            for row, prediction in enumerate(predictions)
        ]
    pairs = torch.cat(chosen) if chosen else None
    if block := next((block for block in committee.blocks if isinstance(block, FactsBlock)), None):
        facts = _facts(terms, batch, pairs, block)
        explanations = [replace(one, facts=of_one) for one, of_one in zip(explanations, facts, strict=True)]
    if walks is None:
        return explanations
    segments = segment_contributions(terms, batch, names, labels, pairs, walks, background, truths)
    compared = pairs if pairs is None or truths is None else torch.cat([pairs, truths.to(pairs)[:, None]], dim=1)
    neighbours = nearest_series(committee, batch, labels, compared)
    return [
        replace(explanation, segments=contributions, neighbours=nearest)
        for explanation, contributions, nearest in zip(explanations, segments, neighbours, strict=True)
    ]


def _predictions(
    committee: Committee, batch: SeriesBatch, labels: list[Any] | None
) -> tuple[list[dict[str, Any]], Tensor | None]:
    """Returns the predictions, as fields of SeriesExplanation, and the two classes (n, 2) to compare."""
    if labels is None:
        mean, variance = committee.mean_and_variance(batch)
        numbers = zip(mean.tolist(), variance.sqrt().tolist(), strict=True)
        return [{"mean": centre, "std": spread} for centre, spread in numbers], None
    probabilities = committee.probabilities(batch)
    pairs = top_two_classes(probabilities)
    fields = [
        {
            "label": labels[first],
            "probability": float(row[first]),
            "runner_up": labels[second],
            "runner_up_probability": float(row[second]),
        }
        for (first, second), row in zip(pairs.tolist(), probabilities, strict=True)
    ]
    return fields, pairs


def top_two_classes(probabilities: Tensor) -> Tensor:
    """Returns the most probable class of every series and the runner-up, (n, 2), int64; of equal ones the first."""
    return probabilities.sort(dim=1, descending=True, stable=True).indices[:, :2]


def _factors(terms: Terms, seen: SeriesBatch, rows: Mapping[str, Rows]) -> Iterator[Tensor]:
    """Yields what weights multiply: features (n, p) of every part, then rows (n, m) of kernels without features."""
    yield from (part.values for part in terms.parts(seen))
    yield from (rows[name].gram for name in terms.kernels)


def _mean_factors(terms: Terms, batch: SeriesBatch) -> list[Tensor]:
    """Returns the means of the `_factors` over some series."""
    means: list[Any] = [0.0] * (len(terms.widths) + len(terms.kernels))
    for chunk in batch.split(terms.chunk_size(batch)):
        seen, share = terms.prepare(chunk), len(chunk) / len(batch)
        for number, values in enumerate(_factors(terms, seen, terms.rows(seen))):
            means[number] = means[number] + share * values.double().mean(0)
    return means


class _Weights:
    """The weights of the `_factors` of n series in their directions (n, outputs)."""

    def __init__(self, terms: Terms, rows: Mapping[str, Rows], direction: Tensor) -> None:
        self.terms, self.direction = terms, direction
        self.names = [*terms.kernel_of_part, *terms.kernels]
        self.bent: dict[str, Tensor] = {}  # a_b (n, m) of the members of a power above 1
        for kernel, factor, alpha in terms.bends(rows):
            self.bent[kernel] = self.bent.get(kernel, 0.0) + factor * (direction @ alpha.T)

    def __getitem__(self, number: int) -> Tensor:
        """Returns W (n, p) of a part, or a_b (n, m) of a kernel without features."""
        name = self.names[number]
        if name in self.terms.kernels:
            return self.direction @ self.terms.kernels[name].T + self.bent.get(name, 0.0)
        weights = self.direction @ self.terms.part_weights(number).T
        return weights + self.terms.bent_weights(number, self.bent[name]) if name in self.bent else weights


@dataclass
class _Sums:
    """Sums for n series: the constant (n,), all terms (n, terms), and the terms of views (n,)."""

    weights: _Weights
    vocabulary: Vocabulary
    constant: Tensor
    totals: Tensor
    views: dict[str, Tensor]

    @staticmethod
    def of(
        terms: Terms, batch: SeriesBatch, pairs: Tensor | None, vocabulary: Vocabulary, means: list[Tensor] | None
    ) -> _Sums:
        seen = terms.prepare(batch)
        rows = terms.rows(seen)
        direction, offsets = terms.logits.directions(pairs, len(batch))
        weights = _Weights(terms, rows, direction)
        constant = direction @ terms.constant + offsets
        totals = torch.zeros(len(batch), len(vocabulary.names), dtype=torch.float64, device=direction.device)
        views = {view: torch.zeros_like(constant) for view in vocabulary.views.values()}
        for number, factors in enumerate(_factors(terms, seen, rows)):
            name = weights.names[number]
            single = vocabulary.kernels.get(name)
            indices = totals.new_tensor([single]).long() if single is not None else vocabulary.parts[number]
            if indices is None or not len(indices):
                continue
            centre = totals.new_zeros(1) if single is not None else terms.centre(number)
            origin = centre if means is None else means[number]
            of_factors = weights[number]
            values = (factors.double() - origin) * of_factors
            totals.index_add_(1, indices.expand(values.shape[1]), values)
            if vocabulary.views:
                views[vocabulary.views[name]] += values.sum(1)
            if means is not None:
                constant = constant + of_factors @ (origin - centre)
        return _Sums(weights, vocabulary, constant, totals, views)

    def explanation(
        self, series: int, row: int, prediction: dict[str, Any], largest: list[int], groups: list[list[int]], top: int
    ) -> SeriesExplanation:
        """Returns that of the series in a row, in which the terms `largest` are in groups."""
        vocabulary, totals, constant = self.vocabulary, self.totals[row], float(self.constant[row])
        latent = constant + float(totals.sum())
        single = [
            Contribution(vocabulary.names[index], vocabulary.channels_of(index), float(totals[index]))
            for index in largest
        ]
        shown = sorted((_merged([single[place] for place in group]) for group in groups), key=_size)[:top]
        of_sets = totals.new_zeros(len(vocabulary.sets)).index_add_(0, vocabulary.set_indices, totals).tolist()
        sets = [Contribution(vocabulary.set_name(i), vocabulary.sets[i], value) for i, value in enumerate(of_sets)]
        views = [Contribution(name, (), float(values[row])) for name, values in self.views.items()]
        return SeriesExplanation(
            series=series,
            latent=latent,
            constant=constant,
            rest=latent - constant - sum(term.value for term in shown),
            contributions=shown,
            interactions=sorted(sets, key=_size)[:top],
            views=sorted(views, key=_size),
            **prediction,
        )


def _facts(terms: Terms, batch: SeriesBatch, pairs: Tensor | None, block: FactsBlock) -> Iterator[list[Contribution]]:
    """Yields what the facts of every series contribute, largest first."""
    assert batch.facts is not None
    cut, credits = cut_facts(batch)
    logits = over_members(terms, member_logits(terms, cut)).unflatten(0, (len(batch), -1))
    for row, (of_series, values) in enumerate(zip(logits, batch.facts.tolist(), strict=True)):
        changes = (credits @ contrast_of(of_series, None if pairs is None else pairs[row])).tolist()
        texts = [f"{fact.name} {fact.text(value)}" for fact, value in zip(block.facts, values, strict=True)]
        named = zip(texts, block.facts, changes, strict=True)
        yield sorted((Contribution(text, (fact.name,), value) for text, fact, value in named), key=_size)


def _size(contribution: Contribution) -> float:
    return -abs(contribution.value)


def _merged(group: Sequence[Contribution]) -> Contribution:
    """Returns the sum of some terms, the first of which gives its name and letters."""
    first, *others = group
    total = sum(term.value for term in group)
    return Contribution(group_name(first.name, len(others)), first.letters, total, tuple(term.name for term in others))


@dataclass(frozen=True)
class _References:
    """Series, by their `_factors`, over which terms are compared with the weights of the series explained."""

    factors: list[Tensor]

    @staticmethod
    def of(terms: Terms, batch: SeriesBatch, background: SeriesBatch | None) -> _References | None:
        """Returns up to 100 series of the background, else of the landmarks, else of a batch of ten or more."""
        most = max(FEWEST, min(_REFERENCES, _NUMBERS // max(1, sum(terms.widths))))
        if background is None and terms.landmarks is not None:
            seen = evenly_spaced(terms.landmarks, most)
        else:
            seen = terms.prepare(evenly_spaced(batch if background is None else background, most))
        return None if len(seen) < FEWEST else _References(list(_factors(terms, seen, terms.rows(seen))))

    def values(self, sums: _Sums, candidates: Tensor) -> Tensor:
        """Returns what `candidates` (n, k) contribute at r reference series with weights of n series: (n, k, r)."""
        weights, vocabulary = sums.weights, sums.vocabulary
        values = torch.zeros(*candidates.shape, len(self.factors[0]), dtype=torch.float64, device=candidates.device)
        places = {term: (candidates == term).nonzero(as_tuple=True) for term in candidates.unique().tolist()}
        for number, factors in enumerate(self.factors):
            single = vocabulary.kernels.get(weights.names[number])
            terms = vocabulary.columns(number) if single is None else [(single, slice(None))]
            terms = [(term, columns) for term, columns in terms if term in places]
            if not terms:
                continue
            part_weights, features = weights[number], factors.double()
            for term, columns in terms:
                row, k = places[term]
                values[row, k] += part_weights[row][:, columns] @ features[:, columns].T
        return values


def grouped(terms: Tensor) -> list[list[int]]:
    """Returns the groups of k terms (n, k) over n series that move together, as numbers of terms, widest first.

    >>> x, y = torch.tensor([1.0, 2.0, 4.0, 3.0]), torch.tensor([1.0, -1.0, 1.0, -1.0])
    >>> grouped(torch.stack([9 * x, 2 * y, -8 * x + 0.01 * y], dim=1))
    [[1], [0, 2]]
    """
    centred = (terms - terms.mean(0)).double().T.contiguous()  # (k, n)
    first = centred.norm(dim=1)
    groups = [[number] for number in range(len(centred))]
    if not groups or float(first.max()) == 0:
        return groups
    least = _VARIES * float(first.max())
    units = _units(centred, least)
    alike = _alike(units @ units.T).fill_diagonal_(0.0)
    alive = torch.ones(len(groups), dtype=torch.bool)
    while len(groups) > 1:
        place = int(alike.argmax())
        one, other = divmod(place, len(groups))
        if float(alike[one, other]) == 0:
            break
        centred[one] += centred[other]
        groups[one] += groups[other]
        alive[other] = False
        alike[other], alike[:, other] = 0.0, 0.0
        units[other] = 0.0
        units[one] = _units(centred[one : one + 1], least)[0]
        row = _alike(units @ units[one])
        row[one] = 0.0
        alike[one], alike[:, one] = row, row
    spread = centred.norm(dim=1)
    kept = [number for number in range(len(groups)) if bool(alive[number])]
    kept.sort(key=lambda number: -float(spread[number]))
    return [sorted(groups[number], key=lambda term: -float(first[term])) for number in kept]


def _alike(correlations: Tensor) -> Tensor:
    """Returns their size where it makes two terms one, else 0."""
    return torch.where((correlations <= -OPPOSITE) | (correlations >= SAME), correlations.abs(), 0.0)


def _units(rows: Tensor, least: float) -> Tensor:
    """Returns rows of length 1; those that do not vary are 0."""
    norms = rows.norm(dim=1, keepdim=True)
    return torch.where(norms > least, rows / norms.clamp_min(least), 0.0)


@torch.no_grad()
def nearest_series(
    committee: Any, batch: SeriesBatch, labels: list[Any] | None, pairs: Tensor | None
) -> list[list[Neighbour]]:
    """Returns the nearest training series of each class of `pairs` (n, 2 or 3), or the two nearest of all; or none."""
    record = committee.left_out
    if committee.landmarks is None or record is None or not record.exact:
        return [[] for _ in range(len(batch))]
    targets, variances = record.y, _landmark_variances(committee)
    neighbours = []
    for chunk in batch.split(_CHUNK):
        for squares in _squared_distances(committee, chunk, variances):
            if pairs is None or labels is None:
                order = squares.argsort(stable=True)[:_NEAREST].tolist()
                neighbours.append([_neighbour(committee, index, squares, float(targets[index])) for index in order])
                continue
            nearest = []
            for label in dict.fromkeys(pairs[len(neighbours)].tolist()):
                places = (targets == label).nonzero()[:, 0]
                if len(places):
                    index = int(places[squares[places].argmin()])
                    nearest.append(_neighbour(committee, index, squares, labels[label]))
            neighbours.append(nearest)
    return neighbours


def _squared_distances(committee: ViewCommittee, batch: SeriesBatch, variances: dict[str, Tensor]) -> Iterator[Tensor]:
    """Yields |X - Z|² (m,) of every series to the landmarks, by the mean kernel; 2 where nothing is in common."""
    rows = committee.rows(batch)
    landmark_rows = {name: Rows(variance[None], variance) for name, variance in variances.items()}
    total: Any = 0.0
    for weight, member in zip(committee.weights.tolist(), committee.members, strict=True):
        plain, landmarks = member.recipe.average(rows), member.recipe.average(landmark_rows)
        total = total + weight * (plain.variance[:, None] + landmarks.variance - 2 * plain.gram)
    yield from total.clamp_min(0.0)


def _landmark_variances(committee: ViewCommittee) -> dict[str, Tensor]:
    """Returns k(Z, Z) (m,) of every kernel at the landmarks, without their Gram matrix."""
    variances: dict[str, Tensor] = {}
    for block in committee.blocks:
        parts = block.landmarks if isinstance(block, FeatureBlock) else []
        counts = Counter(part.name for part in parts)
        raw: dict[str, Any] = dict.fromkeys(counts, 0.0)
        for part in parts:
            raw[part.name] = raw[part.name] + part.values.double().square().sum(1) / counts[part.name]
        for name, centring in block.centring.items():
            variance = raw.get(name, torch.ones_like(centring.columns))  # kernels without features are normalised
            variances[name] = centring(Rows(centring.columns[:, None].to(variance), variance)).variance
    return variances


def _neighbour(committee: ViewCommittee, index: int, squares: Tensor, target: Any) -> Neighbour:
    landmarks, standard = committee.landmarks, committee.standard
    assert landmarks is not None
    length = int(landmarks.counts()[index])
    values = landmarks.values[index, :length] * standard.spread + standard.mean
    times = None if landmarks.times is None else landmarks.times[index, :length].cpu().numpy()
    rows = None if committee.left_out is None else committee.left_out.rows
    number = None if rows is None else int(rows[index])
    return Neighbour(target, float(squares[index].sqrt()), values.T.cpu().numpy(), times, number)
