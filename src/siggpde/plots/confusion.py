"""The confusion matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from siggpde.metrics import ClassificationMetrics
from siggpde.plots.axes import axes_or_new, finish, letters, room, shortened
from siggpde.plots.palette import GREY, SHARES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_CLASSES = 20  # a confusion matrix of more classes is drawn without its counts
_FEW_CLASSES = 10  # zeros of more classes hide the rest
_SMALLEST = 4.5  # points of letters that can be read
_NAMES = 0.25  # of the width, at most, for names of classes


def plot_confusion(metrics: ClassificationMetrics, ax: Axes | None = None) -> Axes:
    """The confusion matrix: rows are true classes, columns predicted ones, colours shares of the row.

    `metrics` is what `classification_metrics` returns. Counts are written where there is room, of up to 20 classes, and
    long names of classes are cut.
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
    cell = 0.7 * room(ax) / size * 72  # points; names and labels have the rest
    if size <= _MAX_CLASSES:
        digits = max(len(str(count)) for count in counts.flat)
        written = min(letters(ax), cell / (0.7 * max(digits, 2)))
        for (row, column), count in np.ndenumerate(counts):
            if not count and size > _FEW_CLASSES:
                continue
            colour = "white" if share[row, column] > 0.5 else "black"
            ax.text(column, row, str(count), ha="center", va="center", size=written, color=colour if count else GREY)
        longest = max(map(len, names))
        slanted = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        ax.set_xticks(range(size), names, **(slanted if longest * 0.6 * letters(ax) > cell else {}))
        ax.set_yticks(range(size), names)
    ax.set_xlabel("predicted")
    ax.set_ylabel("true")
    ax.set_title(f"accuracy {metrics.accuracy:.1%} of {metrics.n} series")
    finish(ax, closed=True)
    if size <= _MAX_CLASSES:
        ax.tick_params(labelsize=max(_SMALLEST, min(letters(ax) - 0.5, 0.9 * cell)))
    return ax
