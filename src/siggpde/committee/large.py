"""Members of more series than landmarks: which series are these, and one pass over all, which sums normal equations
(docs/design.md, More series than landmarks)."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from siggpde.committee.recipes import Recipe
from siggpde.committee.regression import LeftOut, Normal, Regression, Targets, eigh
from siggpde.distributed.shard import Shard
from siggpde.numerics.core import usual_threads
from siggpde.series import SeriesBatch
from siggpde.series.batch import all_gather_series
from siggpde.utils.progress import Progress
from siggpde.views.base import Block, Rows, Standard, rows_of

log = logging.getLogger(__name__)

_CHUNK = 1024
_LOG_EVERY = 30.0  # seconds


@dataclass
class _Sums:
    """The normal equations of a member from the series seen so far, and the rows of the first `filled` series that
    decide the noise, with room for all from the start: many small tensors would split the memory of large ones."""

    recipe: Recipe
    norms: Tensor | None
    normal: Normal
    tuned: Rows
    filled: int = 0

    @staticmethod
    def of(recipe: Recipe, landmarks: dict[str, Rows], outputs: int, tuned: int) -> _Sums:
        """Returns empty sums, with room for `tuned` rows."""
        gram = recipe.mix(landmarks).gram
        room = Rows(gram.new_zeros(tuned, len(gram)), gram.new_zeros(tuned))
        return _Sums(recipe, recipe.norms(landmarks), Normal.of(gram, outputs), room)

    def of_chunk(self, rows: dict[str, Rows], targets: Targets, wanted: Tensor) -> tuple[Normal, Rows]:
        """Returns the sums of a chunk of n series alone; `wanted` (n,) says which of them decide the noise."""
        mixed = self.recipe.mix(rows, self.norms)
        zero = self.normal.precision, self.normal.shift
        normal = Normal(self.normal.whitening, *map(torch.zeros_like, zero))
        normal.add(mixed, targets)
        return normal, Rows(mixed.gram[wanted], mixed.variance[wanted])

    def add(self, normal: Normal, tuned: Rows, grids: tuple[float, float]) -> None:
        """Adds what `of_chunk` gave, rounded by `_grids`."""
        self.normal.precision += (normal.precision / grids[0]).round_().mul_(grids[0])
        self.normal.shift += (normal.shift / grids[1]).round_().mul_(grids[1])
        part = slice(self.filled, self.filled + len(tuned.variance))
        self.tuned.gram[part], self.tuned.variance[part] = tuned
        self.filled = part.stop


@dataclass(frozen=True)
class LargeFit:
    """The series of this rank, the targets of all ranks, and the blocks with the rows of their landmarks; sums are
    bitwise the same for any number of `threads`."""

    batch: SeriesBatch
    targets: Targets
    standard: Standard
    blocks: Sequence[Block]
    landmarks: dict[str, Rows]
    shard: Shard
    threads: int | None = None

    def fit(self, chosen: Sequence[Recipe], spared: Tensor, bar: Progress) -> list[tuple[Regression, LeftOut]]:
        """Returns the regressions of recipes on whitened features of all series, with the noise that is best for the
        series at `spared`, which are predicted as if left out, in the order of their numbers."""
        ranks, tuned = self.shard.ranks, spared.sort().values
        wanted = torch.zeros(self.shard.total, dtype=torch.bool)
        wanted[tuned] = True
        chunks = self._chunks()
        stop = chunks[-1][0].stop if chunks else 0
        here = ((tuned >= (chunks[0][0].start if chunks else 0)) & (tuned < stop)).nonzero()[:, 0]
        outputs = self.targets[:2].signs().shape[1]
        members = list(
            parallel_map(lambda recipe: _Sums.of(recipe, self.landmarks, outputs, len(here)), chosen, self._workers)
        )
        self._sum(members, chunks, wanted, bar)
        for member in members:
            normal = member.normal
            normal.precision, normal.shift = ranks.all_reduce_sum(normal.precision, normal.shift)
            assert member.filled == len(member.tuned.variance)
        fits = []
        for member, spectrum in zip(
            members, parallel_map(lambda member: eigh(member.normal.precision), members, self._workers), strict=True
        ):
            rows = member.tuned
            if not ranks.alone:
                rows = Rows(*(ranks.all_gather_rows(part, here, len(tuned)) for part in rows))
            fits.append(member.normal.solve(rows, self.targets[tuned], spectrum))
        return fits

    @property
    def _workers(self) -> int | None:
        """The number of threads: one for transformers of users and other devices, None for as many as there are."""
        alone = self.batch.values.device.type != "cpu" or any(block.kind == "features" for block in self.blocks)
        return 1 if alone else self.threads

    def _chunks(self) -> list[tuple[slice, SeriesBatch]]:
        """Returns the chunks that this rank computes, with their rows among all ranks; one that several ranks hold is
        computed whole, by the rank of its first row, so that sums do not depend on the number of ranks."""
        shard, chunks = self.shard, []
        rest: dict[int, SeriesBatch] = {}
        for start, stop in shard.torn_chunks(_CHUNK):
            series = all_gather_series(shard, torch.arange(start, stop), self.batch)
            if shard.first <= start - start % _CHUNK < shard.first + shard.size:
                rest[start - start % _CHUNK] = series
        for start in range(-(-shard.first // _CHUNK) * _CHUNK, shard.first + shard.size, _CHUNK):
            part = self.batch[start - shard.first : start - shard.first + _CHUNK]
            if start in rest:
                part = _joined(part, rest[start])
            chunks.append((slice(start, start + len(part)), part))
        return chunks

    def _sum(
        self, members: Sequence[_Sums], chunks: Sequence[tuple[slice, SeriesBatch]], wanted: Tensor, bar: Progress
    ) -> None:
        total, done = sum(len(part) for _, part in chunks), 0
        bar.start("all series", total)
        grids = _grids(self.targets)

        def sums_of(chunk: tuple[slice, SeriesBatch]) -> list[tuple[Normal, Rows]]:
            rows, part = chunk
            kernels = rows_of([block.roughly() for block in self.blocks], self.standard(part))
            return [member.of_chunk(kernels, self.targets[rows], wanted[rows]) for member in members]

        started = logged = time.perf_counter()
        for (_, part), sums in zip(chunks, parallel_map(sums_of, chunks, self._workers), strict=True):
            for member, (normal, tuned) in zip(members, sums, strict=True):
                member.add(normal, tuned, grids)
            bar.step(by=len(part))
            done += len(part)
            now = time.perf_counter()
            if not bar.shown and now - logged > _LOG_EVERY:
                log.info(
                    "%d of %d series seen, about %.0f s left", done, total, (now - started) * (total - done) / done
                )
                logged = now


def _joined(one: SeriesBatch, other: SeriesBatch) -> SeriesBatch:
    pairs = zip(*((part.values, part.lengths, part.times, part.facts) for part in (one, other)), strict=True)
    values, lengths, times, facts = (None if a is None or b is None else torch.cat([a, b]) for a, b in pairs)
    assert values is not None
    return SeriesBatch(values, lengths, times, facts=facts)


def _grids(targets: Targets) -> tuple[float, float]:
    """Returns the spacings to which Phi^T Phi and Phi^T Y of a chunk are rounded: entries are below 128 n, as k(X, X)
    is about 11, so that multiples of 128 n / 2^53 add up exactly in any order."""
    whole = 2.0 ** (math.ceil(math.log2(128 * len(targets))) - 53)
    largest = 1.0 if targets.classes is not None else float(targets.y.abs().max())
    return whole, whole * 2.0 ** math.ceil(math.log2(largest or 1.0))


Item = TypeVar("Item")
Result = TypeVar("Result")


def parallel_map(work: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None) -> Iterator[Result]:
    """Yields the results of `work` for the items, in their order, by `threads` threads (None: as many as the core has),
    each item by one thread alone so that results are bitwise the same; at most one item a thread is computed ahead."""
    before = torch.get_num_threads()
    threads = usual_threads() if threads is None else threads
    if threads == 1:
        yield from map(work, items)
        return
    ahead: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads, "chunk", initializer=torch.set_num_threads, initargs=(1,))
    try:
        for item in items:
            ahead.append(pool.submit(work, item))
            if len(ahead) > threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)  # of a part of torch the initializer sets that of all threads


COMPARED = 600
"""Landmarks on which members are compared."""

TUNED = 6000


@dataclass(frozen=True)
class Chosen:
    """Rows, numbered over all ranks: `landmarks` (m,), and `tuned` series that are none; empty if all are landmarks."""

    landmarks: Tensor
    tuned: Tensor


def choose_landmarks(batch: SeriesBatch, count: int, seed: int, shard: Shard, groups: Tensor | None = None) -> Chosen:
    """Chooses at most `count` landmarks of all ranks; `batch` are the series of this rank, `groups` (n,) of all."""
    # By their values, so that the order in which series are given does not matter to views, which look at every k-th
    # point, and to the bootstrap. Sums of rows, unlike products of matrices, do not depend on the rows beside them, and
    # so not on the rank.
    waves = torch.cos(torch.arange(batch.values.shape[1] * batch.channels, dtype=torch.float64)).to(batch.values)
    keys = waves.new_empty(len(batch))
    for rows in torch.arange(len(batch), device=waves.device).split(_CHUNK):
        part = batch[rows]
        keys[rows] = (torch.where(part.inside()[:, :, None], part.values, 0.0).flatten(1) * waves).sum(1)
    order = shard.all_gather(torch.arange(shard.total), keys).cpu().argsort(stable=True)
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
    """Returns the same order, with the series of a group next to each other at the place of the first of them."""
    ordered = groups[order]
    _, inverse = ordered.unique(return_inverse=True)
    first = torch.full((int(inverse.max()) + 1,), len(order)).scatter_reduce(
        0, inverse, torch.arange(len(order)), "amin"
    )
    return order[first[inverse].argsort(stable=True)]
