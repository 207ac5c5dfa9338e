"""Sets of classes and intervals that hold the truth with a given probability (docs/prediction-sets.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from siggpde.committee.committee import Latents, LeftOutRecord, ViewCommittee, ViewPrediction
from siggpde.committee.link import ClassLink, fit_link
from siggpde.committee.mixture import NormalMixture
from siggpde.committee.novelty import Scores
from siggpde.committee.regression import Targets
from siggpde.committee.weights import fold_numbers
from siggpde.series import SeriesBatch
from siggpde.utils.files import digest

_ROUNDING = 1e-9


def record_of(committee: object) -> LeftOutRecord:
    """The left-out training series of a committee."""
    record = getattr(committee, "left_out", None)
    if record is None:
        raise ValueError(
            "new series are compared with left-out training series, of which this model has no record: fit it with "
            "method='views' and likelihood='auto' (a model saved by an earlier version: fit and save it anew)"
        )
    return record


@torch.no_grad()
def prediction_sets(
    committee: ViewCommittee, batch: SeriesBatch, level: float, *, by_class: bool = False, allow_empty: bool = False
) -> tuple[Tensor, Scores | None]:
    """Returns which classes are in the sets of m series, (m, classes) of bools, by the probabilities that are shown,
    and the scores of novelty, None where the model has none; `allow_empty` may leave out all classes."""
    record, link = record_of(committee), committee.link
    assert link is not None
    jackknife, folds = Jackknife(committee, record), scored_folds(committee, record, allow_empty)
    weights = comparison_weights(record, record.mean.shape[1], by_class)
    needed = (1 - level) * (1 + weights.sum(0)) + _ROUNDING
    shares, sets = new_shares(batch, allow_empty).to(record.mean), []
    scores: list[Scores] = []
    for without in jackknife.predict(batch):
        m = len(without.means)
        share, shares = shares[:m], shares[m:]
        included = 1 + sum(_weight_at_least(without, share, fold, jackknife, weights) for fold in folds) > needed
        if not allow_empty:
            shown = committee.shown(link, *without.latents, without.score)
            included[torch.arange(m), shown.argmax(1)] = True
        sets.append(included)
        scores += [] if without.scores is None else [without.scores]
    return torch.cat(sets), Scores(*map(torch.cat, zip(*scores, strict=True))) if scores else None


def _weight_at_least(
    without: Without, share: Tensor, fold: ScoredFold, jackknife: Jackknife, weights: Tensor
) -> Tensor:
    """Returns the sum (m, classes) of the w_i of a fold with s_i >= s_-i(c)."""
    means = without.means[:, jackknife.group[fold.rows]] if jackknife.closed_form else without.means
    m, count, classes = means.shape
    variance = without.latents.variance.repeat_interleave(count)
    score = None if without.score is None else without.score.repeat_interleave(count)
    chances = jackknife.committee.shown(fold.link, means.reshape(m * count, classes), variance, score)
    chances = chances.view(m, count, classes)
    at_least = fold.scores[:, None] >= adaptive_scores(chances, share[:, None])  # (m, n, classes)
    return (at_least * weights[fold.rows]).sum(1)


def comparison_weights(record: LeftOutRecord, classes: int, by_class: bool) -> Tensor:
    """Returns w (n, classes): how much every training series counts where a class is judged."""
    group, count = group_numbers(record)
    if by_class:
        counted = torch.nn.functional.one_hot(record.y.long(), classes).double()
    else:
        counted = torch.ones(len(group), classes, dtype=torch.float64, device=group.device)
    together = counted.new_zeros(count, classes).index_add_(0, group, counted)[group]
    return counted / together.clamp_min(1.0)


@torch.no_grad()
def conformal_intervals(committee: ViewCommittee, batch: SeriesBatch, level: float) -> Tensor:
    """Returns lower and upper ends, (m, 2), in the units of the committee; infinite where there are too few series."""
    record = record_of(committee)
    jackknife = Jackknife(committee, record)
    noise = committee.weights @ committee.noise_variances.to(record.mean)
    apart = (record.y.double() - record.mean[:, 0]).abs() / (record.variance + noise).sqrt()
    weights = comparison_weights(record, 1, by_class=False)[:, 0]
    ends = []
    for latents, means, _ in jackknife.predict(batch):
        around = means[:, jackknife.group, 0] if jackknife.closed_form else means[:, :, 0]  # (m, n or 1)
        width = apart * (latents.variance + noise).sqrt()[:, None]
        low = -_upper_quantile(width - around, weights, level)
        ends.append(torch.stack([low, _upper_quantile(around + width, weights, level)], dim=1))
    return torch.cat(ends)


def _upper_quantile(values: Tensor, weights: Tensor, level: float) -> Tensor:
    """Returns the smallest of values (m, n) at or below which weights sum to `level` (1 + their sum), (m,)."""
    ordered, order = values.sort(dim=1)
    reached = weights[order].cumsum(1) >= level * (1 + weights.sum()) - _ROUNDING
    place = reached.double().argmax(1)
    return torch.where(reached[:, -1], ordered.gather(1, place[:, None])[:, 0], torch.inf)


_DIGITS = 12  # of a hash, which make the u of a new series


@dataclass(frozen=True)
class ScoredFold:
    """Training series at `rows` (n,) of the record, a link fitted without them, and the scores (n,) of their labels."""

    rows: Tensor
    link: ClassLink
    scores: Tensor


def linked_folds(committee: ViewCommittee, record: LeftOutRecord) -> Iterator[tuple[Tensor, ClassLink]]:
    """Yields the rows of all training series of the record fold by fold, each with a link that was fitted without them;
    series of one group are in one fold."""
    assert committee.link is not None
    weights = None  # as far as the model has kept them
    if committee.landmarks is not None:
        weights = committee.members[0].regression.counts
        if weights is None and committee.class_weights is not None:
            weights = committee.class_weights[record.y.long()]
    targets = Targets(record.y, record.mean.shape[1], weights, record.groups)
    numbers = fold_numbers(targets)
    for number in numbers.unique():
        rows, others = (numbers == number).nonzero()[:, 0], (numbers != number).nonzero()[:, 0]
        link = committee.link
        if len(others):
            link = fit_link(record.mean[others], record.variance[others], targets[others])
        yield rows, link


def scored_folds(committee: ViewCommittee, record: LeftOutRecord, randomised: bool) -> list[ScoredFold]:
    """Returns the folds with the scores of their labels."""
    novelty, n = committee.novelty, len(record.y)
    score = None if novelty is None or len(novelty.left_out_scores) != n else novelty.left_out_scores
    share, folds = training_shares(n, randomised).to(record.mean), []
    for rows, link in linked_folds(committee, record):
        of_rows = None if score is None else score[rows.cpu()]
        scores = adaptive_scores(committee.shown(link, record.mean[rows], record.variance[rows], of_rows), share[rows])
        folds.append(ScoredFold(rows, link, scores.gather(1, record.y[rows].long()[:, None])[:, 0]))
    return folds


def left_out_probabilities(committee: ViewCommittee, record: LeftOutRecord) -> Tensor:
    """Returns the probabilities (n, classes) of left-out series, by links that were fitted to others."""
    chances = torch.empty_like(record.mean)
    for rows, link in linked_folds(committee, record):
        chances[rows] = link.probabilities(record.mean[rows], record.variance[rows])
    return chances / chances.sum(1, keepdim=True)


def left_out_mixture(committee: ViewCommittee, record: LeftOutRecord) -> NormalMixture:
    """Returns the distributions of left-out numbers: of every member where these are kept, else one normal one."""
    if record.means is not None:
        return ViewPrediction(committee, record.means.double(), record.variances).mixture()
    noise = torch.zeros_like(record.variances) + committee.noise_variances[:, None]
    total = record.variance + (committee.weights.to(noise)[:, None] * noise).sum(0)
    one = torch.ones(1, dtype=total.dtype, device=total.device)
    return NormalMixture(record.mean[:, 0][None], total[None], one, committee.recalibration)


@torch.no_grad()
def left_out_figures(committee: Any, scale: float = 1.0) -> dict[str, dict[str, float]]:
    """Returns accuracy and NLPP of left-out series, or RMSE and NLPD in units of `scale`; {} where none are known."""
    record = committee.left_out
    if record is None:
        return {}
    if committee.link is not None:
        chances, truth = left_out_probabilities(committee, record), record.y.long()
        right, surprise = chances.argmax(1) == truth, -chances.gather(1, truth[:, None]).log()
        figures = {"accuracy": float(right.double().mean()), "nlpp": float(surprise.mean())}
    else:
        mixture, y = left_out_mixture(committee, record), record.y.double()
        error = float((mixture.mean_and_variance()[0] - y).square().mean()) ** 0.5
        figures = {"rmse": scale * error, "nlpd": math.log(scale) - float(mixture.log_density(y).mean())}
    return {"left_out": {"series": len(record.y), **figures}}


def adaptive_scores(chances: Tensor, share: Tensor) -> Tensor:
    """Returns s(c) = u p_c + sum of the p_k above p_c, (..., classes), for p (..., classes) and u (...)."""
    scores = share[..., None] * chances
    for chance in chances.unbind(-1):
        scores += torch.where(chance[..., None] > chances, chance[..., None], 0.0)
    return scores


def training_shares(n: int, randomised: bool) -> Tensor:
    """Returns u (n,) of training series: 0, or evenly spaced in random order, so that few cover as stated."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0)).double()
    return (order + 0.5) / n if randomised else torch.zeros_like(order)


