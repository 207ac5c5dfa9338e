"""The effects of channels and of time regions: credits of cut series (`explain.cut_series`), averaged over the
series of each class less the others (`explain.contrasts`), with their posterior (`explain.posterior`)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.committee.of_views import OfViews
from siggpde.committee.recipes import sizes
from siggpde.committee.weight_space import WeightCommittee
from siggpde.explain.between import Between, powers_of
from siggpde.explain.contrasts import contrasts_of, spread_over
from siggpde.explain.cut_series import Cut
from siggpde.explain.logits import logits_of
from siggpde.explain.part_sums import LandmarkSums, WeightSums, pieces
from siggpde.explain.posterior import Gaussian, averaged, class_directions
from siggpde.explain.predictions import AnyCommittee
from siggpde.explain.word_terms import model_logits
from siggpde.series import SeriesBatch
from siggpde.views.base import Part, Rows

_CUT_SERIES = 500  # about so many, of which every pair is compared
_MOST_SERIES = 60


def cut_effects(
    committee: AnyCommittee,
    batch: SeriesBatch,
    targets: Tensor,
    classes: int | None,
    count: int,
    cut: Callable[[SeriesBatch], Cut],
) -> tuple[list[int], Gaussian]:
    """The classes told apart and the effects (sides * P,) of P pieces on each, one class after the other.

    `count` is the number of pieces, `targets` (n,) are labels 0..classes-1 or numbers. Of many series as many are used
    as make about 500 cut ones, evenly spread over the classes.
    """
    most = min(_MOST_SERIES, max(2 * (classes or 2), _CUT_SERIES // (2 * count)))
    chosen = spread_over(targets, classes, most)
    sides, weights = contrasts_of(targets[chosen], classes)
    made = cut(batch[chosen])
    functionals = made.weights(weights)
    pieces_each = len(functionals) // len(sides)
    which = torch.tensor(sides, device=weights.device).repeat_interleave(pieces_each)
    if isinstance(committee, Committee):
        return sides, _of_words(committee, made.batch, functionals, which)
    directions = class_directions(logits_of(committee))[which]
    return sides, whole_sums(committee, made.batch, functionals, directions)


@torch.no_grad()
def whole_sums(committee: OfViews, batch: SeriesBatch, weights: Tensor, directions: Tensor) -> Gaussian:
    """The posterior of sums of whole latents over n series, with weights (q, n) that sum to 0, in directions
    (q, outputs)."""
    seen, every = committee.standard(batch), torch.arange(len(weights), device=weights.device)
    sums = WeightSums(committee, weights) if isinstance(committee, WeightCommittee) else None
    if not isinstance(committee, WeightCommittee):
        bent = powers_of(committee, seen)
        sums = LandmarkSums(committee, weights, dict.fromkeys(bent))
        for k, plain in bent.items():
            member = committee.members[k]
            assert member.norms is not None
            own = Rows(plain.own, plain.own.diagonal())
            sums.own[k] = ((weights @ _powered(plain.own, sizes(own, own), member.recipe.power)) * weights).sum(1)
            cosines = Rows(plain.cross, own.variance)
            sums.cross[k] = weights @ _powered(plain.cross, sizes(cosines, member.norms), member.recipe.power)
    assert sums is not None
    for place, piece in pieces(committee, seen):
        if isinstance(place, int):
            assert isinstance(piece, Part)
            sums.features(place, piece.values, every)
        else:
            assert isinstance(piece, Between)
            sums.kernel(place, piece, every)
    return averaged(committee, sums.moments(), directions)


def _powered(gram: Tensor, size: Tensor, power: int) -> Tensor:
    return ((1 + gram / size) / 2) ** power


@torch.no_grad()
def _of_words(committee: Committee, batch: SeriesBatch, weights: Tensor, which: Tensor) -> Gaussian:
    """The same of a committee of words, for the classes `which` (q,); latents are independent."""
    mean, std = torch.zeros_like(weights[:, 0]), torch.zeros_like(weights[:, 0])
    for weight, member in zip(committee.weights.tolist(), committee.members, strict=True):
        paths, directions = member.paths(batch), class_directions(model_logits(member.model))[which]
        means, covariances = member.model.predict_f(paths.values, lengths=paths.lengths, full_cov=True)
        variances = torch.stack([((weights @ own.double()) * weights).sum(1) for own in covariances], dim=1)
        mean += weight * ((weights @ means.double()) * directions).sum(1)
        std += weight * (variances.clamp_min(0.0) * directions.square()).sum(1).sqrt()
    return Gaussian(mean, std)
