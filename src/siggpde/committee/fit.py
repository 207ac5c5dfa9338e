"""From standardised series to a committee of views: landmarks, blocks, members by leave-one-out, weights and link.

The link or the recalibration of a committee, from its predictions of left-out series.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from siggpde.committee.cost import (
    MAX_LANDMARKS,
    MEMBERS,
    affordable,
    announce,
    landmark_count,
    most_members,
    row_seconds,
)
from siggpde.committee.large import COMPARED, AllSeries, choose_landmarks
from siggpde.committee.link import fit_link
from siggpde.committee.mixture import NormalMixture, recalibrate
from siggpde.committee.novelty import Novelty
from siggpde.committee.recipes import Recipe, kernels_of, recipes
from siggpde.committee.regression import LeftOut, Regression, Targets, fit_exact
from siggpde.committee.view_committee import (
    AveragedMembers,
    LeftOutRecord,
    ViewCommittee,
    ViewMember,
    WeightCommittee,
    average_latents,
    without_series,
)
from siggpde.committee.weights import Fold, bootstrap_weights, nested_folds
from siggpde.distributed.shard import Shard
from siggpde.series import PathOptions, SeriesBatch
from siggpde.series.batch import all_gather_series
from siggpde.utils.progress import Progress
from siggpde.views.base import Block, Rows, Standard, View
from siggpde.views.defaults import KINDS, default_views

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ViewSettings:
    """The checked settings of a fit on views.

    `own` are views beside those of `kinds`; `options` fixes how paths are made, None takes several ways; `words` is the
    most that a view of paths has; `members` the most that are averaged, None for the usual number. Without
    `keep_series` the committee is one of weights of features, and kernels are not taken to a power.
    """

    kinds: tuple[str, ...] = KINDS
    own: tuple[View, ...] = ()
    options: PathOptions | None = None
    words: int = 2000
    members: int | None = None
    keep_series: bool = True
    max_landmarks: int = MAX_LANDMARKS
    seed: int = 0
    time_limit: float | None = None
    progress: bool | None = False


def fit_view_committee(
    batch: SeriesBatch,
    targets: Targets,
    settings: ViewSettings,
    shard: Shard,
) -> ViewCommittee | WeightCommittee:
    """The committee for the series of all ranks; `batch` are those of this rank, `targets` those of all."""
    started = time.perf_counter()
    standard = Standard.fit(batch, shard.ranks)
    members = settings.members or most_members(batch, shard.total, settings.max_landmarks)
    settings = replace(settings, members=members)
    most = landmark_count(batch, shard.total, members, settings.max_landmarks, settings.time_limit)
    taken = choose_landmarks(batch, most, settings.seed, shard, targets.groups)
    landmarks = standard(all_gather_series(shard, taken.landmarks, batch))
    own_targets, count = targets[taken.landmarks], len(taken.landmarks)
    if shard.total > count:
        log.info("%d of %d series are landmarks", count, shard.total)
    with Progress(settings.progress if shard.ranks.leads else False) as bar:
        views = [
            *default_views(landmarks, shard.total, settings.kinds, settings.options, settings.words, settings.seed),
            *settings.own,
        ]
        announce(bar, views, landmarks, shard.total)
        bar.start("views", len(views))
        blocks, rows, measured = _fitted(views, landmarks, settings, started, bar)
        found = recipes(_kinds(blocks)) or recipes(_kinds(blocks, constant=True))[:1]
        found = [recipe for recipe in found if settings.keep_series or recipe.power == 1]
        bar.start("comparing members", len(found))
        compared = min(count, COMPARED)
        results = _compare(found, rows, own_targets, compared, bar)
        seconds = row_seconds(blocks, landmarks, shard.ranks.broadcast(lambda: measured))
        weigh = partial(_weights, found, seconds=seconds, settings=settings, total=shard.total, landmarks=count)
        weights = weigh(torch.stack([left_out.log_density for _, left_out in results]), own_targets[:compared])
        folds = None
        if compared == shard.total:
            folds = nested_folds([left_out for _, left_out in results], own_targets, weigh)
        _report(found, results, weights)
        scores = (left_out.score for _, left_out in results)
        names = (recipe.name for recipe in found)
        tried = list(zip(names, scores, weights.tolist(), strict=True))
        chosen = weights.nonzero()[:, 0].tolist()
        kept = [block.keep(kernels_of(found[index] for index in chosen)) for block in blocks]
        blocks = [block for block in kept if block is not None]
        bar.start("members", len(chosen))
        if shard.total <= count:
            fits = [
                results[index] if compared == count else fit_exact(found[index].mix(rows, rows), own_targets)
                for index in chosen
            ]
            tuned = own_targets
        else:
            seen = AllSeries(batch, targets, standard, blocks, rows, shard)
            fits, tuned = seen.fit([found[index] for index in chosen], taken.tuned, bar)
    members = [
        ViewMember(found[index], fit, found[index].norms(rows), left_out.score)
        for index, (fit, left_out) in zip(chosen, fits, strict=True)
    ]
    committee = ViewCommittee(standard, landmarks, blocks, members, weights[chosen].to(batch.values.device))
    left_out = [each for _, each in fits]
    folds = folds or [as_one_fold(committee, left_out)]
    complete = shard.total <= count
    known = taken.landmarks if complete else taken.tuned.sort().values
    facts = (
        None if batch.facts is None else shard.all_gather(known, batch.facts[shard.local_index(shard.select(known))])
    )
    committee.tried = tried
    if settings.keep_series:
        _remember(committee, left_out, tuned, facts, exact=complete)
        return calibrated(committee, folds, tuned)
    reduced, more = without_series(committee, complete=complete)
    reduced.tried = tried
    missing = committee.weights @ torch.stack(more)
    folds = [
        replace(fold, variances=fold.variances + (missing[fold.rows] if complete else missing.mean())) for fold in folds
    ]
    for each, variance in zip(left_out, more, strict=True):
        each.variance = each.variance + (variance if complete else variance.mean())
    _remember(reduced, left_out, tuned, facts, exact=False)
    return calibrated(reduced, folds, tuned)


def _remember(
    committee: ViewCommittee | WeightCommittee,
    left_out: Sequence[LeftOut],
    targets: Targets,
    facts: Tensor | None,
    exact: bool,
) -> None:
    """Keeps what new series are compared with: left-out series, and how unusual a series can be."""
    record = LeftOutRecord.of(committee, left_out, targets, exact)
    committee.left_out = record
    if facts is not None:
        labels = None if targets.classes is None else targets.y
        variances = committee.target_variances(record.variances)
        committee.novelty = Novelty.fit(variances, committee.weights, facts, labels, targets.groups)


def _fitted(
    views: Sequence[View], landmarks: SeriesBatch, settings: ViewSettings, started: float, bar: Progress
) -> tuple[list[Block], dict[str, Rows], dict[str, float]]:
    """The blocks of the views, the rows of the landmarks, and the seconds of a series in every kernel."""
    blocks: list[Block] = []
    rows: dict[str, Rows] = {}
    seconds: dict[str, float] = {}
    for index, view in enumerate(views):
        if blocks and settings.time_limit is not None and time.perf_counter() - started > settings.time_limit / 2:
            log.warning("time limit: %d of %d views are left out", len(views) - index, len(views))
            break
        begun = time.perf_counter()
        block, own = view.fit(landmarks)
        if taken := own.keys() & rows.keys():
            raise ValueError(f"two views have the same name {min(taken)!r}; give your own another one")
        log.debug("view %s: %s, %.2f s", view.kind, ", ".join(own), time.perf_counter() - begun)
        blocks.append(block)
        rows |= own
        # For views of the user's own; a kernel among several of a block costs its share.
        each = (time.perf_counter() - begun) / (len(landmarks) * len(own))
        seconds |= dict.fromkeys(own, each)
        bar.step()
    return blocks, rows, seconds


def _kinds(blocks: Sequence[Block], constant: bool = False) -> dict[str, list[str]]:
    """The names of the kernels of every kind; `constant` has those too that do not vary over the landmarks."""
    kinds: dict[str, list[str]] = {}
    for block in blocks:
        usable = [name for name, centring in block.centring.items() if constant or centring.scale > 0]
        kind = next(iter(block.centring)) if block.kind == "features" else block.kind
        kinds.setdefault(kind, []).extend(usable)
    return {kind: names for kind, names in kinds.items() if names}


def _compare(
    found: Sequence[Recipe], rows: dict[str, Rows], targets: Targets, count: int, bar: Progress
) -> list[tuple[Regression, LeftOut]]:
    """Every recipe fitted to the first `count` landmarks."""
    if not found:
        raise ValueError("there is no view of such series: they are too short, or their kernels cost too much")
    some = {name: Rows(each.gram[:count, :count], each.variance[:count]) for name, each in rows.items()}
    results = []
    for recipe in found:
        results.append(fit_exact(recipe.mix(some, some), targets[:count]))
        bar.step()
    return results


def _weights(
    found: Sequence[Recipe],
    densities: Tensor,
    compared: Targets,
    *,
    seconds: dict[str, float],
    settings: ViewSettings,
    total: int,
    landmarks: int,
) -> Tensor:
    """The weights of all recipes, most of them 0, from their log densities (K, n) of left-out series."""
    families = [recipe.family for recipe in found]
    weights = bootstrap_weights(densities, families, settings.members or MEMBERS, groups=compared.groups)
    scores = (-compared.average(densities)).tolist()
    return affordable(found, scores, weights, seconds, total, settings.time_limit, landmarks)


def _report(found: Sequence[Recipe], results: Sequence[tuple[Regression, LeftOut]], weights: Tensor) -> None:
    shares = weights.tolist()
    chosen = [
        f"{found[index].name} {shares[index]:.2f} ({results[index][1].score:.4f})"
        for index in weights.argsort(descending=True).tolist()
        if shares[index] > 0
    ]
    log.info("%d members compared; weights (leave-one-out loss): %s", len(found), ", ".join(chosen))


Committee = TypeVar("Committee", bound=AveragedMembers)


def calibrated(committee: Committee, folds: Sequence[Fold], targets: Targets) -> Committee:
    """The committee with its link or recalibration, fitted to left-out series that are averaged as new ones are."""
    rows = torch.cat([fold.rows for fold in folds])
    if targets.classes is not None:
        parts = [average_latents(fold.means, fold.variances, fold.weights) for fold in folds]
        mean, variance = (torch.cat(part) for part in zip(*parts, strict=True))
        committee.link = fit_link(mean, variance, targets[rows])
        return committee
    deviations = []
    for fold in folds:
        total = fold.variances + fold.noise_variances[:, None]
        mixture = NormalMixture(fold.means[:, :, 0], total, fold.weights)
        deviations.append(mixture.deviations(targets.y[fold.rows]))
    committee.recalibration = recalibrate(torch.cat(deviations))
    return committee


def as_one_fold(committee: AveragedMembers, left_out: Sequence[LeftOut]) -> Fold:
    """The left-out predictions of the members as they are, where so many series chose them that it hardly flatters."""
    means = torch.stack([each.mean for each in left_out])
    noises = [member.noise_variance for member in committee.averaged]
    return Fold(
        rows=torch.arange(means.shape[1], device=means.device),
        means=means,
        variances=torch.stack([each.variance for each in left_out]),
        noise_variances=torch.tensor(noises, dtype=means.dtype, device=means.device),
        weights=committee.weights,
    )
