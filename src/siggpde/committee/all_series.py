"""Members of more series than landmarks: one pass over all series, which sums what the regressions need."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.committee.in_order import in_order
from siggpde.committee.recipes import Recipe
from siggpde.committee.regression import LeftOut, Normal, Regression
from siggpde.committee.targets import Targets
from siggpde.distributed.shard import Shard
from siggpde.progress import Progress
from siggpde.series import SeriesBatch
from siggpde.views.base import Block, Rows, rows_of
from siggpde.views.standard import Standard

log = logging.getLogger(__name__)

_CHUNK = 1024
_LOG_EVERY = 30.0  # seconds


@dataclass
class _Sums:
    """Of one member: the normal equations of the series seen so far, and the rows of those that decide the noise.

    There is room for all of these rows from the start, and the first `filled` are there: thousands of small tensors,
    kept from chunk to chunk, would keep the memory of all large ones between them from being used again.
    """

    recipe: Recipe
    norms: Rows | None
    normal: Normal
    tuned: Rows
    filled: int = 0

    @staticmethod
    def of(recipe: Recipe, landmarks: dict[str, Rows], outputs: int, tuned: int) -> _Sums:
        """Nothing yet, with room for `tuned` rows."""
        gram = recipe.mix(landmarks, landmarks).gram
        room = Rows(gram.new_zeros(tuned, len(gram)), gram.new_zeros(tuned))
        return _Sums(recipe, recipe.norms(landmarks), Normal.of(gram, outputs), room)

    def of_chunk(
        self, rows: dict[str, Rows], landmarks: dict[str, Rows], targets: Targets, wanted: Tensor
    ) -> tuple[Normal, Rows]:
        """The same of the n series of a chunk alone; `wanted` (n,) says which of them decide the noise."""
        mixed = self.recipe.mix(rows, landmarks if self.norms is None else self.norms)
        zero = self.normal.precision, self.normal.shift
        normal = Normal(self.normal.whitening, *map(torch.zeros_like, zero))
        normal.add(mixed, targets)
        return normal, Rows(mixed.gram[wanted], mixed.variance[wanted])

    def add(self, normal: Normal, tuned: Rows) -> None:
        """Adds what `of_chunk` gave."""
        self.normal.precision += normal.precision
        self.normal.shift += normal.shift
        part = slice(self.filled, self.filled + len(tuned.variance))
        self.tuned.gram[part], self.tuned.variance[part] = tuned
        self.filled = part.stop


@dataclass(frozen=True)
class AllSeries:
    """The series of this rank, `batch`, the targets of all ranks, and the blocks with the rows of their landmarks.

    `threads` work on chunks side by side, None for as many as the core has; sums are bitwise the same for any number.
    """

    batch: SeriesBatch
    targets: Targets
    standard: Standard
    blocks: Sequence[Block]
    landmarks: dict[str, Rows]
    shard: Shard
    threads: int | None = None

    def fit(
        self, chosen: Sequence[Recipe], spared: Tensor, bar: Progress
    ) -> tuple[list[tuple[Regression, LeftOut]], Targets]:
        """The regressions of recipes on whitened features of all series, with the noise that is best for those at
        `spared`, predicted as if left out; also the targets of these."""
        shard, tuned = self.shard, spared.sort().values
        wanted = torch.zeros(len(self.batch), dtype=torch.bool)
        wanted[shard.local_index(shard.select(tuned))] = True
        outputs = self.targets[:2].signs().shape[1]
        members = [_Sums.of(recipe, self.landmarks, outputs, int(wanted.sum())) for recipe in chosen]
        self._sum(members, wanted, bar)
        fits = []
        for member in members:
            normal = member.normal
            normal.precision, normal.shift = shard.ranks.all_reduce_sum(normal.precision, normal.shift)
            assert member.filled == len(member.tuned.variance)
            gathered = Rows(*(shard.all_gather(tuned, part) for part in member.tuned))
            fits.append(normal.solve(gathered, self.targets[tuned]))
        return fits, self.targets[tuned]

    def _sum(self, members: Sequence[_Sums], wanted: Tensor, bar: Progress) -> None:
        total = len(self.batch)
        bar.start("all series", total)
        mine = self.targets[self.shard.rows]

        def sums_of(part: slice) -> list[tuple[Normal, Rows]]:
            rows = rows_of(self.blocks, self.standard(self.batch[part]))
            return [member.of_chunk(rows, self.landmarks, mine[part], wanted[part]) for member in members]

        started = logged = time.perf_counter()
        parts = [slice(start, min(start + _CHUNK, total)) for start in range(0, total, _CHUNK)]
        # The transformers of users and other devices are for one thread at a time.
        alone = self.batch.values.device.type != "cpu" or any(block.kind == "features" for block in self.blocks)
        for part, sums in zip(parts, in_order(sums_of, parts, 1 if alone else self.threads), strict=True):
            for member, (normal, tuned) in zip(members, sums, strict=True):
                member.add(normal, tuned)
            bar.step(by=part.stop - part.start)
            now = time.perf_counter()
            if not bar.shown and now - logged > _LOG_EVERY:
                left = (now - started) * (total - part.stop) / part.stop
                log.info("%d of %d series seen, about %.0f s left", part.stop, total, left)
                logged = now
