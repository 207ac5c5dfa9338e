"""The committees of views that there are, and what all of them have in common."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

from siggpde.committee.view_committee import ViewCommittee
from siggpde.committee.weight_space import WeightCommittee
from siggpde.series import SeriesBatch

OfViews: TypeAlias = "ViewCommittee | WeightCommittee"
"""With landmark series, and the same without."""


@torch.no_grad()
def mean_latents(committee: OfViews, batch: SeriesBatch) -> Tensor:
    """The means of the latents (n, outputs), averaged over the members with their weights."""
    means, _ = committee.member_latents(batch)
    return (committee.weights.to(means)[:, None, None] * means).sum(0)
