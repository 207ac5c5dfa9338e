"""`method="views"`: a committee of Gaussian processes on many views of the series."""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from siggpde.committee.committee import ViewCommittee
from siggpde.committee.fit import ViewSettings, fit_view_committee
from siggpde.committee.regression import Targets
from siggpde.distributed.shard import Shard
from siggpde.estimators.settings import FitSettings
from siggpde.estimators.targets import SampleInfo
from siggpde.series import SeriesBatch

log = logging.getLogger(__name__)


def fit_by_views(
    batch: SeriesBatch, y: Tensor, classes: int | None, settings: FitSettings, info: SampleInfo, shard: Shard
) -> ViewCommittee:
    """The committee of views of series of this rank's `shard`, padded as those of all, and of the targets y of all:
    labels 0..classes-1, or numbers for None; in weight space where no series may be kept."""
    if settings.cache_dir is not None:
        log.info("cache_dir is not used: method='views' keeps no signatures")
    if settings.checkpoint is not None:
        log.info("checkpoint is not used: method='views' keeps no state of a fit")
    if settings.resume:
        log.warning(
            "there is nothing to go on from, method='views' keeps no state of a fit: it starts from the beginning"
        )
    by_class, weights = None, info.weights
    if settings.class_weight is not None:  # 1 on average over the training series, as all weights are
        by_class = torch.tensor(settings.class_weight, dtype=torch.float64, device=y.device)
        by_class = by_class / by_class[y.long()].mean()
        weights = by_class[y.long()]
        if info.weights is not None:
            weights = weights * info.weights
            weights = weights / weights.mean()
    kinds, more_views = settings.views
    committee = fit_view_committee(
        batch,
        Targets(y, classes, weights, info.groups),
        ViewSettings(
            kinds=kinds,
            more_views=more_views,
            facts=settings.facts,
            options=settings.options,
            words=settings.n_features,
            members=settings.members,
            keep_series=settings.keep_series,
            seed=settings.seed,
            time_limit=settings.time_limit,
            progress=settings.progress,
            group_nearest=settings.related == "group" and info.groups is None,
        ),
        shard,
    )
    if settings.keep_series:
        committee.class_weights = by_class
    return committee
