"""Plots of class probabilities: reliability, confusion, and risk against coverage; where half of the probabilities are
close to 1, axes are a(p) = -arsinh((1 - p) / w), w = 0.01, so that 1 has a place."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from siggpde.metrics import ClassificationMetrics, risk_coverage
from siggpde.metrics.classification import checked_classes
from siggpde.plots import style
from siggpde.plots.inputs import check_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEWEST, _MOST, _SERIES = 3, 10, 20  # bins without `bins`: at least, at most, and series in each
_HISTOGRAM_BINS = 20
_STRIP = (1.03, 0.2)  # where the histogram begins and how high it is, 1 being the height of the plot
_SURE = 0.95  # a median above it crowds the bins at 1
_WIDTH = 0.01  # w
_TOUCH = 0.025  # of an axis: the width of a point
_SURE_TICKS = (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
_NEXT_TICK = 0.35  # on the axis a(p), at least, from the first tick to the next
_FEW_CLASSES = 10  # zeros of more classes hide the rest
_SMALLEST = 4.5  # points of letters that can be read
_SLANTED = 1.4  # of the height of letters: columns that are narrower have no room for slanted names
_LABELS = 3.5  # letters of width for the label of an axis and its ticks
_NAMES = 0.25  # of the width, at most, for names of classes
_LEAST_AREA = 1e-3


@dataclass(frozen=True)
class EqualBins:
    """Bins of about equally many series: their number, mean probability and share that is right, three (bins,)."""

    count: np.ndarray
    probability: np.ndarray
    right: np.ndarray


def equal_count_bins(probability: np.ndarray, right: np.ndarray, bins: int) -> EqualBins:
    """At most `bins` bins of series with `probability` (n,) of what is `right` (n,); equal ones share a bin."""
    order = np.argsort(probability, kind="stable")
    ordered = probability[order]
    ends = np.round(np.linspace(0, len(ordered), min(bins, len(ordered)) + 1)[1:]).astype(int)
    ends = np.unique(np.searchsorted(ordered, ordered[ends - 1], side="right"))
    starts = np.concatenate([[0], ends[:-1]])
    count = ends - starts
    probability, share = (np.add.reduceat(part, starts) / count for part in (ordered, right[order].astype(float)))
    return EqualBins(count, probability, share)


def wilson_interval(right: np.ndarray, count: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The ends of Wilson's intervals, two (bins,), for shares `right` of `count` series."""
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
    """Draws how often the most probable class is right against its probability; the diagonal is honest.

    The histogram above has all probabilities of predicted classes. Where more than half of them are above 0.95 the
    axes are stretched towards 1.

    Parameters
    ----------
    y : array-like (n,)
        The true labels.
    probabilities : array-like (n, C)
        Columns in the order of `classes`.
    classes : array-like (C,)
        The labels.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; those of a new figure without them.
    bins : int, optional
        How many bins hold about as many series each; without it up to ten of 20 or more, which are put together where
        their points would lie on one another.
    level : float
        That of the error bars, Wilson's intervals.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> plot_calibration(["a", "b"], [[0.9, 0.1], [0.4, 0.6]], ["a", "b"])
    <Axes: xlabel='probability of the predicted class', ylabel='share that is right'>
    """
    truth, p, _ = checked_classes(y, probabilities, classes)
    if bins is not None and (not isinstance(bins, int) or bins < 1):
        raise ValueError(f"bins must be a whole number of at least 1, got {bins!r}")
    check_level(level)
    top, right = p.max(axis=1), p.argmax(axis=1) == truth
    start, stretched = _first(top), float(np.median(top)) > _SURE
    groups = equal_count_bins(top, right, bins or min(_MOST, max(_FEWEST, len(top) // _SERIES)))
    if bins is None:
        groups = _apart(groups, _on_axis if stretched else np.asarray)
    low, high = wilson_interval(groups.right, groups.count, level)
    ax = style.axes_or_new(ax, width=4.8, height=5.0)
    start = min(start, _first(low))
    ax.plot([start, 1], [start, 1], color=style.GREY, linestyle="--", linewidth=1, zorder=1, label="honest")
    ends, label = np.stack([groups.right - low, high - groups.right]), f"right, with {level:.0%} interval"
    points: dict[str, Any] = {"fmt": "o", "markersize": 4, "linewidth": 1, "elinewidth": 1, "capsize": 2, "zorder": 3}
    ax.errorbar(groups.probability, groups.right, ends, color=style.BLUE, clip_on=False, label=label, **points)
    if stretched:
        first = float(_on_axis(np.array(start)))
        ticks = [start, *(tick for tick in _SURE_TICKS if float(_on_axis(np.array(tick))) - first > _NEXT_TICK)]
        ax.set_xscale("function", functions=(_on_axis, _from_axis))
        ax.set_yscale("function", functions=(_on_axis, _from_axis))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_minor_locator(style.require_matplotlib("ticker").NullLocator())
            axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    else:
        ax.locator_params(nbins=6)
    margin = float(_from_axis(np.array(-0.015 * _on_axis(np.array(start))))) - 1 if stretched else 0.015 * (1 - start)
    ax.set(xlim=(start, 1 + margin), ylim=(start, 1 + margin))
    ax.set(xlabel="probability of the predicted class", ylabel="share that is right")
    ax.set_box_aspect(1)
    _histogram(ax, top, start, stretched)
    style.legend_above(ax, above=sum(_STRIP) + 0.01)
    return style.finish(ax)


def _first(p: np.ndarray) -> float:
    """The tenth, at most 0.9, at which an axis with the probabilities p begins."""
    return min(0.9, math.floor(10 * float(p.min()) + 1e-9) / 10)


def _apart(groups: EqualBins, place: Callable[[np.ndarray], np.ndarray]) -> EqualBins:
    """The bins, those put together whose points would touch on an axis with probabilities p at `place(p)`."""
    count, probability, right = groups.count, groups.probability, groups.right
    while len(count) > 1:
        gaps = np.diff(place(probability))
        near = int(gaps.argmin())
        if gaps[near] > _TOUCH * float(np.ptp(place(np.array([_first(probability), 1.0])))):
            break
        pair = slice(near, near + 2)
        rest = np.arange(len(count)) != near + 1
        series = count[pair]
        for values in (probability, right):
            values[near] = (series * values[pair]).sum() / series.sum()
        count[near] = series.sum()
        count, probability, right = count[rest], probability[rest], right[rest]
    return EqualBins(count, probability, right)


def _on_axis(p: np.ndarray) -> np.ndarray:
    return -np.arcsinh((1 - np.asarray(p)) / _WIDTH)


def _from_axis(a: np.ndarray) -> np.ndarray:
    return 1 + _WIDTH * np.sinh(np.asarray(a))


def _histogram(ax: Axes, top: np.ndarray, start: float, stretched: bool) -> None:
    """A strip above the plot with the probabilities (n,), which says how many series there are."""
    strip = ax.inset_axes((0, _STRIP[0], 1, _STRIP[1]))
    bins = np.linspace(start, 1, _HISTOGRAM_BINS + 1)
    if stretched:
        bins = _from_axis(np.linspace(float(_on_axis(np.array(start))), 0, _HISTOGRAM_BINS + 1))
        bins[0], bins[-1] = start, 1.0
        strip.set_xscale("function", functions=(_on_axis, _from_axis))
    strip.patch.set_visible(False)  # in the dark it would be another black than that of the page
    strip.hist(top, bins=bins.tolist(), color=style.SKY)
    strip.set_xlim(*ax.get_xlim())
    strip.set_ylim(0, 1.5 * strip.get_ylim()[1])  # room for the words
    strip.minorticks_off()
    strip.set(xticks=[], yticks=[])
    strip.spines[["top", "right", "left"]].set_visible(False)
    strip.text(0.01, 0.97, f"{len(top)} series", transform=strip.transAxes, va="top", size=style.letters(ax) - 0.5)


def plot_confusion(metrics: ClassificationMetrics, ax: Axes | None = None) -> Axes:
    """Draws the confusion matrix: rows are true classes, columns predicted ones, colours shares of the row.

    Counts are written where there is room; long names of classes are cut, and of very many classes some are named.

    Parameters
    ----------
    metrics : siggpde.metrics.ClassificationMetrics
        What `classification_metrics` returns.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; those of a new figure without them.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from siggpde.metrics import classification_metrics
    >>> metrics = classification_metrics(["a", "b"], [[0.9, 0.1], [0.6, 0.4]], ["a", "b"])
    >>> plot_confusion(metrics)
    <Axes: title={'center': 'accuracy 50.0% of 2 series'}, xlabel='predicted', ylabel='true'>
    """
    counts = np.array(metrics.confusion)
    size = len(counts)
    side = min(12.0, max(4.0, 0.55 * size + 2.0))
    ax = style.axes_or_new(ax, width=side, height=side)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax.imshow(share, cmap=style.SHARES, vmin=0, vmax=1)
    longest = max(6, int(_NAMES * style.room(ax) * 72 / (0.55 * style.letters(ax))))
    names = style.shortened([str(label) for label in metrics.classes], longest)
    named = min(style.letters(ax) - 0.5, max(_SMALLEST, 0.63 * 72 * style.room(ax) / size))
    widest = max(style.text_width(name, named) for name in names)
    cell = (72 * style.room(ax) - _LABELS * style.letters(ax) - widest) / size  # points
    if widest + 0.1 * named > cell:
        cell = min(cell, (72 * style.height(ax) - 1.5 * _LABELS * style.letters(ax) - widest) / size)
    digits = max(len(str(count)) for count in counts.flat)
    written = min(style.letters(ax), cell / (0.7 * max(digits, 2)))
    if written >= _SMALLEST:
        for (row, column), count in np.ndenumerate(counts):
            if not count and size > _FEW_CLASSES:
                continue
            colour = style.GREY if not count else "white" if share[row, column] > 0.5 else "black"
            ax.text(column, row, str(count), ha="center", va="center", size=written, color=colour)
    named = max(_SMALLEST, min(named, 0.9 * cell))
    every = max(1, math.ceil(1.1 * named / cell))  # of more classes than lines, some are named
    turned: dict[str, Any] = {}
    if widest + 0.1 * named > every * cell:
        upright = cell < _SLANTED * named
        turned = {"rotation": 90} if upright else {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(range(0, size, every), names[::every], **turned)
    ax.set_yticks(range(0, size, every), names[::every])
    ax.set_xlabel("predicted")
    ax.set_ylabel("true")
    ax.set_title(f"accuracy {metrics.accuracy:.1%} of {metrics.n} series")
    style.finish(ax, closed=True)
    ax.tick_params(labelsize=named)
    return ax


def plot_risk_coverage(
    y: ArrayLike, probabilities: ArrayLike, classes: ArrayLike, ax: Axes | None = None, *, level: float = 0.95
) -> Axes:
    """Draws the share of wrong predictions among the surest series, against the share of series that are predicted.

    The dashed line is what one gets where being sure means nothing, the dotted one what nobody can beat: all wrong
    predictions are the least sure ones.

    Parameters
    ----------
    y : array-like (n,)
        The true labels.
    probabilities : array-like (n, C)
        Columns in the order of `classes`.
    classes : array-like (C,)
        The labels.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; those of a new figure without them.
    level : float
        That of the band, Wilson's interval of every point by itself.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> plot_risk_coverage(["a", "b"], [[0.9, 0.1], [0.6, 0.4]], ["a", "b"])
    <Axes: xlabel='share of series predicted, the surest first', ylabel='share that is wrong'>
    """
    check_level(level)
    curve = risk_coverage(y, probabilities, classes)
    n, wrong = len(np.asarray(y)), float(curve.risk[-1])
    ax = style.axes_or_new(ax, width=4.8, height=3.6)
    count = curve.coverage * n
    low, high = wilson_interval(curve.risk, count, level)
    best = np.linspace(1 - wrong, 1, 50)
    band: dict[str, Any] = {"color": style.PALE, "alpha": 0.5, "linewidth": 0}
    ax.fill_between(curve.coverage, low, high, zorder=1, label=f"{level:.0%} interval", **band)
    ax.axhline(wrong, color=style.GREY, linestyle="--", linewidth=1, zorder=2, label="at random")
    reach: dict[str, Any] = {"color": style.GREY, "linestyle": ":", "linewidth": 1.2}
    ax.plot(best, 1 - (1 - wrong) / best, zorder=2, label="best possible", **reach)
    area = f"{curve.area:.2g}" if curve.area >= _LEAST_AREA or curve.area == 0 else f"< {_LEAST_AREA:g}"
    ax.plot(curve.coverage, curve.risk, color=style.BLUE, linewidth=1.5, zorder=3, label=f"model (area {area})")
    top = max(1.2 * float(curve.risk.max()), 1.2 * float(high[-1]), 0.05)
    ax.set(xlim=(0, 1.005), ylim=(-0.02 * top, min(top, 1.02)))
    ax.set(xlabel="share of series predicted, the surest first", ylabel="share that is wrong")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(style.percent())
    style.legend_above(ax)
    return style.finish(ax)
