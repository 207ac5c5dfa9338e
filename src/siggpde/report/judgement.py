"""Predictions beside true answers, and metrics as functions of counts (B, n): how often each series is drawn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from siggpde.plots.classification import wilson_interval
from siggpde.report.wording import number, percent

RESAMPLES = 1000
LEVEL = 0.95
INTERVAL = 0.9
"""The level of the intervals of numbers that are judged."""
_BLOCK = 2**22  # counts held at a time
_BINS = 15
_METRICS = {  # name, whether it is a share, and what it means
    "accuracy": ("accuracy", True, "share of series whose most probable class is the true one"),
    "balanced_accuracy": ("balanced accuracy", True, "the same, every class counting alike, however rare it is"),
    "nlpp": ("NLPP", False, "mean surprise, −log of the probability of the true class; 0 is best"),
    "brier": ("Brier score", False, "mean squared distance of probabilities from the truth; 0 is best, 2 the worst"),
    "ece": ("calibration error", True, "how far probabilities are from how often they are right (ECE)"),
    "f1": ("F1", True, "balance of false alarms and misses, mean over classes"),
    "rmse": ("RMSE", False, "typical error, in the units of the number; large errors count more"),
    "mae": ("mean absolute error", False, "mean error, in the units of the number"),
    "r2": ("R²", False, "share of the variance that is explained; 1 is best, 0 is no better than the mean"),
    "nlpd": ("NLPD", False, "mean surprise, −log of the predicted density at the true number; smaller is better"),
    "coverage": ("coverage of 90 % intervals", True, "how often intervals that should hold 90 % hold the true number"),
    "width": ("mean width of 90 % intervals", False, "in the units of the number; narrow is good if coverage is right"),
}

Figures = dict[str, np.ndarray]


@dataclass(frozen=True)
class ClassJudgement:
    """Classes `truth` (n,), probabilities `p` (n, C), -log p(true), their `rows` in the report, groups; or left out."""

    classes: list[Any]
    truth: np.ndarray
    p: np.ndarray
    loss: np.ndarray
    rows: np.ndarray | None
    left_out: bool
    groups: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.truth)

    @property
    def labels(self) -> list[Any]:
        """The true labels (n,)."""
        return [self.classes[index] for index in self.truth]

    @property
    def right(self) -> np.ndarray:
        """Whether the most probable class is the true one (n,)."""
        return self.p.argmax(axis=1) == self.truth

    @property
    def most_frequent(self) -> float:
        return float(np.bincount(self.truth).max() / len(self.truth))

    @property
    def doubt(self) -> np.ndarray:
        """How unsure every prediction is (n,): its entropy."""
        return entropy(self.p)

    def figures(self, counts: np.ndarray) -> Figures:
        """Returns accuracy, its mean over classes, NLPP, Brier score, calibration error and F1 for counts (B, n)."""
        p, truth, predicted, top = self.p, self.truth, self.p.argmax(axis=1), self.p.max(axis=1)
        (n, classes), right, total = p.shape, self.right.astype(float), counts.sum(axis=1)
        brier = np.square(p).sum(axis=1) - 2 * p[np.arange(n), truth] + 1
        bins = np.searchsorted(np.linspace(0, 1, _BINS + 1)[1:-1], top, side="left")
        hits, occurs = _sums(counts * right, truth, classes), _sums(counts, truth, classes)
        named = occurs + _sums(counts, predicted, classes)
        with np.errstate(divide="ignore", invalid="ignore"):
            recall = np.where(occurs > 0, hits / occurs, np.nan)
            f1 = np.where(named > 0, 2 * hits / named, np.nan)
        return {
            "accuracy": counts @ right / total,
            "balanced_accuracy": np.nanmean(recall, axis=1),
            "nlpp": counts @ self.loss / total,
            "brier": counts @ brier / total,
            "ece": np.abs(_sums(counts * (top - right), bins, _BINS)).sum(axis=1) / total,
            "f1": np.nanmean(f1, axis=1),
        }


@dataclass(frozen=True)
class NumberJudgement:
    """Predictions beside true numbers `y` (n,): mean, std, loss -log p(y) (n,), and `quantiles` (n, L) at `levels`."""

    y: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    loss: np.ndarray
    levels: np.ndarray
    quantiles: np.ndarray
    rows: np.ndarray | None
    left_out: bool
    groups: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def doubt(self) -> np.ndarray:
        """How unsure every prediction is (n,): its standard deviation."""
        return self.std

    @property
    def rmse(self) -> float:
        return float(np.sqrt(np.square(self.mean - self.y).mean()))

    def at(self, levels: np.ndarray | tuple[float, ...]) -> np.ndarray:
        """Returns the quantiles (n, k) at some (k,) of the levels."""
        return self.quantiles[:, [int(np.abs(self.levels - level).argmin()) for level in levels]]

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns the lower and upper ends (n,) of central intervals."""
        low, high = self.at(((1 - level) / 2, (1 + level) / 2)).T
        return low, high

    def coverage(self, level: float) -> tuple[float, float]:
        """Returns how often intervals hold the true number, and their mean width."""
        low, high = self.interval(level)
        return float(((low <= self.y) & (self.y <= high)).mean()), float((high - low).mean())

    def figures(self, counts: np.ndarray) -> Figures:
        """Returns RMSE, MAE, R², NLPD, coverage and mean width of 90 % intervals for counts (B, n)."""
        y, error, total, (low, high) = self.y, self.mean - self.y, counts.sum(axis=1), self.interval(INTERVAL)
        square, centre = counts @ np.square(error) / total, counts @ y / total
        spread = counts @ np.square(y - y.mean()) / total - np.square(centre - y.mean())
        with np.errstate(divide="ignore", invalid="ignore"):
            r2 = np.where(spread > 0, 1 - square / spread, np.nan)
        return {
            "rmse": np.sqrt(square),
            "mae": counts @ np.abs(error) / total,
            "r2": r2,
            "nlpd": counts @ self.loss / total,
            "coverage": counts @ ((low <= y) & (y <= high)).astype(float) / total,
            "width": counts @ (high - low) / total,
        }


