"""The explanation of single predictions: the contributions of words, and of features of views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from siggpde.committee.committee import Committee, Member
from siggpde.explain.merging import merged, word_groups, word_references
from siggpde.explain.neighbours import nearest_series
from siggpde.explain.predictions import AnyCommittee, check_inputs, checked_labels, predictions
from siggpde.explain.results import Contribution, Letters, SeriesExplanation
from siggpde.explain.view_series import explain_views
from siggpde.explain.vocabulary import Vocabulary, build_vocabulary
from siggpde.explain.walks import WalkSettings
from siggpde.explain.when_and_where import segment_contributions
from siggpde.explain.word_terms import explained_weights, model_logits, word_features
from siggpde.series import SeriesBatch

_CHUNK = 256


@torch.no_grad()
def explain_series(
    committee: AnyCommittee,
    batch: SeriesBatch,
    names: Sequence[str],
    classes: Any = None,
    top: int = 10,
    *,
    background: SeriesBatch | None = None,
    walks: WalkSettings | None = None,
    group: bool = False,
) -> list[SeriesExplanation]:
    """An explanation for every series of a batch, whose channels have these `names`.

    `classes` are the labels in the order of the model's classes; None for a regression. The latent function is a sum
    over words; for classes the difference between the most probable one and the runner-up is explained. With
    `background`, some training series, a word contributes by the difference of its feature from the mean over them, and
    that mean becomes part of the constant: then words that are equally large for all series do not hide those that make
    this one different.

    A committee of views has other features beside words, and kernels without features, each with a term of its own; all
    terms are exact, with the formulas of `siggpde.explain.view_terms`. Words called alike are one term.

    With `group`, a word is one term, with all features of windows that are made of it, and words that move together are
    one term too (`siggpde.explain.grouping`): of the 150 largest of a series, compared over the background, else over
    the landmarks or, in models without any, over the batch if it has ten series.

    With `walks`, explanations also say when and where (`siggpde.explain.walks`): what every segment and channel
    contributes to the latent of each class, which takes hundreds of predictions for every series.

    A Poisson regression is explained on the scale of its latent function, the logarithm of the rate.
    """
    check_inputs(committee, batch, names)
    if background is not None:
        check_inputs(committee, background, names)
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    labels = checked_labels(committee, classes)
    if isinstance(committee, Committee):
        explanations = _explain_words(committee, batch, names, labels, top, background, group=group)
    else:
        explanations = explain_views(committee, batch, tuple(names), labels, top, background, group=group)
    if walks is None:
        return explanations
    pairs = None
    if labels is not None:
        places = [(labels.index(each.label), labels.index(each.runner_up)) for each in explanations]
        pairs = torch.tensor(places)
    segments = segment_contributions(committee, batch, names, labels, pairs, walks, background)
    neighbours = nearest_series(committee, batch, labels, pairs)
    return [
        replace(each, segments=own, neighbours=nearest)
        for each, own, nearest in zip(explanations, segments, neighbours, strict=True)
    ]


def _explain_words(
    committee: Committee,
    batch: SeriesBatch,
    names: Sequence[str],
    labels: list[Any] | None,
    top: int,
    background: SeriesBatch | None,
    *,
    group: bool,
) -> list[SeriesExplanation]:
    vocabulary = build_vocabulary(committee, names)
    references = word_references(committee, batch if background is None else background) if group else None
    means = None if background is None else [_mean_features(member, background) for member in committee.members]
    explanations: list[SeriesExplanation] = []
    for chunk in batch.split(_CHUNK):
        fields, pairs = predictions(committee, chunk, labels)
        terms, constant = (tensor.cpu() for tensor in _word_terms(committee, chunk, pairs, vocabulary, means))
        for row, prediction in enumerate(fields):
            index = chunk.first + row
            groups = None
            if references is not None:
                pair = None if pairs is None else pairs[row : row + 1]
                groups = word_groups(committee, references, vocabulary, pair, terms[row])
            explanations.append(
                _explanation(index, prediction, terms[row], float(constant[row]), vocabulary, top, groups)
            )
    return explanations


def _word_terms(
    committee: Committee, batch: SeriesBatch, pairs: Tensor | None, vocabulary: Vocabulary, means: list[Tensor] | None
) -> tuple[Tensor, Tensor]:
    """The terms of the words (n, words) and the constant (n,) of the latent, averaged over the members."""
    terms = batch.values.new_zeros(len(batch), len(vocabulary.words), dtype=torch.float64)
    constant = terms.new_zeros(len(batch))
    for k, (weight, member) in enumerate(zip(committee.weights.double(), committee.members, strict=True)):
        features = word_features(member.model, member.paths(batch))
        word_weights = explained_weights(member.model, pairs)
        constant += weight * model_logits(member.model).directions(pairs, len(batch))[1]
        if means is not None:
            constant += weight * (word_weights @ means[k])
            features = features - means[k]
        terms.index_add_(1, vocabulary.word_indices[k], weight * features * word_weights)
    if () in vocabulary.words:
        empty_word = vocabulary.words.index(())
        constant += terms[:, empty_word]
        terms[:, empty_word] = 0.0
    return terms, constant


def _explanation(
    series: int,
    prediction: dict[str, Any],
    terms: Tensor,
    constant: float,
    vocabulary: Vocabulary,
    top: int,
    groups: list[list[int]] | None,
) -> SeriesExplanation:
    words, sets = vocabulary.words, vocabulary.channel_sets
    set_terms = torch.zeros(len(sets), dtype=torch.float64).index_add_(0, vocabulary.set_indices, terms)
    if groups is None:
        shown = [_contribution("–", words[index], terms[index]) for index in _largest(terms, words, top)]
    else:
        own = [Contribution("–".join(word), word, value) for word, value in zip(words, terms.tolist(), strict=True)]
        inside = {index for each in groups for index in each}
        others = [each for index, each in enumerate(own) if index not in inside and each.letters]
        shown = sorted([*merged(own, groups), *others], key=lambda each: -abs(each.value))[:top]
    latent = constant + float(terms.sum())
    return SeriesExplanation(
        series=series,
        latent=latent,
        constant=constant,
        rest=latent - constant - sum(each.value for each in shown),
        contributions=shown,
        interactions=[_contribution(" & ", sets[index], set_terms[index]) for index in _largest(set_terms, sets, top)],
        **prediction,
    )


def _largest(values: Tensor, words: list[Letters], top: int) -> list[int]:
    """The indices of the `top` values of largest size, without that of the empty word."""
    order = values.abs().sort(descending=True, stable=True).indices
    return [index for index in order[: top + 1].tolist() if words[index]][:top]


def _contribution(separator: str, letters: Letters, value: Tensor) -> Contribution:
    return Contribution(separator.join(letters), letters, float(value))


def _mean_features(member: Member, batch: SeriesBatch) -> Tensor:
    total = sum(word_features(member.model, member.paths(chunk)).sum(dim=0) for chunk in batch.split(_CHUNK))
    return torch.as_tensor(total) / len(batch)
