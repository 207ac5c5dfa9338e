"""Global importance: which words, channels and word lengths the predictions of a committee rest on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from siggpde.ensemble.committee import Committee, Member
from siggpde.explain.vocabulary import Letters, build_vocabulary
from siggpde.explain.word_terms import check_inputs, word_features, word_weights
from siggpde.paths import SeriesBatch

_CHUNK = 256


@dataclass(frozen=True)
class Importance:
    """The importance of a word, a channel or a length of words, and its share of the sum over all.

    `letters` are the names of the channels of a word; for a channel its own name alone, for a length none.
    """

    name: str
    letters: Letters
    importance: float
    share: float


@dataclass(frozen=True)
class Importances:
    """The most important `words` and all `channels` of the paths, largest first; all `lengths` of words, in order.

    Iteration goes over the words. `series` is the number of series used, `all_words` the number of distinct words.
    """

    words: list[Importance]
    channels: list[Importance]
    lengths: list[Importance]
    series: int
    all_words: int

    def __iter__(self) -> Iterator[Importance]:
        return iter(self.words)

    def __len__(self) -> int:
        return len(self.words)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@torch.no_grad()
def global_importance(
    committee: Committee, batch: SeriesBatch, names: Sequence[str], top: int = 10, *, max_series: int = 500
) -> Importances:
    """The importance of words for a committee's predictions on a batch, whose channels have these `names`.

    A word's importance is the standard deviation over the series of what it contributes to a latent function, summed
    over the classes and averaged over the members with their weights; the constant does not count as a word. The
    importance of a word is divided equally over its letters, and a channel has the sum of these shares. Of more than
    `max_series` series that many are used, evenly spaced.

    Words are correlated, as columns of a regression may be: two can vary much and cancel. So this tells what the model
    uses, not what it could not do without.
    """
    check_inputs(committee, batch, names, min_series=2)
    if top < 1 or max_series < 2:
        raise ValueError(f"top must be at least 1 and max_series at least 2, got {top} and {max_series}")
    if len(batch) > max_series:
        batch = batch[torch.arange(max_series) * len(batch) // max_series]
    vocabulary = build_vocabulary(committee, names)
    total = torch.zeros(len(vocabulary.words), dtype=torch.float64, device=committee.device)
    for weight, member, indices in zip(committee.weights, committee.members, vocabulary.word_indices, strict=True):
        spread = _spread(member, batch) * word_weights(member.model).abs().sum(dim=0)
        total.index_add_(0, indices, weight.double() * spread)
    words = {word: value for word, value in zip(vocabulary.words, total.tolist(), strict=True) if word}
    channels: dict[Letters, float] = {}
    lengths: dict[int, float] = {}
    for word, value in words.items():
        lengths[len(word)] = lengths.get(len(word), 0.0) + value
        for letter in word:
            channels[letter,] = channels.get((letter,), 0.0) + value / len(word)
    counted = {f"{length} letter{'s' if length > 1 else ''}": lengths[length] for length in sorted(lengths)}
    whole = sum(words.values())
    return Importances(
        words=_ranked(words, whole)[:top],
        channels=_ranked(channels, whole),
        lengths=[Importance(name, (), value, _share(value, whole)) for name, value in counted.items()],
        series=len(batch),
        all_words=len(words),
    )


def _ranked(values: Mapping[Letters, float], whole: float) -> list[Importance]:
    order = sorted(values, key=lambda letters: (-values[letters], len(letters), letters))
    return [Importance("–".join(word), word, values[word], _share(values[word], whole)) for word in order]


def _share(value: float, whole: float) -> float:
    return value / whole if whole > 0 else 0.0


def _spread(member: Member, batch: SeriesBatch) -> Tensor:
    """The standard deviation of every word's feature over the series, (M,), by the parallel update of Chan et al."""
    count, mean = 0, torch.zeros(1, dtype=torch.float64, device=batch.values.device)
    squares = mean
    for chunk in batch.split(_CHUNK):
        values = word_features(member.model, member.paths(chunk))
        chunk_mean = values.mean(dim=0)
        share = len(values) / (count + len(values))
        squares = squares + (values - chunk_mean).square().sum(dim=0) + (chunk_mean - mean).square() * (count * share)
        mean = mean + (chunk_mean - mean) * share
        count += len(values)
    return (squares / count).sqrt()
