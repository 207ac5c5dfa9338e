"""The checked settings of a fit, and a hash of its data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from siggpde.distributed.shard import Shard
from siggpde.series import PathOptions, SeriesBatch
from siggpde.series.batch import fingerprint
from siggpde.views import View
from siggpde.views.defaults import KINDS


@dataclass(frozen=True)
class FitSettings:
    """The checked settings of a fit."""

    likelihood: str
    members: int | None
    n_features: int
    options: PathOptions | None
    class_weight: tuple[float, ...] | None
    max_iter: int
    time_limit: float | None
    seed: int
    dtype: torch.dtype | None
    progress: bool | None
    checkpoint: Path | None
    resume: bool
    cache_dir: Path | None = None
    views: tuple[tuple[str, ...], tuple[View, ...]] = (KINDS, ())
    keep_series: bool = True


def data_fingerprint(batch: SeriesBatch, y: Tensor, shard: Shard) -> str:
    """A hash of the training data, the same for any number of ranks."""
    return fingerprint(shard, batch, y, None)
