"""Names at the left of bars: broken into lines and, as far as they must be, written smaller or cut."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from siggpde.plots.axes import finish, height, letters, room, shortened, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST = 48  # characters of a line; of more only where names have room for no second line
_FEWEST = 16
_SHARE = 0.55  # of the width, at most, for names
_AXIS = 0.5  # inches of the horizontal axis and its label
_SMALLEST = 5.0  # points of letters that can be read
_LINE = 1.2  # heights of letters from line to line
_THICKEST = 22.0  # points of a bar


def named_bars(ax: Axes, names: list[str], values: list[float], colours: list[str], label: str) -> Axes:
    """Bars from the top to the bottom with their names at the left; `label` is that of the horizontal axis."""
    each = 72 * (height(ax) - _AXIS) / len(names)  # points
    labels, size = fitted(names, letters(ax) - 0.5, 72 * room(ax), each)
    positions = np.arange(len(names))
    ax.barh(positions, values, color=colours, height=min(0.7, _THICKEST / max(each, 1.0)))
    ax.set_yticks(positions, labels)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel(label)
    widest = max(text_width(line, size) for text in labels for line in text.split("\n"))
    finish(ax, inches=max(1.0, room(ax) - widest / 72 - 0.2))
    style: dict[str, Any] = {"axis": "y", "labelsize": size}
    ax.tick_params(**style)
    return ax


def fitted(names: list[str], largest: float, width: float, each: float) -> tuple[list[str], float]:
    """Names in lines, and the points of their letters, at most `largest`: a share of `width` points wide, `each` high.

    The letters are as large as they can be. Where even the smallest are too large, names are cut.
    """
    sizes = [*np.arange(largest, _SMALLEST, -0.5).tolist(), _SMALLEST]
    for size in sizes:
        most = _characters(width, size)
        for characters in (min(most, _LONGEST), most):
            broken = [lines_of(name, characters) for name in names]
            if all(_fits(lines, size, each) for lines in broken):
                return ["\n".join(lines) for lines in broken], size
    most = max(_FEWEST, *map(len, names))
    while True:
        broken = [lines_of(name, _characters(width, _SMALLEST)) for name in shortened(names, most)]
        if most <= _FEWEST or all(_fits(lines, _SMALLEST, each) for lines in broken):
            return ["\n".join(lines) for lines in broken], _SMALLEST
        most -= 1


def lines_of(name: str, most: int) -> list[str]:
    """A name in as few lines as possible, of about the same length, broken at spaces and after dashes; between letters
    only where a piece is longer than a line.

    Examples:
        >>> lines_of("hand height–time–hand height and 7 like it", 24)
        ['hand height–time–hand', 'height and 7 like it']
    """
    pieces = re.findall(r"[^ –]*–|[^ –]+ *| +", name)
    pieces = [piece[start : start + most] for piece in pieces for start in range(0, len(piece), most)] or [name]
    least = len(_filled(pieces, most))
    longest = max(len(piece.rstrip()) for piece in pieces)
    return next(lines for width in range(longest, most + 1) if len(lines := _filled(pieces, width)) <= least)


def _filled(pieces: list[str], width: int) -> list[str]:
    lines = [""]
    for piece in pieces:
        if lines[-1] and len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _characters(width: float, size: float) -> int:
    """How many characters of a line fit; letters are about half as wide as high."""
    return max(_FEWEST, int(_SHARE * width / (0.52 * size)))


def _fits(lines: list[str], size: float, each: float) -> bool:
    room_between = 1.0 if len(lines) == 1 else 0.93  # lines of one name are nearer than those of two
    return len(lines) * _LINE * size <= room_between * each
