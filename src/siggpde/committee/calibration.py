"""The link or the recalibration of a committee, from its predictions of left-out series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch

from siggpde.committee.averaging import AveragedMembers, average_latents
from siggpde.committee.link import fit_link
from siggpde.committee.mixture import NormalMixture
from siggpde.committee.nesting import Fold
from siggpde.committee.recalibration import recalibrate
from siggpde.committee.regression import LeftOut
from siggpde.committee.targets import Targets

Committee = TypeVar("Committee", bound=AveragedMembers)


def calibrated(committee: Committee, folds: Sequence[Fold], targets: Targets) -> Committee:
    """The committee with its link or recalibration, fitted to left-out series that are averaged as new ones are."""
    rows = torch.cat([fold.rows for fold in folds])
    if targets.classes is not None:
        parts = [average_latents(fold.means, fold.variances, fold.weights) for fold in folds]
        mean, variance = (torch.cat(part) for part in zip(*parts, strict=True))
        committee.link = fit_link(mean, variance, targets[rows])
        return committee
    deviations = []
    for fold in folds:
        total = fold.variances + fold.noise_variances[:, None]
        mixture = NormalMixture(fold.means[:, :, 0], total, fold.weights)
        deviations.append(mixture.deviations(targets.y[fold.rows]))
    committee.recalibration = recalibrate(torch.cat(deviations))
    return committee


def as_one_fold(committee: AveragedMembers, left_out: Sequence[LeftOut]) -> Fold:
    """The left-out predictions of the members as they are, where so many series chose them that it hardly flatters."""
    means = torch.stack([each.mean for each in left_out])
    noises = [member.noise_variance for member in committee.averaged]
    return Fold(
        rows=torch.arange(means.shape[1], device=means.device),
        means=means,
        variances=torch.stack([each.variance for each in left_out]),
        noise_variances=torch.tensor(noises, dtype=means.dtype, device=means.device),
        weights=committee.weights,
    )
