"""How unlike the training series a series is: its score and p-value, and what follows (docs/design.md, Trust)."""

from __future__ import annotations

import math
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from siggpde.committee.regression import Regression
from siggpde.distributed.shard import Shard
from siggpde.series.statistics import OF_CHANNELS, OF_SERIES, statistic_names
from siggpde.views.base import Learned, Rows

_TENTH = 0.1
_LEAST_SHARE = 1e-6  # of its median, below which a positive statistic is taken as this
_MISSING_UNIT = 0.05
_NEAREST, _LEAST_DISTANCE = 3, 0.01
_ONE_OF_STATISTICS = 0.99  # the quantile of left-out series at which a standardised distance is 1
_REFERENCE = 1000
_CHUNK = 512
_LOST = 1000.0  # units beyond all training series: a channel without values that all of them have


@dataclass(frozen=True)
class StatisticScores(Learned):
    """Medians, units, least and greatest of every statistic, four (F,); `least` (F,) is the smallest value of which a
    logarithm is taken, 0 for statistics taken as they are; `reference` (m, F) are training series in these units, with
    the median and the 99 % quantile of their distances; `always` (channels,) is 1 for channels of which every training
    series has values, None in models of early versions."""

    medians: Tensor
    units: Tensor
    low: Tensor
    high: Tensor
    least: Tensor
    reference: Tensor
    middle: float
    upper: float
    always: Tensor | None = None

    @staticmethod
    def fit(
        statistics: Tensor, groups: Tensor | None = None, facts: Sequence[float] = ()
    ) -> tuple[StatisticScores, Tensor]:
        """Learns from the statistics (n, F) of training series, of which the last columns are facts beside the
        series with these least units; returns their scores (n,), each without its group."""
        count = statistics.shape[1] - len(facts)
        least = torch.cat([_least(statistics[:, :count]), torch.zeros(len(facts)).to(statistics)])
        taken = torch.where(least > 0, torch.maximum(statistics, least).log(), statistics)
        medians = torch.nan_to_num(taken.nanmedian(0).values)
        filled = torch.where(taken.isnan(), medians, taken)
        tenth = torch.where(least > 0, _TENTH, _TENTH * medians.abs())
        levels = torch.arange(0, count - len(OF_SERIES), len(OF_CHANNELS))
        spreads = torch.nan_to_num(statistics[:, levels + 1].nanmedian(0).values)
        tenth[levels] = torch.maximum(tenth[levels], _TENTH * spreads)
        tenth[count - 1], tenth[count:] = _MISSING_UNIT, torch.tensor(facts).to(tenth)
        units = torch.maximum(filled.std(0, correction=0), tenth)
        units = torch.where(units > 0, units, 1.0)
        z = (filled - medians) / units
        groups = torch.arange(len(z)) if groups is None else groups.cpu()
        rows = slice(0, _REFERENCE)
        near = _nearest(z, z[rows], groups, groups[rows])
        middle, upper = float(near.median()), float(near.quantile(_ONE_OF_STATISTICS))
        always = (~statistics[:, levels].isnan()).all(0).long()
        scores = StatisticScores(medians, units, z.amin(0), z.amax(0), least, z[rows].float(), middle, upper, always)
        return scores, torch.maximum(_beyond_others(z, groups), scores._standard(near))

    def __call__(self, statistics: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the scores (n,) of the statistics (n, F) of new series, and which of these (n,) is farthest out."""
        taken = torch.where(self.least > 0, torch.maximum(statistics, self.least).log(), statistics)
        z = (torch.where(taken.isnan(), self.medians, taken) - self.medians) / self.units
        beyond = torch.maximum(self.low - z, z - self.high)
        if self.always is not None:
            levels = len(OF_CHANNELS) * torch.arange(len(self.always))
            beyond[:, levels] += _LOST * (taken[:, levels].isnan() & (self.always > 0))
        nobody = torch.full((len(z),), -1), torch.zeros(len(self.reference), dtype=torch.int64)
        near = self._standard(_nearest(z, self.reference.double(), *nobody))
        # Of statistics within the range the one farthest from the median.
        farthest = torch.where(beyond > 0, beyond + z.abs().amax(1, keepdim=True), z.abs()).argmax(1)
        return torch.maximum(beyond.amax(1).clamp_min(0.0), near), farthest

    def _standard(self, near: Tensor) -> Tensor:
        middle, upper = max(self.middle, _LEAST_DISTANCE), max(self.upper, _LEAST_DISTANCE)
        return (near.clamp_min(_LEAST_DISTANCE) / middle).log() / max(math.log(upper / middle), _TENTH)


def _least(statistics: Tensor) -> Tensor:
    """Returns the smallest value (F,) of positive statistics: of a channel that never varied a share of its level."""
    channels = (statistics.shape[1] - len(OF_SERIES)) // len(OF_CHANNELS)
    positive = torch.tensor([False, True, True] * channels + [True, True, False])
    least = _LEAST_SHARE * torch.nan_to_num(statistics.nanmedian(0).values)
    level = torch.nan_to_num(statistics.abs()).mean(0).roll(1)  # that of a spread is the column before it
    least = torch.where(least > 0, least, _LEAST_SHARE * level.clamp_min(1.0))
    return torch.where(positive, least, 0.0)


def _nearest(z: Tensor, reference: Tensor, groups: Tensor, others: Tensor) -> Tensor:
    """Returns the mean distance (n,) to the three nearest reference series of other groups."""
    parts = []
    for part, group in zip(z.split(_CHUNK), groups.split(_CHUNK), strict=True):
        distance = torch.cdist(part, reference) / z.shape[1] ** 0.5
        distance = torch.where(group[:, None] == others, torch.inf, distance)
        nearest = distance.topk(min(_NEAREST, len(reference)), dim=1, largest=False).values
        finite = torch.isfinite(nearest)
        parts.append(torch.where(finite, nearest, 0.0).sum(1) / finite.sum(1).clamp_min(1))
    return torch.cat(parts)


def _beyond_others(z: Tensor, groups: Tensor) -> Tensor:
    """Returns how far (n,) each series lies beyond the range of the other groups, in the statistic farthest out."""
    _, inverse = groups.unique(return_inverse=True)
    count, columns = int(inverse.max()) + 1, z.shape[1]
    index = inverse[:, None].expand_as(z)
    beyond = torch.zeros_like(z)
    if count > 1:
        for sign in (1.0, -1.0):
            tops = torch.full((count, columns), -torch.inf, dtype=z.dtype).scatter_reduce(0, index, sign * z, "amax")
            two = tops.topk(2, dim=0)
            others = torch.where(index == two.indices[0], two.values[1], two.values[0])
            beyond = torch.maximum(beyond, sign * z - others)
    return beyond.amax(1)


if TYPE_CHECKING:
    from siggpde.committee.committee import LeftOutRecord, ViewCommittee

_WIDTH, _LEAST_WIDTH = 0.84, 1e-3
_ONE = 0.95  # the quantile of left-out series at which a standardised score is 1
_LEAST_SPREAD, _LEAST_VARIANCE = 1e-6, 1e-300
_RARE = 0.001
_FEWEST = 20  # training series, of a class or of all, that tell what is unusual
_OUTLIER = 2.0
_CAUTION = 4.0
_FEW = 70
_LEAST_TRUST = 1e-6
_ALARM = 1.25  # an alarm is at so many times H
_SAVED = {"statistics": "facts", "left_out_statistics": "left_out_facts"}  # the keys of all saved models


class Scores(NamedTuple):
    """The scores of n series, their parts from kernels and statistics, and the statistic farthest out, four (n,)."""

    score: Tensor
    kernel: Tensor
    statistics: Tensor
    statistic: Tensor

    def reasons(self, channels: Sequence[str], facts: Sequence[str] = ()) -> list[str]:
        """Returns what is unusual about each series: one of its statistics or facts, or its "shape", which kernels
        see."""
        names = [*statistic_names(channels), *facts]
        columns = zip(self.statistic.tolist(), self.statistics.tolist(), self.kernel.tolist(), strict=True)
        return [names[farthest] if of_all > of_kernel else "shape" for farthest, of_all, of_kernel in columns]


@dataclass(frozen=True)
class Novelty:
    """What is known of left-out series: medians c and widths d of log s for every member, (K,); log s (K, n), the
    scores of statistics and labels, (n,); from these follow the scores T (n,), about the largest of them, and H, the
    `limit` beyond which predictions are mixed with the class frequencies."""

    weights: Tensor
    centres: Tensor
    widths: Tensor
    middle: float
    upper: float
    statistics: StatisticScores
    left_out: Tensor
    left_out_statistics: Tensor
    labels: Tensor | None
    left_out_scores: Tensor = field(init=False)
    largest: float = field(init=False)
    limit: float = field(init=False)

    def __post_init__(self) -> None:
        scores = torch.maximum(self.kernel_score(self.left_out.double()), self.left_out_statistics)
        largest = float(scores.quantile(1 - _RARE)) if len(scores) * _RARE >= 1 else float(scores.max())
        largest = max(min(largest, _OUTLIER * float(scores.quantile(0.99))), 1.0)
        limit = (1 + _FEW / len(scores)) * largest
        vars(self).update(left_out_scores=scores, largest=largest, limit=limit)

    @staticmethod
    def fit(
        variances: Tensor,
        weights: Tensor,
        statistics: Tensor,
        labels: Tensor | None = None,
        groups: Tensor | None = None,
        facts: Sequence[float] = (),
    ) -> Novelty:
        """Learns from left-out series: variances s (K, n) of targets, statistics (n, F), the last of which are
        `facts` with these least units, labels and groups (n,)."""
        logs = _logs(variances)
        centres = logs.median(1).values
        widths = (logs.quantile(_WIDTH, dim=1) - centres).clamp_min(_LEAST_WIDTH)
        weights = weights.cpu().double()
        total = (weights / widths) @ (logs - centres[:, None])
        of_statistics, left_out = StatisticScores.fit(statistics.cpu().double(), groups, facts)
        middle, upper = float(total.median()), float(total.quantile(_ONE))
        labels = None if labels is None else labels.cpu().long()
        return Novelty(weights, centres, widths, middle, upper, of_statistics, logs.float(), left_out, labels)

    @staticmethod
    def of_some(
        most: int,
        weights: Tensor,
        statistics: Tensor,
        shard: Shard,
        variances: Callable[[Tensor], Tensor],
        y: Tensor | None,
    ) -> Novelty:
        """Learns from at most `most` training series, spread evenly over all ranks; `variances` returns (K, m) for the
        indices (m,) of series of this rank, which has `statistics` (n, F) and the classes y (n,)."""
        rows = shard.evenly_spaced(most)
        index = shard.local_index(rows)
        all_variances = shard.all_gather(rows, variances(index).T).T
        labels = None if y is None else shard.all_gather(rows, y[index])
        return Novelty.fit(all_variances, weights, shard.all_gather(rows, statistics[index]), labels)

    def scores(self, variances: Tensor, statistics: Tensor) -> Scores:
        """Returns the scores of n new series from statistics (n, F) and the variances (K, n) of their targets."""
        kernel = self.kernel_score(_logs(variances))
        of_statistics, statistic = self.statistics(statistics.cpu().double())
        return Scores(torch.maximum(kernel, of_statistics), kernel, of_statistics, statistic)

    def kernel_score(self, logs: Tensor) -> Tensor:
        """Returns the standardised t = sum of w_k (log s_k - c_k) / d_k, (...), from log s (K, ...)."""
        shape = (-1, *[1] * (logs.ndim - 1))
        total = ((self.weights / self.widths).view(shape) * (logs - self.centres.view(shape))).sum(0)
        return (total - self.middle) / max(self.upper - self.middle, _LEAST_SPREAD)

    @property
    def frequencies(self) -> Tensor:
        """The frequencies (classes,) of the classes among the left-out series."""
        assert self.labels is not None
        return self.labels.bincount().double() / len(self.labels)

    def p_values(self, score: Tensor, joined: Tensor | None = None, by_class: bool = False) -> Tensor:
        """Returns p (n,) of scores (n,), or by class (n, classes), NaN for classes of fewer than 20 series; `joined`
        (K, n, training series) are variances of training series with each of the new ones joined."""
        left_out = self.left_out_scores
        if joined is not None:
            left_out = torch.maximum(self.kernel_score(_logs(joined)), self.left_out_statistics)
        if not by_class:
            return _rank(left_out, score)
        assert self.labels is not None
        columns = []
        for label in range(int(self.labels.max()) + 1):
            members = self.labels == label
            p = _rank(left_out[..., members], score)
            columns.append(p if int(members.sum()) >= _FEWEST else torch.full_like(p, torch.nan))
        return torch.stack(columns, dim=1)

    def trust(self, score: Tensor) -> Tensor:
        """Returns rho = exp(-4 max(T - H, 0) / M), (n,): the share that the model's own prediction keeps."""
        return (-_CAUTION * (score - self.limit).clamp_min(0.0) / self.largest).exp()

    def mixed(self, chances: Tensor, score: Tensor, known: Tensor) -> Tensor:
        """Returns the probabilities (n, ...) of a model, mixed with those `known` without looking at the series, of
        which a little is always left, so that the order of classes is not lost where those `known` are equal."""
        trust = self.trust(score).clamp_min(_LEAST_TRUST).to(chances).view(-1, *[1] * (chances.ndim - 1))
        return trust * chances + (1 - trust) * known.to(chances)

    def alarms(self, score: Tensor) -> Tensor:
        """Returns which series (n,) deserve a warning; none where there are fewer than 20 training series."""
        far, n = score > _ALARM * self.limit, len(self.left_out_statistics)
        if n < _FEWEST or not bool(far.any()):
            return torch.zeros_like(far)
        return far & (self.p_values(score) <= max(_RARE, 1 / (n + 1)))

    def state(self) -> dict[str, Any]:
        state = {_SAVED.get(given.name, given.name): getattr(self, given.name) for given in fields(self) if given.init}
        return state | {_SAVED["statistics"]: self.statistics.state()}

    @staticmethod
    def from_state(state: Mapping[str, Any]) -> Novelty:
        given = {
            name: state[_SAVED.get(name, name)] for name in (given.name for given in fields(Novelty) if given.init)
        }
        return Novelty(**{**given, "statistics": StatisticScores(**given["statistics"])})


def _logs(variances: Tensor) -> Tensor:
    return variances.cpu().double().clamp_min(_LEAST_VARIANCE).log()


def _rank(left_out: Tensor, score: Tensor) -> Tensor:
    """Returns the p-values (m,) of scores (m,) among those of left-out series, (n,) for all or (m, n)."""
    n = left_out.shape[-1]
    ordered = left_out.sort(dim=-1).values
    below = torch.searchsorted(ordered, score[:, None] if left_out.ndim > 1 else score)
    return (1 + n - below.view(-1).double()) / (n + 1)


@torch.no_grad()
def joined_variances(committee: ViewCommittee, rows: dict[str, Rows]) -> Tensor:
    """Returns the variances (K, n, m) of the targets of the m landmarks after each of n new series has joined them, all
    with the noise of a series of weight 1; `rows` are those of the new series."""
    record = committee.left_out
    assert record is not None and record.exact
    members = enumerate(committee.members)
    return torch.stack([_joined(member.regression, member.mixed(rows), record, index) for index, member in members])


def _joined(regression: Regression, rows: Rows, record: LeftOutRecord, number: int) -> Tensor:
    assert regression.counts is not None
    noise, amplitude = regression.noise, regression.amplitude
    root = regression.root.to(rows.gram)
    projected = rows.gram @ root
    s = (rows.variance - projected.square().sum(1)).clamp_min(0.0) + noise
    noises = noise / regression.counts
    inverse = 1 / (record.variances[number] / amplitude + noises)  # Q_ii
    joined = 1 / (inverse + (projected @ root.T).square() / s[:, None])
    return amplitude * ((joined - noises).clamp_min(0.0) + noise)


def variances_without(regression: Regression, rows: Tensor) -> Tensor:
    """Returns the variances (n,) of the targets of the n landmarks, with the noise of a series of weight 1, without the
    landmarks at `rows` (n, k), of which the first is the landmark itself: with Q in blocks, ((Q_rows)^-1)_00."""
    assert regression.counts is not None
    counts, noise = regression.counts, regression.noise
    root = regression.root.double() / counts.sqrt()[:, None]
    vectors = root / root.square().sum(0).sqrt()
    factor, vectors = root[rows], vectors[rows]
    eye = torch.eye(rows.shape[1], dtype=root.dtype, device=root.device)
    # The root leaves out directions in which the kernel tells less than the noise.
    blocks = factor @ factor.mT + (eye - vectors @ vectors.mT) / noise
    variance = torch.linalg.inv(blocks)[:, 0, 0]
    return regression.amplitude * (((variance - noise) / counts).clamp_min(0.0) + noise)


class NoveltyWarning(UserWarning):
    """Series to be predicted are unlike all training series."""


@dataclass(frozen=True)
class SeriesNovelty:
    """P-values `p` (n,), and what is unusual about each series that is `unlike` all training series, else None."""

    p: np.ndarray
    unlike: list[str | None]

    @staticmethod
    def of(novelty: Novelty, scores: Scores, channels: Sequence[str], facts: Sequence[str] = ()) -> SeriesNovelty:
        """Returns the novelty of the series with these scores."""
        alarms = novelty.alarms(scores.score).tolist()
        reasons = scores.reasons(channels, facts) if any(alarms) else [None] * len(alarms)
        unlike = [reason if alarm else None for reason, alarm in zip(reasons, alarms, strict=True)]
        return SeriesNovelty(novelty.p_values(scores.score).numpy(), unlike)


def unlike_line(total: int, first: Any, reasons: Mapping[str, int]) -> str:
    """Returns the warning that some of `total` series are unlike all training series; `reasons` counts them by reason.

    Examples
    --------
    >>> unlike_line(10, 3, {"length": 2, "shape": 1})[46:]
    '(first: series 3; length is unusual in 2 of them); their predictions tell little'
    """
    count = sum(reasons.values())
    commonest = max(sorted(reasons), key=lambda reason: reasons[reason])
    share = "all of them" if reasons[commonest] == count else f"{reasons[commonest]} of them"
    return (
        f"{count} of {total} series {'is' if count == 1 else 'are'} unlike all training series "
        f"(first: series {first}; {commonest} is unusual in {share}); their predictions tell little"
    )


def warn_of_novelty(unlike: Sequence[str | None]) -> None:
    """Gives one warning for the series with a reason in `unlike`, if any: how many, and the commonest reason."""
    reasons = Counter(reason for reason in unlike if reason is not None)
    if not reasons:
        return
    first = next(number for number, reason in enumerate(unlike) if reason is not None)
    warnings.warn(unlike_line(len(unlike), first, reasons), NoveltyWarning, stacklevel=callers_level())


def callers_level() -> int:
    """Returns the `stacklevel` with which a warning of the calling function names the first line outside of siggpde."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("siggpde."):
        frame, level = frame.f_back, level + 1
    return level
