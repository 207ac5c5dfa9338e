"""Why a series is predicted as it is, word by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.ensemble.committee import Committee, Member
from siggpde.explain.linear import (
    Letters,
    Vocabulary,
    check,
    classifies,
    directions,
    likeliest_two,
    link_offset,
    vocabulary,
    word_features,
)
from siggpde.paths import SeriesBatch

_CHUNK = 256


@dataclass(frozen=True)
class Contribution:
    """What a word, or all the words of a set of channels, add to the latent function; `letters` are their names."""

    name: str
    letters: Letters
    value: float

    def __str__(self) -> str:
        return f"{self.name}: {self.value:+.3g}"


@dataclass(frozen=True)
class SeriesExplanation:
    """The prediction of one series and what speaks for it (positive) or against it (negative).

    - `series`: its number. For classes `label` and `runner_up` with their probabilities; for numbers `mean` and `std`.
    - `latent`: what is explained: the latent function of `label` minus that of `runner_up` (for least squares the
      difference of their logits), or that of the number, averaged over the members with their weights.
    - `contributions`: the words with the largest effect, largest first; `rest`: the sum of all other words;
      `constant`: what is the same for every series. constant + contributions + rest = latent.
    - `interactions`: the same, summed over all words of a set of channels: "time & x" has time–x, x–time, time–x–x, ..
      Words often cancel, for they overlap; sums over such sets do so less. The largest of them, largest first.
    """

    series: int
    latent: float
    constant: float
    rest: float
    contributions: list[Contribution]
    interactions: list[Contribution]
    label: Any = None
    probability: float | None = None
    runner_up: Any = None
    runner_up_probability: float | None = None
    mean: float | None = None
    std: float | None = None

    @property
    def sentences(self) -> list[str]:
        """The explanation in plain English: the prediction, then a line for every contribution."""
        return [self._prediction(), *map(str, self.contributions)]

    def __str__(self) -> str:
        return "\n  ".join(self.sentences)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def in_units(self, scale: float, shift: float) -> SeriesExplanation:
        """The same of the number shift + scale y, where that of y is explained."""
        if self.mean is None or self.std is None:
            raise ValueError("classes have no units; only the explanation of a number can be shifted and scaled")
        return replace(
            self,
            latent=shift + scale * self.latent,
            constant=shift + scale * self.constant,
            rest=scale * self.rest,
            contributions=[replace(each, value=scale * each.value) for each in self.contributions],
            interactions=[replace(each, value=scale * each.value) for each in self.interactions],
            mean=shift + scale * self.mean,
            std=scale * self.std,
        )

    def _prediction(self) -> str:
        if self.probability is None:
            return f"series {self.series}: {self.mean:.4g} ± {self.std:.2g}"
        return (
            f"series {self.series}: {self.label} with probability {self.probability:.3g}, "
            f"then {self.runner_up} with {self.runner_up_probability:.3g}"
        )


@torch.no_grad()
def explain_series(
    committee: Committee,
    batch: SeriesBatch,
    names: Sequence[str],
    classes: Any = None,
    top: int = 10,
    *,
    background: SeriesBatch | None = None,
) -> list[SeriesExplanation]:
    """An explanation for every series of a batch, whose channels have these `names`.

    `classes` are the labels in the order of the model's classes; None for a regression. The latent function is a sum
    over words; for classes the difference between the most probable one and the runner-up is explained. With
    `background`, some training series, every word counts by how far it is from its mean over them, and that mean is
    part of the constant: words that are large for all series alike then make room for those that make this one
    different.

    A Poisson regression is explained on the scale of its latent function, the logarithm of the rate.
    """
    check(committee, batch, names)
    if background is not None:
        check(committee, background, names)
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    labels = _labels(committee, classes)
    known = vocabulary(committee, names)
    usual = None if background is None else [_mean_features(member, background) for member in committee.members]
    found: list[SeriesExplanation] = []
    for piece in batch.split(_CHUNK):
        facts, pairs = _predictions(committee, piece, labels)
        values, constant = (part.cpu() for part in _contributions(committee, piece, pairs, known, usual))
        for row, fact in enumerate(facts):
            found.append(_explanation(piece.first + row, fact, values[row], float(constant[row]), known, top))
    return found


def _predictions(
    committee: Committee, batch: SeriesBatch, labels: list[Any] | None
) -> tuple[list[dict[str, Any]], Tensor | None]:
    """What is predicted of every series, and the two classes to compare."""
    if labels is None:
        mean, variance = committee.mean_and_variance(batch)
        numbers = zip(mean.tolist(), variance.sqrt().tolist(), strict=True)
        return [{"mean": centre, "std": spread} for centre, spread in numbers], None
    chances = committee.probabilities(batch)
    pairs = likeliest_two(chances)
    facts = [
        {
            "label": labels[first],
            "probability": float(chance[first]),
            "runner_up": labels[second],
            "runner_up_probability": float(chance[second]),
        }
        for (first, second), chance in zip(pairs.tolist(), chances, strict=True)
    ]
    return facts, pairs


def _contributions(
    committee: Committee, batch: SeriesBatch, pairs: Tensor | None, known: Vocabulary, usual: list[Tensor] | None
) -> tuple[Tensor, Tensor]:
    """What every word (n, words) and the constant (n,) add to the latent, averaged over the members."""
    values = batch.values.new_zeros(len(batch), len(known.words), dtype=torch.float64)
    constant = values.new_zeros(len(batch))
    for k, (weight, member) in enumerate(zip(committee.weights.double(), committee.members, strict=True)):
        features = word_features(member.model, *member.paths(batch))
        towards = directions(committee, pairs, k, slice(None))
        if pairs is not None:
            offset = link_offset(member.model)
            constant += weight * (offset[pairs[:, 0]] - offset[pairs[:, 1]])
        if usual is not None:
            constant += weight * (towards @ usual[k])
            features = features - usual[k]
        values.index_add_(1, known.places[k], weight * features * towards)
    if () in known.words:
        place = known.words.index(())
        constant += values[:, place]
        values[:, place] = 0.0
    return values, constant


def _explanation(
    series: int, fact: dict[str, Any], values: Tensor, constant: float, known: Vocabulary, top: int
) -> SeriesExplanation:
    together = torch.zeros(len(known.sets), dtype=torch.float64).index_add_(0, known.set_places, values)
    kept = _largest(values, known.words, top)
    others = torch.ones(len(values), dtype=torch.bool)
    others[kept] = False
    return SeriesExplanation(
        series=series,
        latent=constant + float(values.sum()),
        constant=constant,
        rest=float(values[others].sum()),
        contributions=[_contribution("–", known.words[place], values[place]) for place in kept],
        interactions=[
            _contribution(" & ", known.sets[place], together[place]) for place in _largest(together, known.sets, top)
        ],
        **fact,
    )


def _largest(values: Tensor, words: list[Letters], top: int) -> list[int]:
    """The places of the `top` largest values, the constant left out."""
    order = values.abs().sort(descending=True, stable=True).indices
    return [place for place in order[: top + 1].tolist() if words[place]][:top]


def _contribution(between: str, letters: Letters, value: Tensor) -> Contribution:
    return Contribution(between.join(letters), letters, float(value))


def _mean_features(member: Member, batch: SeriesBatch) -> Tensor:
    total = sum(word_features(member.model, *member.paths(piece)).sum(dim=0) for piece in batch.split(_CHUNK))
    return torch.as_tensor(total) / len(batch)


def _labels(committee: Committee, classes: Any) -> list[Any] | None:
    """The labels as plain values, after checking that there are as many as the model has; None for a regression."""
    if not classifies(committee):
        if classes is not None:
            raise ValueError("the committee predicts numbers, not classes; leave classes out")
        return None
    count = committee.members[0].model.likelihood.classes
    labels = None if classes is None else list(np.asarray(classes).tolist())
    if labels is None or len(labels) != count:
        got = "none" if labels is None else f"{len(labels)}"
        raise ValueError(f"the committee predicts {count} classes; give their labels as classes, got {got}")
    return labels
