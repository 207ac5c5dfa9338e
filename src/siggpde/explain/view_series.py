"""The explanation of single predictions of a committee of views: features, sets of channels and views.

The features of a series can be a hundred thousand: they are looked at part by part, and only the largest terms, the
sums over sets of channels and the sums over views are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from siggpde.ensemble.view_committee import ViewCommittee
from siggpde.explain import view_terms
from siggpde.explain.predictions import predictions
from siggpde.explain.results import Contribution, SeriesExplanation
from siggpde.explain.view_vocabulary import ViewVocabulary, build_view_vocabulary
from siggpde.paths import SeriesBatch
from siggpde.views.base import FeatureBlock

_CHUNK = 256
_LARGEST_CHUNK = 2**24  # numbers of series, or of the features of a part, handled at a time


@dataclass(frozen=True)
class _Background:
    """Means over some series: of the rows (m,) of every kernel, and of the features (p,) of every part of block i."""

    rows: dict[str, Tensor]
    features: list[list[Tensor]]


@dataclass
class _Terms:
    """Of n series: the constant (n,), the terms of views by kernel (n,) and of sets (n, sets); the largest terms."""

    constant: Tensor
    views: dict[str, Tensor]
    sets: Tensor
    largest: Largest


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
    committee: ViewCommittee,
    batch: SeriesBatch,
    names: tuple[str, ...],
    labels: list[Any] | None,
    top: int,
    background: SeriesBatch | None,
) -> list[SeriesExplanation]:
    """An explanation for every series; arguments as those of `explain_series`, checked."""
    vocabulary = build_view_vocabulary(committee, names)
    average = None if background is None else _average(committee, background)
    explanations: list[SeriesExplanation] = []
    for chunk in batch.split(chunk_size(committee, batch)):
        fields, pairs = predictions(committee, chunk, labels)
        terms = _terms(committee, chunk, pairs, vocabulary, average, top)
        for row, prediction in enumerate(fields):
            explanations.append(_explanation(chunk.first + row, row, prediction, terms, vocabulary, top))
    return explanations


def chunk_size(committee: ViewCommittee, batch: SeriesBatch) -> int:
    """How many series are handled at a time."""
    widths = [part.values.shape[1] for block in _feature_blocks(committee) for part in block.landmarks]
    numbers = max([batch.values.shape[1] * batch.channels, *widths])
    return max(1, min(_CHUNK, _LARGEST_CHUNK // numbers))


def _feature_blocks(committee: ViewCommittee) -> Iterator[FeatureBlock]:
    return (block for block in committee.blocks if isinstance(block, FeatureBlock))


def _terms(
    committee: ViewCommittee,
    batch: SeriesBatch,
    pairs: Tensor | None,
    vocabulary: ViewVocabulary,
    average: _Background | None,
    top: int,
) -> _Terms:
    n, rows = len(batch), committee.rows(batch)
    direction = view_terms.directions(committee, pairs, n)
    linear, bent = view_terms.linear_weights(committee), view_terms.bent_coefficients(committee, rows, direction)
    constant = view_terms.constants(committee, direction, view_terms.link_offsets(committee, pairs, n))
    weights = {name: view_terms.coefficients(name, linear, bent, direction) for name in vocabulary.views}
    views: dict[str, Tensor] = {}
    for name, own in weights.items():
        assert own is not None
        origin = None if average is None else average.rows[name]
        views[name] = view_terms.kernel_terms(rows[name].gram, own, origin)
        if origin is not None:
            constant += own @ origin
    sets = torch.zeros(n, len(vocabulary.sets), dtype=torch.float64, device=committee.device)
    largest = Largest(n, top, committee.device)

    def add(indices: Tensor, terms: Tensor) -> None:
        sets.index_add_(1, vocabulary.set_indices[indices], terms)
        largest.add(indices, terms)

    words = torch.zeros(n, vocabulary.words, dtype=torch.float64, device=committee.device)
    seen = committee.standard(batch)
    for number, block in enumerate(committee.blocks):
        if not isinstance(block, FeatureBlock):
            continue
        both = zip(block.parts(seen), view_terms.landmark_features(block), vocabulary.parts[number], strict=True)
        for place, (part, (name, landmarks), indices) in enumerate(both):
            own = weights.get(name)
            if indices is None or own is None or not len(indices):
                continue
            origin = None if average is None else average.features[number][place]
            terms = view_terms.part_terms(part, landmarks, own, origin)
            if int(indices[0]) < vocabulary.words:  # which several views have
                words.index_add_(1, indices, terms)
            else:
                add(indices, terms)
    if vocabulary.words:
        add(torch.arange(vocabulary.words, device=committee.device), words)
    for name, index in vocabulary.kernels.items():
        add(torch.tensor([index], device=committee.device), views[name][:, None])
    return _Terms(constant, views, sets, largest)


def _average(committee: ViewCommittee, batch: SeriesBatch) -> _Background:
    rows: dict[str, Any] = {}
    features: list[list[Any]] = [[] for _ in committee.blocks]
    for chunk in batch.split(chunk_size(committee, batch)):
        seen, share = committee.standard(chunk), len(chunk) / len(batch)
        for number, block in enumerate(committee.blocks):
            for name, own in block.rows(seen).items():
                rows[name] = rows.get(name, 0.0) + share * own.gram.mean(0)
            if isinstance(block, FeatureBlock):
                means = [share * part.values.double().mean(0) for part in block.parts(seen)]
                before = features[number] or [0.0] * len(means)
                features[number] = [old + new for old, new in zip(before, means, strict=True)]
    return _Background(rows, features)


def _explanation(
    series: int, row: int, prediction: dict[str, Any], terms: _Terms, vocabulary: ViewVocabulary, top: int
) -> SeriesExplanation:
    constant = float(terms.constant[row])
    views: dict[str, float] = {}
    for name, values in terms.views.items():
        told = vocabulary.views[name]
        views[told] = views.get(told, 0.0) + float(values[row])
    latent = constant + sum(views.values())
    places = zip(terms.largest.indices[row].tolist(), terms.largest.values[row].tolist(), strict=True)
    shown = [Contribution(vocabulary.names[i], vocabulary.channels_of(i), value) for i, value in places]
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
