"""A map of the series in the plane of the two directions in which they differ most: of a committee by kernel PCA among
m landmarks, K = H K_ZZ H, H = I - 1 1^T/m, K v_j = lambda_j v_j, c_j(X) = lambda_j^-1/2 v_j^T H (k(Z, X) - K_ZZ
1/m)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from siggpde.metrics.classification import as_list
from siggpde.plots import style
from siggpde.plots.inputs import matrix
from siggpde.views.base import Rows, rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_CLASSES = len(style.CLASSES) * len(style.MARKERS)
_COVERED = 0.07  # of the plot, by all markers together
_SMALLEST, _LARGEST = 4.0, 22.0  # points² of a marker
_LISTED = 20.0  # points² of a marker in the legend
_RING = 3.2  # of the marker
_MANY = 0.25  # of the series: more rings are thin
_CHUNK = 256
_LEAST = 1e-12  # of the largest eigenvalue


def plot_map(
    points: ArrayLike, y: ArrayLike, ax: Axes | None = None, *, uncertain: ArrayLike | None = None, name: str = "class"
) -> Axes:
    """Draws series as points in the plane of the first two principal directions.

    Parameters
    ----------
    points : array-like (n, d)
        What the model makes of the series, d at least 2: `kernel_directions(estimator, X)`, the plane of its kernel, or
        `estimator.latent(X)[0]`, with more than two classes. Points (n, 2) are drawn as they are, others with the
        shares of the variance.
    y : array-like (n,)
        Labels, drawn as colours and markers, or floats, drawn as colours with a bar.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; those of a new figure without them.
    uncertain : array-like (n,) of bool, optional
        The series that get a ring.
    name : str
        What y is called.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> plot_map([[0.0, 1.0], [1.0, 0.5], [0.2, 0.1]], ["a", "b", "a"], uncertain=[False, True, False])
    <Axes: xlabel='direction 1', ylabel='direction 2'>
    """
    where = matrix("points", points, (None, None), "a row for each series")
    if where.shape[1] < 2:
        raise ValueError(f"points must have two columns or more to be a map, got shape {where.shape}")
    labels = as_list(y)
    if len(labels) != len(where):
        raise ValueError(f"there are {len(labels)} labels in y but {len(where)} rows of points; they must be as many")
    doubtful = np.zeros(len(where), dtype=bool) if uncertain is None else np.asarray(uncertain)
    if doubtful.dtype != bool or doubtful.shape != (len(where),):
        got = f"{doubtful.dtype} {doubtful.shape}"
        raise ValueError(f"uncertain must be bools of shape ({len(where)},), one a series, got {got}")
    plane, shares = (where, None) if where.shape[1] == 2 else principal_directions(where)
    ax = style.axes_or_new(ax, width=5.6, height=4.2)
    size = min(_LARGEST, max(_SMALLEST, _COVERED * 72**2 * style.room(ax) * style.height(ax) / len(where)))
    if all(isinstance(label, float) for label in labels):
        dots = ax.scatter(*plane.T, c=labels, cmap=style.NUMBERS, s=size, linewidth=0)
        style.colour_bar(ax, dots, name, ax=ax, pad=0.02, aspect=30)
    else:
        _classes(ax, plane, labels, size)
    if doubtful.any():
        label = f"uncertain ({doubtful.sum()})"
        ring = {"facecolors": "none", "edgecolors": style.INK, "linewidths": 0.8 if doubtful.mean() < _MANY else 0.35}
        ax.scatter(*plane[doubtful].T, s=_RING * size, label=label, **ring)
    for number, axis in enumerate((ax.xaxis, ax.yaxis)):
        share = "" if shares is None else f" ({shares[number]:.0%})"
        axis.set_label_text(f"direction {number + 1}{share}")
    ax.set(xticks=[], yticks=[])
    if ax.get_legend_handles_labels()[1]:
        title = None if isinstance(labels[0], float) else name
        style.legend_above(ax, title=title, handle=1.3, markers=math.sqrt(_LISTED / size), whole=int(doubtful.any()))
    return style.finish(ax)


def _classes(ax: Axes, plane: np.ndarray, labels: list[Any], size: float) -> None:
    def order(label: Any) -> tuple[str, float, Any]:
        """By type; strings that are numbers by their size."""
        number = float(label) if isinstance(label, str) and label.removeprefix("-").isdecimal() else math.inf
        return str(type(label)), number, label

    classes = sorted(set(labels), key=order)
    if len(classes) > _MOST_CLASSES:
        raise ValueError(f"at most {_MOST_CLASSES} classes can be told apart in one plot, got {len(classes)}")
    for index, label in enumerate(classes):
        rows = np.array([other == label for other in labels])
        ax.scatter(*plane[rows].T, s=size, alpha=0.85, label=str(label), **style.class_dots(index))


def principal_directions(points: np.ndarray, count: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Returns coordinates (n, count) of points (n, d) along principal directions, and the shares of the variance."""
    centred = points - points.mean(axis=0)
    left, spread, _ = np.linalg.svd(centred, full_matrices=False)
    coordinates = (left * spread)[:, :count]
    missing = count - coordinates.shape[1]
    coordinates, shares = np.pad(coordinates, ((0, 0), (0, missing))), np.pad(spread[:count] ** 2, (0, missing))
    largest = coordinates[np.abs(coordinates).argmax(axis=0), np.arange(count)]
    return coordinates * np.where(largest < 0, -1.0, 1.0), shares / max(float((spread**2).sum()), np.finfo(float).tiny)


