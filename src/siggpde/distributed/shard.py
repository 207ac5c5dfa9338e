"""The rows of a training set that a rank holds; rows are numbered across ranks, those of rank 0 first."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor

from siggpde.distributed.ranks import Ranks


class Shard:
    """The rows of this rank: `first` up to `first + size` of `total`, also as the slice `rows`.

    >>> shard = Shard(Ranks(), 5)
    >>> shard.select(torch.tensor([4, 0]))
    tensor([4, 0])
    """

    def __init__(self, ranks: Ranks, size: int) -> None:
        sizes = ranks.all_gather_sizes(size)
        if 0 in sizes and any(sizes):
            empty, total = sizes.index(0), sum(sizes)
            ranks.refuse(f"rank {empty} has no series, of {total} in all: use fewer ranks, or give each at least one")
        self.ranks, self.size, self.sizes, self.total = ranks, size, sizes, sum(sizes)
        self.first = sum(sizes[: ranks.rank])
        self.rows = slice(self.first, self.first + size)

    def evenly_spaced(self, most: int) -> Tensor:
        """Returns at most `most` of the rows of all ranks, evenly spaced.

        >>> Shard(Ranks(), 5).evenly_spaced(3)
        tensor([0, 2, 4])
        """
        return torch.arange(0, self.total, max(1, -(-self.total // most)))

    def torn_chunks(self, chunk: int) -> list[tuple[int, int]]:
        """Returns (start, stop) of the rows that a rank lacks to the last of its chunks, which start at multiples.

        >>> shard = Shard(Ranks(), 5)
        >>> shard.sizes = [3, 1, 1]
        >>> shard.torn_chunks(2)
        [(3, 4)]
        """
        starts = itertools.accumulate(self.sizes[:-1])
        first = {start // chunk: start for start in reversed(list(starts)) if start % chunk}
        return [(start, min((number + 1) * chunk, self.total)) for number, start in sorted(first.items())]

    def mask(self, rows: Tensor) -> Tensor:
        """Returns for each of the rows whether it belongs to this rank."""
        return (rows >= self.first) & (rows < self.first + self.size)

    def select(self, rows: Tensor) -> Tensor:
        """Returns the rows that belong to this rank, in their order."""
        return rows if self.ranks.alone else rows[self.mask(rows)]

    def local_index(self, rows: Tensor) -> Tensor:
        """Returns the indices within this shard of those of the rows that belong to it, in their order."""
        return self.select(rows) - self.first

    def all_gather(self, rows: Tensor, values: Tensor) -> Tensor:
        """Returns the values (n, ...) of the n rows on all ranks; a rank passes the values of its rows."""
        if self.ranks.alone:
            return values
        return self.ranks.all_gather_rows(values, self.mask(rows).nonzero()[:, 0], len(rows))


def all_labels(labels: np.ndarray, ranks: Ranks) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sorted classes (C,) of the labels of all ranks, and the class index (int64) of every series."""
    classes, indices = np.unique(labels, return_inverse=True)
    indices = indices.astype(np.int64)
    if ranks.alone:
        return classes, indices
    local = classes
    parts = [np.array(values, dtype=kind) for kind, values in ranks.all_gather((local.dtype.str, local.tolist()))]
    kinds = ["number" if part.dtype.kind in "iuf" else part.dtype.kind for part in parts]
    other = next((rank for rank, kind in enumerate(kinds) if kind != kinds[0]), None)
    if other is not None:
        ranks.refuse(
            f"labels are {parts[0].dtype} on rank 0 but {parts[other].dtype} on rank {other}; all need the same type"
        )
    classes = np.unique(np.concatenate(parts))
    indices = np.searchsorted(classes, local)[indices]
    return classes, ranks.all_gather_rows(torch.from_numpy(indices)).numpy()
