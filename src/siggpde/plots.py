"""Plots of metrics and explanations. Every function takes matplotlib axes, or makes some, and returns them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from textwrap import wrap
from typing import Any

import numpy as np

from siggpde.explain import Importance
from siggpde.metrics import ClassificationMetrics, calibration_bins

_BLUE, _ORANGE, _GREY = "#3b6fb6", "#d9752b", "#8a8a8a"
_NAME_WIDTH = 48  # characters of a line
_MAX_CLASSES = 20  # a confusion matrix of more classes is drawn without its counts


def plot_importance(importances: Iterable[Importance], ax: Any = None) -> Any:
    """Bars of the shares of words, channels, lengths of words or views, the first at the top.

    `importances` is what `global_importance` returns, or its `channels`, `lengths` or `views`. Long names are broken
    into lines.
    """
    shown = list(importances)
    if not shown:
        raise ValueError("there are no importances to draw; give those of `global_importance`")
    labels = ["\n".join(_lines(each.name)) for each in shown]
    lines = sum(max(2, label.count("\n") + 1) for label in labels) / 2
    ax = _axes(ax, height=max(2.0, 0.32 * lines + 1.2))
    positions = np.arange(len(shown))
    colours = [_BLUE if each.share >= 0 else _ORANGE for each in shown]
    ax.barh(positions, [each.share for each in shown], color=colours, height=0.7)
    ax.set_yticks(positions, labels, fontsize="small" if any("\n" in label for label in labels) else None)
    ax.invert_yaxis()
    ax.set_xlabel("share of the importance")
    ax.xaxis.set_major_formatter(_percent())
    _open(ax)
    return ax


def plot_confusion(metrics: ClassificationMetrics, ax: Any = None) -> Any:
    """The confusion matrix: rows are true classes, columns predicted ones, colours shares of the row."""
    counts = np.array(metrics.confusion)
    size = len(counts)
    side = min(12.0, max(4.0, 0.55 * size + 2.0))
    ax = _axes(ax, width=side, height=side)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax.imshow(share, cmap="Blues", vmin=0, vmax=1)
    if size <= _MAX_CLASSES:
        for (row, column), count in np.ndenumerate(counts):
            colour = "white" if share[row, column] > 0.5 else "black"
            ax.text(column, row, str(count), ha="center", va="center", color=colour if count else _GREY)
        names = [str(label) for label in metrics.classes]
        slanted = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if max(map(len, names)) > 3 else {}
        ax.set_xticks(range(size), names, **slanted)
        ax.set_yticks(range(size), names)
    ax.set_xlabel("predicted")
    ax.set_ylabel("true")
    ax.set_title(f"accuracy {metrics.accuracy:.1%} of {metrics.n} series", fontsize="medium")
    return ax


def plot_calibration(y: Any, probabilities: Any, classes: Any, ax: Any = None, *, bins: int = 15) -> Any:
    """How often the most probable class is right, against its probability; on the diagonal probabilities are honest.

    Arguments as for `classification_metrics`. The area of a point is in proportion to the series in its bin.
    """
    curve = calibration_bins(y, probabilities, classes, bins=bins)
    ax = _axes(ax, width=4.8, height=4.8)
    filled = curve.count > 0
    ax.plot([0, 1], [0, 1], color=_GREY, linestyle="--", linewidth=1, zorder=1, label="honest")
    x, height, count = curve.confidence[filled], curve.accuracy[filled], curve.count[filled]
    ax.plot(x, height, color=_BLUE, linewidth=1, zorder=2)
    ax.scatter(x, height, s=12 + 240 * count / count.sum(), color=_BLUE, zorder=3, clip_on=False, label="predicted")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability of the predicted class", ylabel="share that is right")
    ax.set_aspect("equal")
    ax.legend(frameon=False, loc="upper left", markerscale=0.6)
    _open(ax)
    return ax


def plot_intervals(y: Any, mean: Any, lower: Any, upper: Any, ax: Any = None) -> Any:
    """Predictions against true numbers y (n,), with intervals from `lower` to `upper`; those that miss y in orange."""
    target, centre, low, high = (
        _vector(name, values) for name, values in (("y", y), ("mean", mean), ("lower", lower), ("upper", upper))
    )
    if not len(target) == len(centre) == len(low) == len(high):
        sizes = ", ".join(str(len(values)) for values in (target, centre, low, high))
        raise ValueError(f"y, mean, lower and upper must have one number a series each; they have {sizes}")
    if (low > high).any():
        series = int((low > high).argmax())
        raise ValueError(f"the interval of series {series} ends below its start; give lower before upper")
    ax = _axes(ax, width=4.8, height=4.8)
    hit = (low <= target) & (target <= high)
    ends = [min(target.min(), centre.min()), max(target.max(), centre.max())]
    ax.plot(ends, ends, color=_GREY, linestyle="--", linewidth=1, zorder=1)
    for rows, colour, name in ((hit, _BLUE, "inside"), (~hit, _ORANGE, "outside")):
        if rows.any():
            label = f"{name} ({rows.mean():.0%})"
            ax.vlines(target[rows], low[rows], high[rows], color=colour, alpha=0.45, linewidth=1.2, zorder=2)
            ax.scatter(target[rows], centre[rows], color=colour, s=14, zorder=3, label=label)
    ax.set(xlabel="true", ylabel="predicted, with its interval")
    ax.legend(frameon=False, loc="upper left")
    _open(ax)
    return ax


def _axes(ax: Any, width: float = 6.4, height: float = 4.8) -> Any:
    if ax is not None:
        return ax
    return require_matplotlib("pyplot").subplots(figsize=(width, height), layout="constrained")[1]


def _lines(name: str) -> list[str]:
    """A name in as few lines as possible, of about the same length."""
    least = len(wrap(name, _NAME_WIDTH, break_long_words=False))
    width = next(w for w in range(1, _NAME_WIDTH + 1) if len(wrap(name, w, break_long_words=False)) <= least)
    return wrap(name, width, break_long_words=False) or [name]


def _percent() -> Any:
    return require_matplotlib("ticker").PercentFormatter(xmax=1)


def require_matplotlib(part: str) -> Any:
    """The module `matplotlib.<part>`; an ImportError that says what to install where it is missing."""
    try:
        return import_module(f"matplotlib.{part}")
    except ModuleNotFoundError as trouble:
        if trouble.name is None or trouble.name.partition(".")[0] != "matplotlib":
            raise
        raise ImportError("plots need matplotlib; install it with: pip install matplotlib") from None


def _open(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)


def _vector(name: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, one a series") from None
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"{name} must have shape (n,), one number a series, got {array.shape}")
    if not np.isfinite(array).all():
        series = int((~np.isfinite(array)).argmax())
        raise ValueError(f"{name} of series {series} is {array[series]}; it must be finite to be drawn")
    return array
