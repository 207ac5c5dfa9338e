"""Batches of series that are sharded over ranks."""

from __future__ import annotations

from torch import Tensor

from siggpde.distributed.ranks import Ranks
from siggpde.distributed.shard import Shard, pad_to_longest
from siggpde.paths.batch import SeriesBatch


def pad_batch(batch: SeriesBatch, ranks: Ranks) -> SeriesBatch:
    """The series of this rank, padded to the longest series of all ranks."""
    values, lengths = pad_to_longest(batch.values, batch.lengths, ranks)
    times = None if batch.times is None else pad_to_longest(batch.times, None, ranks)[0]
    return SeriesBatch(values, lengths, times, batch.first)


def gather_batch(batch: SeriesBatch, rows: Tensor, shard: Shard) -> SeriesBatch:
    """The series with the indices `rows` (m,) among those of all ranks, on every rank; `batch` is this rank's shard."""
    local = batch[shard.local_index(shard.select(rows))]
    lengths, times = (None if x is None else shard.all_gather(rows, x) for x in (local.lengths, local.times))
    return SeriesBatch(shard.all_gather(rows, local.values), lengths, times)
