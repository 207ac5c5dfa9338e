"""Members of more series than landmarks: one pass over all series, which sums what the regressions need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from siggpde.distributed.shard import Shard
from siggpde.ensemble.fit_checkpoint import FitCheckpoint
from siggpde.ensemble.in_order import in_order
from siggpde.ensemble.recipes import Recipe
from siggpde.ensemble.regression import LeftOut, Normal, Regression, Targets
from siggpde.paths import SeriesBatch
from siggpde.progress import Progress
from siggpde.views.base import Block, Rows, rows_of
from siggpde.views.standard import Standard

_CHUNK = 1024
_NAME = "sums"


@dataclass
class _Sums:
    """Of one member: the normal equations of the series seen so far, and the rows of those that decide the noise."""

    recipe: Recipe
    norms: Rows | None
    normal: Normal
    tuned: list[Rows]

    def of_chunk(
        self, rows: dict[str, Rows], landmarks: dict[str, Rows], targets: Targets, wanted: Tensor
    ) -> tuple[Normal, Rows]:
        """The same of the n series of a chunk alone; `wanted` (n,) says which of them decide the noise."""
        mixed = self.recipe.mix(rows, landmarks if self.norms is None else self.norms)
        zero = self.normal.precision, self.normal.shift
        normal = Normal(self.normal.whitening, *map(torch.zeros_like, zero))
        normal.add(mixed, targets)
        return normal, Rows(mixed.gram[wanted], mixed.variance[wanted])


@dataclass(frozen=True)
class AllSeries:
    """The series of this rank, `batch`, the targets of all ranks, and the blocks with the rows of their landmarks.

    `threads` work on chunks side by side, None for as many as torch has; sums are bitwise the same for any number.
    """

    batch: SeriesBatch
    targets: Targets
    standard: Standard
    blocks: Sequence[Block]
    landmarks: dict[str, Rows]
    shard: Shard
    threads: int | None = None

    def fit(
        self, chosen: Sequence[Recipe], spared: Tensor, checkpoint: FitCheckpoint, bar: Progress
    ) -> tuple[list[tuple[Regression, LeftOut]], Targets]:
        """The regressions of recipes on whitened features of all series, with the noise that is best for those at
        `spared`, predicted as if left out; also the targets of these."""
        shard, tuned = self.shard, spared.sort().values
        wanted = torch.zeros(len(self.batch), dtype=torch.bool)
        wanted[shard.local_index(shard.select(tuned))] = True
        outputs = self.targets[:2].signs().shape[1]
        members = [
            _Sums(recipe, recipe.norms(self.landmarks), Normal.of(self._mixed(recipe).gram, outputs), [])
            for recipe in chosen
        ]
        self._sum(members, wanted, checkpoint, bar)
        fits = []
        for member in members:
            normal = member.normal
            normal.precision, normal.shift = shard.ranks.all_reduce_sum(normal.precision, normal.shift)
            local = Rows(*(torch.cat(list(parts)) for parts in zip(*member.tuned, strict=True)))
            gathered = Rows(shard.all_gather(tuned, local.gram), shard.all_gather(tuned, local.variance))
            fits.append(normal.solve(gathered, self.targets[tuned]))
        return fits, self.targets[tuned]

    def _mixed(self, recipe: Recipe) -> Rows:
        return recipe.mix(self.landmarks, self.landmarks)

    def _sum(self, members: Sequence[_Sums], wanted: Tensor, checkpoint: FitCheckpoint, bar: Progress) -> None:
        done = self._restored(members, checkpoint.read_own(_NAME))
        total = len(self.batch)
        bar.start("all series", total - done)
        mine = self.targets[self.shard.rows]

        def sums_of(part: slice) -> list[tuple[Normal, Rows]]:
            rows = rows_of(self.blocks, self.standard(self.batch[part]))
            return [member.of_chunk(rows, self.landmarks, mine[part], wanted[part]) for member in members]

        parts = [slice(start, min(start + _CHUNK, total)) for start in range(done, total, _CHUNK)]
        # The transformers of users and other devices are for one thread at a time.
        alone = self.batch.values.device.type != "cpu" or any(block.kind == "features" for block in self.blocks)
        for part, sums in zip(parts, in_order(sums_of, parts, 1 if alone else self.threads), strict=True):
            for member, (normal, tuned) in zip(members, sums, strict=True):
                member.normal.precision += normal.precision
                member.normal.shift += normal.shift
                member.tuned.append(tuned)
            checkpoint.write_own(self._state(members, part.stop), _NAME)
            bar.step(by=part.stop - part.start)

    def _state(self, members: Sequence[_Sums], done: int) -> dict[str, Any]:
        """What `_restored` needs, of the first `done` series of this rank."""
        return {
            "of": [self.shard.first, self.shard.size, self.shard.ranks.count],
            "done": done,
            "sums": [(member.normal.precision, member.normal.shift) for member in members],
            "tuned": [[tuple(rows) for rows in member.tuned] for member in members],
        }

    def _restored(self, members: Sequence[_Sums], state: dict[str, Any] | None) -> int:
        """Goes on from the sums of an interrupted fit; returns how many series of this rank are in them.

        Sums of other parts of the series, as other numbers of ranks have, are made anew.
        """
        if state is None or state["of"] != [self.shard.first, self.shard.size, self.shard.ranks.count]:
            return 0
        for member, (precision, shift), tuned in zip(members, state["sums"], state["tuned"], strict=True):
            normal = member.normal
            normal.precision, normal.shift = precision.to(normal.precision), shift.to(normal.shift)
            member.tuned.extend(Rows(*(part.to(normal.shift) for part in rows)) for rows in tuned)
        return state["done"]
