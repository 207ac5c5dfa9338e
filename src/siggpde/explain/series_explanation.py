"""The explanation of single predictions: the contributions of words and of sets of channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.ensemble.committee import Committee, Member
from siggpde.explain.vocabulary import Letters, Vocabulary, build_vocabulary
from siggpde.explain.word_terms import (
    check_inputs,
    classifies,
    explained_weights,
    link_offset,
    top_two_classes,
    word_features,
)
from siggpde.paths import SeriesBatch

_CHUNK = 256


@dataclass(frozen=True)
class Contribution:
    """The term of a word, or of all words of a set of channels, in the latent function; `letters` name the channels."""

    name: str
    letters: Letters
    value: float

    def __str__(self) -> str:
        return f"{self.name}: {self.value:+.3g}"


@dataclass(frozen=True)
class SeriesExplanation:
    """The prediction of one series, and what contributes to it (positive: for it, negative: against it).

    - `series`: its index. For classes `label` and `runner_up` with their probabilities; for numbers `mean` and `std`.
    - `latent`: what is explained: the latent function of `label` minus that of `runner_up` (for least squares the
      difference of their logits), or that of the number, averaged over the members with their weights.
    - `contributions`: the words with the largest effect, largest first; `rest`: the sum of all other words;
      `constant`: the part that is equal for all series. constant + contributions + rest = latent.
    - `interactions`: contributions summed over all words of a set of channels: "time & x" is the sum of time–x, x–time,
      time–x–x, .. Words are correlated and often cancel; these sums cancel less. The largest of them, largest first.
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
        """The explanation of the number shift + scale * y, from this one of y."""
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
    `background`, some training series, a word contributes by the difference of its feature from the mean over them, and
    that mean becomes part of the constant: then words that are equally large for all series do not hide those that make
    this one different.

    A Poisson regression is explained on the scale of its latent function, the logarithm of the rate.
    """
    check_inputs(committee, batch, names)
    if background is not None:
        check_inputs(committee, background, names)
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    labels = _labels(committee, classes)
    vocabulary = build_vocabulary(committee, names)
    means = None if background is None else [_mean_features(member, background) for member in committee.members]
    explanations: list[SeriesExplanation] = []
    for chunk in batch.split(_CHUNK):
        predictions, pairs = _predictions(committee, chunk, labels)
        terms, constant = (tensor.cpu() for tensor in _word_terms(committee, chunk, pairs, vocabulary, means))
        for row, prediction in enumerate(predictions):
            index = chunk.first + row
            explanations.append(_explanation(index, prediction, terms[row], float(constant[row]), vocabulary, top))
    return explanations


def _predictions(
    committee: Committee, batch: SeriesBatch, labels: list[Any] | None
) -> tuple[list[dict[str, Any]], Tensor | None]:
    """The predictions, as fields of SeriesExplanation, and the two classes (n, 2) to compare."""
    if labels is None:
        mean, variance = committee.mean_and_variance(batch)
        numbers = zip(mean.tolist(), variance.sqrt().tolist(), strict=True)
        return [{"mean": centre, "std": spread} for centre, spread in numbers], None
    probabilities = committee.probabilities(batch)
    pairs = top_two_classes(probabilities)
    predictions = [
        {
            "label": labels[first],
            "probability": float(row[first]),
            "runner_up": labels[second],
            "runner_up_probability": float(row[second]),
        }
        for (first, second), row in zip(pairs.tolist(), probabilities, strict=True)
    ]
    return predictions, pairs


def _word_terms(
    committee: Committee, batch: SeriesBatch, pairs: Tensor | None, vocabulary: Vocabulary, means: list[Tensor] | None
) -> tuple[Tensor, Tensor]:
    """The terms of the words (n, words) and the constant (n,) of the latent, averaged over the members."""
    terms = batch.values.new_zeros(len(batch), len(vocabulary.words), dtype=torch.float64)
    constant = terms.new_zeros(len(batch))
    for k, (weight, member) in enumerate(zip(committee.weights.double(), committee.members, strict=True)):
        features = word_features(member.model, member.paths(batch))
        word_weights = explained_weights(member.model, pairs)
        if pairs is not None:
            offset = link_offset(member.model)
            constant += weight * (offset[pairs[:, 0]] - offset[pairs[:, 1]])
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
    series: int, prediction: dict[str, Any], terms: Tensor, constant: float, vocabulary: Vocabulary, top: int
) -> SeriesExplanation:
    words, sets = vocabulary.words, vocabulary.channel_sets
    set_terms = torch.zeros(len(sets), dtype=torch.float64).index_add_(0, vocabulary.set_indices, terms)
    shown = _largest(terms, words, top)
    others = torch.ones(len(terms), dtype=torch.bool)
    others[shown] = False
    return SeriesExplanation(
        series=series,
        latent=constant + float(terms.sum()),
        constant=constant,
        rest=float(terms[others].sum()),
        contributions=[_contribution("–", words[index], terms[index]) for index in shown],
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
