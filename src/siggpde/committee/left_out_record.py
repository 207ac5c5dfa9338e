"""What a committee keeps of its training series, predicted from the others: to compare new series with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from siggpde.committee.averaging import AveragedMembers, average_latents
from siggpde.committee.regression import LeftOut
from siggpde.committee.targets import Targets


@dataclass(frozen=True)
class LeftOutRecord:
    """Of n training series, left out one by one or group by group.

    - `y` (n,): their targets, labels 0..classes-1 or numbers in the units of the committee.
    - `mean` (n, outputs), `variance` (n,): the committee's latents.
    - `variances` (K, n): of the members' latents.
    - `groups` (n,): integers, or None.
    - `exact`: the series are the landmarks, in their order, and nothing else was learned from.
    - `means` (K, n, outputs), float32: of the members' latents, where `exact`; records of earlier versions have none.
    """

    y: Tensor
    mean: Tensor
    variance: Tensor
    variances: Tensor
    groups: Tensor | None
    exact: bool
    means: Tensor | None = None

    @staticmethod
    def of(committee: AveragedMembers, left_out: Sequence[LeftOut], targets: Targets, exact: bool) -> LeftOutRecord:
        """Of the members' predictions of left-out series with these targets."""
        means = torch.stack([each.mean for each in left_out])
        variances = torch.stack([each.variance for each in left_out])
        average = average_latents(means, variances, committee.weights)
        kept = means.float() if exact else None
        return LeftOutRecord(targets.y, average.mean, average.variance, variances, targets.groups, exact, kept)

    def state(self) -> dict[str, Any]:
        return vars(self).copy()

    @staticmethod
    def from_state(state: Mapping[str, Any]) -> LeftOutRecord:
        return LeftOutRecord(**state)

    def to(self, device: torch.device | str) -> LeftOutRecord:
        moved: dict[str, Any] = {name: part.to(device) for name, part in vars(self).items() if isinstance(part, Tensor)}
        return replace(self, **moved)
