"""The training of an estimator: what `fit` does of series, targets and settings; and `method="views"`."""

import logging
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.committee.committee import ViewCommittee
from siggpde.committee.fit import ViewSettings, fit_view_committee
from siggpde.committee.regression import Targets
from siggpde.distributed.shard import Shard
from siggpde.estimators.facts import learned_facts
from siggpde.estimators.settings import (
    LARGEST_SQUARED,
    FitSettings,
    channel_attributes,
    check_batch,
    fit_settings,
    input_device,
    is_series_data,
    preparation_of,
    threads,
    usable_device,
)
from siggpde.estimators.targets import SampleInfo, class_weights, grouped_by_family
from siggpde.series import SeriesBatch
from siggpde.series.batch import fingerprint, pad_to_longest
from siggpde.series.related import find_related

log = logging.getLogger(__name__)


def trained_attributes(
    estimator: Any,
    X: Any,
    y: Tensor,
    info: SampleInfo,
    shard: Shard,
    classes: int | None = None,
    class_weight: tuple[float, ...] | None = None,
    facts: Any = None,
) -> dict[str, Any]:
    """Returns the attributes of a fitted estimator; X and `facts` are of this rank, y and `info` of all ranks."""
    started, ranks = time.perf_counter(), shard.ranks
    settings = fit_settings(estimator, classes, class_weight)
    paper = estimator.method == "paper"
    if paper and facts is not None:
        raise ValueError("method='paper' has one kernel, of the series alone; facts need method='views'")
    series = X.X if is_series_data(X) else X
    with ranks.together():
        device = input_device(series)
        if not isinstance(estimator.device, str) or estimator.device != "auto":
            device = usable_device(estimator.device)
    ranks.check_same("kind of device", device.type)
    ranks.check_same("facts", facts is not None)
    preparation = preparation_of(estimator, X)
    with threads(estimator.n_jobs, len(y)):
        batch = preparation.fit_transform(series, ranks=ranks)
        with ranks.together():
            check_batch(batch, shard.size, LARGEST_SQUARED)
            if len(y) < 2:
                raise ValueError("one series is not enough to learn from (n_samples=1); give two or more")
            assert preparation.raw_channels is not None
            attributes = channel_attributes(X, preparation.raw_channels, estimator.channel_names)
        if not ranks.alone:
            batch = replace(pad_to_longest(batch, ranks), first=shard.first)
        if facts is not None:
            known, values = learned_facts(facts, len(batch), ranks)
            settings, batch = replace(settings, facts=known), replace(batch, facts=values)
        counts = batch.counts()
        minus_shortest, longest = ranks.all_reduce_max(torch.stack([-counts.min(), counts.max()])).tolist()
        rows = torch.arange(len(y))
        if settings.related == "error" or (settings.related == "group" and info.groups is None and not paper):
            related = find_related(series, batch, preparation.time_channel, shard)
            rows, info = grouped_by_family(info, related, y, classes, settings.related, shard, facts is not None)
        attributes |= {
            "length_range_": (-minus_shortest, longest),
            "fingerprint_": fingerprint(shard, batch, y, None),
            "preparation_": preparation,
            "facts_": settings.facts,
            "n_series_": len(y),
            "n_groups_": None if info.groups is None else int(info.groups.max()) + 1,
        }
        if len(rows) < len(y):
            index = shard.local_index(rows)
            shard, y = Shard(ranks, len(index)), y[rows]
            batch = replace(batch[index], first=shard.first)
            if classes and estimator.class_weight == "balanced":
                class_weight = class_weights("balanced", np.arange(classes), y.numpy())
                settings = replace(settings, class_weight=class_weight)
        if paper:
            from siggpde.estimators.paper_method import fit_by_the_paper as fit  # noqa: PLC0415 - few need it
        else:
            fit = fit_by_views
        committee = fit(batch.to(device), y.to(device), classes, settings, info.to(device), shard)
    if (record := committee.left_out) is not None:
        assert record.rows is not None
        committee.left_out = replace(record, rows=rows.to(record.rows)[record.rows])
    if (time_format := getattr(X, "time_format", None)) is not None:
        attributes["reading_"] = {"time_format": time_format._asdict()}
    tried = tuple(map(list, committee.tried))
    return attributes | {"committee_": committee, "tried_": tried, "seconds_": time.perf_counter() - started}


def fit_by_views(
    batch: SeriesBatch, y: Tensor, classes: int | None, settings: FitSettings, info: SampleInfo, shard: Shard
) -> ViewCommittee:
    """The committee of the series of this rank's `shard` and the targets y of all: labels, or numbers for None."""
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
            exact=settings.exact,
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
