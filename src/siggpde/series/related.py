"""Training series that are equal, overlapping in time or nearly equal (docs/design.md, Related series)."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.distributed.shard import Shard
from siggpde.series.batch import SeriesBatch, collect_chunks
from siggpde.series.statistics import mean_and_spread

log = logging.getLogger(__name__)

_FEWEST_SPANS, _SPANS, _LONG = 3, 10, 3.0  # spans of a recording, and the lengths of series that a span should have
_CHUNK_VALUES = 2**22
_RUN = 8  # points that are compared as one, fewer where series are short
_LEAST_OVERLAP = 0.2  # of the shorter series
_COMMONPLACE = 256  # a run found so often is a pattern of the data
_CHANCE = 10.0  # bits beyond those that tell all pairs of places apart
_BUCKETS = 2**16
_FILTER = 2**20
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Related:
    """The `family` (n,) of every series of all ranks, `pairs` (k, 3) of relatives with the step between their starts,
    `lengths` (n,) in points, and how many series are `equal`, `overlapping` and `near` to another one."""

    family: Tensor
    pairs: Tensor
    lengths: Tensor
    equal: int
    overlapping: int
    near: int

    @property
    def count(self) -> int:
        """How many series have relatives."""
        return int((self.family.bincount()[self.family] > 1).sum())

    def __str__(self) -> str:
        kinds = (f"{self.equal} equal", f"{self.overlapping} overlapping in time", f"{self.near} nearly equal")
        counts = ", ".join(kind for kind in kinds if not kind.startswith("0 "))
        families = int((self.family.bincount() > 1).sum())
        return f"{self.count} of {len(self.family)} training series are related ({counts}), in {families} families"

    def without_copies(self, y: Tensor) -> tuple[Tensor, Tensor, Related]:
        """Returns the rows (k,) of series that copy none before with the same target, the places (n,) among these of
        what every series is or copies, and how they are related."""
        a, b, step = self.pairs.T
        copies = (step == 0) & (self.lengths[a] == self.lengths[b]) & (y[a] == y[b])
        copied = _components(self.pairs[copies], len(y))
        first = torch.full((int(copied.max()) + 1,), len(y)).scatter_reduce(0, copied, torch.arange(len(y)), "amin")
        rows = first.sort().values
        places = torch.searchsorted(rows, first[copied])
        pairs = torch.cat([places[self.pairs[:, :2]], self.pairs[:, 2:]], dim=1)
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        family = self.family[rows].unique(return_inverse=True)[1]
        return rows, places, replace(self, family=family, pairs=pairs, lengths=self.lengths[rows])

    def crossing(self, groups: Tensor) -> Tensor:
        """Returns the same families (n,) without those whose series are all of one of the groups (n,)."""
        first = torch.full_like(self.family, len(groups)).scatter_reduce(0, self.family, groups, "amin")
        last = torch.full_like(self.family, -1).scatter_reduce(0, self.family, groups, "amax")
        whole = (first == last)[self.family]
        return torch.where(whole, len(groups) + torch.arange(len(groups)), self.family).unique(return_inverse=True)[1]

    def groups(self, y: Tensor, classes: int | None) -> Tensor:
        """Returns the groups (n,) that can be left out: families, of which those that have most series of a class, or
        more than a third of all, are cut into spans of time, or where they are copies are no group."""
        groups, everything = self.family.clone(), torch.arange(len(y))
        parts = [(everything, 1 / 3)]
        if classes is not None:
            parts += [((y.cpu() == number).nonzero()[:, 0], 1 / 2) for number in range(classes)]
        for members, share in parts:
            for group in (groups[members].bincount() > share * len(members)).nonzero()[:, 0].tolist():
                inside = (groups == group).nonzero()[:, 0]
                place = self._positions(inside)
                wanted = place[torch.isin(inside, members)].unique()
                length = float(self.lengths[inside].double().mean())
                spans = int((float(wanted[-1] - wanted[0]) + length) / (_LONG * length))
                spans = max(_FEWEST_SPANS, min(_SPANS, spans))
                edges = wanted[(torch.arange(1, spans) * len(wanted)).div(spans, rounding_mode="floor")].unique()
                groups[inside] = int(groups.max()) + 1 + torch.bucketize(place, edges, right=True)
        for members, share in parts:
            if len(groups[members].unique()) == 1 or share < 1 / 2:
                alone = members[groups[members].bincount()[groups[members]] > max(share * len(members), 1)]
                groups[alone] = int(groups.max()) + 1 + torch.arange(len(alone))
        return groups.unique(return_inverse=True)[1]

    def _positions(self, members: Tensor) -> Tensor:
        """Returns the starts (m,) of series of one family, in points from that of the first."""
        from scipy.sparse import coo_array  # noqa: PLC0415 - predictions need none
        from scipy.sparse.csgraph import breadth_first_order  # noqa: PLC0415 - predictions need none

        pairs = self.pairs[torch.isin(self.pairs[:, 0], members) & torch.isin(self.pairs[:, 1], members)]
        steps = {(a, b): step for a, b, step in pairs.tolist()}
        steps |= {(b, a): -step for (a, b), step in steps.items()}
        index = torch.searchsorted(members, pairs[:, :2].contiguous()).numpy()
        graph = coo_array((np.ones(len(index)), (index[:, 0], index[:, 1])), shape=(len(members),) * 2).tocsr()
        place, numbers = torch.zeros(len(members), dtype=torch.int64), members.tolist()
        order, before = breadth_first_order(graph, 0, directed=False)
        for node in order[1:].tolist():
            parent = int(before[node])
            place[node] = place[parent] + steps[numbers[parent], numbers[node]]
        return place


def find_related(X: Any, batch: SeriesBatch, time_channel: int | None, shard: Shard) -> Related:
    """Returns the families of the series of all ranks; X are those of this rank as handed in, `batch` prepared."""
    total, runs = shard.total, _Runs(X, time_channel, shard)
    informative = runs.informative(runs.changes)
    # Series that say too little to be told apart are related to none.
    numbered = torch.stack([torch.where(informative, runs.digests, torch.arange(total)), informative.long()], dim=1)
    _, first, inverse = np.unique(numbered.numpy(), axis=0, return_index=True, return_inverse=True)
    original = torch.from_numpy(first[inverse.reshape(-1)])
    alone = original == torch.arange(total)
    copies = (~alone).nonzero()[:, 0]
    equal = torch.stack([original[copies], copies], dim=1)
    overlapping, near = runs.overlaps(alone), _near_pairs(batch, runs.lengths, alone, shard)
    pairs = torch.cat([torch.nn.functional.pad(torch.cat([equal, near]), (0, 1)), overlapping])
    counts = len(equal.unique()), len(overlapping[:, :2].unique()), len(near.unique())
    return Related(_components(pairs, total), pairs, runs.lengths, *counts)


def _components(pairs: Tensor, n: int) -> Tensor:
    """Returns the numbers (n,) of the connected components of n series, of which `pairs` (k, 2 or more) are linked."""
    from scipy.sparse import coo_array  # noqa: PLC0415 - predictions need none
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415 - predictions need none

    links = coo_array((np.ones(len(pairs)), (pairs[:, 0].numpy(), pairs[:, 1].numpy())), shape=(n, n))
    return torch.from_numpy(connected_components(links, directed=False)[1]).long()


class _Runs:
    """Hashes of the series of all ranks: `digests`, `lengths` and `changes` (n,) of whole series, and of runs of points
    of which at least half differ from the point before; such a point tells `bits` about its series."""

    def __init__(self, X: Any, time_channel: int | None, shard: Shard) -> None:
        self.X, self.time_channel, self.shard = X, time_channel, shard
        parts, counts = [], torch.zeros(_BUCKETS, dtype=torch.float64)
        with shard.ranks.together():
            for points, _, place, changed, length in self._chunks():
                starts = np.flatnonzero(place == 0)
                powers = np.cumprod(np.full(int(length.max()), _FACTOR), dtype=np.uint64)
                digests = np.add.reduceat(points * powers[place], starts).view(np.int64)
                parts.append(np.stack([digests, length, np.add.reduceat(changed.astype(np.int64), starts)]))
                buckets = (points[changed] >> np.uint64(48)).astype(np.int64)
                counts += torch.from_numpy(np.bincount(buckets, minlength=_BUCKETS))
        self.digests, self.lengths, self.changes = shard.ranks.all_gather_rows(
            torch.from_numpy(np.concatenate(parts, axis=1).T)
        ).T
        self.size = max(2, min(_RUN, int(_LEAST_OVERLAP * int(self.lengths.min()))))
        (counts,) = shard.ranks.all_reduce_sum(counts)
        self.places = max(1.0, float(counts.sum()))
        self.bits = -math.log2(float((counts / self.places).square().sum()) or 1.0)

    def informative(self, changes: Tensor) -> Tensor:
        """Returns which stretches (n,), of so many points that do not repeat another one, cannot be equal by chance."""
        return changes * self.bits >= 2 * math.log2(self.places) + _CHANCE

    def overlaps(self, alone: Tensor) -> Tensor:
        """Returns pairs of series `alone` (n,), (k, 3) with the step of their starts, that agree where they overlap."""
        ends: list[np.ndarray] = []  # series, place and hash of the first and of the last run, and which it is
        for hashes, owner, place in self._hashed():
            for order in (slice(None), slice(None, None, -1)):
                index = np.unique(owner[order], return_index=True)[1]
                which = np.full(len(index), order.step is not None)
                ends.append(np.stack([owner[order][index], place[order][index], hashes[order][index], which], axis=1))
        keys = self._gathered(ends)
        keys = keys[alone.numpy()[keys[:, 0]]]
        keys = keys[keys[:, 2].argsort(kind="stable")]
        known = np.zeros(_FILTER, dtype=bool)
        known[keys[:, 2] % _FILTER] = True
        hits: list[np.ndarray] = []  # series, the other one less its place in it, and which end of the other was found
        for hashes, owner, place in self._hashed():
            some = np.flatnonzero(known[hashes % _FILTER] & alone.numpy()[owner])
            low = np.searchsorted(keys[:, 2], hashes[some])
            count = np.searchsorted(keys[:, 2], hashes[some], "right") - low
            count[count > _COMMONPLACE] = 0
            here, first = np.repeat(some, count), np.repeat(low - count.cumsum() + count, count)
            key = keys[first + np.arange(len(here))]
            hits.append(np.stack([owner[here], key[:, 0], place[here] - key[:, 1], key[:, 3]], axis=1))
        matches = self._gathered(hits)
        matches = matches[matches[:, 0] != matches[:, 1]]
        matches[:, 2] *= np.where(matches[:, 0] < matches[:, 1], 1, -1)
        matches[:, :2].sort(axis=1)
        pairs, count = np.unique(np.unique(matches, axis=0)[:, :3], axis=0, return_counts=True)
        pairs = torch.from_numpy(pairs[count == 2])
        a, b, step = pairs.T
        length, share = self.lengths, self.changes / self.lengths
        shared = torch.minimum(length[a], step + length[b]) - step.clamp_min(0)
        enough = shared >= _LEAST_OVERLAP * torch.minimum(length[a], length[b])
        return pairs[enough & self.informative(torch.minimum(share[a], share[b]) * shared)]

    def _gathered(self, parts: list[np.ndarray]) -> np.ndarray:
        return self.shard.ranks.all_gather_rows(torch.from_numpy(np.concatenate(parts))).numpy()

    def _chunks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Yields hashes of points, their series and place, and whether they changed, (N,); and lengths of series."""
        first = self.shard.first
        for raw in collect_chunks(self.X, max_values=_CHUNK_VALUES):
            values, length = raw.values.numpy(), raw.counts().numpy()
            if self.time_channel is not None:
                values = np.delete(values, self.time_channel, axis=2)
            owner, place = (np.arange(values.shape[1]) < length[:, None]).nonzero()
            values = values[owner, place] + 0.0  # no -0
            points = np.zeros(len(values), dtype=np.uint64)
            for column in np.where(np.isnan(values), np.inf, values).view(np.uint64).T:
                points = points * _FACTOR + column
                # The finalizer of splitmix64, by which every bit depends on all bits.
                points = (points ^ (points >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                points = (points ^ (points >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                points ^= points >> np.uint64(31)
            changed = np.diff(points, prepend=points[:1]) != 0
            yield points, first + owner, place, changed & (place > 0), length
            first += len(length)

    def _hashed(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yields the hashes of runs that vary, the series and the place where they begin, three (N,)."""
        for points, owner, place, changed, _ in self._chunks():
            count = max(0, len(points) - self.size + 1)
            hashes = np.zeros(count, dtype=np.uint64)
            for step in range(self.size):
                hashes = hashes * _FACTOR + points[step : step + count]
            total = np.r_[0, changed.cumsum()]
            varied = 2 * (total[self.size :] - total[1 : count + 1]) >= self.size - 1
            kept = np.flatnonzero(varied & (owner[:count] == owner[self.size - 1 :]))
            yield hashes[kept].view(np.int64), owner[kept], place[kept]


_PROBES = 512
_NEIGHBOURS = 20
_JUMP = 5.0  # times the distance to copies is that to others
_CLOSEST = 0.03  # spreads a point, between copies
_LINKED = 0.5  # the least share of series with copies
_MOST = 20000
_SKETCH, _NARROW = 128, 32
_ROWS = 1024


def _near_pairs(batch: SeriesBatch, lengths: Tensor, alone: Tensor, shard: Shard) -> Tensor:
    """Returns pairs (k, 2) of series that differ by a little noise, where at least half of all have such relatives."""
    rows = alone.nonzero()[:, 0]
    sketch = _sketch(batch, _SKETCH if shard.total <= _MOST else _NARROW, shard)
    sketch, lengths = shard.ranks.all_gather_rows(sketch)[rows].cpu(), lengths[rows]
    n = len(rows)
    count = min(_NEIGHBOURS, n // 4)
    none = torch.zeros(0, 2, dtype=torch.int64)
    if count < 2:
        return none
    probes = torch.arange(0, n, max(1, n // _PROBES))
    scale = _scale(_distances(sketch, lengths, probes).topk(count, largest=False).values)
    copied = scale.isfinite()
    if copied.double().mean() < _LINKED:
        return none
    if n > _MOST:
        log.warning(
            "most series are nearly equal to others, and are too many, %d, to be sorted into families: give groups", n
        )
        return none
    nearest = [_distances(sketch, lengths, part).topk(count, largest=False) for part in torch.arange(n).split(_ROWS)]
    distance, others = (torch.cat(parts) for parts in zip(*nearest, strict=True))
    scales = _scale(distance).nan_to_num(nan=float(scale[copied].median()))
    row, place = (distance <= torch.minimum(scales[:, None], scales[others])).nonzero().T
    return torch.stack([rows[row], rows[others[row, place]]], dim=1)


def _scale(nearest: Tensor) -> Tensor:
    """Returns a distance (n,) between those of copies and of others among the nearest (n, k), NaN where none jumps."""
    before, after = nearest[:, :-1], nearest[:, 1:]
    jumps = torch.where((before <= _CLOSEST) & after.isfinite(), after / before.clamp_min(1e-12), 0.0)
    largest, place = jumps.max(1, keepdim=True)
    middle = (before * after).gather(1, place).sqrt()
    return torch.where(largest >= _JUMP, middle, torch.nan)[:, 0]


def _distances(sketch: Tensor, lengths: Tensor, rows: Tensor) -> Tensor:
    """Returns the distances of series at `rows` from all, per number, infinite for other lengths and themselves."""
    squares = sketch.square().sum(1)
    squared = squares[rows][:, None] + squares - 2 * sketch[rows] @ sketch.T
    squared[torch.arange(len(rows)), rows] = torch.inf
    return torch.where(lengths[rows][:, None] == lengths, squared, torch.inf).clamp_min(0.0).sqrt()


def _sketch(batch: SeriesBatch, width: int, shard: Shard) -> Tensor:
    """Returns numbers (n, width) whose distances are about those of standardised series, a point and channel."""
    chunks = partial(batch.split, len(batch), _CHUNK_VALUES)
    mean, spread = mean_and_spread(chunks, shard.ranks)
    numbers = batch.values.shape[1] * batch.channels
    random = torch.Generator().manual_seed(0)
    bucket = torch.randint(width, (numbers,), generator=random).to(mean.device)
    sign = (torch.randint(2, (numbers,), generator=random).double() * 2 - 1).to(mean.device)
    parts = []
    for part in chunks():
        values = (((part.values - mean) / spread).flatten(1) * sign) / math.sqrt(numbers)
        parts.append(values.new_zeros(len(part), width).index_add_(1, bucket, values))
    return torch.cat(parts)
