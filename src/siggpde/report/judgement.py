r"""Predictions beside true answers, of new series or of left-out training series, and the metrics that follow.

The intervals of metrics are those of the bootstrap. Series are drawn with replacement, or whole groups where there are
groups: resample b gives series i the count :math:`w_{bi}`, and every metric is a function of such counts, so that all
resamples are computed at once. The interval is that between the 2.5 % and the 97.5 % quantile over the resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from siggpde.committee.averaging import AveragedMembers, Judged
from siggpde.committee.conformal_scores import scored_folds
from siggpde.committee.left_out_record import LeftOutRecord
from siggpde.committee.mixture import NormalMixture
from siggpde.committee.novelty import Scores
from siggpde.committee.predictions import class_probabilities, log_likelihoods, numbers
from siggpde.committee.view_committee import ViewCommittee
from siggpde.committee.weight_space import WeightCommittee
from siggpde.report.content import ClassJudgement, NumberJudgement
from siggpde.series import SeriesBatch

LEVELS = (0.025, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.975)
"""Quantiles of numbers: tenths, and the ends of intervals of 50, 80, 90 and 95 %."""


class Predicted(NamedTuple):
    """Of n series: `p` (n, C) of classes, or `mean`, `std` (n,) and `quantiles` (n, L) of numbers; novelty scores."""

    p: np.ndarray | None
    mean: np.ndarray | None
    std: np.ndarray | None
    quantiles: np.ndarray | None
    scores: Scores | None

    def doubt(self) -> np.ndarray:
        """How unsure every prediction is (n,): the entropy of classes, the standard deviation of numbers."""
        if self.p is None:
            assert self.std is not None
            return self.std
        return -(self.p * np.log(np.maximum(self.p, 1e-300))).sum(axis=1)


def predict(estimator: Any, batch: SeriesBatch) -> Predicted:
    """Everything that a report shows of predictions, of one look at the series."""
    committee = estimator.committee_
    if hasattr(estimator, "classes_"):
        p, _, scores = class_probabilities(committee, batch, False)
        return Predicted(p, None, None, None, scores)
    (moments, values), scores = numbers(committee, batch, ("mean_and_variance",), ("quantiles", list(LEVELS)))
    mean, std = estimator._in_units(*moments)
    quantiles = (estimator.target_shift_ + estimator.target_scale_ * values).cpu().numpy()
    return Predicted(None, mean, std, quantiles, scores)


def judge_new(
    estimator: Any, batch: SeriesBatch, y: Tensor, predicted: Predicted, groups: np.ndarray | None
) -> ClassJudgement | NumberJudgement:
    """The judgement of predictions of series that the model was not fitted to; y as the committee has targets."""
    rows = np.arange(len(batch))
    if predicted.p is not None:
        truth = y.numpy().astype(int)
        with np.errstate(divide="ignore"):
            loss = -np.log(predicted.p[rows, truth]) + 0.0
        if not np.isfinite(loss).all():  # a probability too small for a number has a logarithm all the same
            loss = -log_likelihoods(estimator.committee_, batch, y)
        return ClassJudgement(estimator.classes_.tolist(), truth, predicted.p, loss, rows, False, groups)
    assert predicted.mean is not None and predicted.std is not None and predicted.quantiles is not None
    density = log_likelihoods(estimator.committee_, batch, y) - np.log(estimator.target_scale_)
    target = (estimator.target_shift_ + estimator.target_scale_ * y).numpy()
    levels = np.array(LEVELS)
    return NumberJudgement(
        target, predicted.mean, predicted.std, -density, levels, predicted.quantiles, rows, False, groups
    )


@torch.no_grad()
def judge_left_out(
    estimator: Any, batch: SeriesBatch, y: Tensor, groups: np.ndarray | None
) -> ClassJudgement | NumberJudgement | None:
    """The judgement of training series, each (or each group) as the others predict it; None where a model does not know
    that. Classes are judged by links that were fitted to other series (`committee.conformal_scores`)."""
    committee = estimator.committee_
    record = getattr(committee, "left_out", None)
    if record is None or not isinstance(committee, ViewCommittee | WeightCommittee):
        return None
    rows = _rows(committee, record, batch, y)
    if rows is None:
        groups = None if record.groups is None else record.groups.cpu().numpy().astype(str)
    elif groups is not None:
        groups = groups[rows]
    if committee.link is not None:
        p = np.empty((len(record.y), len(estimator.classes_)))
        for fold in scored_folds(committee, record, False):
            chances = fold.link.probabilities(record.mean[fold.rows], record.variance[fold.rows])
            p[fold.rows.cpu().numpy()] = (chances / chances.sum(1, keepdim=True)).cpu().numpy()
        truth = record.y.cpu().numpy().astype(int)
        loss = -np.log(p[np.arange(len(p)), truth])
        return ClassJudgement(estimator.classes_.tolist(), truth, p, loss, rows, True, groups)
    mixture = _mixture(committee, record)
    mean, std = estimator._in_units(*mixture.mean_and_variance())
    shift, scale = estimator.target_shift_, estimator.target_scale_
    quantiles = (shift + scale * mixture.quantiles(list(LEVELS))).cpu().numpy()
    loss = -(mixture.log_density(record.y).cpu().numpy() - np.log(scale))
    target = (shift + scale * record.y.double()).cpu().numpy()
    return NumberJudgement(target, mean, std, loss, np.array(LEVELS), quantiles, rows, True, groups)


def _mixture(committee: AveragedMembers, record: LeftOutRecord) -> NormalMixture:
    """The distributions of left-out numbers: of every member where these are kept, else one normal distribution."""
    if record.means is not None:
        judged = Judged(record.means.double(), record.variances, None)
        return committee.mixture(SeriesBatch(record.y[:, None, None]), judged)
    noise = committee.target_variances(torch.zeros_like(record.variances))
    total = record.variance + (committee.weights.to(noise)[:, None] * noise).sum(0)
    one = torch.ones(1, dtype=total.dtype, device=total.device)
    return NormalMixture(record.mean[:, 0][None], total[None], one, committee.recalibration)


def _rows(committee: Any, record: LeftOutRecord, batch: SeriesBatch, y: Tensor) -> np.ndarray | None:
    """Which series of the batch those of the record are, (n,); None where the model does not keep them all."""
    if not isinstance(committee, ViewCommittee) or not record.exact or len(record.y) != len(batch):
        return None
    places: dict[bytes, list[int]] = {}
    for index, one in enumerate(committee.standard(batch).values.cpu().numpy()):
        places.setdefault(one.tobytes(), []).append(index)
    found = []
    for one in committee.landmarks.values.cpu().numpy():
        same = places.get(one.tobytes())
        if not same:
            return None
        found.append(same.pop(0))
    rows = np.array(found)
    return rows if torch.equal(y[rows].to(record.y.dtype), record.y.cpu()) else None


RESAMPLES = 1000
LEVEL = 0.95
_BLOCK = 2**22  # counts held at a time
_BINS = 15

Figures = dict[str, np.ndarray]


class Interval(NamedTuple):
    """A metric, and the ends of its interval."""

    value: float
    low: float
    high: float


def intervals(
    measure: Callable[[np.ndarray], Figures], n: int, groups: np.ndarray | None = None, seed: int = 0
) -> dict[str, Interval]:
    """Of every metric that `measure` makes of counts (B, n): its value for all series, and its interval."""
    whole = measure(np.ones((1, n)))
    parts = [measure(counts) for counts in _resamples(n, groups, seed)]
    found = {}
    for name, value in whole.items():
        drawn = np.concatenate([part[name] for part in parts])
        drawn = drawn[np.isfinite(drawn)]
        tail = (1 - LEVEL) / 2
        low, high = np.quantile(drawn, [tail, 1 - tail]) if len(drawn) else (np.nan, np.nan)
        found[name] = Interval(float(value[0]), float(low), float(high))
    return found


def class_figures(judged: ClassJudgement) -> Callable[[np.ndarray], Figures]:
    """Accuracy, its mean over classes, NLPP, Brier score, calibration error and F1, for counts (B, n)."""
    truth, p, loss = judged.truth, judged.p, judged.loss
    n, classes = p.shape
    predicted, top = p.argmax(axis=1), p.max(axis=1)
    right = (predicted == truth).astype(float)
    brier = np.square(p).sum(axis=1) - 2 * p[np.arange(n), truth] + 1
    bins = np.searchsorted(np.linspace(0, 1, _BINS + 1)[1:-1], top, side="left")

    def measure(counts: np.ndarray) -> Figures:
        total = counts.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            gaps = np.abs(_sums(counts * (top - right), bins, _BINS)).sum(axis=1) / total
            hits = _sums(counts * right, truth, classes)
            occurs, called = _sums(counts, truth, classes), _sums(counts, predicted, classes)
            recall = np.where(occurs > 0, hits / occurs, np.nan)
            either = occurs + called
            f1 = np.where(either > 0, 2 * hits / either, np.nan)
        return {
            "accuracy": counts @ right / total,
            "balanced_accuracy": np.nanmean(recall, axis=1),
            "nlpp": counts @ loss / total,
            "brier": counts @ brier / total,
            "ece": gaps,
            "f1": np.nanmean(f1, axis=1),
        }

    return measure


def number_figures(judged: NumberJudgement, low: np.ndarray, high: np.ndarray) -> Callable[[np.ndarray], Figures]:
    """RMSE, MAE, R², NLPD and how often intervals from `low` to `high` (n,) hold y, for counts (B, n)."""
    y, error = judged.y, judged.mean - judged.y
    inside = ((low <= y) & (y <= high)).astype(float)

    def measure(counts: np.ndarray) -> Figures:
        total = counts.sum(axis=1)
        square = counts @ np.square(error) / total
        centre = counts @ y / total
        spread = counts @ np.square(y - y.mean()) / total - np.square(centre - y.mean())
        with np.errstate(divide="ignore", invalid="ignore"):
            r2 = np.where(spread > 0, 1 - square / spread, np.nan)
        return {
            "rmse": np.sqrt(square),
            "mae": counts @ np.abs(error) / total,
            "r2": r2,
            "nlpd": counts @ judged.loss / total,
            "coverage": counts @ inside / total,
            "width": counts @ (high - low) / total,
        }

    return measure


def _resamples(n: int, groups: np.ndarray | None, seed: int) -> Iterator[np.ndarray]:
    """Counts (b, n) of all resamples, some at a time."""
    generator = np.random.default_rng(seed)
    _, member = np.unique(np.arange(n) if groups is None else groups, return_inverse=True)
    units = int(member.max()) + 1
    size = max(1, _BLOCK // n)
    for start in range(0, RESAMPLES, size):
        drawn = generator.multinomial(units, np.full(units, 1 / units), size=min(size, RESAMPLES - start))
        yield drawn[:, member].astype(float)


def _sums(values: np.ndarray, index: np.ndarray, size: int) -> np.ndarray:
    """(B, size): the sums of values (B, n) over the columns with each index (n,)."""
    order = np.argsort(index, kind="stable")
    present, starts = np.unique(index[order], return_index=True)
    total = np.zeros((len(values), size))
    total[:, present] = np.add.reduceat(values[:, order], starts, axis=1)
    return total
