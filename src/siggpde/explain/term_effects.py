"""The effects of words, window scales and views: what they contribute to a class, averaged over its series less the
others (`explain.contrasts`), with their posterior (`explain.posterior`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.committee.of_views import OfViews
from siggpde.explain.between import Between
from siggpde.explain.contrasts import Contrasts
from siggpde.explain.logits import logits_of
from siggpde.explain.part_sums import pieces, sums_of
from siggpde.explain.posterior import Gaussian, averaged, class_directions
from siggpde.explain.view_vocabulary import ViewVocabulary
from siggpde.explain.vocabulary import Vocabulary
from siggpde.explain.word_table import Words
from siggpde.explain.word_terms import model_logits, word_features
from siggpde.series import SeriesBatch
from siggpde.views.base import FeatureBlock, Part
from siggpde.views.windows import WindowsBlock

WHOLE = "the whole series"


class TermEffects(NamedTuple):
    """The names of `scales` and `views`; effects of the groups of words (of each side, one after the other), of scales
    and of views (sides * names,), one side after the other."""

    words: Gaussian
    scales: Gaussian
    views: Gaussian
    scale_names: list[str]
    view_names: list[str]


@torch.no_grad()
def term_effects(
    committee: OfViews,
    batch: SeriesBatch,
    contrasts: Contrasts,
    vocabulary: ViewVocabulary,
    words: Words,
    groups: Sequence[Sequence[Sequence[int]]],
) -> TermEffects:
    """Of a committee of views; `groups` are, for each side of the contrasts, the groups of words that are told."""
    device, sides = committee.device, len(contrasts.sides)
    owners = [side for side, own in enumerate(groups) for _ in own]
    flat = [group for own in groups for group in own]
    rows_of_word: dict[int, list[int]] = {}
    for row, group in enumerate(flat):
        for word in group:
            rows_of_word.setdefault(word, []).append(row)
    scales = _scales(committee)
    of_kernels = [WHOLE] if words.kernels else []  # which see all of a series
    scale_names = sorted({*scales.values(), *of_kernels}, key=_scale_order)
    view_names = list(dict.fromkeys(vocabulary.views.values()))
    side_of = torch.tensor(
        owners + [s for names in (scale_names, view_names) for s in range(sides) for _ in names], device=device
    )
    seen = committee.standard(batch)
    sums = sums_of(committee, seen, contrasts.weights[side_of])
    after_words, after_scales = len(flat), len(flat) + sides * len(scale_names)

    def wholes(kernel: str, scale: str) -> Tensor:
        own = [after_words + s * len(scale_names) + scale_names.index(scale) for s in range(sides)]
        view = view_names.index(vocabulary.views[kernel])
        own += [after_scales + s * len(view_names) + view for s in range(sides)]
        return torch.tensor(own, device=device)

    for place, piece in pieces(committee, seen):
        if isinstance(place, int):
            assert isinstance(piece, Part)
            if not words.columns[place]:
                continue
            sums.features(place, piece.values, wholes(piece.name, scales[place]))
            chosen: dict[int, list[Tensor]] = {}
            for word, columns in words.columns[place]:
                for row in rows_of_word.get(word, []):
                    chosen.setdefault(row, []).append(columns)
            for row, columns in chosen.items():
                sums.features(place, piece.values, torch.tensor([row], device=device), torch.cat(columns))
        else:
            assert isinstance(piece, Between)
            rows = rows_of_word.get(words.kernels[place], [])
            every = torch.cat([torch.tensor(rows, dtype=torch.int64, device=device), wholes(place, WHOLE)])
            sums.kernel(place, piece, every)
    sides_at = torch.tensor(contrasts.sides, device=device)[side_of]
    directions = class_directions(logits_of(committee))[sides_at]
    found = averaged(committee, sums.moments(), directions)
    parts = found[:after_words], found[after_words:after_scales], found[after_scales:]
    return TermEffects(*parts, scale_names, view_names)


@torch.no_grad()
def word_effects(
    committee: Committee,
    batch: SeriesBatch,
    contrasts: Contrasts,
    vocabulary: Vocabulary,
    groups: Sequence[Sequence[Sequence[int]]],
) -> Gaussian:
    """Those of the groups of words of a committee of words, one side after the other: with q(u) = N(m, Sigma) and the
    features d of the words of a group, summed with the weights of the contrast, d^T m and d^T Sigma d."""
    flat = [(side, group) for side, own in enumerate(groups) for group in own]
    side_of = torch.tensor([side for side, _ in flat], dtype=torch.int64, device=committee.device)
    inside = torch.zeros(len(flat), len(vocabulary.words), dtype=torch.float64, device=committee.device)
    for row, (_, group) in enumerate(flat):
        inside[row, list(group)] = 1.0
    mean, std = torch.zeros_like(inside[:, 0]), torch.zeros_like(inside[:, 0])
    classes = torch.tensor(contrasts.sides, device=committee.device)[side_of]
    for weight, member, indices in zip(
        committee.weights.tolist(), committee.members, vocabulary.word_indices, strict=True
    ):
        model = member.model
        features = word_features(model, member.paths(batch))
        summed = (contrasts.weights @ features)[side_of] * inside[:, indices]
        if model.features.basis is not None:
            summed = summed @ model.features.basis.double()
        means, spread = (each.double() for each in model.variational(summed.to(model.dtype)))
        directions = class_directions(model_logits(model))[classes]
        mean += weight * (means * directions).sum(1)
        std += weight * (spread * directions.square()).sum(1).sqrt()
    return Gaussian(mean, std)


def _scales(committee: OfViews) -> dict[int, str]:
    """How much of a series each part of features sees at a time."""
    found: list[str] = []
    for block in committee.blocks:
        if isinstance(block, WindowsBlock):
            what = "points" if block.kind == "windows" else "frequencies"
            spans = [fitted.view.span for fitted in block.features.views]
            found += [f"windows of {span} {what}" for span in spans for _ in range(2)]  # the whole series and thirds
        elif isinstance(block, FeatureBlock):
            found += [WHOLE] * len(block.kernels)
    return dict(enumerate(found))


def _scale_order(name: str) -> tuple[int, int]:
    """Windows from the shortest to the longest, the whole series, windows of the spectrum."""
    if name == WHOLE:
        return 1, 0
    return (0 if name.endswith("points") else 2), int(name.split()[2])
