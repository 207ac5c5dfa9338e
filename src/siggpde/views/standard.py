"""Series at mean 0 and spread 1, as all views see them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.series import SeriesBatch
from siggpde.series.statistics import mean_and_spread

_CHUNK_VALUES = 2**20
_FURTHEST = 1e5


@dataclass(frozen=True)
class Standard:
    """Mean and spread (channels,) of all points of the training series.

    Values are rounded to float32, new ones as those of the landmarks, which are saved so, and cut off at 1e5 spreads,
    further than any of fewer than 1e10 training points can be: so far out, all series are just far.
    """

    mean: Tensor
    spread: Tensor

    @staticmethod
    def fit(batch: SeriesBatch, ranks: Ranks = ALONE) -> Standard:
        """Learned from the series of all `ranks`."""
        rows = max(1, _CHUNK_VALUES // (batch.values.shape[1] * batch.channels))
        return Standard(
            *mean_and_spread(lambda: (part.values[part.inside()].double() for part in batch.split(rows)), ranks)
        )

    def __call__(self, batch: SeriesBatch) -> SeriesBatch:
        values = (batch.values - self.mean.to(batch.values)) / self.spread.to(batch.values)
        return replace(batch, values=values.clamp(-_FURTHEST, _FURTHEST).float().double()).hold_last()

    def to(self, device: torch.device | str) -> Standard:
        return Standard(self.mean.to(device), self.spread.to(device))
