"""The explanation of single predictions of a committee of views: features, sets of channels and views.

The features of a series can be a hundred thousand: they are looked at part by part, and only the largest terms, the
sums over sets of channels and the sums over views are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from siggpde.committee.of_views import OfViews
from siggpde.explain.grouping import CANDIDATES
from siggpde.explain.logits import logits_of
from siggpde.explain.merging import merged
from siggpde.explain.predictions import predictions
from siggpde.explain.results import Contribution, SeriesExplanation
from siggpde.explain.view_groups import References, groups_of, references_of
from siggpde.explain.view_terms import ViewTerms, terms_of
from siggpde.explain.view_vocabulary import ViewVocabulary, build_view_vocabulary
from siggpde.explain.word_table import Words
from siggpde.series import SeriesBatch
from siggpde.views.base import parts_of

_CHUNK = 256
_LARGEST_CHUNK = 2**24  # numbers of series, or of the features of a part, handled at a time


@dataclass(frozen=True)
class _Background:
    """Means over some series: of the rows (m,) of kernels without features, and of the features (p,) of every part."""

    rows: dict[str, Tensor]
    features: list[Tensor]


@dataclass
class _Terms:
    """Of n series: the constant (n,), the terms of views by kernel (n,) and of sets (n, sets); the largest terms,
    and which of them are one."""

    constant: Tensor
    views: dict[str, Tensor]
    sets: Tensor
    largest: Largest
    groups: list[list[list[int]]] | None


class Largest:
    """The `top` terms of largest size of each of n series, among terms that are added a few at a time."""

    def __init__(self, series: int, top: int, device: torch.device) -> None:
        self.top = top
        self.values = torch.zeros(series, 0, dtype=torch.float64, device=device)
        self.indices = torch.zeros(series, 0, dtype=torch.int64, device=device)

    def add(self, indices: Tensor, terms: Tensor) -> None:
        """Adds the terms (n, p) with these indices (p,)."""
        own = terms.abs().topk(min(self.top, terms.shape[1]), dim=1).indices
        values = torch.cat([self.values, terms.gather(1, own)], dim=1)
        places = torch.cat([self.indices, indices[own]], dim=1)
        order = values.abs().sort(dim=1, descending=True, stable=True).indices[:, : self.top]
        self.values, self.indices = values.gather(1, order), places.gather(1, order)


def explain_views(
    committee: OfViews,
    batch: SeriesBatch,
    names: tuple[str, ...],
    labels: list[Any] | None,
    top: int,
    background: SeriesBatch | None,
    *,
    group: bool,
) -> list[SeriesExplanation]:
    """An explanation for every series; arguments as those of `explain_series`, checked."""
    vocabulary, view_terms = build_view_vocabulary(committee, names), terms_of(committee)
    references = references_of(committee, view_terms, batch, background) if group else None
    spelled = Words.of(vocabulary, committee.device) if group else None
    average = None if background is None else _average(committee, view_terms, background)
    explanations: list[SeriesExplanation] = []
    for chunk in batch.split(chunk_size(view_terms, batch)):
        fields, pairs = predictions(committee, chunk, labels)
        terms = _terms(committee, view_terms, chunk, pairs, vocabulary, average, spelled, references, top)
        for row, prediction in enumerate(fields):
            explanations.append(_explanation(chunk.first + row, row, prediction, terms, vocabulary, spelled, top))
    return explanations


def chunk_size(view_terms: ViewTerms, batch: SeriesBatch) -> int:
    """How many series are handled at a time."""
    numbers = max([batch.values.shape[1] * batch.channels, *view_terms.widths])
    return max(1, min(_CHUNK, _LARGEST_CHUNK // numbers))


def _terms(
    committee: OfViews,
    view_terms: ViewTerms,
    batch: SeriesBatch,
    pairs: Tensor | None,
    vocabulary: ViewVocabulary,
    average: _Background | None,
    spelled: Words | None,
    references: References | None,
    top: int,
) -> _Terms:
    n, device, seen = len(batch), committee.device, committee.standard(batch)
    direction, offsets = logits_of(committee).directions(pairs, n)
    rows = view_terms.rows(seen)
    bent: dict[str, Tensor] = {}  # a_b (n, m) in the direction, of the members of a power above 1
    for kernel, factor, alpha in view_terms.bends(rows):
        bent[kernel] = bent.get(kernel, 0.0) + factor * (direction @ alpha.T)
    constant = direction @ view_terms.constant + offsets
    views = {name: torch.zeros(n, dtype=torch.float64, device=device) for name in vocabulary.views}
    words = torch.zeros(n, vocabulary.words, dtype=torch.float64, device=device)
    sets = torch.zeros(n, len(vocabulary.sets), dtype=torch.float64, device=device)
    largest = Largest(n, top if spelled is None else CANDIDATES, device)
    totals = torch.zeros(n, 0 if spelled is None else len(spelled.names), dtype=torch.float64, device=device)
    kernels: list[str] = []

    def add(indices: Tensor, terms: Tensor) -> None:
        sets.index_add_(1, vocabulary.set_indices[indices], terms)
        if spelled is None:
            largest.add(indices, terms)
        else:
            totals.index_add_(1, spelled.places[indices], terms)

    for number, ((name, values), indices) in enumerate(
        zip(parts_of(committee.blocks, seen), vocabulary.parts, strict=True)
    ):
        kernels.append(name)
        if indices is None or not len(indices):
            continue
        mean, linear = view_terms.part(number)
        weights = direction @ linear.T
        if name in bent:
            weights = weights + view_terms.bent_weights(number, bent[name])
        origin = mean if average is None else average.features[number]
        terms = (values.double() - origin) * weights
        views[name] += terms.sum(1)
        if average is not None:
            constant = constant + weights @ (origin - mean)
        if int(indices[0]) < vocabulary.words:  # which several views have
            words.index_add_(1, indices, terms)
        else:
            add(indices, terms)
    if vocabulary.words:
        add(torch.arange(vocabulary.words, device=device), words)
    for name, index in vocabulary.kernels.items():
        own = direction @ view_terms.kernels[name].T + bent.get(name, 0.0)
        views[name] = (own * rows[name].gram).sum(1)
        if average is not None:
            views[name] -= own @ average.rows[name]
            constant = constant + own @ average.rows[name]
        add(torch.tensor([index], device=device), views[name][:, None])
    groups = None
    if spelled is not None:
        largest.add(torch.arange(totals.shape[1], device=device), totals)
        if references is None:
            groups = [[[number] for number in range(largest.indices.shape[1])] for _ in range(n)]
        else:
            groups = groups_of(references.terms(view_terms, spelled, direction, bent, kernels, largest.indices))
    return _Terms(constant, views, sets, largest, groups)


def _average(committee: OfViews, view_terms: ViewTerms, batch: SeriesBatch) -> _Background:
    rows: dict[str, Any] = {}
    features: list[Any] = [0.0] * len(view_terms.widths)
    for chunk in batch.split(chunk_size(view_terms, batch)):
        seen, share = committee.standard(chunk), len(chunk) / len(batch)
        found = view_terms.rows(seen)
        for name in view_terms.kernels:
            rows[name] = rows.get(name, 0.0) + share * found[name].gram.mean(0)
        for number, part in enumerate(parts_of(committee.blocks, seen)):
            features[number] = features[number] + share * part.values.double().mean(0)
    return _Background(rows, features)


def _explanation(
    series: int,
    row: int,
    prediction: dict[str, Any],
    terms: _Terms,
    vocabulary: ViewVocabulary,
    spelled: Words | None,
    top: int,
) -> SeriesExplanation:
    constant = float(terms.constant[row])
    views: dict[str, float] = {}
    for name, values in terms.views.items():
        told = vocabulary.views[name]
        views[told] = views.get(told, 0.0) + float(values[row])
    latent = constant + sum(views.values())
    places = zip(terms.largest.indices[row].tolist(), terms.largest.values[row].tolist(), strict=True)
    if spelled is None or terms.groups is None:
        shown = [Contribution(vocabulary.names[i], vocabulary.channels_of(i), value) for i, value in places]
    else:
        words = [Contribution(spelled.names[i], spelled.letters[i], value) for i, value in places]
        shown = sorted(merged(words, terms.groups[row]), key=_size)[:top]
    sets = [
        Contribution(vocabulary.set_name(index), vocabulary.sets[index], value)
        for index, value in enumerate(terms.sets[row].tolist())
    ]
    return SeriesExplanation(
        series=series,
        latent=latent,
        constant=constant,
        rest=latent - constant - sum(each.value for each in shown),
        contributions=shown,
        interactions=sorted(sets, key=_size)[:top],
        views=sorted((Contribution(name, (), value) for name, value in views.items()), key=_size),
        **prediction,
    )


def _size(contribution: Contribution) -> float:
    return -abs(contribution.value)
