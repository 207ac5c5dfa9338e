"""Before the first step: which rows are for validation, and of which words signatures are kept."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from siggpde.distributed.shard import Shard
from siggpde.gp.model import SignatureGP
from siggpde.gp.word_choice import grow_pool
from siggpde.numerics.words import Word, words
from siggpde.series import SeriesBatch
from siggpde.series.batch import all_gather_series

_SERIES_FOR_POOL = 256
_SMALLEST_FOR_VALIDATION = 50


def word_pool(model: SignatureGP, batch: SeriesBatch, shard: Shard) -> list[Word]:
    """The words whose signatures are kept: those of a finite kernel; else up to four for each that is wanted.

    `batch` holds the series of this rank's shard.
    """
    kernel, features = model.kernel, model.features
    if kernel.words is not None:
        return kernel.words
    if features.order == "lexicographic":
        return features.words
    rows = torch.arange(0, shard.total, max(1, shard.total // _SERIES_FOR_POOL))
    sample = all_gather_series(shard, rows, batch)
    count = len(features.words)
    lists = shard.ranks.broadcast(lambda: [list(word) for word in grow_pool(kernel, sample, 4 * count)])
    pool = [tuple(word) for word in lists]
    if len(pool) < count:  # fewer words than wanted have any energy
        pool = sorted({*pool, *words(kernel.channels, count)}, key=lambda word: (len(word), word))
    return pool


def split_rows(
    validation: float | tuple[Sequence[int], Sequence[int]],
    y: Tensor,
    classes: bool,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Rows for training and for validation, each in order."""
    n = len(y)
    if not isinstance(validation, int | float):
        train, valid = (torch.as_tensor(rows, dtype=torch.int64).cpu().sort().values for rows in validation)
        both = torch.cat([train, valid])
        if len(train) == 0 or len(both.unique()) != len(both) or both.min() < 0 or both.max() >= n:
            raise ValueError(f"validation must be two disjoint lists of row numbers below {n}, the first not empty")
        return train, valid
    if not 0 <= validation < 1:
        raise ValueError(f"validation must be a share from 0 up to 1, got {validation!r}")
    if validation == 0 or n < _SMALLEST_FOR_VALIDATION:
        return torch.arange(n), torch.empty(0, dtype=torch.int64)
    y = y.cpu()  # row numbers are kept there
    chosen = torch.zeros(n, dtype=torch.bool)
    groups = [(y == label).nonzero()[:, 0] for label in y.unique()] if classes else [torch.arange(n)]
    for rows in groups:
        order = rows[torch.randperm(len(rows), generator=generator)]
        chosen[order[: int(validation * len(rows) + 1e-9)]] = True
    return (~chosen).nonzero()[:, 0], chosen.nonzero()[:, 0]
