"""Bars of effects with their standard deviations, and of the weights of words as the paper reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from siggpde.explain import Effect, PaperReading, WordWeight
from siggpde.plots.axes import axes_or_new
from siggpde.plots.names import named_bars
from siggpde.plots.palette import AGAINST, BLUE, FOR, GREY, INK, PALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SURE = 0.9  # the probability of a sign below which a bar is pale


def plot_effects(effects: Iterable[Effect], ax: Axes | None = None, *, label: str = "effect on the logit") -> Axes:
    """Bars of effects of channels, time regions, window scales, words or views, the first at the top: what a list of
    `ClassEffects` holds. Lines are one standard deviation to both sides; bars of which the sign is not 90 % sure are
    pale."""
    shown = list(effects) if isinstance(effects, Iterable) else [effects]
    if not all(isinstance(each, Effect) for each in shown):
        raise ValueError(
            "effects must be a list of `Effect`, such as importance(X).classes[0].channels; `plot_importance` draws "
            "those of all classes together"
        )
    if not shown:
        raise ValueError("there are no effects to draw; give those of a class of `global_importance`")
    ax = axes_or_new(ax, height=max(2.0, 0.3 * len(shown) + 1.0))
    colours = [(FOR if each.effect >= 0 else AGAINST) if each.probability >= _SURE else PALE for each in shown]
    values = [each.effect for each in shown]
    _spread(ax, values, [each.std for each in shown])
    named_bars(ax, [each.name for each in shown], values, colours, label)
    ax.axvline(0, color=INK, linewidth=0.8)
    return ax


def plot_paper_reading(reading: PaperReading | Iterable[WordWeight], ax: Axes | None = None) -> Axes:
    """Bars of |m| of words, the largest at the top, with one standard deviation under q(u): the figure of the paper.

    `reading` is what `paper_reading` of an estimator returns, or the words of one class of it.
    """
    shown = list(reading.words if isinstance(reading, PaperReading) else reading)
    if not shown:
        raise ValueError("there are no words to draw; give those of `paper_reading`")
    ax = axes_or_new(ax, height=max(2.0, 0.3 * len(shown) + 1.0))
    sizes = [each.size for each in shown]
    _spread(ax, sizes, [each.std for each in shown])
    ax.set_xlim(left=0)
    return named_bars(ax, [each.name for each in shown], sizes, [BLUE] * len(shown), "|m|")


def _spread(ax: Axes, values: list[float], std: list[float]) -> None:
    """Lines of one standard deviation to both sides, above the bars."""
    ax.errorbar(values, range(len(values)), xerr=std, fmt="none", ecolor=GREY, elinewidth=1.0, capsize=2, zorder=3)
