"""A map of the series: every series a point in the plane of the two directions in which they differ most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from siggpde.metrics.inputs import as_list
from siggpde.plots.axes import axes_or_new, finish, legend_above, letters
from siggpde.plots.directions import principal_directions
from siggpde.plots.inputs import matrix
from siggpde.plots.palette import CLASSES, INK, MARKERS, NUMBERS, class_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_CLASSES = len(CLASSES) * len(MARKERS)


def plot_map(
    points: ArrayLike,
    y: ArrayLike,
    ax: Axes | None = None,
    *,
    uncertain: ArrayLike | None = None,
    name: str = "class",
) -> Axes:
    """The series in the plane of the first two principal directions of `points` (n, d), d at least 2, with their shares
    of the variance; points (n, 2) as they are.

    `points` are what the model makes of the series: `kernel_directions(estimator, X)`, the plane of its kernel, or
    `estimator.latent(X)[0]`, with more than two classes. y (n,) are labels, drawn as colours and markers, or floats,
    drawn as colours with a bar. `uncertain` (n,), bools, has the series that get a ring. `name` is what y is called.
    """
    where = matrix("points", points, (None, None), "a row for each series")
    if where.shape[1] < 2:
        raise ValueError(f"points must have two columns or more to be a map, got shape {where.shape}")
    labels = as_list(y)
    if len(labels) != len(where):
        raise ValueError(f"there are {len(labels)} labels in y but {len(where)} rows of points; they must be as many")
    doubtful = _bools(uncertain, len(where))
    plane, shares = (where, None) if where.shape[1] == 2 else principal_directions(where)
    ax = axes_or_new(ax, width=5.6, height=4.2)
    size = 14 if len(where) <= 300 else 7
    if all(isinstance(label, float) for label in labels):
        dots = ax.scatter(*plane.T, c=labels, cmap=NUMBERS, s=size, linewidth=0)
        bar: Any = ax.figure.colorbar(dots, ax=ax, pad=0.02, aspect=30)
        bar.set_label(name, size=letters(ax))
        bar.ax.tick_params(labelsize=letters(ax) - 0.5)
        bar.outline.set_visible(False)
    else:
        _classes(ax, plane, labels, size)
    if doubtful.any():
        label = f"uncertain ({doubtful.sum()})"
        ring = {"facecolors": "none", "edgecolors": INK, "linewidths": 0.8}
        ax.scatter(*plane[doubtful].T, s=4.5 * size, label=label, **ring)
    for number, axis in enumerate((ax.xaxis, ax.yaxis)):
        share = "" if shares is None else f" ({shares[number]:.0%})"
        axis.set_label_text(f"direction {number + 1}{share}")
    ax.set(xticks=[], yticks=[])
    if ax.get_legend_handles_labels()[1]:
        legend_above(ax, title=None if isinstance(labels[0], float) else name)
    return finish(ax)


def _classes(ax: Axes, plane: np.ndarray, labels: list[Any], size: float) -> None:
    classes = sorted(set(labels), key=lambda label: (str(type(label)), label))
    if len(classes) > _MOST_CLASSES:
        raise ValueError(f"at most {_MOST_CLASSES} classes can be told apart in one plot, got {len(classes)}")
    for index, label in enumerate(classes):
        rows = np.array([own == label for own in labels])
        ax.scatter(*plane[rows].T, s=size, alpha=0.85, linewidth=0, label=str(label), **class_style(index))


def _bools(uncertain: ArrayLike | None, n: int) -> np.ndarray:
    if uncertain is None:
        return np.zeros(n, dtype=bool)
    array = np.asarray(uncertain)
    if array.dtype != bool or array.shape != (n,):
        raise ValueError(f"uncertain must be bools of shape ({n},), one a series, got {array.dtype} {array.shape}")
    return array
