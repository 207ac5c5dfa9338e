"""The checked settings of a fit, and a hash of its data and settings."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from siggpde.distributed.shard import Shard
from siggpde.estimators.targets import Beside
from siggpde.series import PathOptions, SeriesBatch
from siggpde.series.batch import fingerprint
from siggpde.views import TransformerView, View
from siggpde.views.defaults import KINDS

_NOT_IN_FINGERPRINT = ("progress", "checkpoint", "resume", "cache_dir")


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


def data_fingerprint(
    batch: SeriesBatch, y: Tensor, shard: Shard, settings: FitSettings | None = None, beside: Beside | None = None
) -> str:
    """A hash of the training data, and of the settings that affect the result; the same for any number of ranks."""
    relevant = None
    if settings is not None:
        names = [field.name for field in fields(settings) if field.name not in _NOT_IN_FINGERPRINT]
        relevant = {name: getattr(settings, name) for name in names}
        kinds, own = settings.views
        relevant["views"] = kinds, tuple(map(_described, own))
    more = [part for part in (beside.groups, beside.weights) if part is not None] if beside is not None else []
    return fingerprint(shard, batch, y, relevant, *more)


def _described(view: View) -> Any:
    """A view without what differs from run to run, as the address of a transformer in memory does."""
    if not isinstance(view, TransformerView):
        return view
    kind = type(view.transformer)
    parameters = getattr(view.transformer, "get_params", dict)()
    return view.name, f"{kind.__module__}.{kind.__qualname__}", sorted((key, repr(v)) for key, v in parameters.items())