@torch.no_grad()
def kernel_directions(estimator: Any, X: Any, count: int = 2) -> np.ndarray:
    """Returns the coordinates of series along the first directions of an estimator's kernel.

    Parameters
    ----------
    estimator : SigGPClassifier or SigGPRegressor
        A fitted estimator. The directions are learned from its landmarks, training series; one whose model has none
        (`keep_series=False`, `method="paper"`) is refused.
    X : series
        The series, which may be others than those of the fit.
    count : int
        How many directions.

    Returns
    -------
    ndarray (n_cases, count)

    Examples
    --------
    >>> from siggpde import SigGPClassifier
    >>> X = np.random.default_rng(0).normal(size=(10, 1, 5)).cumsum(axis=2)
    >>> kernel_directions(SigGPClassifier(members=1).fit(X, [0, 1] * 5), X).shape
    (10, 2)
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"count must be a whole number of at least 1, got {count!r}")
    batch = estimator._batch(X)
    committee = estimator.committee_
    if committee.landmarks is None:
        raise ValueError(
            "the model has no landmark series to take directions from; give `plot_map` its latents instead"
        )
    gram = _gram(committee, rows_of(committee.blocks, committee.landmarks))
    if count > len(gram):
        raise ValueError(f"count must be at most the number of landmark series, {len(gram)}, got {count}")
    columns = gram.mean(0)
    centred = gram - columns - gram.mean(1, keepdim=True) + gram.mean()
    values, vectors = torch.linalg.eigh((centred + centred.T) / 2)
    values, vectors = values.flip(0)[:count], vectors.flip(1)[:, :count]
    real = values > _LEAST * values[0]
    scale = torch.where(real, values.clamp_min(torch.finfo(values.dtype).tiny).rsqrt(), 0.0)
    rows = (_gram(committee, committee.rows(part)) - columns for part in batch.split(_CHUNK))
    coordinates = [(some - some.mean(1, keepdim=True)) @ vectors * scale for some in rows]
    signs = torch.where(vectors.sum(0) >= 0, 1.0, -1.0)  # of no meaning, but the same for all series
    return (torch.cat(coordinates) * signs).cpu().numpy()


def _gram(committee: Any, rows: dict[str, Rows]) -> Tensor:
    """The mean of the members' kernels (n, m)."""
    total: Any = 0.0
    for weight, member in zip(committee.weights.tolist(), committee.members, strict=True):
        total = total + weight * member.mixed(rows).gram[:, : len(committee.landmarks)]
    return total
