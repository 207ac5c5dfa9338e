"""Predicted numbers against true ones, with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from siggpde.plots.axes import axes_or_new, finish, legend_above, with_unit
from siggpde.plots.inputs import vector
from siggpde.plots.palette import BLUE, GREY, ORANGE

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
    """Predictions against true numbers y (n,), with intervals from `lower` to `upper`; those that miss y in orange.

    `mean`, `lower` and `upper` are (n,) each; `unit` is that of y, for the labels of the axes.
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
    ax = axes_or_new(ax, width=4.8, height=4.8)
    size, width = (12, 1.2) if len(target) <= _FEW else (7, 0.8)
    hit = (low <= target) & (target <= high)
    ends = [min(target.min(), centre.min()), max(target.max(), centre.max())]
    ax.plot(ends, ends, color=GREY, linestyle="--", linewidth=1, zorder=1)
    for rows, colour, marker, name in ((hit, BLUE, "o", "inside"), (~hit, ORANGE, "D", "outside")):
        if rows.any():
            label = f"{name} ({rows.mean():.0%})"
            ax.vlines(target[rows], low[rows], high[rows], color=colour, alpha=0.45, linewidth=width, zorder=2)
            ax.scatter(target[rows], centre[rows], color=colour, marker=marker, s=size, zorder=3, label=label)
    ax.set(xlabel=with_unit("true", unit), ylabel=with_unit("predicted, with its interval", unit))
    legend_above(ax, handle=1.0)
    return finish(ax)
