"""What a committee learns: labels or numbers, what a series counts, and which series belong together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_TEMPERATURES = tuple(2.0 ** (k / 2) for k in range(13))


@dataclass(frozen=True)
class Targets:
    """y (n,): labels 0..classes-1, or numbers where `classes` is None; `weights` (n,) of series, on average 1.

    `groups` (n,) are integers, the same for series that belong together and are left out together; None where every
    series stands for itself.
    """

    y: Tensor
    classes: int | None
    weights: Tensor | None = None
    groups: Tensor | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Tensor | slice) -> Targets:
        weights = None if self.weights is None else self.weights[rows]
        return Targets(self.y[rows], self.classes, weights, None if self.groups is None else self.groups[rows])

    def signs(self) -> Tensor:
        """What is regressed on, (n, outputs) in float64: ±1 for every class, or the numbers."""
        if self.classes is None:
            return self.y.double()[:, None]
        return 2.0 * torch.nn.functional.one_hot(self.y.long(), self.classes).double() - 1.0

    def log_density(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, float]:
        """log p (n,) of the targets for means (n, outputs) and variances of y (n,), and the prior of the temperature.

        Of classes, a softmax of the means times the best of a few temperatures, of which one label in n + 2 is assumed
        to be unpredictable: a few series all predicted right are no proof of certainty.
        """
        n = len(self)
        if self.classes is None:
            squared = (self.y.double() - mean[:, 0]).square() / variance
            return -0.5 * (squared + variance.log() + math.log(2 * math.pi)), 0.0
        lapse = 1 / (n + 2)
        factors = torch.tensor(_TEMPERATURES, dtype=torch.float64, device=mean.device)
        chances = torch.softmax(factors[:, None, None] * mean, dim=2)
        own = chances.gather(2, self.y.long().expand(len(factors), n)[:, :, None])[:, :, 0]
        logs = ((1 - lapse) * own + lapse / self.classes).log()
        prior = 0.5 * (factors / 4.0).log().square() / n
        best = int((prior - self.average(logs)).argmin())
        return logs[best], float(prior[best])

    def average(self, values: Tensor) -> Tensor:
        """The mean over the series, the last axis, with their weights."""
        return values.mean(-1) if self.weights is None else (values * self.weights).sum(-1) / self.weights.sum()
