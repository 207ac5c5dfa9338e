r"""Confidence intervals of metrics by the bootstrap.

Series are drawn with replacement, or whole groups where there are groups: resample b gives series i the count
:math:`w_{bi}`, and every metric is a function of such counts, so that all resamples are computed at once. The interval
is that between the 2.5 % and the 97.5 % quantile over the resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from siggpde.report.content import ClassJudgement, NumberJudgement

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
