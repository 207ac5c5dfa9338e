"""The importance of single features: which words, other features and views predictions rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from siggpde.committee.committee import Committee, Member
from siggpde.explain.predictions import AnyCommittee, check_inputs, evenly_spaced
from siggpde.explain.results import Importance, Importances, Letters
from siggpde.explain.spread import Spread
from siggpde.explain.view_importance import view_importance
from siggpde.explain.vocabulary import build_vocabulary
from siggpde.explain.word_terms import word_features, word_weights
from siggpde.series import SeriesBatch

_CHUNK = 256


@torch.no_grad()
def feature_importance(
    committee: AnyCommittee, batch: SeriesBatch, names: Sequence[str], top: int = 10, *, max_series: int = 500
) -> Importances:
    """The importance of words for a committee's predictions on a batch, whose channels have these `names`.

    A word's importance is the standard deviation over the series of what it contributes to a latent function, summed
    over the classes and averaged over the members with their weights; the constant does not count as a word. Of more
    than `max_series` series that many are used, evenly spaced.

    Words are correlated, as columns of a regression may be: two can vary much and cancel. So this tells what the model
    uses, not what it could not do without.

    A committee of views has other features beside words, ranked with them, and kernels without features. The importance
    of a view is the standard deviation of all it contributes: in that sum features do cancel (formulas:
    `siggpde.explain.view_importance`).
    """
    check_inputs(committee, batch, names, min_series=2)
    if top < 1 or max_series < 2:
        raise ValueError(f"top must be at least 1 and max_series at least 2, got {top} and {max_series}")
    batch = evenly_spaced(batch, max_series)
    if not isinstance(committee, Committee):
        return view_importance(committee, batch, tuple(names), top)
    vocabulary = build_vocabulary(committee, names)
    total = torch.zeros(len(vocabulary.words), dtype=torch.float64, device=committee.device)
    for weight, member, indices in zip(committee.weights, committee.members, vocabulary.word_indices, strict=True):
        spread = _spread(member, batch) * word_weights(member.model).abs().sum(dim=0)
        total.index_add_(0, indices, weight.double() * spread)
    words = {word: value for word, value in zip(vocabulary.words, total.tolist(), strict=True) if word}
    whole = sum(words.values())
    return Importances(
        features=_ranked(words, whole)[:top],
        series=len(batch),
        all_features=len(words),
    )


def _ranked(values: Mapping[Letters, float], whole: float) -> list[Importance]:
    order = sorted(values, key=lambda letters: (-values[letters], len(letters), letters))
    return [Importance("–".join(word), word, values[word], _share(values[word], whole)) for word in order]


def _share(value: float, whole: float) -> float:
    return value / whole if whole > 0 else 0.0


def _spread(member: Member, batch: SeriesBatch) -> Tensor:
    """The standard deviation of every word's feature over the series, (M,)."""
    spread = Spread()
    for chunk in batch.split(_CHUNK):
        spread.add(word_features(member.model, member.paths(chunk)))
    return spread.std()
