"""Which words, channels and orders of interaction the predictions of a committee rest on, over many series."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from siggpde.ensemble.committee import Committee, Member
from siggpde.explain.linear import Letters, check, vocabulary, word_features, word_weights
from siggpde.paths import SeriesBatch

_CHUNK = 256


@dataclass(frozen=True)
class Importance:
    """How much of the variation of the latents something makes, and its share of the whole.

    `letters` are the names of the channels of the word; of a channel only its own, of a length none.
    """

    name: str
    letters: Letters
    importance: float
    share: float


@dataclass(frozen=True)
class Importances:
    """The most important `words`; all `channels` of the paths; all `lengths` of words. The first two best first.

    Going over it goes over the words. `series` is how many were looked at and `all_words` how many words there are.
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
    over the classes and averaged over the members with their weights; the constant is no word. A channel has the sum
    over the words that hold it, each divided equally over its letters. Of more than `max_series` series so many are
    looked at, evenly spaced.

    Words overlap, as correlated columns of a regression do: two may vary much and cancel. What is important here is
    what the model uses, not what it could not do without.
    """
    check(committee, batch, names, least=2)
    if top < 1 or max_series < 2:
        raise ValueError(f"top must be at least 1 and max_series at least 2, got {top} and {max_series}")
    if len(batch) > max_series:
        batch = batch[torch.arange(max_series) * len(batch) // max_series]
    known = vocabulary(committee, names)
    total = torch.zeros(len(known.words), dtype=torch.float64, device=committee.device)
    for weight, member, places in zip(committee.weights, committee.members, known.places, strict=True):
        spread = _spread(member, batch) * word_weights(member.model).abs().sum(dim=0)
        total.index_add_(0, places, weight.double() * spread)
    words = {word: value for word, value in zip(known.words, total.tolist(), strict=True) if word}
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


def _ranked(found: Mapping[Letters, float], whole: float) -> list[Importance]:
    order = sorted(found, key=lambda letters: (-found[letters], len(letters), letters))
    return [Importance("–".join(letters), letters, found[letters], _share(found[letters], whole)) for letters in order]


def _share(value: float, whole: float) -> float:
    return value / whole if whole > 0 else 0.0


def _spread(member: Member, batch: SeriesBatch) -> Tensor:
    """The standard deviation of every word's feature over the series, (M,), chunk by chunk."""
    seen, mean = 0, torch.zeros(1, dtype=torch.float64, device=batch.values.device)
    squares = mean
    for piece in batch.split(_CHUNK):
        values = word_features(member.model, *member.paths(piece))
        own = values.mean(dim=0)
        share = len(values) / (seen + len(values))
        squares = squares + (values - own).square().sum(dim=0) + (own - mean).square() * (seen * share)
        mean = mean + (own - mean) * share
        seen += len(values)
    return (squares / seen).sqrt()
