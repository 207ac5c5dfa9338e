"""The link or the recalibration of a committee, from its predictions of left-out series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch

from siggpde.ensemble.averaging import AveragedMembers, average_latents
from siggpde.ensemble.link import fit_link
from siggpde.ensemble.mixture import NormalMixture
from siggpde.ensemble.recalibration import recalibrate
from siggpde.ensemble.regression import LeftOut
from siggpde.ensemble.targets import Targets

Committee = TypeVar("Committee", bound=AveragedMembers)


def calibrated(committee: Committee, left_out: Sequence[LeftOut], targets: Targets) -> Committee:
    """The committee with its link or recalibration, fitted to left-out series that are averaged as new ones are."""
    means = torch.stack([each.mean for each in left_out])
    variances = torch.stack([each.variance for each in left_out])
    if targets.classes is not None:
        average = average_latents(means, variances, committee.weights)
        committee.link = fit_link(average.mean, average.variance, targets)
        return committee
    noises = [member.noise_variance for member in committee.averaged]
    total = variances + torch.tensor(noises, dtype=variances.dtype, device=variances.device)[:, None]
    mixture = NormalMixture(means[:, :, 0], total, committee.weights)
    committee.recalibration = recalibrate(mixture.deviations(targets.y))
    return committee
