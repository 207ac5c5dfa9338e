"""A map of the series: every series a point in the plane of the two directions in which they differ most."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from siggpde.metrics.inputs import as_list
from siggpde.plots.axes import axes_or_new, finish, height, legend_above, letters, room
from siggpde.plots.directions import principal_directions
from siggpde.plots.inputs import matrix
from siggpde.plots.palette import CLASSES, INK, MARKERS, NUMBERS, class_dots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_CLASSES = len(CLASSES) * len(MARKERS)
_COVERED = 0.07  # of the plot, by all markers together
_SMALLEST, _LARGEST = 4.0, 22.0  # points² of a marker
_LISTED = 20.0  # points² of a marker in the legend
_RING = 3.2  # of the marker
_MANY = 0.25  # of the series: more rings are thin


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
    size = min(_LARGEST, max(_SMALLEST, _COVERED * 72**2 * room(ax) * height(ax) / len(where)))
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
        ring = {"facecolors": "none", "edgecolors": INK, "linewidths": 0.8 if doubtful.mean() < _MANY else 0.35}
        ax.scatter(*plane[doubtful].T, s=_RING * size, label=label, **ring)
    for number, axis in enumerate((ax.xaxis, ax.yaxis)):
        share = "" if shares is None else f" ({shares[number]:.0%})"
        axis.set_label_text(f"direction {number + 1}{share}")
    ax.set(xticks=[], yticks=[])
    if ax.get_legend_handles_labels()[1]:
        title = None if isinstance(labels[0], float) else name
        legend_above(ax, title=title, handle=1.3, markers=math.sqrt(_LISTED / size), whole=int(doubtful.any()))
    return finish(ax)


def _classes(ax: Axes, plane: np.ndarray, labels: list[Any], size: float) -> None:
    classes = sorted(set(labels), key=_in_order)
    if len(classes) > _MOST_CLASSES:
        raise ValueError(f"at most {_MOST_CLASSES} classes can be told apart in one plot, got {len(classes)}")
    for index, label in enumerate(classes):
        rows = np.array([own == label for own in labels])
        ax.scatter(*plane[rows].T, s=size, alpha=0.85, label=str(label), **class_dots(index))


def _in_order(label: Any) -> tuple[str, float, Any]:
    """By type; strings that are numbers by their size."""
    number = float(label) if isinstance(label, str) and label.removeprefix("-").isdecimal() else math.inf
    return str(type(label)), number, label


def _bools(uncertain: ArrayLike | None, n: int) -> np.ndarray:
    if uncertain is None:
        return np.zeros(n, dtype=bool)
    array = np.asarray(uncertain)
    if array.dtype != bool or array.shape != (n,):
        raise ValueError(f"uncertain must be bools of shape ({n},), one a series, got {array.dtype} {array.shape}")
    return array
