"""Series of which every rank holds its own part: padding to a common length, exchanging some, one hash of all."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.distributed.ranks import Ranks
from siggpde.distributed.shard import Shard
from siggpde.paths.batch import SeriesBatch


def pad_to_longest(batch: SeriesBatch, ranks: Ranks) -> SeriesBatch:
    """The series of this rank padded to the longest of all ranks; with lengths where not all series are that long.

    Padding repeats the last point: it is never read, but is finite.
    """
    if ranks.alone:
        return batch
    points = batch.values.shape[1]
    longest, ragged = ranks.all_reduce_max(torch.tensor([points, int(batch.lengths is not None)])).tolist()
    shortest = -int(ranks.all_reduce_max(torch.tensor([-points])))
    lengths = batch.counts() if ragged or shortest < longest else batch.lengths
    times = None if batch.times is None else _padded(batch.times, longest)
    return SeriesBatch(_padded(batch.values, longest), lengths, times, batch.first, batch.facts)


def _padded(values: Tensor, longest: int) -> Tensor:
    """Values (n, length, ...) with the last point repeated up to `longest`."""
    missing = longest - values.shape[1]
    return torch.cat([values, values[:, -1:].expand(-1, missing, *values.shape[2:])], dim=1) if missing else values


def all_gather_series(shard: Shard, rows: Tensor, batch: SeriesBatch) -> SeriesBatch:
    """The series at `rows`, numbered over all ranks, on all ranks; `batch` holds those of this rank's shard."""
    local = batch[shard.local_index(shard.select(rows))]
    parts = (local.values, local.lengths, local.times)
    values, lengths, times = (None if part is None else shard.all_gather(rows, part) for part in parts)
    assert values is not None
    return SeriesBatch(values, lengths, times)


def fingerprint(shard: Shard, batch: SeriesBatch, *settings: Any) -> str:
    """A hash of the series of all ranks, each up to its length, with time stamps, and of settings that ranks share.

    It does not depend on which rank holds what: every series is hashed with its number, and hashes are added.
    """
    columns = [column for column in (batch.values, batch.times) if column is not None]
    arrays = [column.detach().cpu().contiguous().numpy() for column in columns]
    counts = None if batch.lengths is None else batch.lengths.tolist()
    digests = bytearray()
    for row in range(shard.size):
        digest = hashlib.sha256((shard.first + row).to_bytes(8, "little"))
        for array in arrays:
            digest.update((array[row] if counts is None else array[row, : counts[row]]).data)
        digests += digest.digest()
    totals = torch.from_numpy(np.frombuffer(digests, dtype=np.int64).reshape(-1, 4).sum(axis=0))
    whole = hashlib.sha256(shard.ranks.all_gather_rows(totals[None]).sum(dim=0).numpy().tobytes())
    whole.update(repr([(array.dtype, array.shape[2:]) for array in arrays]).encode())
    for value in settings:
        whole.update(value.cpu().contiguous().numpy().tobytes() if isinstance(value, Tensor) else repr(value).encode())
    return whole.hexdigest()
