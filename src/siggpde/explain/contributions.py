r"""The explanation of single predictions: contributions of words and features, of sets of channels and of views.

The features of a series can be a hundred thousand: they are looked at part by part, and only the largest terms, the
sums over sets of channels and the sums over views are kept.

**Terms that move together are one term, so that no two that are shown cancel.** Columns of a regression that are nearly
collinear may have large weights of opposite sign, which say nothing by themselves. Terms :math:`t_a(X_i)` over n series
are merged into their sum as long as two of them have a correlation below :math:`-\rho = -0.6`, or above 0.9, the
nearest to 1 in size first. What is left cancels little: of any two terms

.. math:: \mathrm{std}(t_a + t_b)^2 \ge (1 - \rho^2) \max(\mathrm{std}(t_a), \mathrm{std}(t_b))^2,

so that the sum of two keeps 0.8 of the larger one. Terms that merely speak for the same side stay apart. Sums over all
terms do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.explain.neighbours import nearest_series
from siggpde.explain.results import Contribution, SeriesExplanation
from siggpde.explain.shapley import WalkSettings, segment_contributions
from siggpde.explain.terms import Terms, check_inputs, checked_labels, evenly_spaced, terms_of
from siggpde.explain.text import group_name
from siggpde.explain.vocabulary import Vocabulary, Words
from siggpde.series import SeriesBatch

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


@torch.no_grad()
def explain_series(
    committee: Committee,
    batch: SeriesBatch,
    names: Sequence[str],
    classes: Any = None,
    top: int = 10,
    *,
    background: SeriesBatch | None = None,
    walks: WalkSettings | None = None,
    group: bool = False,
) -> list[SeriesExplanation]:
    """Returns an explanation for every series of a batch.

    The latent function is a sum over words and other features, and kernels without features, each with a term of its
    own (`siggpde.explain.terms`); for classes the difference between the most probable one and the runner-up is
    explained. All terms are exact. Words called alike are one term. A Poisson regression is explained on the scale of
    its latent function, the logarithm of the rate.

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
        Some training series. With them a word contributes by the difference of its feature from the mean over them, and
        that mean becomes part of the constant: then words that are equally large for all series do not hide those that
        make this one different.
    walks
        With these, explanations also say when and where (`siggpde.explain.shapley`): what every segment and channel
        contributes to the latent of each class, which takes hundreds of predictions for every series.
    group
        Whether a word is one term, with all features of windows that are made of it, and words that move together are
        one term too: of the 150 largest of a series, compared over the background, else over the landmarks or, in
        models without any, over the batch if it has ten series.

    Returns
    -------
    The explanations, in the order of the series.
    """
    terms = terms_of(committee)
    check_inputs(terms, batch, names)
    if background is not None:
        check_inputs(terms, background, names)
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    labels = checked_labels(terms, classes)
    vocabulary = terms.vocabulary(names)
    words = Words.of(vocabulary) if group else None
    references = References.of(terms, batch, background) if group else None
    average = None if background is None else _Background.of(terms, background)
    explanations: list[SeriesExplanation] = []
    chosen: list[Tensor] = []
    for chunk in batch.split(terms.chunk_size(batch)):
        predictions, pairs = _predictions(committee, chunk, labels)
        if pairs is not None:
            chosen.append(pairs)
        sums = _Sums.of(terms, chunk, pairs, vocabulary, average, words, references, top)
        explanations += [
            sums.explanation(chunk.first + row, row, prediction, vocabulary, words, top)
            for row, prediction in enumerate(predictions)
        ]
    if walks is None:
        return explanations
    pairs = torch.cat(chosen) if chosen else None
    segments = segment_contributions(terms, batch, names, labels, pairs, walks, background)
    neighbours = nearest_series(committee, batch, labels, pairs)
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


@dataclass(frozen=True)
class _Background:
    """Means over some series: of the rows (m,) of kernels without features, and of the features (p,) of every part."""

    rows: dict[str, Tensor]
    features: list[Tensor]

    @staticmethod
    def of(terms: Terms, batch: SeriesBatch) -> _Background:
        rows: dict[str, Any] = {}
        features: list[Any] = [0.0] * len(terms.widths)
        for chunk in batch.split(terms.chunk_size(batch)):
            seen, share = terms.prepare(chunk), len(chunk) / len(batch)
            grams = terms.rows(seen)
            for name in terms.kernels:
                rows[name] = rows.get(name, 0.0) + share * grams[name].gram.mean(0)
            for number, part in enumerate(terms.parts(seen)):
                features[number] = features[number] + share * part.values.double().mean(0)
        return _Background(rows, features)


class _Weights:
    """The weights of terms of n series in their directions (n, outputs)."""

    def __init__(self, terms: Terms, seen: SeriesBatch, direction: Tensor) -> None:
        self.terms, self.direction, self.rows = terms, direction, terms.rows(seen)
        self.bent: dict[str, Tensor] = {}  # a_b (n, m) of the members of a power above 1
        for kernel, factor, alpha in terms.bends(self.rows):
            self.bent[kernel] = self.bent.get(kernel, 0.0) + factor * (direction @ alpha.T)

    def of_part(self, number: int, name: str) -> Tensor:
        """Returns W (n, p) of a part of the kernel `name`."""
        weights = self.direction @ self.terms.part_weights(number).T
        return weights + self.terms.bent_weights(number, self.bent[name]) if name in self.bent else weights

    def of_kernel(self, name: str) -> Tensor:
        """Returns a_b (n, m) of a kernel without features."""
        return self.direction @ self.terms.kernels[name].T + self.bent.get(name, 0.0)


class Largest:
    """The `top` terms of largest size of each of n series, among terms that are added a few at a time."""

    def __init__(self, series: int, top: int, device: torch.device) -> None:
        self.top = top
        self.values = torch.zeros(series, 0, dtype=torch.float64, device=device)
        self.indices = torch.zeros(series, 0, dtype=torch.int64, device=device)

    def add(self, indices: Tensor, terms: Tensor) -> None:
        """Adds the terms (n, p) with these indices (p,)."""
        largest = terms.abs().topk(min(self.top, terms.shape[1]), dim=1).indices
        values = torch.cat([self.values, terms.gather(1, largest)], dim=1)
        places = torch.cat([self.indices, indices[largest]], dim=1)
        order = values.abs().sort(dim=1, descending=True, stable=True).indices[:, : self.top]
        self.values, self.indices = values.gather(1, order), places.gather(1, order)


@dataclass
class _Sums:
    """Of n series: the constant (n,), the sum of all terms (n,), those of views by kernel (n,) and of sets (n, sets);
    the largest terms, and which of them are one."""

    constant: Tensor
    total: Tensor
    views: dict[str, Tensor]
    sets: Tensor
    largest: Largest
    groups: list[list[list[int]]] | None

    @staticmethod
    def of(
        terms: Terms,
        batch: SeriesBatch,
        pairs: Tensor | None,
        vocabulary: Vocabulary,
        average: _Background | None,
        words: Words | None,
        references: References | None,
        top: int,
    ) -> _Sums:
        n, seen = len(batch), terms.prepare(batch)
        direction, offsets = terms.logits.directions(pairs, n)
        weights = _Weights(terms, seen, direction)
        constant = direction @ terms.constant + offsets

        def zeros(count: int) -> Tensor:
            return torch.zeros(n, count, dtype=torch.float64, device=direction.device)

        views = {name: zeros(1)[:, 0] for name in vocabulary.views}
        total, path_words, sets = zeros(1)[:, 0], zeros(vocabulary.words), zeros(len(vocabulary.sets))
        totals = zeros(0 if words is None else len(words.names))
        largest = Largest(n, top if words is None else CANDIDATES, direction.device)
        kernels: list[str] = []

        def add(indices: Tensor, values: Tensor) -> None:
            sets.index_add_(1, vocabulary.set_indices[indices], values)
            if words is None:
                largest.add(indices, values)
            else:
                totals.index_add_(1, words.places[indices], values)

        for number, ((name, features), indices) in enumerate(zip(terms.parts(seen), vocabulary.parts, strict=True)):
            kernels.append(name)
            if indices is None or not len(indices):
                continue
            mean, part_weights = terms.centre(number), weights.of_part(number, name)
            origin = mean if average is None else average.features[number]
            values = (features.double() - origin) * part_weights
            total += values.sum(1)
            if name in views:
                views[name] += values.sum(1)
            if average is not None:
                constant = constant + part_weights @ (origin - mean)
            if int(indices[0]) < vocabulary.words:  # which several views have
                path_words.index_add_(1, indices, values)
            else:
                add(indices, values)
        if vocabulary.words:
            add(torch.arange(vocabulary.words, device=direction.device), path_words)
        for name, index in vocabulary.kernels.items():
            coefficients = weights.of_kernel(name)
            views[name] = (coefficients * weights.rows[name].gram).sum(1)
            if average is not None:
                views[name] -= coefficients @ average.rows[name]
                constant = constant + coefficients @ average.rows[name]
            total += views[name]
            add(torch.tensor([index], device=direction.device), views[name][:, None])
        groups = None
        if words is not None:
            largest.add(torch.arange(totals.shape[1], device=direction.device), totals)
            if references is None:
                groups = [[[number] for number in range(largest.indices.shape[1])] for _ in range(n)]
            else:
                groups = [grouped(row.T) for row in references.values(weights, words, kernels, largest.indices)]
        return _Sums(constant, total, views, sets, largest, groups)

    def explanation(
        self, series: int, row: int, prediction: dict[str, Any], vocabulary: Vocabulary, words: Words | None, top: int
    ) -> SeriesExplanation:
        """Returns that of the series in a row."""
        constant = float(self.constant[row])
        latent = constant + float(self.total[row])
        views: dict[str, float] = {}
        for name, values in self.views.items():
            view = vocabulary.views[name]
            views[view] = views.get(view, 0.0) + float(values[row])
        places = zip(self.largest.indices[row].tolist(), self.largest.values[row].tolist(), strict=True)
        if words is None or self.groups is None:
            shown = [Contribution(vocabulary.names[i], vocabulary.channels_of(i), value) for i, value in places]
        else:
            single = [Contribution(words.names[i], words.letters[i], value) for i, value in places]
            shown = sorted((_merged([single[i] for i in group]) for group in self.groups[row]), key=_size)[:top]
        sets = [
            Contribution(vocabulary.set_name(index), vocabulary.sets[index], value)
            for index, value in enumerate(self.sets[row].tolist())
        ]
        return SeriesExplanation(
            series=series,
            latent=latent,
            constant=constant,
            rest=latent - constant - sum(term.value for term in shown),
            contributions=shown,
            interactions=sorted(sets, key=_size)[:top],
            views=sorted((Contribution(name, (), value) for name, value in views.items()), key=_size),
            **prediction,
        )


def _size(contribution: Contribution) -> float:
    return -abs(contribution.value)


def _merged(group: Sequence[Contribution]) -> Contribution:
    """Returns the sum of some terms, the first of which gives its name and letters."""
    first, *others = group
    total = sum(term.value for term in group)
    return Contribution(group_name(first.name, len(others)), first.letters, total, tuple(term.name for term in others))


@dataclass(frozen=True)
class References:
    """Of r reference series: the features (r, p) of every part, and the rows (r, m) of the kernels without features.

    Terms are compared over them: what each would contribute there with the weights that it has for the series that is
    explained.
    """

    features: list[Tensor]
    rows: dict[str, Tensor]

    @staticmethod
    def of(terms: Terms, batch: SeriesBatch, background: SeriesBatch | None) -> References | None:
        """Returns up to 100 series of the background or, without one, of the landmarks; without any, of a batch of ten
        or more."""
        most = max(FEWEST, min(_REFERENCES, _NUMBERS // max(1, sum(terms.widths))))
        if background is None and terms.landmarks is not None:
            seen = evenly_spaced(terms.landmarks, most)
        else:
            seen = terms.prepare(evenly_spaced(batch if background is None else background, most))
        if len(seen) < FEWEST:
            return None
        rows = terms.rows(seen)
        return References(
            [part.values for part in terms.parts(seen)], {name: rows[name].gram for name in terms.kernels}
        )

    def values(self, weights: _Weights, words: Words, kernels: Sequence[str], candidates: Tensor) -> Tensor:
        """Returns what the `candidates` (n, k), numbers of words, contribute at the reference series with the weights
        of n series: (n, k, r). `kernels` are those of the parts."""
        count = len(self.features[0]) if self.features else len(next(iter(self.rows.values())))
        values = torch.zeros(*candidates.shape, count, dtype=torch.float64, device=candidates.device)
        places = {word: (candidates == word).nonzero(as_tuple=True) for word in candidates.unique().tolist()}
        for number, columns in enumerate(words.columns):
            wanted = [(word, chosen) for word, chosen in columns if word in places]
            if not wanted:
                continue
            part_weights, features = weights.of_part(number, kernels[number]), self.features[number].double()
            for word, chosen in wanted:
                row, k = places[word]
                values[row, k] += part_weights[row][:, chosen] @ features[:, chosen].T
        for name, word in words.kernels.items():
            if word in places:
                row, k = places[word]
                values[row, k] += weights.of_kernel(name)[row] @ self.rows[name].T
        return values


def grouped(terms: Tensor) -> list[list[int]]:
    """Returns the groups of k terms (n, k) over n series that move together, each the numbers of its terms, the widest
    spread first.

    Examples
    --------
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
