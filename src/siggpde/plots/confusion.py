"""The confusion matrix."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from siggpde.metrics import ClassificationMetrics
from siggpde.plots.axes import axes_or_new, finish, height, letters, room, shortened, text_width
from siggpde.plots.palette import GREY, SHARES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW_CLASSES = 10  # zeros of more classes hide the rest
_SMALLEST = 4.5  # points of letters that can be read
_SLANTED = 1.4  # of the height of letters: columns that are narrower have no room for slanted names
_LABELS = 3.5  # letters of width for the label of an axis and its ticks
_NAMES = 0.25  # of the width, at most, for names of classes


def plot_confusion(metrics: ClassificationMetrics, ax: Axes | None = None) -> Axes:
    """The confusion matrix: rows are true classes, columns predicted ones, colours shares of the row.

    `metrics` is what `classification_metrics` returns. Counts are written where there is room; long names of classes
    are cut, and of very many classes some are named.
    """
    counts = np.array(metrics.confusion)
    size = len(counts)
    side = min(12.0, max(4.0, 0.55 * size + 2.0))
    ax = axes_or_new(ax, width=side, height=side)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax.imshow(share, cmap=SHARES, vmin=0, vmax=1)
    names = shortened(
        [str(label) for label in metrics.classes], max(6, int(_NAMES * room(ax) * 72 / (0.55 * letters(ax))))
    )
    named = min(letters(ax) - 0.5, max(_SMALLEST, 0.63 * 72 * room(ax) / size))
    widest = max(text_width(name, named) for name in names)
    cell = (72 * room(ax) - _LABELS * letters(ax) - widest) / size  # points
    if widest + 0.1 * named > cell:
        cell = min(cell, (72 * height(ax) - 1.5 * _LABELS * letters(ax) - widest) / size)
    digits = max(len(str(count)) for count in counts.flat)
    written = min(letters(ax), cell / (0.7 * max(digits, 2)))
    if written >= _SMALLEST:
        for (row, column), count in np.ndenumerate(counts):
            if not count and size > _FEW_CLASSES:
                continue
            colour = "white" if share[row, column] > 0.5 else "black"
            ax.text(column, row, str(count), ha="center", va="center", size=written, color=colour if count else GREY)
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
    finish(ax, closed=True)
    ax.tick_params(labelsize=named)
    return ax
