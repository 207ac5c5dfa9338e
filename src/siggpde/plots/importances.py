"""Bars of importances: words, channels, lengths of words, views."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from siggpde.explain import Importance, Importances
from siggpde.plots.axes import axes_or_new, percent
from siggpde.plots.names import lines_of, named_bars
from siggpde.plots.palette import AGAINST, FOR

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME_WIDTH = 48  # characters of a line


def plot_importance(importances: Iterable[Importance] | Importances, ax: Axes | None = None) -> Axes:
    """Bars of the shares of words, channels, time regions, window scales or views, the first at the top.

    `importances` is what `global_importance` returns, of which the words are drawn, or its `channels`, `regions`,
    `scales`, `views`, .. Long names are broken into lines.
    """
    shown = list(importances.words or importances if isinstance(importances, Importances) else importances)
    if not shown:
        raise ValueError("there are no importances to draw; give those of `global_importance`")
    lines = sum(max(2, len(lines_of(each.name, _NAME_WIDTH))) for each in shown) / 2
    ax = axes_or_new(ax, height=max(2.0, 0.32 * lines + 1.2))
    ax.xaxis.set_major_formatter(percent())
    colours = [FOR if each.share >= 0 else AGAINST for each in shown]
    shares = [each.share for each in shown]
    return named_bars(ax, [each.name for each in shown], shares, colours, "share of the importance")
