"""Plots of predicted numbers: their intervals, and the histogram of the probability integral transform (PIT), whose
bins are those between the predicted levels, so that nothing is interpolated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from siggpde.plots import style
from siggpde.plots.inputs import check_level, matrix, vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW = 100  # series: of more the markers are smaller


def plot_intervals(
    y: ArrayLike,
    mean: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    ax: Axes | None = None,
    *,
    unit: str | None = None,
) -> Axes:
    """Draws predicted numbers against true ones, with their intervals; those that miss the true number in orange.

    Parameters
    ----------
    y, mean, lower, upper : array-like (n,)
        The true numbers, their predictions, and the ends of the intervals.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; those of a new figure without them.
    unit : str, optional
        The unit of y, for the labels of the axes.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> plot_intervals([1.0, 2.0], [1.1, 1.8], [0.5, 1.5], [1.5, 1.9], unit="mm")
    <Axes: xlabel='true (mm)', ylabel='predicted, with its interval (mm)'>
    """
    target, centre, low, high = (
        vector(name, values) for name, values in (("y", y), ("mean", mean), ("lower", lower), ("upper", upper))
    )
    if not len(target) == len(centre) == len(low) == len(high):
        sizes = ", ".join(str(len(values)) for values in (target, centre, low, high))
        raise ValueError(f"y, mean, lower and upper must have one number a series each; they have {sizes}")
    if (low > high).any():
        series = int((low > high).argmax())
        raise ValueError(f"the interval of series {series} ends below its start; give lower before upper")
    ax = style.axes_or_new(ax, width=4.8, height=4.8)
    size, width = (12, 1.2) if len(target) <= _FEW else (7, 0.8)
    hit = (low <= target) & (target <= high)
    ends = [min(target.min(), centre.min()), max(target.max(), centre.max())]
    ax.plot(ends, ends, color=style.GREY, linestyle="--", linewidth=1, zorder=1)
    for rows, colour, marker, name in ((hit, style.BLUE, "o", "inside"), (~hit, style.ORANGE, "D", "outside")):
        if rows.any():
            label = f"{name} ({rows.mean():.0%})"
            ax.vlines(target[rows], low[rows], high[rows], color=colour, alpha=0.45, linewidth=width, zorder=2)
            ax.scatter(target[rows], centre[rows], color=colour, marker=marker, s=size, zorder=3, label=label)
    ax.set(xlabel=style.with_unit("true", unit), ylabel=style.with_unit("predicted, with its interval", unit))
    style.legend_above(ax, handle=1.0)
    return style.finish(ax)


def plot_pit(
    y: ArrayLike, quantiles: ArrayLike, levels: ArrayLike, ax: Axes | None = None, *, level: float = 0.95
) -> Axes:
    """Draws how often numbers fall between predicted quantiles, over how often they should.

    Bars reach 1 where distributions are honest. Higher at both ends: they are too narrow; higher in the middle: too
    wide; sloping: predictions are too low (rising) or too high (falling).

    Parameters
    ----------
    y : array-like (n,)
        The true numbers.
    quantiles : array-like (n, L)
        The predicted quantiles, such as `regressor.predict_quantiles(X, levels)`.
    levels : array-like (L,)
        Their levels, ascending, such as 0.1, 0.2, ..., 0.9.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; those of a new figure without them.
    level : float
        The probability with which an honest bar ends between the dotted lines.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> plot_pit([0.2, 1.5, 2.4], [[0.0, 1.0, 2.0]] * 3, [0.25, 0.5, 0.75])
    <Axes: xlabel='predicted probability of a number below y', ylabel='density'>
    """
    from scipy.stats import binom  # noqa: PLC0415 - takes long to import

    check_level(level)
    target, steps = vector("y", y), vector("levels", levels, unit="level")
    if (steps <= 0).any() or (steps >= 1).any() or (np.diff(steps) <= 0).any():
        raise ValueError(f"levels must be ascending numbers between 0 and 1, got {steps.tolist()}")
    values = matrix("quantiles", quantiles, (len(target), len(steps)), "a row a series and a column a level")
    if (np.diff(values, axis=1) < 0).any():
        series = int((np.diff(values, axis=1) < 0).any(axis=1).argmax())
        raise ValueError(f"the quantiles of series {series} are not ascending; give them in the order of the levels")
    edges = np.concatenate([[0.0], steps, [1.0]])
    width = np.diff(edges)
    inside = np.bincount((target[:, None] > values).sum(axis=1), minlength=len(width))
    n = len(target)
    low, high = (binom.ppf(q, n, width) / (n * width) for q in ((1 - level) / 2, (1 + level) / 2))
    ax = style.axes_or_new(ax, width=4.8, height=3.2)
    density = inside / (n * width)
    ax.bar(edges[:-1], density, width, align="edge", color=style.SKY, edgecolor="white", linewidth=0.8, zorder=2)
    dotted: dict[str, Any] = {"baseline": None, "color": style.INK, "linestyle": ":", "linewidth": 1.2, "zorder": 3}
    ax.stairs(high, edges, label=f"{level:.0%} of honest bars", **dotted)
    ax.stairs(low, edges, **dotted)
    ax.axhline(1.0, color=style.INK, linestyle="--", linewidth=1, zorder=3, label="honest")
    top = max(float(density.max()), float(high.max()))
    ax.set(xlim=(0, 1), ylim=(0, 1.05 * top), xlabel="predicted probability of a number below y", ylabel="density")
    style.legend_above(ax)
    return style.finish(ax)