Judgement = ClassJudgement | NumberJudgement


def entropy(p: np.ndarray) -> np.ndarray:
    """Returns the entropy (n,) of probabilities (n, C)."""
    return -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)


class Interval(NamedTuple):
    """A metric, and the ends of its interval."""

    value: float
    low: float
    high: float


class Metric(NamedTuple):
    """A metric in words: its name, value and interval, and what it means."""

    name: str
    value: str
    interval: str
    meaning: str


def metrics(judgement: Judgement | None, seed: int) -> dict[str, Metric]:
    """Returns the metrics of a judgement with their intervals, by their keys."""
    shown = {}
    ends = {} if judgement is None else intervals(judgement.figures, len(judgement), judgement.groups, seed)
    for key, (value, low, high) in ends.items():
        name, share, meaning = _METRICS[key]
        write = percent if share else number
        shown[key] = Metric(name, write(value), f"{write(low)} to {write(high)}", meaning)
    return shown


def intervals(
    measure: Callable[[np.ndarray], Figures], n: int, groups: np.ndarray | None = None, seed: int = 0
) -> dict[str, Interval]:
    """Returns the value of every metric for all series, and its interval; `measure` makes metrics of counts (B, n)."""
    whole = measure(np.ones((1, n)))
    resampled = [measure(counts) for counts in _resamples(n, groups, seed)]
    ends = {}
    for name, value in whole.items():
        values = np.concatenate([part[name] for part in resampled])
        values = values[np.isfinite(values)]
        low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if len(values) else (np.nan, np.nan)
        ends[name] = Interval(float(value[0]), float(low), float(high))
    return ends


def _resamples(n: int, groups: np.ndarray | None, seed: int) -> Iterator[np.ndarray]:
    """Counts (b, n) of all resamples, some at a time."""
    generator = np.random.default_rng(seed)
    _, member = np.unique(np.arange(n) if groups is None else groups, return_inverse=True)
    units = int(member.max()) + 1
    size = max(1, _BLOCK // n)
    for start in range(0, RESAMPLES, size):
        counts = generator.multinomial(units, np.full(units, 1 / units), size=min(size, RESAMPLES - start))
        yield counts[:, member].astype(float)


def _sums(values: np.ndarray, index: np.ndarray, size: int) -> np.ndarray:
    """Returns the sums (B, size) of values (B, n) over the columns with each index (n,)."""
    order = np.argsort(index, kind="stable")
    present, starts = np.unique(index[order], return_index=True)
    total = np.zeros((len(values), size))
    total[:, present] = np.add.reduceat(values[:, order], starts, axis=1)
    return total


class Part(NamedTuple):
    """One class or group: how many series it has, and the share that is right (or the error) with its interval."""

    name: str
    series: int
    value: float
    low: float
    high: float


def parts(judgement: Judgement, by_group: bool) -> list[Part]:
    """How well every class, or group, is predicted, worst first: shares that are right with intervals, or errors."""
    if by_group:
        assert judgement.groups is not None
        names, member = np.unique(judgement.groups, return_inverse=True)
    else:
        assert isinstance(judgement, ClassJudgement)
        names, member = np.array(judgement.classes, dtype=object), judgement.truth
    count = np.bincount(member, minlength=len(names))
    present = np.flatnonzero(count)
    if isinstance(judgement, ClassJudgement):
        value = np.bincount(member, judgement.right, minlength=len(names))[present] / count[present]
        low, high = wilson_interval(value, count[present], LEVEL)
        if judgement.groups is not None and not by_group:
            right, resamples = judgement.right, _resamples(len(judgement), judgement.groups, 0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of classes that are never drawn
                drawn = [_sums(one * right, member, len(names)) / _sums(one, member, len(names)) for one in resamples]
                ends = np.nanquantile(np.concatenate(drawn), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
            low, high = ends[:, present]
        order = np.argsort(value, kind="stable")
    else:
        value = np.sqrt(np.bincount(member, np.square(judgement.mean - judgement.y)) / count)
        low, high, order = value, value, np.argsort(-value, kind="stable")
    return [
        Part(str(names[present[i]]), int(count[present[i]]), float(value[i]), float(low[i]), float(high[i]))
        for i in order
    ]


def mistakes(judgement: ClassJudgement, most: int = 10) -> list[tuple[Any, Any, int]]:
    """Returns the most frequent mistakes: the true class, what it was taken for, and how often."""
    wrong = np.flatnonzero(~judgement.right)
    pairs = np.stack([judgement.truth[wrong], judgement.p[wrong].argmax(axis=1)], axis=1)
    pairs, times = np.unique(pairs, axis=0, return_counts=True)
    order = np.argsort(-times, kind="stable")[:most]
    return [(judgement.classes[pairs[i, 0]], judgement.classes[pairs[i, 1]], int(times[i])) for i in order]