def new_shares(batch: SeriesBatch, randomised: bool) -> Tensor:
    """Returns u (m,) of new series: 0, or a hash in [0, 1), the same for the same series in every batch."""
    shares = torch.zeros(len(batch), dtype=torch.float64)
    if not randomised:
        return shares
    for row, count in enumerate(batch.counts().tolist()):
        times = None if batch.times is None else batch.times[row, :count]
        shares[row] = int(digest(batch.values[row, :count], times)[:_DIGITS], 16) / 16**_DIGITS
    return shares


_SERIES = 256  # whose rows are computed at a time
_LARGEST_SERIES = 2**24  # numbers of these
_NUMBERS = 2**21  # of the predictions that are handled at a time


class Without(NamedTuple):
    """The latents of m series, their means (m, G, outputs) without each of G groups, or (m, 1, outputs) of the whole
    committee where there is no closed form, and their scores of novelty, None where these are not known."""

    latents: Latents
    means: Tensor
    scores: Scores | None

    @property
    def score(self) -> Tensor | None:
        return None if self.scores is None else self.scores.score


class Jackknife:
    """Predictions without a group, mu_-g(x) = mu(x) - sum over g of (Q k_x)_j e_j where the training series are the
    landmarks; `group` (n,) numbers the group of every training series from 0."""

    def __init__(self, committee: ViewCommittee, record: LeftOutRecord) -> None:
        self.committee = committee
        self.group, self.count = group_numbers(record)
        self.errors: Tensor | None = None
        if record.exact and record.means is not None and committee.landmarks is not None:
            outputs = record.mean.shape[1]
            signs = Targets(record.y, None if committee.link is None else outputs).signs()
            self.errors = (signs - record.means.double()) * committee.weights.double()[:, None, None]

    @property
    def closed_form(self) -> bool:
        return self.errors is not None

    @torch.no_grad()
    def predict(self, batch: SeriesBatch) -> Iterator[Without]:
        """Yields the predictions of a batch, a few series at a time."""
        for chunk in batch.split(_SERIES, _LARGEST_SERIES):
            yield from self._whole(chunk) if self.errors is None else self._without(chunk, self.errors)

    def _whole(self, chunk: SeriesBatch) -> Iterator[Without]:
        prediction = self.committee.predict(chunk)
        latents = prediction.latents()
        size = max(1, _NUMBERS // (len(self.group) * latents.mean.shape[1]))
        for start in range(0, len(chunk), size):
            part = slice(start, start + size)
            some = Latents(latents.mean[part], latents.variance[part])
            yield Without(some, some.mean[:, None], _some(prediction.scores, part))

    def _without(self, chunk: SeriesBatch, errors: Tensor) -> Iterator[Without]:
        rows = self.committee.rows(chunk)
        mixed = [member.mixed(rows) for member in self.committee.members]
        prediction = self.committee.predicted(*self.committee.latents_from(rows), chunk.described)
        latents = prediction.latents()
        roots = [member.regression.root.double() for member in self.committee.members]
        solved = [part.gram @ root @ root.T for part, root in zip(mixed, roots, strict=True)]  # (Q k_x)^T, (m, n) each
        size = max(1, _NUMBERS // errors[0].numel())
        for start in range(0, len(chunk), size):
            part = slice(start, start + size)
            some = Latents(latents.mean[part], latents.variance[part])
            shift = errors.new_zeros(len(some.mean), *errors.shape[1:])
            for weights, error in zip(solved, errors, strict=True):
                shift += weights[part][:, :, None] * error
            if self.count < len(self.group):
                shift = shift.new_zeros(len(shift), self.count, shift.shape[2]).index_add_(1, self.group, shift)
            yield Without(some, some.mean[:, None] - shift, _some(prediction.scores, part))


def _some(scores: Scores | None, part: slice) -> Scores | None:
    return None if scores is None else Scores(*(column[part] for column in scores))


def group_numbers(record: LeftOutRecord) -> tuple[Tensor, int]:
    """Returns the group (n,) of every series, 0..count-1, and count; without groups every series is one of its own."""
    if record.groups is None:
        return torch.arange(len(record.y), device=record.y.device), len(record.y)
    groups, numbers = record.groups.unique(return_inverse=True)
    return numbers, len(groups)
