"""Bars with long names at their left: importances, effects, and weights of words as the paper reads them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from siggpde.explain import Effect, Importance, Importances, PaperReading, WordWeight
from siggpde.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST = 48  # characters of a line; of more only where names have room for no second line
_FEWEST = 16
_SHARE = 0.55  # of the width, at most, for names
_AXIS = 0.5  # inches of the horizontal axis and its label
_SMALLEST = 5.0  # points of letters that can be read
_LINE = 1.2  # heights of letters from line to line
_THICKEST = 22.0  # points of a bar
_NAME_WIDTH = 48  # characters of a line
_SURE = 0.9  # the probability of a sign below which a bar is pale


def named_bars(ax: Axes, names: list[str], values: list[float], colours: list[str], label: str) -> Axes:
    """Bars from the top to the bottom with their names at the left; `label` is that of the horizontal axis."""
    tall = 72 * (style.height(ax) - _AXIS) / len(names)  # points
    labels, size = fitted(names, style.letters(ax) - 0.5, 72 * style.room(ax), tall)
    positions = np.arange(len(names))
    ax.barh(positions, values, color=colours, height=min(0.7, _THICKEST / max(tall, 1.0)))
    ax.set_yticks(positions, labels)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel(label)
    widest = max(style.text_width(line, size) for text in labels for line in text.split("\n"))
    style.finish(ax, inches=max(1.0, style.room(ax) - widest / 72 - 0.2))
    look: dict[str, Any] = {"axis": "y", "labelsize": size}
    ax.tick_params(**look)
    return ax


def fitted(names: list[str], largest: float, width: float, tall: float) -> tuple[list[str], float]:
    """Names in lines, cut if need be, and the size of their letters, to fit a share of `width` points and `tall`."""

    def broken(names: list[str], most: int, size: float) -> tuple[list[str], bool]:
        """The names in lines, and whether these have room; lines of one name are nearer than those of two."""
        lines = [lines_of(name, most) for name in names]
        fits = all(len(one) * _LINE * size <= (1.0 if len(one) == 1 else 0.93) * tall for one in lines)
        return ["\n".join(one) for one in lines], fits

    most = _FEWEST
    for size in (*np.arange(largest, _SMALLEST, -0.5).tolist(), _SMALLEST):
        most = max(_FEWEST, int(_SHARE * width / (0.52 * size)))  # letters are about half as wide as high
        for characters in (min(most, _LONGEST), most):
            texts, fits = broken(names, characters, size)
            if fits:
                return texts, size
    cut = max(_FEWEST, *map(len, names))
    while True:
        texts, fits = broken(style.shortened(names, cut), most, _SMALLEST)
        if fits or cut <= _FEWEST:
            return texts, _SMALLEST
        cut -= 1


def lines_of(name: str, most: int) -> list[str]:
    """A name in few lines of about the same length, broken at spaces and after dashes; within pieces only if need be.

    >>> lines_of("hand height–time–hand height and 7 like it", 24)
    ['hand height–time–hand', 'height and 7 like it']
    """
    pieces = re.findall(r"[^ –]*–|[^ –]+ *| +", name)
    pieces = [piece[start : start + most] for piece in pieces for start in range(0, len(piece), most)] or [name]

    def filled(width: int) -> list[str]:
        lines = [""]
        for piece in pieces:
            if lines[-1] and len((lines[-1] + piece).rstrip()) > width:
                lines.append("")
            lines[-1] += piece
        return [line.rstrip() for line in lines]

    least, longest = len(filled(most)), max(len(piece.rstrip()) for piece in pieces)
    return next(lines for width in range(longest, most + 1) if len(lines := filled(width)) <= least)


def plot_importance(importances: Iterable[Importance] | Importances, ax: Axes | None = None) -> Axes:
    """Draws bars of the shares of words, channels, time regions, window scales or views, the first at the top.

    Parameters
    ----------
    importances : siggpde.explain.Importances or sequence of Importance
        What `importance` of an estimator returns, of which the words are drawn, or its `channels`, `regions`, `scales`
        or `views`. Long names are broken into lines.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; those of a new figure without them.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> plot_importance([Importance("x–y", ("x", "y"), 0.6, 0.75), Importance("x", ("x",), 0.2, 0.25)])
    <Axes: xlabel='share of the importance'>
    """
    shown = list(importances.words or importances if isinstance(importances, Importances) else importances)
    if not shown:
        raise ValueError("there are no importances to draw; give those of `global_importance`")
    lines = sum(max(2, len(lines_of(part.name, _NAME_WIDTH))) for part in shown) / 2
    ax = style.axes_or_new(ax, height=max(2.0, 0.32 * lines + 1.2))
    ax.xaxis.set_major_formatter(style.percent())
    colours = [style.FOR if part.share >= 0 else style.AGAINST for part in shown]
    shares = [part.share for part in shown]
    return named_bars(ax, [part.name for part in shown], shares, colours, "share of the importance")


def plot_effects(effects: Iterable[Effect], ax: Axes | None = None, *, label: str = "effect on the logit") -> Axes:
    """Draws bars of effects of channels, time regions, window scales, words or views, the first at the top.

    Lines are one standard deviation to both sides; bars of which the sign is not 90 % sure are pale.

    Parameters
    ----------
    effects : sequence of siggpde.explain.Effect
        What a list of `ClassEffects` holds, such as `importance(X).classes[0].channels`.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; those of a new figure without them.
    label : str
        The label of the horizontal axis.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> plot_effects([Effect("x", ("x",), 1.2, 0.3, 0.99), Effect("y", ("y",), -0.4, 0.5, 0.79)])
    <Axes: xlabel='effect on the logit'>
    """
    shown = list(effects) if isinstance(effects, Iterable) else [effects]
    if not all(isinstance(part, Effect) for part in shown):
        raise ValueError(
            "effects must be a list of `Effect`, such as importance(X).classes[0].channels; `plot_importance` draws "
            "those of all classes together"
        )
    if not shown:
        raise ValueError("there are no effects to draw; give those of a class of `global_importance`")
    ax = style.axes_or_new(ax, height=max(2.0, 0.3 * len(shown) + 1.0))
    colours = [
        (style.FOR if part.effect >= 0 else style.AGAINST) if part.probability >= _SURE else style.PALE
        for part in shown
    ]
    values = [part.effect for part in shown]
    _spread(ax, values, [part.std for part in shown])
    named_bars(ax, [part.name for part in shown], values, colours, label)
    ax.axvline(0, color=style.INK, linewidth=0.8)
    return ax


def plot_paper_reading(
    reading: PaperReading | Iterable[WordWeight], ax: Axes | None = None, *, sure: Collection[str] | None = None
) -> Axes:
    """Draws bars of |m| of words, the largest at the top, with one standard deviation under q(u), as the paper does.

    Parameters
    ----------
    reading : siggpde.explain.PaperReading or sequence of WordWeight
        What `paper_reading` of an estimator returns, or the words of one class of it.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; those of a new figure without them.
    sure : collection of str, optional
        Names of words, such as those that models of other seeds list too (`in_common`); the bars of others are pale.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> plot_paper_reading([WordWeight("x–y", ("x", "y"), 0.8, 0.1, (0.8,))])
    <Axes: xlabel='|m|'>
    """
    shown = list(reading.words if isinstance(reading, PaperReading) else reading)
    if not shown:
        raise ValueError("there are no words to draw; give those of `paper_reading`")
    ax = style.axes_or_new(ax, height=max(2.0, 0.3 * len(shown) + 1.0))
    sizes = [part.size for part in shown]
    colours = [style.BLUE if sure is None or part.name in sure else style.PALE for part in shown]
    _spread(ax, sizes, [part.std for part in shown])
    ax.set_xlim(left=0)
    return named_bars(
        ax, [part.name for part in shown], sizes, colours, "|m|" if sure is None else "|m|; pale: not in all lists"
    )


def _spread(ax: Axes, values: list[float], std: list[float]) -> None:
    """Draws lines of one standard deviation to both sides, above the bars."""
    ax.errorbar(
        values, range(len(values)), xerr=std, fmt="none", ecolor=style.GREY, elinewidth=1.0, capsize=2, zorder=3
    )
