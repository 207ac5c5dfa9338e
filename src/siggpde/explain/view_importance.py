r"""Importance for a committee of views: of its features and of the views.

With the terms of `view_terms` for each class c (the direction of its logit; for numbers there is one), the importance
of feature j is the standard deviation over the series of what it contributes, summed over the classes,

.. math:: \sum_c |W_{cj}| \, \mathrm{std}(\phi_j),

where members of a power above 1, whose W differ from series to series, have their mean over the series. That of a view,
or of a kernel without features, is the sum over the classes of the standard deviation of all that it contributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.committee.of_views import OfViews
from siggpde.explain.logits import logits_of
from siggpde.explain.results import Importance, Importances, Letters
from siggpde.explain.spread import Spread
from siggpde.explain.view_series import chunk_size
from siggpde.explain.view_terms import ViewTerms, terms_of
from siggpde.explain.view_vocabulary import ViewVocabulary, build_view_vocabulary
from siggpde.series import SeriesBatch
from siggpde.views.base import parts_of


def view_importance(committee: OfViews, batch: SeriesBatch, names: tuple[str, ...], top: int) -> Importances:
    """The importances for the series of a batch; arguments as those of `feature_importance`, checked."""
    vocabulary, terms, mixing = (
        build_view_vocabulary(committee, names),
        terms_of(committee),
        logits_of(committee).mixing,
    )
    found = _Spreads.of(committee, terms, batch, vocabulary)
    total = torch.zeros(len(vocabulary.names), dtype=torch.float64, device=committee.device)
    for number, (spread, indices) in enumerate(zip(found.features, vocabulary.parts, strict=True)):
        if indices is not None:
            weights = terms.part(number).weights.T
            bent = found.bent.get(found.kernels[number])
            if bent is not None:
                weights = weights + terms.bent_weights(number, bent.T)
            total.index_add_(0, indices, (mixing @ weights).abs().sum(0) * spread.std())
    views = {name: float(spread.std().sum()) for name, spread in found.views.items()}
    for name, index in vocabulary.kernels.items():
        total[index] = views[name]
    return _importances(total.tolist(), views, vocabulary, top, len(batch))


@dataclass(frozen=True)
class _Spreads:
    """Over the series: the spread of the features of every part, with the names of their `kernels`; that of what each
    kernel adds to the logits; and the mean a_b (m, outputs) of the members of a power above 1."""

    features: list[Spread]
    kernels: list[str]
    views: dict[str, Spread]
    bent: dict[str, Tensor]

    @staticmethod
    def of(committee: OfViews, terms: ViewTerms, batch: SeriesBatch, vocabulary: ViewVocabulary) -> _Spreads:
        mixing = logits_of(committee).mixing
        found = _Spreads([Spread() for _ in terms.widths], [""] * len(terms.widths), {}, {})
        for chunk in batch.split(chunk_size(terms, batch)):
            seen = committee.standard(chunk)
            rows = terms.rows(seen)
            added: dict[str, Tensor] = {name: rows[name].gram @ weights for name, weights in terms.kernels.items()}
            for kernel, factor, alpha in terms.bends(rows):
                added[kernel] = added.get(kernel, 0.0) + (factor * rows[kernel].gram) @ alpha
                mean = (factor.sum(0) / len(batch))[:, None] * alpha
                found.bent[kernel] = found.bent.get(kernel, 0.0) + mean
            for number, (name, values) in enumerate(parts_of(committee.blocks, seen)):
                found.kernels[number] = name
                if vocabulary.parts[number] is not None:
                    part = terms.part(number)
                    found.features[number].add(values)
                    added[name] = added.get(name, 0.0) + (values.double() - part.mean) @ part.weights
            for name, latents in added.items():
                found.views.setdefault(name, Spread()).add(latents @ mixing.T)
        return found


def _importances(
    total: list[float], views: Mapping[str, float], vocabulary: ViewVocabulary, top: int, series: int
) -> Importances:
    whole = sum(total)
    order = sorted(range(len(total)), key=lambda index: -total[index])[:top]
    told: dict[str, float] = {}
    for name, value in views.items():
        told[vocabulary.views[name]] = told.get(vocabulary.views[name], 0.0) + value

    def each(name: str, letters: Letters, value: float, whole: float) -> Importance:
        return Importance(name, letters, value, value / whole if whole > 0 else 0.0)

    return Importances(
        features=[each(vocabulary.names[i], vocabulary.channels_of(i), total[i], whole) for i in order],
        series=series,
        all_features=len(total),
        views=[each(name, (), told[name], sum(told.values())) for name in sorted(told, key=lambda v: -told[v])],
    )
