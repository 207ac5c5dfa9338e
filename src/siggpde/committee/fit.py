"""From standardised series to a committee of views: landmarks, views, members by leave-one-out, weights and link."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from siggpde.committee.committee import LeftOutRecord, Member, ViewCommittee, average_latents
from siggpde.committee.cost import MAX_LANDMARKS, announce, exact_members, model_size, needs, row_seconds
from siggpde.committee.exact import Candidate, ExactFit, finite, worth_it
from siggpde.committee.large import COMPARED, LargeFit, choose_landmarks
from siggpde.committee.link import fit_link
from siggpde.committee.mixture import NormalMixture, recalibrate
from siggpde.committee.novelty import Novelty, callers_level, variances_without
from siggpde.committee.recipes import in_words, kernels_of, recipes
from siggpde.committee.regression import LeftOut, Regression, Targets, fit_exact
from siggpde.committee.weight_space import without_series
from siggpde.committee.weights import Fold, affordable, bootstrap_weights, nested_folds
from siggpde.distributed.shard import Shard
from siggpde.numerics.inputs import memory_named
from siggpde.series import PathOptions, SeriesBatch
from siggpde.series.batch import all_gather_series
from siggpde.utils.progress import Progress
from siggpde.views.base import Block, FeatureBlock, Rows, Standard, View
from siggpde.views.facts import Fact, FactsView
from siggpde.views.kinds import KINDS, default_views, kinds_of_kernels

log = logging.getLogger(__name__)
_LEAST_RISE = 0.5  # of the log of the variance
_UNLIKE = 0.5  # the share of series that look unlike all others without those next to them; usual is up to 0.02


@dataclass(frozen=True)
class ViewSettings:
    """The checked settings of a fit on views; `options` is the one way in which paths are made, or None for several,
    `words` the most of a view of paths, and without `keep_series` no kernel is taken to a power. With `group_nearest`
    series are left out with those next to them where new series would look unlike all of them otherwise. Of at most
    `exact` series all may count for some members."""

    kinds: tuple[str, ...] = KINDS
    more_views: tuple[View, ...] = ()
    facts: tuple[Fact, ...] = ()
    options: PathOptions | None = None
    words: int = 2000
    members: int | None = None
    keep_series: bool = True
    max_landmarks: int = MAX_LANDMARKS
    seed: int = 0
    exact: int = 0
    time_limit: float | None = None
    progress: bool | None = False
    group_nearest: bool = False


def fit_view_committee(batch: SeriesBatch, targets: Targets, settings: ViewSettings, shard: Shard) -> ViewCommittee:
    """Returns the committee for the series of all ranks; `batch` are those of this rank, `targets` those of all."""
    fit = _Fit(batch, targets, settings, shard)
    with Progress(settings.progress if shard.ranks.leads else False) as bar:
        fit.choose_landmarks()
        with memory_named(lambda: f"the fit takes {needs(len(fit.views), fit.landmarks, shard.total)}"):
            fit.fit_views(bar)
            committee = fit.committee(bar)
            if settings.group_nearest and fit.groups_nearest(committee):
                committee = fit.committee(bar)
    return committee


class _Fit:
    """The steps of a fit and what each of them leaves to the next."""

    def __init__(self, batch: SeriesBatch, targets: Targets, settings: ViewSettings, shard: Shard) -> None:
        self.started = time.perf_counter()
        self.batch, self.targets, self.settings, self.shard = batch, targets, settings, shard
        self.views: list[View] = []
        self.others: SeriesBatch | None = None

    def choose_landmarks(self) -> None:
        """Standardises the series, and takes some of them, or all, as landmarks."""
        batch, shard, settings = self.batch, self.shard, self.settings
        self.standard = Standard.fit(batch, shard.ranks)
        limits = settings.members, settings.max_landmarks, settings.time_limit
        self.most_members, count = model_size(batch, shard.total, *limits)
        self.choice = choose_landmarks(batch, count, settings.seed, shard, self.targets.groups)
        self.landmarks = self.standard(all_gather_series(shard, self.choice.landmarks, batch))
        self.landmark_targets = self.targets[self.choice.landmarks]
        self.complete = shard.total <= len(self.landmarks)
        if not self.complete:
            log.info("%d of %d series are landmarks", len(self.landmarks), shard.total)

    def fit_views(self, bar: Progress) -> None:
        """Fits every view to the landmarks; some are left out where time is short."""
        settings, total, views = self.settings, self.shard.total, self.views
        views += default_views(self.landmarks, total, settings.kinds, settings.options, settings.words, settings.seed)
        views += settings.more_views
        if settings.facts:  # first, as a limit of time leaves out the last
            views.insert(0, FactsView(settings.facts))
        announce(bar, views, self.landmarks, total)
        bar.start("views", len(views))
        self.all_blocks: list[Block] = []
        self.rows: dict[str, Rows] = {}
        self.seconds: dict[str, float] = {}
        for number, view in enumerate(views):
            begun = time.perf_counter()
            if self.all_blocks and settings.time_limit is not None and begun - self.started > settings.time_limit / 2:
                log.warning("time limit: %d of %d views are left out", len(views) - number, len(views))
                break
            block, rows = view.fit(self.landmarks)
            if taken := rows.keys() & self.rows.keys():
                raise ValueError(f"two views have the same name {min(taken)!r}; give your own another one")
            seconds = time.perf_counter() - begun
            log.debug("view %s: %s, %.2f s", view.kind, ", ".join(rows), seconds)
            self.all_blocks.append(block)
            self.rows |= rows
            # For views of the user's own; a kernel among several of a block costs its share.
            self.seconds |= dict.fromkeys(rows, seconds / (len(self.landmarks) * len(rows)))
            bar.step()

    def committee(self, bar: Progress) -> ViewCommittee:
        """Chooses the members and makes the committee."""
        self.compare_members(bar)
        self.weigh_members()
        self.exact: list[int] = []
        if not self.complete and self.settings.keep_series and self.shard.total <= self.settings.exact:
            self.choose_exact()
        self.refit_on_all_series(bar)
        if self.exact:
            self.refit_exactly(bar)
        return self.link()

    def groups_nearest(self, committee: ViewCommittee) -> bool:
        """Makes groups of series that are next to each other by the kernels, and says so, where series left out with
        those next to them look unlike all training series: such as a new one does then."""
        record, novelty, n = committee.left_out, committee.novelty, len(self.landmarks)
        if novelty is None or record is None or not record.exact or record.groups is not None:
            return False
        similar = torch.zeros(n, n, dtype=torch.float64, device=self.landmarks.values.device)
        for member, weight in zip(committee.members, committee.weights.tolist(), strict=True):
            gram = member.recipe.mix(self.rows).gram
            norms = gram.diagonal().clamp_min(1e-12).sqrt()
            similar += weight * gram / norms / norms[:, None]
        nearest = similar.fill_diagonal_(torch.inf).argsort(descending=True, stable=True)
        for count in (1, 3, 7):
            rows = nearest[:, : count + 1]
            if 4 * count > n:
                break
            variances = torch.stack([variances_without(member.regression, rows) for member in committee.members])
            logs = variances.cpu().log()
            rises = novelty.weights @ (logs - novelty.left_out) > _LEAST_RISE  # constant series are all alike
            if float((rises & (novelty.kernel_score(logs) > novelty.limit)).double().mean()) <= _UNLIKE:
                continue
            groups = torch.full((n,), -1)
            for row in rows.cpu():
                if groups[row[0]] < 0:
                    groups[row[groups[row] < 0]] = row[0]
            if self.shard.ranks.leads:
                text = f"most series look unlike all others once the {count} nearest are left out too: series next to "
                text += "each other are left out as groups; give groups= where you know what belongs together"
                warnings.warn(text, UserWarning, stacklevel=callers_level())
            every = torch.empty_like(groups)
            every[self.choice.landmarks] = groups
            self.targets = replace(self.targets, groups=every.to(self.targets.y.device))
            self.landmark_targets = self.targets[self.choice.landmarks]
            return True
        return False

    def compare_members(self, bar: Progress) -> None:
        """Fits every candidate to some of the landmarks."""
        self.blocks = self.all_blocks
        candidates = recipes(_kinds(self.blocks)) or recipes(_kinds(self.blocks, constant=True))[:1]
        keep = self.settings.keep_series
        self.candidates = candidates if keep else [recipe for recipe in candidates if recipe.power == 1]
        if not self.candidates:
            raise ValueError("there is no view of such series: they are too short, or their kernels cost too much")
        bar.start("comparing members", len(self.candidates))
        self.compared = count = min(len(self.landmarks), COMPARED)
        some: dict[str, Rows] = {}
        for name, rows in self.rows.items():
            some[name] = Rows(rows.gram[:count, :count], rows.variance[:count])
        self.results: list[tuple[Regression, LeftOut]] = []
        for recipe in self.candidates:
            self.results.append(fit_exact(recipe.mix(some), self.landmark_targets[:count]))
            bar.step()

    def weigh_members(self) -> None:
        """Weighs the candidates by their predictions of left-out series; most weights are 0."""
        left_out = [prediction for _, prediction in self.results]
        families = [recipe.family for recipe in self.candidates]

        def seconds() -> dict[str, float]:
            return row_seconds(self.blocks, self.landmarks, self.shard.ranks.all_gather(self.seconds)[0])

        def weigh(densities: Tensor, targets: Targets) -> Tensor:
            weights = bootstrap_weights(densities, families, self.most_members, groups=targets.groups)
            scores, limit = (-targets.average(densities)).tolist(), self.settings.time_limit
            total, landmarks = self.shard.total, len(self.landmarks)
            return affordable(self.candidates, scores, weights, seconds, total, limit, landmarks)

        densities = torch.stack([prediction.log_density for prediction in left_out])
        self.weights = weigh(densities, self.landmark_targets[: self.compared])
        self.folds: list[Fold] = []
        if self.compared == self.shard.total:
            self.folds = nested_folds(left_out, self.landmark_targets, weigh)
        self.chosen = self.weights.nonzero()[:, 0].tolist()
        if log.isEnabledFor(logging.INFO):
            best = in_words(self.candidates[int(self.weights.argmax())], kinds_of_kernels(self.blocks))
            log.info(
                "%d members compared by predictions of %d left-out series; %d are averaged, most of all %s",
                *(len(self.candidates), self.compared, len(self.chosen), best),
            )

    def choose_exact(self) -> None:
        """Chooses the members for which all series are to count, where that makes them better and can be paid for."""
        total, features = self.shard.total, finite(self.blocks)
        able = [
            Candidate(number, recipe, left_out.score)
            for number, (recipe, (_, left_out)) in enumerate(zip(self.candidates, self.results, strict=True))
            if features.issuperset(kernels_of([recipe]))
        ]
        most, reason = exact_members(self.blocks, total, self.settings.time_limit, time.perf_counter() - self.started)
        if most:
            self.exact = worth_it(able, self.compared, total, self.rows, self.landmark_targets)[:most]
        if reason:
            log.warning("of %d series %d landmarks stand for all, as %s", total, len(self.landmarks), reason)
        self.chosen = sorted({*self.chosen, *self.exact})

    def refit_on_all_series(self, bar: Progress) -> None:
        """Fits the members with a weight to all series, and predicts those left out that decide link and novelty."""
        chosen = [self.candidates[index] for index in self.chosen]
        kept = [block.keep(kernels_of(chosen)) for block in self.blocks]
        self.blocks = [block for block in kept if block is not None]
        bar.start("members", len(chosen))
        if not self.complete:
            series = LargeFit(self.batch, self.targets, self.standard, self.blocks, self.rows, self.shard)
            fits, self.left_out_rows = series.fit(chosen, self.choice.tuned, bar), self.choice.tuned.sort().values
        else:
            fits, self.left_out_rows = [self.results[index] for index in self.chosen], self.choice.landmarks
            if self.compared < len(self.landmarks):
                fits = [fit_exact(recipe.mix(self.rows), self.landmark_targets) for recipe in chosen]
        self.left_out = [prediction for _, prediction in fits]
        self.members = [
            Member(recipe, regression, recipe.norms(self.rows), left_out.score)
            for recipe, (regression, left_out) in zip(chosen, fits, strict=True)
        ]

    def refit_exactly(self, bar: Progress) -> None:
        """Lets all series count for some members, and weighs all of them again by the series that decide the noise."""
        bar.start("exact members", len(self.exact))
        numbers, landmarks = [self.chosen.index(i) for i in self.exact], self.choice.landmarks
        members = [(self.members[k].recipe, self.members[k].regression) for k in numbers]
        rest = torch.ones(self.shard.total, dtype=torch.bool)
        rest[landmarks] = False
        order = torch.cat([landmarks, rest.nonzero()[:, 0]])
        self.others = self.standard(all_gather_series(self.shard, order[len(landmarks) :], self.batch))
        wanted = kernels_of(recipe for recipe, _ in members)
        for number, block in enumerate(self.blocks):
            if isinstance(block, FeatureBlock) and not wanted.isdisjoint(block.centring):
                self.blocks[number] = block.extended(self.others)
        rows = order.argsort()[self.left_out_rows]
        fits = ExactFit(self.blocks, self.targets[order]).fit(members)
        for k, (regression, norms, left_out) in zip(numbers, fits, strict=True):
            before, loss = self.members[k], left_out.score
            said = "member %s: %.4f nats with all series, %.4f with landmarks"
            log.info(said, before.recipe.name, loss, before.score)
            variance = self.left_out[k].variance * (regression.amplitude / before.regression.amplitude)
            self.left_out[k] = LeftOut(left_out.mean[rows], variance, loss, left_out.log_density[rows], [])
            self.members[k] = Member(before.recipe, regression, norms, loss)
        self.weigh_again()

    def weigh_again(self) -> None:
        """Weighs the members by what they predict of the left-out series, and keeps those that have a weight."""
        densities, groups = (
            torch.stack([one.log_density for one in self.left_out]),
            self.targets[self.left_out_rows].groups,
        )
        families = [member.recipe.family for member in self.members]
        weights = bootstrap_weights(densities, families, self.most_members, groups=groups)
        self.weights = torch.zeros_like(self.weights)
        self.weights[self.chosen] = weights.to(self.weights)
        kept = weights.nonzero()[:, 0].tolist()
        self.chosen = [self.chosen[k] for k in kept]
        self.members, self.left_out = [self.members[k] for k in kept], [self.left_out[k] for k in kept]
        blocks = [block.keep(kernels_of(member.recipe for member in self.members)) for block in self.blocks]
        self.blocks = [block for block in blocks if block is not None]

    def link(self) -> ViewCommittee:
        """Makes the committee, with what left-out series tell: its link, and how unusual a series can be."""
        rows, weights = self.left_out_rows, self.weights[self.chosen].to(self.batch.values.device)
        committee = ViewCommittee(self.standard, self.landmarks, self.blocks, self.members, weights)
        committee.others = self.others
        committee.tried = [
            (recipe.name, left_out.score, weight)
            for recipe, (_, left_out), weight in zip(self.candidates, self.results, self.weights.tolist(), strict=True)
        ]
        targets, means = self.targets[rows], torch.stack([prediction.mean for prediction in self.left_out])
        variances, noise = torch.stack([prediction.variance for prediction in self.left_out]), committee.noise_variances
        # Where so many series chose the members that it hardly flatters, their predictions are taken as they are.
        folds = self.folds or [Fold(torch.arange(len(rows), device=means.device), means, variances, noise, weights)]
        if not self.settings.keep_series:
            committee, more = without_series(committee, complete=self.complete)
            missing = weights @ more
            if not self.complete:  # `more` is of the landmarks, which these series are not
                more, missing = torch.stack([extra.mean() for extra in more])[:, None], missing.mean().expand(len(rows))
            variances = variances + more
            folds = [replace(fold, variances=fold.variances + missing[fold.rows]) for fold in folds]
        exact = self.complete and self.settings.keep_series
        kept = means.float() if exact else None
        average = average_latents(means, variances, weights)
        committee.left_out = LeftOutRecord(targets.y, *average, variances, targets.groups, exact, kept, rows)
        described = self.batch.described
        if described is not None:
            described = self.shard.all_gather(rows, described[self.shard.local_index(rows)])
            labels = None if targets.classes is None else targets.y
            units = [float(fact.levels is not None) for fact in self.settings.facts]  # a new level is 1 at most
            committee.novelty = Novelty.fit(
                variances + noise[:, None], weights, described, labels, targets.groups, facts=units
            )
        return calibrated(committee, folds, targets)


def _kinds(blocks: Sequence[Block], constant: bool = False) -> dict[str, list[str]]:
    """Returns the names of the kernels of every kind; `constant` has those too that do not vary over the landmarks."""
    kinds: dict[str, list[str]] = {}
    for block in blocks:
        kind = next(iter(block.centring)) if block.kind == "features" else block.kind
        for name, centring in block.centring.items():
            if constant or centring.scale > 0:
                kinds.setdefault(kind, []).append(name)
    return kinds


def calibrated(committee: ViewCommittee, folds: Sequence[Fold], targets: Targets) -> ViewCommittee:
    """Returns the committee with its link or recalibration, fitted to averaged predictions of left-out series."""
    rows = torch.cat([fold.rows for fold in folds])
    if targets.classes is not None:
        parts = [average_latents(fold.means, fold.variances, fold.weights) for fold in folds]
        mean, variance = map(torch.cat, zip(*parts, strict=True))
        committee.link = fit_link(mean, variance, targets[rows])
        return committee
    deviations = []
    for fold in folds:
        total = fold.variances + fold.noise_variances[:, None]
        mixture = NormalMixture(fold.means[:, :, 0], total, fold.weights)
        deviations.append(mixture.deviations(targets.y[fold.rows]))
    committee.recalibration = recalibrate(torch.cat(deviations))
    return committee
