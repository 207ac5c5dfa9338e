r"""The reliability diagram: how often the most probable class is right, by its probability.

Bins hold about as many series each, so that no point stands on a handful of them. Of a bin with k of n right, the error
bar is Wilson's interval with z the normal quantile of its level,

.. math:: \frac{k + z^2 / 2 \pm z \sqrt{k (n - k) / n + z^2 / 4}}{n + z^2},

which stays between 0 and 1 and has a width where all or none are right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from siggpde.metrics.inputs import checked_classes
from siggpde.plots.axes import axes_or_new, finish, letters
from siggpde.plots.inputs import check_level
from siggpde.plots.palette import BLUE, GREY, SKY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEWEST, _MOST, _SERIES = 3, 10, 20  # bins without `bins`: at least, at most, and series in each
_HISTOGRAM_BINS = 20


@dataclass(frozen=True)
class EqualBins:
    """Of bins of about as many series each, three (bins,): series, their mean probability, the share that is right."""

    count: np.ndarray
    probability: np.ndarray
    right: np.ndarray


def equal_count_bins(probability: np.ndarray, right: np.ndarray, bins: int) -> EqualBins:
    """At most `bins` bins of series with `probability` (n,) of what is `right` (n,), bools.

    Series with the same probability are in one bin; there are fewer bins where many have.
    """
    order = np.argsort(probability, kind="stable")
    ordered = probability[order]
    ends = np.round(np.linspace(0, len(ordered), min(bins, len(ordered)) + 1)[1:]).astype(int)
    ends = np.unique(np.searchsorted(ordered, ordered[ends - 1], side="right"))
    starts = np.concatenate([[0], ends[:-1]])
    count = ends - starts
    return EqualBins(
        count, np.add.reduceat(ordered, starts) / count, np.add.reduceat(right[order].astype(float), starts) / count
    )


def wilson_interval(right: np.ndarray, count: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The ends of Wilson's intervals, two (bins,), for shares `right` of `count` series.

    Examples:
        >>> low, high = wilson_interval(np.array([1.0]), np.array([10]), 0.95)
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([0.722], [1.0])
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    middle, total = right * count + z**2 / 2, count + z**2
    half = z * np.sqrt(count * right * (1 - right) + z**2 / 4)
    # The share itself is inside; rounding may not put it outside where all or none are right.
    return np.minimum((middle - half) / total, right), np.maximum((middle + half) / total, right)


def plot_calibration(
    y: ArrayLike,
    probabilities: ArrayLike,
    classes: ArrayLike,
    ax: Axes | None = None,
    *,
    bins: int | None = None,
    level: float = 0.95,
) -> Axes:
    """How often the most probable class is right, against its probability; on the diagonal probabilities are honest.

    Arguments as for `classification_metrics`: labels y (n,), `probabilities` (n, C), columns in the order of `classes`
    (C,). `bins` hold about as many series each, 20 or more of up to ten bins without it; error bars are Wilson's at
    `level`. The histogram above has all probabilities of predicted classes.
    """
    truth, p, _ = checked_classes(y, probabilities, classes)
    if bins is not None and (not isinstance(bins, int) or bins < 1):
        raise ValueError(f"bins must be a whole number of at least 1, got {bins!r}")
    check_level(level)
    top, right = p.max(axis=1), p.argmax(axis=1) == truth
    found = equal_count_bins(top, right, bins or min(_MOST, max(_FEWEST, len(top) // _SERIES)))
    low, high = wilson_interval(found.right, found.count, level)
    ax = axes_or_new(ax, width=4.8, height=5.0)
    start = min(0.9, math.floor(10 * min(top.min(), low.min()) + 1e-9) / 10)
    ax.plot([start, 1], [start, 1], color=GREY, linestyle="--", linewidth=1, zorder=1, label="honest")
    ax.errorbar(
        found.probability,
        found.right,
        yerr=np.stack([found.right - low, high - found.right]),
        color=BLUE,
        fmt="o",
        markersize=4,
        linewidth=1,
        elinewidth=1,
        capsize=2,
        zorder=3,
        clip_on=False,
        label=f"right, with {level:.0%} interval",
    )
    margin = 0.015 * (1 - start)
    ax.set(xlim=(start, 1 + margin), ylim=(start, 1 + margin))
    ax.set(xlabel="probability of the predicted class", ylabel="share that is right")
    ax.set_aspect("equal")
    ax.locator_params(nbins=6)
    ax.legend(frameon=False, loc="upper left", handlelength=1.5, borderaxespad=0.2)
    _histogram(ax, top, start)
    return finish(ax)


def _histogram(ax: Axes, top: np.ndarray, start: float) -> None:
    """A strip above the plot with the probabilities (n,), which says how many series there are."""
    strip = ax.inset_axes((0, 1.03, 1, 0.16))
    strip.hist(top, bins=np.linspace(start, 1, _HISTOGRAM_BINS + 1).tolist(), color=SKY)
    strip.set_xlim(*ax.get_xlim())
    strip.set(xticks=[], yticks=[])
    strip.spines[["top", "right", "left"]].set_visible(False)
    strip.text(0.01, 0.9, f"{len(top)} series", transform=strip.transAxes, va="top", size=letters(ax) - 0.5)
