"""Which rows of a training set this rank holds. Rows are numbered through all ranks, rank 0 having the first."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from siggpde.distributed.ranks import Ranks


class Shard:
    """The rows of this rank: `first` up to `first + size` of `total`, also as the slice `rows`.

    Examples:
        >>> shard = Shard(Ranks(), 5)
        >>> shard.select(torch.tensor([4, 0]))
        tensor([4, 0])
    """

    def __init__(self, ranks: Ranks, size: int) -> None:
        sizes = ranks.all_gather_sizes(size)
        empty = [rank for rank, count in enumerate(sizes) if count == 0]
        if empty and sum(sizes):
            ranks.refuse(
                f"rank {empty[0]} has no series, of {sum(sizes)} in all: use fewer ranks, or give each at least one"
            )
        self.ranks, self.size, self.total = ranks, size, sum(sizes)
        self.first = sum(sizes[: ranks.rank])
        self.rows = slice(self.first, self.first + size)

    def every(self, most: int) -> Tensor:
        """At most so many of the rows of all ranks, evenly.

        Examples:
            >>> Shard(Ranks(), 5).every(3)
            tensor([0, 2, 4])
        """
        return torch.arange(0, self.total, max(1, -(-self.total // most)))

    def mask(self, rows: Tensor) -> Tensor:
        """Which of the rows belong to this rank, bool."""
        return (rows >= self.first) & (rows < self.first + self.size)

    def select(self, rows: Tensor) -> Tensor:
        """Those of the rows that belong to this rank, in their order."""
        return rows if self.ranks.alone else rows[self.mask(rows)]

    def local_index(self, rows: Tensor) -> Tensor:
        """The indices within this shard of rows that belong to it."""
        return rows if self.ranks.alone else rows - self.first

    def all_gather(self, rows: Tensor, values: Tensor) -> Tensor:
        """The values (n, ...) of the n rows on all ranks; each rank passes the values of the rows that it has."""
        if self.ranks.alone:
            return values
        return self.ranks.all_gather_rows(values, self.mask(rows).nonzero()[:, 0], len(rows))


def all_labels(labels: np.ndarray, ranks: Ranks) -> tuple[np.ndarray, np.ndarray]:
    """The classes (C,) of the labels of all ranks, sorted, and for each series of all ranks which it is, int64."""
    classes, indices = np.unique(labels, return_inverse=True)
    indices = indices.astype(np.int64)
    if ranks.alone:
        return classes, indices
    own = classes
    parts = [np.array(values, dtype=kind) for kind, values in ranks.all_gather((own.dtype.str, own.tolist()))]
    kinds = ["number" if part.dtype.kind in "iuf" else part.dtype.kind for part in parts]
    other = next((rank for rank, kind in enumerate(kinds) if kind != kinds[0]), None)
    if other is not None:
        ranks.refuse(
            f"labels are {parts[0].dtype} on rank 0 but {parts[other].dtype} on rank {other}; all need the same type"
        )
    classes = np.unique(np.concatenate(parts))
    local = np.searchsorted(classes, own)[indices]
    return classes, ranks.all_gather_rows(torch.from_numpy(local)).numpy()
