"""`method="views"`: a committee of Gaussian processes on many views of the series."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from siggpde.committee.fit import ViewSettings, fit_view_committee
from siggpde.committee.regression import Targets
from siggpde.committee.view_committee import ViewCommittee, WeightCommittee
from siggpde.distributed.shard import Shard
from siggpde.estimators.fitting import FitSettings
from siggpde.estimators.targets import Beside
from siggpde.series import SeriesBatch
from siggpde.views import TransformerView, View
from siggpde.views.defaults import KINDS

log = logging.getLogger(__name__)

NEED_SERIES = ("kernel", "lifted")
"""The kinds of views that have no finite features, and need the landmark series to predict."""


def fit_by_views(
    batch: SeriesBatch, y: Tensor, classes: int | None, settings: FitSettings, beside: Beside, shard: Shard
) -> ViewCommittee | WeightCommittee:
    """The committee of views, in weight space where no series may be kept. y: labels 0..classes-1, or numbers for None.

    `batch` are the series of this rank's `shard`, padded as those of all; y are the targets of all.
    """
    if settings.cache_dir is not None:
        log.info("cache_dir is not used: method='views' keeps no signatures")
    if settings.checkpoint is not None:
        log.info("checkpoint is not used: method='views' keeps no state of a fit")
    if settings.resume:
        log.warning(
            "there is nothing to go on from, method='views' keeps no state of a fit: it starts from the beginning"
        )
    by_class = _class_weights(y, settings)
    kinds, own = settings.views
    if not settings.keep_series:
        kinds = tuple(kind for kind in kinds if kind not in NEED_SERIES)
    committee = fit_view_committee(
        batch,
        Targets(y, classes, _weights(y, by_class, beside), beside.groups),
        ViewSettings(
            kinds=kinds,
            own=own,
            options=settings.options,
            words=settings.n_features,
            members=settings.members,
            keep_series=settings.keep_series,
            seed=settings.seed,
            time_limit=settings.time_limit,
            progress=settings.progress,
        ),
        shard,
    )
    if isinstance(committee, ViewCommittee):
        committee.class_weights = by_class
    return committee


def _class_weights(y: Tensor, settings: FitSettings) -> Tensor | None:
    """What a series of each class counts, (classes,), 1 on average over the training series."""
    if settings.class_weight is None:
        return None
    by_class = torch.tensor(settings.class_weight, dtype=torch.float64, device=y.device)
    return by_class / by_class[y.long()].mean()


def _weights(y: Tensor, by_class: Tensor | None, beside: Beside) -> Tensor | None:
    """What every series counts, (n,), 1 on average."""
    if by_class is None or beside.weights is None:
        return beside.weights if by_class is None else by_class[y.long()]
    weights = by_class[y.long()] * beside.weights
    return weights / weights.mean()


def chosen_views(views: Any, keep_series: bool = True) -> tuple[tuple[str, ...], tuple[View, ...]]:
    """The setting `views` checked: kinds of our own views, and those of transformers.

    "auto" stands for all kinds; a list has kinds and pairs (name, transformer). Kinds that need the training series may
    not be named where these are not kept.
    """
    listed = [views] if isinstance(views, str) else views
    if not isinstance(listed, Sequence) or not listed:
        raise ValueError(f"views must be 'auto' or a list of some of {', '.join(KINDS)}, got {views!r}")
    kinds: list[str] = []
    own: list[View] = []
    for each in listed:
        if isinstance(each, str) and each in NEED_SERIES and not keep_series:
            raise ValueError(
                f"the view {each!r} predicts by comparing with training series, which keep_series=False leaves out: "
                "take it from views, or keep_series=True"
            )
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
