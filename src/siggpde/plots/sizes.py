"""A metric against the size of a model, such as the number of inducing features M."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from siggpde.plots.axes import axes_or_new, finish, legend_above, require_matplotlib
from siggpde.plots.inputs import numbers, vector
from siggpde.plots.palette import CLASSES, class_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_sizes(
    sizes: ArrayLike,
    values: ArrayLike | Mapping[str, ArrayLike],
    ax: Axes | None = None,
    *,
    metric: str = "NLPP (nats a series)",
    size: str = "inducing features M",
) -> Axes:
    """A metric against sizes (k,), on a logarithmic axis.

    `values` are (k,) for one run or (runs, k), of which the mean is drawn with a band of one standard deviation; or
    several such arrays by the name of their method. `metric` and `size` label the axes.
    """
    places = vector("sizes", sizes, each="size")
    if (places <= 0).any() or (np.diff(places) <= 0).any():
        raise ValueError(f"sizes must be positive and ascending, got {places.tolist()}")
    given = values if isinstance(values, Mapping) else {"": values}
    if not given or len(given) > len(CLASSES):
        raise ValueError(f"values must have one to {len(CLASSES)} methods, got {len(given)}")
    drawn = {name: _runs(name, own, len(places)) for name, own in given.items()}
    ax = axes_or_new(ax, width=4.8, height=3.4)
    for index, (name, runs) in enumerate(drawn.items()):
        style = class_style(index)
        mean = runs.mean(axis=0)
        ax.plot(places, mean, markersize=4, linewidth=1.3, label=name or None, **style)
        if len(runs) > 1:
            spread = runs.std(axis=0, ddof=1)
            ax.fill_between(places, mean - spread, mean + spread, color=style["color"], alpha=0.18, linewidth=0)
    ax.set_xscale("log")
    ax.set_xticks(places, [f"{place:g}" for place in places])
    ax.xaxis.set_minor_locator(require_matplotlib("ticker").NullLocator())
    ax.set(xlabel=size, ylabel=metric)
    if any(drawn):
        legend_above(ax)
    return finish(ax)


def _runs(name: str, values: ArrayLike, count: int) -> np.ndarray:
    """(runs, k)."""
    what = f"values of {name!r}" if name else "values"
    array = np.atleast_2d(numbers(what, values))
    if array.ndim != 2 or array.shape[1] != count or len(array) == 0:
        raise ValueError(f"{what} must have shape ({count},) or (runs, {count}), one number a size, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{what} must be finite to be drawn; leave out sizes that have none")
    return array
