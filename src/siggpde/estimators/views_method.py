"""`method="views"`: a committee of closed-form Gaussian processes on many views of the series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from siggpde.distributed.shard import Shard
from siggpde.ensemble.fitting import ViewSettings, fit_view_committee
from siggpde.ensemble.regression import Targets
from siggpde.ensemble.view_committee import ViewCommittee
from siggpde.estimators.fitting import FitSettings
from siggpde.paths import SeriesBatch
from siggpde.views import TransformerView, View
from siggpde.views.defaults import KINDS

_KERNELS = ("kernel", "lifted")


def fit_by_views(
    batch: SeriesBatch, y: Tensor, classes: int | None, settings: FitSettings, shard: Shard
) -> ViewCommittee:
    """The committee of views. y: labels 0..classes-1, or numbers for None.

    `batch` are the series of this rank's `shard`, padded as those of all; y are the targets of all.
    """
    kinds, own = settings.views
    by_class = weights = None
    if settings.class_weight is not None:
        by_class = torch.tensor(settings.class_weight, dtype=torch.float64, device=y.device)
        by_class = by_class / by_class[y.long()].mean()
        weights = by_class[y.long()]
    committee = fit_view_committee(
        batch,
        Targets(y, classes, weights),
        ViewSettings(
            kinds=kinds,
            own=own,
            options=settings.options,
            words=settings.n_features,
            members=settings.members,
            seed=settings.seed,
            time_limit=settings.time_limit,
            progress=settings.progress,
        ),
        shard,
    )
    committee.class_weights = by_class
    return committee


def chosen_views(views: Any) -> tuple[tuple[str, ...], tuple[View, ...]]:
    """The setting `views` checked: kinds of our own views, and those of transformers.

    "auto" stands for all kinds; a list has kinds and pairs (name, transformer).
    """
    listed = [views] if isinstance(views, str) else views
    if not isinstance(listed, Sequence) or not listed:
        raise ValueError(f"views must be 'auto' or a list of some of {', '.join(KINDS)}, got {views!r}")
    kinds: list[str] = []
    own: list[View] = []
    for each in listed:
        if isinstance(each, str) and each in ("auto", *KINDS):
            kinds += KINDS if each == "auto" else [each]
        elif isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str):
            own.append(_own_view(*each, [view.name for view in own if isinstance(view, TransformerView)]))
        else:
            raise ValueError(
                f"views has {each!r}; it takes 'auto', {', '.join(map(repr, KINDS))} and pairs (name, transformer)"
            )
    return tuple(dict.fromkeys(kinds)), tuple(own)


def _own_view(name: str, transformer: Any, before: list[str]) -> TransformerView:
    if name in ("auto", *KINDS) or not name or name in before:
        raise ValueError(f"a view of your own needs a name of its own, got {name!r}")
    for method in ("fit", "transform"):
        if not callable(getattr(transformer, method, None)):
            raise ValueError(f"the transformer of the view {name!r} has no method {method}: {transformer!r}")
    return TransformerView(name, transformer)
