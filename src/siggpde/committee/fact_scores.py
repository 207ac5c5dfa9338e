r"""How unusual the facts of a series are: its level, spread, roughness and length (`paths.facts`).

Facts that are positive by nature are taken as logarithms. A fact counts in units of its standard deviation over the
training series, or of a tenth of its median if that is more (of a level also a tenth of the median spread): where all
series had 100 points, 99 is no news. In these units a series has two distances, and its score is the larger:

- beyond the range of the training series, in the fact that lies farthest out;
- to its three nearest training series, the root mean square over all facts, whose logarithm is standardised so that 1
  is what 1 % of the training series exceed and 0 the median. (5 % exceed 1 in the kernel's part: of series that are not
  rare in their facts the kernel decides.)

Training series are scored by what the others of another group say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from siggpde.series.statistics import OF_CHANNELS, OF_SERIES

_TENTH = 0.1
_LEAST_SHARE = 1e-6  # of its median, below which a positive fact is taken as this
_MISSING_UNIT = 0.05
_NEAREST, _LEAST_DISTANCE = 3, 0.01
_ONE = 0.99  # the quantile of left-out series at which a standardised distance is 1
_REFERENCE = 1000
_CHUNK = 512


@dataclass(frozen=True)
class FactScores:
    """Medians, units, and the least and greatest of every fact, four (F,); `least` (F,) is the smallest value of which
    a logarithm is taken, 0 for facts taken as they are. `reference` (m, F) are training series in these units, and
    `middle`, `upper` the median and the 99 % quantile of their distances to each other."""

    medians: Tensor
    units: Tensor
    low: Tensor
    high: Tensor
    least: Tensor
    reference: Tensor
    middle: float
    upper: float

    @staticmethod
    def fit(facts: Tensor, groups: Tensor | None = None) -> tuple[FactScores, Tensor]:
        """Learned from the facts (n, F) of training series; and their own scores (n,), each without its group."""
        least = _least(facts)
        taken = _taken(facts, least)
        medians = torch.nan_to_num(taken.nanmedian(0).values)
        filled = torch.where(taken.isnan(), medians, taken)
        units = _units(filled, medians, facts, least)
        z = (filled - medians) / units
        own = torch.arange(len(z)) if groups is None else groups.cpu()
        rows = slice(0, _REFERENCE)
        near = _nearest(z, z[rows], own, own[rows])
        middle, upper = float(near.median()), float(near.quantile(_ONE))
        scores = FactScores(medians, units, z.amin(0), z.amax(0), least, z[rows].float(), middle, upper)
        return scores, torch.maximum(_beyond_others(z, own), scores._standard(near))

    def __call__(self, facts: Tensor) -> tuple[Tensor, Tensor]:
        """The scores (n,) of the facts (n, F) of new series, and the fact (n,) that is farthest out."""
        z = self._in_units(facts)
        beyond = torch.maximum(self.low - z, z - self.high)
        nobody = torch.full((len(z),), -1), torch.zeros(len(self.reference), dtype=torch.int64)
        near = self._standard(_nearest(z, self.reference.double(), *nobody))
        # Of facts within the range the one farthest from the median.
        farthest = torch.where(beyond > 0, beyond + z.abs().amax(1, keepdim=True), z.abs()).argmax(1)
        return torch.maximum(beyond.amax(1).clamp_min(0.0), near), farthest

    def _in_units(self, facts: Tensor) -> Tensor:
        taken = _taken(facts, self.least)
        return (torch.where(taken.isnan(), self.medians, taken) - self.medians) / self.units

    def _standard(self, near: Tensor) -> Tensor:
        middle, upper = max(self.middle, _LEAST_DISTANCE), max(self.upper, _LEAST_DISTANCE)
        return (near.clamp_min(_LEAST_DISTANCE) / middle).log() / max(math.log(upper / middle), _TENTH)

    def state(self) -> dict[str, Any]:
        return vars(self).copy()


def _positive(columns: int) -> Tensor:
    """Which facts are positive by nature, and taken as logarithms."""
    channels = (columns - len(OF_SERIES)) // len(OF_CHANNELS)
    return torch.tensor([False, True, True] * channels + [True, True, False])


def _least(facts: Tensor) -> Tensor:
    """The smallest value of positive facts; of a channel that never varied, in units of its level."""
    positive = _positive(facts.shape[1])
    least = _LEAST_SHARE * torch.nan_to_num(facts.nanmedian(0).values)
    level = torch.nan_to_num(facts.abs()).mean(0).roll(1)  # that of a spread is the column before it
    least = torch.where(least > 0, least, _LEAST_SHARE * level.clamp_min(1.0))
    return torch.where(positive, least, 0.0)


def _taken(facts: Tensor, least: Tensor) -> Tensor:
    return torch.where(least > 0, torch.maximum(facts, least).log(), facts)


def _units(filled: Tensor, medians: Tensor, facts: Tensor, least: Tensor) -> Tensor:
    spread = filled.std(0, correction=0)
    tenth = torch.where(least > 0, _TENTH, _TENTH * medians.abs())
    levels = torch.arange(0, facts.shape[1] - len(OF_SERIES), len(OF_CHANNELS))
    spreads = torch.nan_to_num(facts[:, levels + 1].nanmedian(0).values)
    tenth[levels] = torch.maximum(tenth[levels], _TENTH * spreads)
    tenth[-1] = _MISSING_UNIT
    units = torch.maximum(spread, tenth)
    return torch.where(units > 0, units, 1.0)


def _nearest(z: Tensor, reference: Tensor, own: Tensor, others: Tensor) -> Tensor:
    """The mean distance (n,) to the nearest of the reference series, of those of another group."""
    parts = []
    for part, group in zip(z.split(_CHUNK), own.split(_CHUNK), strict=True):
        distance = torch.cdist(part, reference) / z.shape[1] ** 0.5
        distance = torch.where(group[:, None] == others, torch.inf, distance)
        nearest = distance.topk(min(_NEAREST, len(reference)), dim=1, largest=False).values
        finite = torch.isfinite(nearest)
        parts.append(torch.where(finite, nearest, 0.0).sum(1) / finite.sum(1).clamp_min(1))
    return torch.cat(parts)


def _beyond_others(z: Tensor, groups: Tensor) -> Tensor:
    """How far (n,) a series lies beyond the range of those of other groups, in the fact that is farthest out."""
    _, inverse = groups.unique(return_inverse=True)
    count, columns = int(inverse.max()) + 1, z.shape[1]
    index = inverse[:, None].expand_as(z)
    beyond = torch.zeros_like(z)
    if count > 1:
        for sign in (1.0, -1.0):
            tops = torch.full((count, columns), -torch.inf, dtype=z.dtype).scatter_reduce(0, index, sign * z, "amax")
            two = tops.topk(2, dim=0)
            others = torch.where(index == two.indices[0], two.values[1], two.values[0])
            beyond = torch.maximum(beyond, sign * z - others)
    return beyond.amax(1)
