r"""Global importance for a committee of views: of its features, of channels and word lengths, and of the views.

With the terms of `view_terms` for each class c (the direction of its logit; for numbers there is one), the importance
of feature j is the standard deviation over the series of what it contributes, summed over the classes,

.. math:: \sum_c |W_{cj}| \, \mathrm{std}(\phi_j),

where members of a power above 1, whose W differ from series to series, have their mean over the series. That of a view,
or of a kernel without features, is the sum over the classes of the standard deviation of all that it contributes.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from siggpde.ensemble.view_committee import ViewCommittee
from siggpde.explain import view_terms
from siggpde.explain.results import Importance, Importances, Letters
from siggpde.explain.spread import Spread
from siggpde.explain.view_series import chunk_size
from siggpde.explain.view_vocabulary import ViewVocabulary, build_view_vocabulary
from siggpde.paths import SeriesBatch
from siggpde.views.base import FeatureBlock


def view_importance(committee: ViewCommittee, batch: SeriesBatch, names: tuple[str, ...], top: int) -> Importances:
    """The importances for the series of a batch; arguments as those of `global_importance`, checked."""
    vocabulary = build_view_vocabulary(committee, names)
    linear, views = _weights_and_views(committee, batch, vocabulary)
    total = torch.zeros(len(vocabulary.names), dtype=torch.float64, device=committee.device)
    for number, block in enumerate(committee.blocks):
        if not isinstance(block, FeatureBlock):
            continue
        spreads = _feature_spreads(committee, block, batch)
        found = zip(spreads, view_terms.landmark_features(block), vocabulary.parts[number], strict=True)
        for spread, (name, landmarks), indices in found:
            if indices is not None:
                weights = landmarks.weights(linear[name].T).abs().sum(0)
                total.index_add_(0, indices, weights * spread.std())
    for name, index in vocabulary.kernels.items():
        total[index] = views[name]
    return _importances(total.tolist(), views, vocabulary, top, len(batch))


def _weights_and_views(
    committee: ViewCommittee, batch: SeriesBatch, vocabulary: ViewVocabulary
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """For each kernel the weights (m, outputs) of logits or numbers, with the mean slopes, and its importance."""
    mixing = None if committee.link is None else committee.link.mixing

    def mixed(values: Tensor) -> Tensor:
        return values if mixing is None else values @ mixing.T

    straight = view_terms.linear_weights(committee)
    linear = {name: weights.clone() for name, weights in straight.items()}
    spreads = {name: Spread() for name in vocabulary.views}
    for chunk in batch.split(chunk_size(committee, batch)):
        rows = committee.rows(chunk)
        terms = {name: rows[name].gram @ weights for name, weights in straight.items()}
        for weight, member in zip(committee.weights.tolist(), committee.members, strict=True):
            if member.recipe.power == 1:
                continue
            alpha, slopes = weight * member.regression.alpha, view_terms.slopes(member, rows)
            mean = slopes.sum(0)[:, None] / len(batch)
            for name, share in view_terms.shares(member):
                own = (share * slopes * rows[name].gram) @ alpha
                terms[name] = terms[name] + own if name in terms else own
                bent = share * mean * alpha
                linear[name] = linear[name] + bent if name in linear else bent
        for name, values in terms.items():
            spreads[name].add(mixed(values))
    views = {name: float(spread.std().sum()) for name, spread in spreads.items()}
    return {name: mixed(weights) for name, weights in linear.items()}, views


def _feature_spreads(committee: ViewCommittee, block: FeatureBlock, batch: SeriesBatch) -> list[Spread]:
    """The spread over the series of the features of every part."""
    spreads = [Spread() for _ in block.landmarks]
    for chunk in batch.split(chunk_size(committee, batch)):
        for part, spread in zip(block.parts(committee.standard(chunk)), spreads, strict=True):
            spread.add(part.values)
    return spreads


def _importances(
    total: list[float], views: Mapping[str, float], vocabulary: ViewVocabulary, top: int, series: int
) -> Importances:
    channels: dict[str, float] = {}
    lengths: dict[int, float] = {}
    for index, value in enumerate(total):
        own = vocabulary.channels_of(index)
        if vocabulary.letters[index]:
            lengths[len(own)] = lengths.get(len(own), 0.0) + value
        for letter in own:
            channels[letter] = channels.get(letter, 0.0) + value / len(own)
    whole = sum(total)
    order = sorted(range(len(total)), key=lambda index: -total[index])[:top]
    told: dict[str, float] = {}
    for name, value in views.items():
        told[vocabulary.views[name]] = told.get(vocabulary.views[name], 0.0) + value

    def each(name: str, letters: Letters, value: float, whole: float) -> Importance:
        return Importance(name, letters, value, value / whole if whole > 0 else 0.0)

    return Importances(
        words=[each(vocabulary.names[i], vocabulary.channels_of(i), total[i], whole) for i in order],
        channels=[each(name, (name,), channels[name], whole) for name in sorted(channels, key=lambda c: -channels[c])],
        lengths=[
            each(f"{length} letter{'s' * (length > 1)}", (), lengths[length], whole) for length in sorted(lengths)
        ],
        series=series,
        all_words=len(total),
        views=[each(name, (), told[name], sum(told.values())) for name in sorted(told, key=lambda v: -told[v])],
    )
