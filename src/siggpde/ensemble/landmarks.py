"""Which series become landmarks, and which decide noise and link where not all do.

Up to `count` series all are landmarks. Of more, the others (at least a third of all, at most 6000), predicted as left
out, decide noise, amplitude and link. Landmarks would flatter: they lie in the span of the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.distributed.shard import Shard
from siggpde.paths import SeriesBatch

COMPARED = 600
"""Landmarks on which members are compared."""

_TUNED = 6000
_CHUNK = 1024


@dataclass(frozen=True)
class Chosen:
    """Rows, numbered over all ranks: `landmarks` (m,), and `tuned` series that are none; empty if all are landmarks."""

    landmarks: Tensor
    tuned: Tensor


def choose_landmarks(batch: SeriesBatch, count: int, seed: int, shard: Shard) -> Chosen:
    """At most `count` landmarks of the series of all ranks; `batch` are those of this rank."""
    order = _order(batch, shard)
    if shard.total > min(count, COMPARED):
        order = order[torch.randperm(shard.total, generator=torch.Generator().manual_seed(seed))]
    if shard.total <= count:
        return Chosen(order, order[:0])
    others = max(shard.total - count, shard.total // 3)
    return Chosen(order[others:], order[: min(others, _TUNED)])


def _order(batch: SeriesBatch, shard: Shard) -> Tensor:
    """An order of all series by what they are, so that the one in which they were given does not matter: views look at
    every k-th point of many, and the bootstrap draws weights for one series after the other."""
    waves = torch.cos(torch.arange(batch.values.shape[1] * batch.channels, dtype=torch.float64)).to(batch.values)
    keys = torch.cat(
        [torch.where(part.inside()[:, :, None], part.values, 0.0).flatten(1) @ waves for part in batch.split(_CHUNK)]
    )
    return shard.all_gather(torch.arange(shard.total), keys).cpu().argsort(stable=True)
