"""Terms that move together as one contribution, and which words of a committee of words do."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.explain.grouping import CANDIDATES, FEWEST, grouped
from siggpde.explain.predictions import evenly_spaced
from siggpde.explain.results import Contribution
from siggpde.explain.text import group_name
from siggpde.explain.vocabulary import Vocabulary
from siggpde.explain.word_terms import explained_weights, word_features
from siggpde.series import SeriesBatch

_REFERENCES = 100


def merged(terms: Sequence[Contribution], groups: Sequence[Sequence[int]]) -> list[Contribution]:
    """A contribution for each group of numbers of terms, the first of which gives its name and letters."""
    return [
        Contribution(
            group_name(terms[group[0]].name, len(group) - 1),
            terms[group[0]].letters,
            sum(terms[number].value for number in group),
            tuple(terms[number].name for number in group[1:]),
        )
        for group in groups
    ]


def word_references(committee: Committee, batch: SeriesBatch) -> list[Tensor] | None:
    """The words (r, M) of every member at up to 100 series of the batch; None of fewer than ten."""
    if len(batch) < FEWEST:
        return None
    few = evenly_spaced(batch, _REFERENCES)
    return [word_features(member.model, member.paths(few)) for member in committee.members]


def word_groups(
    committee: Committee, references: list[Tensor], vocabulary: Vocabulary, pair: Tensor | None, terms: Tensor
) -> list[list[int]]:
    """The groups of the largest of the terms (words,) of one series, by the numbers of their words; `pair` (1, 2) are
    the classes that are compared."""
    found = torch.zeros(len(references[0]), len(vocabulary.words), dtype=torch.float64, device=committee.device)
    for weight, member, features, indices in zip(
        committee.weights.double(), committee.members, references, vocabulary.word_indices, strict=True
    ):
        found.index_add_(1, indices, weight * features * explained_weights(member.model, pair))
    order = terms.abs().argsort(descending=True, stable=True).tolist()
    chosen = [index for index in order if vocabulary.words[index]][:CANDIDATES]
    return [[chosen[number] for number in group] for group in grouped(found[:, chosen])]
