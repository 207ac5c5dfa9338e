r"""What the predictions of a committee rest on: channels, time regions, window scales and words, class by class.

Every effect is a mean over the series of a class less the mean over all others (`explain.contrasts`), of what something
contributes to the logit of that class less the mean of all logits, or to the number:

- a channel or a time region, its credit where pieces of series are replaced by what is ordinary (`explain.cut_series`);
  the effects of all channels, and of all regions, sum to the effect of the whole series;
- a window scale, the terms of all features of windows of one span; the whole series is a scale too, that of words of
  paths and of kernels without features;
- a word, the terms of all features made of it, whatever the window. Words that move together are one
  (`explain.grouping`);
- a view, all of its terms.

All of these are linear in the latents and so have a Gaussian posterior (`explain.posterior`). Over the classes the
importance of a channel, region or scale is the root mean square of its effects; that of a group of words is the
standard deviation over the series of what it contributes, summed over the classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.explain.contrasts import contrasts_of, spread_over
from siggpde.explain.cut_effects import cut_effects
from siggpde.explain.cut_series import Cut, cut_channels, cut_regions
from siggpde.explain.grouping import CANDIDATES, FEWEST, grouped
from siggpde.explain.importance import feature_importance
from siggpde.explain.posterior import Gaussian, probability_of_sign
from siggpde.explain.predictions import AnyCommittee, check_inputs, checked_labels, classes_of
from siggpde.explain.region_names import region_names
from siggpde.explain.results import ClassEffects, Effect, Importance, Importances, Letters
from siggpde.explain.term_effects import TermEffects, term_effects, word_effects
from siggpde.explain.text import group_name
from siggpde.explain.view_vocabulary import build_view_vocabulary, unique_names
from siggpde.explain.vocabulary import build_vocabulary
from siggpde.explain.word_table import Words, WordTable, plain_word_table, word_table
from siggpde.series import SeriesBatch

_SERIES = 200  # of which words, scales and views are looked at


@torch.no_grad()
def global_importance(
    committee: AnyCommittee,
    batch: SeriesBatch,
    names: Sequence[str],
    top: int = 10,
    *,
    classes: Any = None,
    targets: Tensor | None = None,
    regions: int = 10,
    max_series: int = 500,
) -> Importances:
    """What the predictions for a batch rest on, whose channels have these `names` (the module has the definitions).

    `classes` are the labels in the order of the model's classes, by default their numbers. `targets` (n,) are the true
    classes 0..classes-1 or numbers; by default those that the committee predicts. At most `top` words are told, and
    `regions` time regions. Of many series 200 are used for words, scales and views, as many as make about 500 cut
    series for channels and regions, evenly spread over the classes, and `max_series` for single features.
    """
    check_inputs(committee, batch, names, min_series=2)
    count = classes_of(committee)
    labels = list(range(count)) if count is not None and classes is None else checked_labels(committee, classes)
    if regions < 1:
        raise ValueError(f"regions must be at least 1, got {regions}")
    found = feature_importance(committee, batch, names, top, max_series=max_series)
    known = _predicted(committee, batch, count) if targets is None else targets.to(committee.device)
    if len(known) != len(batch):
        raise ValueError(f"there are {len(batch)} series but {len(known)} targets")
    channels = _channel_names(committee, names)
    pieces = min(regions, int(batch.counts().min()))
    regions_told = region_names(batch, pieces)
    by_channel = _cut_effects(
        committee, batch, known, channels, [(name,) for name in channels], lambda own: cut_channels(committee, own)
    )
    by_region = _cut_effects(
        committee, batch, known, regions_told, [()] * pieces, lambda own: cut_regions(committee, own, pieces)
    )
    chosen = spread_over(known, count, _SERIES)
    terms = _Terms.of(committee, batch[chosen], known[chosen], count, names, top)
    told_classes = [
        ClassEffects(
            label=None if labels is None else labels[side],
            series=len(known) if count is None else int((known == side).sum()),
            channels=by_channel.get(side, []),
            regions=by_region.get(side, []),
            scales=terms.scales[place],
            words=terms.words[place],
            views=largest_first(terms.views[place]),
        )
        for place, side in enumerate(terms.sides)
    ]
    return replace(
        found,
        classes=told_classes,
        channels=sorted(_overall(told_classes, "channels"), key=lambda each: -each.importance),
        regions=_overall(told_classes, "regions"),
        scales=_overall(told_classes, "scales"),
        words=terms.overall[:top],
        all_words=terms.count,
    )


class _Terms:
    """Words, scales and views: effects on each side, and the groups of words over all classes."""

    sides: list[int]
    words: list[list[Effect]]
    scales: list[list[Effect]]
    views: list[list[Effect]]
    overall: list[Importance]
    count: int

    @staticmethod
    def of(
        committee: AnyCommittee,
        batch: SeriesBatch,
        targets: Tensor,
        classes: int | None,
        names: Sequence[str],
        top: int,
    ) -> _Terms:
        contrasts, found = contrasts_of(targets, classes), _Terms()
        told: TermEffects | None = None
        if isinstance(committee, Committee):
            vocabulary = build_vocabulary(committee, names)
            table = plain_word_table(committee, batch, vocabulary)
            groups = [_groups(table.terms[side : side + 1])[:top] for side in contrasts.sides]
            words = word_effects(committee, batch, contrasts, vocabulary, groups)
        else:
            view_vocabulary = build_view_vocabulary(committee, tuple(names))
            spelled_words = Words.of(view_vocabulary, committee.device)
            table = word_table(committee, batch, spelled_words)
            groups = [_groups(table.terms[side : side + 1])[:top] for side in contrasts.sides]
            told = term_effects(committee, batch, contrasts, view_vocabulary, spelled_words, groups)
            words = told.words
        found.sides, found.count = contrasts.sides, len(table.names)
        found.words, start = [], 0
        for own in groups:
            posterior = words[start : start + len(own)]
            spelled = [group_name(table.names[group[0]], len(group) - 1) for group in own]
            others = [tuple(table.names[word] for word in group[1:]) for group in own]
            letters = [table.letters[group[0]] for group in own]
            found.words.append(largest_first(effects_of(spelled, letters, posterior, others)))
            start += len(own)
        found.scales, found.views = ([[] for _ in contrasts.sides] for _ in range(2))
        if told is not None:
            for side in range(len(contrasts.sides)):
                scales, views = told.scale_names, told.view_names
                found.scales[side] = effects_of(scales, [()] * len(scales), _part(told.scales, side, len(scales)))
                found.views[side] = effects_of(views, [()] * len(views), _part(told.views, side, len(views)))
        found.overall = _words_overall(table)
        return found


def _cut_effects(
    committee: AnyCommittee,
    batch: SeriesBatch,
    targets: Tensor,
    names: Sequence[str],
    letters: Sequence[Letters],
    cut: Callable[[SeriesBatch], Cut],
) -> dict[int, list[Effect]]:
    """The effects of pieces with these names, by class."""
    sides, posterior = cut_effects(committee, batch, targets, classes_of(committee), len(names), cut)
    return {side: effects_of(names, letters, _part(posterior, place, len(names))) for place, side in enumerate(sides)}


def _groups(terms: Tensor) -> list[list[int]]:
    """The groups of the words with the largest spread, of terms (classes, n, words); each by itself where there are
    fewer than ten series, which say little of what moves together."""
    spread = (terms - terms.mean(1, keepdim=True)).square().mean(1).sum(0).sqrt()
    chosen = spread.argsort(descending=True, stable=True)[:CANDIDATES]
    chosen = chosen[spread[chosen] > 0]
    if terms.shape[1] < FEWEST:
        return [[word] for word in chosen.tolist()]
    centred = terms[:, :, chosen] - terms[:, :, chosen].mean(1, keepdim=True)
    return [[int(chosen[number]) for number in group] for group in grouped(centred.flatten(0, 1))]


def _words_overall(table: WordTable) -> list[Importance]:
    groups = _groups(table.terms)
    inside = {word for group in groups for word in group}
    groups += [[word] for word in range(len(table.names)) if word not in inside]
    sizes = [float(table.terms[:, :, group].sum(2).std(1, correction=0).sum()) for group in groups]
    whole = sum(sizes)
    order = sorted(range(len(groups)), key=lambda number: -sizes[number])
    return [
        Importance(
            group_name(table.names[groups[place][0]], len(groups[place]) - 1),
            table.letters[groups[place][0]],
            sizes[place],
            sizes[place] / whole if whole > 0 else 0.0,
            tuple(table.names[word] for word in groups[place][1:]),
        )
        for place in order
    ]


def _overall(classes: list[ClassEffects], part: str) -> list[Importance]:
    """The root mean square of effects over the classes."""
    lists = [getattr(each, part) for each in classes if getattr(each, part)]
    if not lists:
        return []
    sizes = [(sum(each.effect**2 for each in own) / len(own)) ** 0.5 for own in zip(*lists, strict=True)]
    whole = sum(sizes)
    return [
        Importance(each.name, each.letters, size, size / whole if whole > 0 else 0.0)
        for each, size in zip(lists[0], sizes, strict=True)
    ]


def _channel_names(committee: AnyCommittee, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(names) if isinstance(committee, Committee) else unique_names(committee, names)


def _part(posterior: Gaussian, place: int, size: int) -> Gaussian:
    return posterior[place * size : (place + 1) * size]


def _predicted(committee: AnyCommittee, batch: SeriesBatch, classes: int | None) -> Tensor:
    """The predicted class, or number, of every series, (n,)."""
    return committee.mean_and_variance(batch)[0] if classes is None else committee.probabilities(batch).argmax(1)


def effects_of(
    names: Iterable[str],
    letters: Iterable[Letters],
    posterior: Gaussian,
    others: Sequence[Letters] | None = None,
) -> list[Effect]:
    """An effect for each of q names."""
    chances = probability_of_sign(posterior).tolist()
    more = [()] * len(chances) if others is None else others
    numbers = zip(names, letters, posterior.mean.tolist(), posterior.std.tolist(), chances, more, strict=True)
    return [Effect(*each) for each in numbers]


def largest_first(effects: Iterable[Effect]) -> list[Effect]:
    return sorted(effects, key=lambda each: -abs(each.effect))
