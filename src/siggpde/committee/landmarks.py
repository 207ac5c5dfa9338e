"""Which series become landmarks, and which decide noise and link where not all do.

Up to `count` series all are landmarks. Of more, the others (at least a third of all, at most 6000), predicted as left
out, decide noise, amplitude and link. Landmarks would flatter: they lie in the span of the kernel. So would series of
the group of a landmark: groups are drawn as wholes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.distributed.shard import Shard
from siggpde.series import SeriesBatch

COMPARED = 600
"""Landmarks on which members are compared."""

TUNED = 6000
_CHUNK = 1024


@dataclass(frozen=True)
class Chosen:
    """Rows, numbered over all ranks: `landmarks` (m,), and `tuned` series that are none; empty if all are landmarks."""

    landmarks: Tensor
    tuned: Tensor


def choose_landmarks(batch: SeriesBatch, count: int, seed: int, shard: Shard, groups: Tensor | None = None) -> Chosen:
    """At most `count` landmarks of the series of all ranks; `batch` are those of this rank, `groups` (n,) those of
    all."""
    order = _order(batch, shard)
    if shard.total > min(count, COMPARED):
        order = order[torch.randperm(shard.total, generator=torch.Generator().manual_seed(seed))]
        if groups is not None:
            order = _by_groups(order, groups.cpu())
    if shard.total <= count:
        return Chosen(order, order[:0])
    others = max(shard.total - count, shard.total // 3)
    landmarks, tuned = order[others:], order[: min(others, TUNED)]
    if groups is not None:
        apart = ~torch.isin(groups.cpu()[tuned], groups.cpu()[order[len(tuned) :]])
        if not bool(apart.any()):
            raise ValueError(
                f"one of the groups has most of the {shard.total} series: with more than {count} series, at least a "
                "third of them have to be of other groups"
            )
        tuned = tuned[apart]
    return Chosen(landmarks, tuned)


def _by_groups(order: Tensor, groups: Tensor) -> Tensor:
    """The same order with the series of a group side by side, at the place of the first of them."""
    ordered = groups[order]
    _, inverse = ordered.unique(return_inverse=True)
    first = torch.full((int(inverse.max()) + 1,), len(order)).scatter_reduce(
        0, inverse, torch.arange(len(order)), "amin"
    )
    return order[first[inverse].argsort(stable=True)]


def _order(batch: SeriesBatch, shard: Shard) -> Tensor:
    """An order of all series by what they are, so that the one in which they were given does not matter: views look at
    every k-th point of many, and the bootstrap draws weights for one series after the other."""
    waves = torch.cos(torch.arange(batch.values.shape[1] * batch.channels, dtype=torch.float64)).to(batch.values)
    keys = torch.cat(
        [torch.where(part.inside()[:, :, None], part.values, 0.0).flatten(1) @ waves for part in batch.split(_CHUNK)]
    )
    return shard.all_gather(torch.arange(shard.total), keys).cpu().argsort(stable=True)
