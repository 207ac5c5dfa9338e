"""Bars of importances: words, channels, lengths of words, views."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from siggpde.explain import Importance, Importances
from siggpde.plots.axes import axes_or_new, finish, height, letters, percent, room
from siggpde.plots.palette import AGAINST, FOR

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME_WIDTH = 48  # characters of a line, where there is room
_FEWEST = 16
_AXIS = 0.5  # inches of the horizontal axis and its label
_SMALLEST = 5.0  # points of letters that can be read


def plot_importance(importances: Iterable[Importance] | Importances, ax: Axes | None = None) -> Axes:
    """Bars of the shares of words, channels, time regions, window scales or views, the first at the top.

    `importances` is what `global_importance` returns, of which the words are drawn, or its `channels`, `regions`,
    `scales`, `views`, .. Long names are broken into lines.
    """
    shown = list(importances.words or importances if isinstance(importances, Importances) else importances)
    if not shown:
        raise ValueError("there are no importances to draw; give those of `global_importance`")
    wanted = [_lines(each.name, _NAME_WIDTH) for each in shown]
    lines = sum(max(2, len(label)) for label in wanted) / 2
    ax = axes_or_new(ax, height=max(2.0, 0.32 * lines + 1.2))
    half = int(0.55 * room(ax) * 72 / (0.5 * letters(ax)))  # letters are about half as wide as high
    each_bar = 72 * (height(ax) - _AXIS) / len(shown)  # points
    most = max(1, int(each_bar / (1.2 * _SMALLEST)))
    labels = ["\n".join(_cut(_lines(each.name, min(_NAME_WIDTH, max(_FEWEST, half))), most)) for each in shown]
    positions = np.arange(len(shown))
    colours = [FOR if each.share >= 0 else AGAINST for each in shown]
    ax.barh(positions, [each.share for each in shown], color=colours, height=0.7)
    ax.set_yticks(positions, labels)
    ax.invert_yaxis()
    ax.set_xlabel("share of the importance")
    ax.xaxis.set_major_formatter(percent())
    ax.locator_params(axis="x", nbins=4 if room(ax) < 4 else 7)
    finish(ax)
    lines = max(label.count("\n") + 1 for label in labels)
    fitting = each_bar / (1.2 * lines)
    if lines > 1 or fitting < letters(ax) - 0.5:
        ax.tick_params(axis="y", labelsize=max(_SMALLEST, min(0.85 * letters(ax), fitting)))
    return ax


def name_lines(names: list[str], ax: Axes) -> list[str]:
    """Names at the left of a plot, broken into lines that leave it half of the width."""
    half = int(0.55 * room(ax) * 72 / (0.5 * letters(ax)))  # letters are about half as wide as high
    return ["\n".join(_lines(name, min(_NAME_WIDTH, max(_FEWEST, half)))) for name in names]


def _lines(name: str, most: int) -> list[str]:
    """A name in as few lines as possible, of about the same length, broken at spaces. What is still too long is broken
    between the letters of a word, else anywhere."""
    text = " ".join(each if len(each) <= most else each.replace("–", "–\v") for each in name.split(" "))
    least = len(wrap(text, most, replace_whitespace=False))
    width = next(w for w in range(1, most + 1) if len(wrap(text, w, replace_whitespace=False)) <= least)
    return [line.replace("\v", "") for line in wrap(text, width, replace_whitespace=False)] or [name]


def _cut(lines: list[str], most: int) -> list[str]:
    """The first `most` lines, the last one with a mark that there is more."""
    return lines if len(lines) <= most else [*lines[: most - 1], f"{lines[most - 1]} …"]
