"""The risk-coverage curve: how often predictions are wrong if only the surest are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from siggpde.metrics import risk_coverage
from siggpde.plots.axes import axes_or_new, finish, legend_above, percent
from siggpde.plots.calibration import wilson_interval
from siggpde.plots.inputs import check_level
from siggpde.plots.palette import BLUE, GREY, PALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEAST_AREA = 1e-3


def plot_risk_coverage(
    y: ArrayLike, probabilities: ArrayLike, classes: ArrayLike, ax: Axes | None = None, *, level: float = 0.95
) -> Axes:
    """The share of wrong predictions among the surest series, against the share of series that are predicted.

    Arguments as for `risk_coverage`: labels y (n,), `probabilities` (n, C), columns in the order of `classes` (C,). The
    band is Wilson's interval at `level`, of every point by itself. The dashed line is what one gets where being sure
    means nothing, the dotted one what nobody can beat: all wrong predictions are the least sure ones.
    """
    check_level(level)
    curve = risk_coverage(y, probabilities, classes)
    n, wrong = len(np.asarray(y)), float(curve.risk[-1])
    ax = axes_or_new(ax, width=4.8, height=3.6)
    count = curve.coverage * n
    low, high = wilson_interval(curve.risk, count, level)
    best = np.linspace(1 - wrong, 1, 50)
    ax.fill_between(
        curve.coverage, low, high, color=PALE, alpha=0.5, linewidth=0, zorder=1, label=f"{level:.0%} interval"
    )
    ax.axhline(wrong, color=GREY, linestyle="--", linewidth=1, zorder=2, label="at random")
    ax.plot(best, 1 - (1 - wrong) / best, color=GREY, linestyle=":", linewidth=1.2, zorder=2, label="best possible")
    ax.plot(curve.coverage, curve.risk, color=BLUE, linewidth=1.5, zorder=3, label=f"model (area {_area(curve.area)})")
    top = max(1.2 * float(curve.risk.max()), 1.2 * float(high[-1]), 0.05)
    ax.set(xlim=(0, 1.005), ylim=(-0.02 * top, min(top, 1.02)))
    ax.set(xlabel="share of series predicted, the surest first", ylabel="share that is wrong")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(percent())
    legend_above(ax)
    return finish(ax)


def _area(area: float) -> str:
    return f"{area:.2g}" if area >= _LEAST_AREA or area == 0 else f"< {_LEAST_AREA:g}"
