r"""What every word contributes to every class, over series: the table from which words are ranked and grouped.

A word stands for all features that are made of it, whatever the windows and statistics: of words of paths and of
windows its contribution is the sum of theirs. A feature or a kernel without a word has its own row. In members of a
power above 1, whose weights of features differ from series to series, features have the mean of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.committee.of_views import OfViews
from siggpde.explain.logits import logits_of
from siggpde.explain.posterior import class_directions
from siggpde.explain.results import Letters
from siggpde.explain.view_terms import terms_of
from siggpde.explain.view_vocabulary import ViewVocabulary
from siggpde.explain.vocabulary import Vocabulary
from siggpde.explain.word_terms import model_logits, word_features, word_weights
from siggpde.series import SeriesBatch
from siggpde.views.base import parts_of


@dataclass(frozen=True)
class Words:
    """The `names` and `letters` of w words of a committee of views.

    `places` (terms,) are the words of all terms of the vocabulary; `columns`, for each part of features, the numbers of
    its words with the columns of each, and `kernels` the numbers of the kernels without features.
    """

    names: list[str]
    letters: list[Letters]
    places: Tensor
    columns: list[list[tuple[int, Tensor]]]
    kernels: dict[str, int]

    @staticmethod
    def of(vocabulary: ViewVocabulary, device: torch.device) -> Words:
        names: list[str] = []
        letters: list[Letters] = []
        known: dict[Letters | int, int] = {}
        word_of = []
        for index, own in enumerate(vocabulary.letters):
            key: Letters | int = own or index
            if key not in known:
                known[key] = len(names)
                names.append("–".join(own) if own else vocabulary.names[index])
                letters.append(own or vocabulary.channels_of(index))
            word_of.append(known[key])
        places = torch.tensor(word_of, dtype=torch.int64, device=device)
        columns = [[] if part is None else _by_word(places[part]) for part in vocabulary.parts]
        kernels = {name: word_of[index] for name, index in vocabulary.kernels.items()}
        return Words(names, letters, places, columns, kernels)


@dataclass(frozen=True)
class WordTable:
    """The `names` and `letters` of w words, and `terms` (classes, n, w): what they contribute to the logits of the
    classes less the mean over the classes, or to the number, but for what is equal for all series."""

    names: list[str]
    letters: list[Letters]
    terms: Tensor


def word_table(committee: OfViews, batch: SeriesBatch, words: Words) -> WordTable:
    """Of a committee of views."""
    view_terms, directions = terms_of(committee), class_directions(logits_of(committee))
    seen = committee.standard(batch)
    rows = view_terms.rows(seen)
    added = {name: rows[name].gram @ weights for name, weights in view_terms.kernels.items()}
    mean: dict[str, Tensor] = {}
    for kernel, factor, alpha in view_terms.bends(rows):
        if kernel in words.kernels:
            added[kernel] = added[kernel] + (factor * rows[kernel].gram) @ alpha
        mean[kernel] = mean.get(kernel, 0.0) + factor.mean(0)[:, None] * alpha
    shape = len(words.names), len(batch), directions.shape[1]
    total = torch.zeros(*shape, dtype=torch.float64, device=committee.device)
    for number, (name, values) in enumerate(parts_of(committee.blocks, seen)):
        if not words.columns[number]:
            continue
        weights = view_terms.part(number).weights
        if name in mean:
            weights = weights + view_terms.bent_weights(number, mean[name].T).T
        own = values.double()
        for word, chosen in words.columns[number]:
            total[word] += own[:, chosen] @ weights[chosen]
    for name, word in words.kernels.items():
        total[word] += added[name]
    return WordTable(words.names, words.letters, (total @ directions.T).permute(2, 1, 0).contiguous())


def plain_word_table(committee: Committee, batch: SeriesBatch, vocabulary: Vocabulary) -> WordTable:
    """Of a committee of words of paths; the empty word, which is the same for all series, contributes 0."""
    classes = len(model_logits(committee.members[0].model).mixing)
    count = len(vocabulary.words)
    terms = torch.zeros(classes, len(batch), count, dtype=torch.float64, device=committee.device)
    for weight, member, indices in zip(
        committee.weights.double(), committee.members, vocabulary.word_indices, strict=True
    ):
        features = word_features(member.model, member.paths(batch))
        weights = word_weights(member.model)
        weights = weights if classes == 1 else weights - weights.mean(0)
        terms.index_add_(2, indices, weight * features * weights[:, None])
    names = ["–".join(word) for word in vocabulary.words]
    if () in vocabulary.words:
        terms[:, :, vocabulary.words.index(())] = 0.0
    return WordTable(names, list(vocabulary.words), terms)


def _by_word(words: Tensor) -> list[tuple[int, Tensor]]:
    order = words.argsort(stable=True)
    found, counts = words[order].unique_consecutive(return_counts=True)
    return list(zip(found.tolist(), order.split(counts.tolist()), strict=True))
