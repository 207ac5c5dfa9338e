"""The colours and markers of all plots, which people who are colour-blind tell apart.

The colours are those of Okabe and Ito (2008), the yellow one, which is hard to see on white, left out. Classes differ
in their markers too, so that a plot survives a black-and-white printer; classes of one colour are full and hollow.
"""

from __future__ import annotations

from typing import Any

from siggpde.plots.axes import require_matplotlib

BLUE, ORANGE, GREEN, PURPLE, SKY, AMBER = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"
INK, GREY, PALE = "#222222", "#767676", "#d9d9d9"
FOR, AGAINST = BLUE, ORANGE  # what speaks for a prediction, and what against it
CLASSES = (BLUE, ORANGE, GREEN, AMBER, PURPLE, SKY, INK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")  # one more than colours: 56 classes differ
SHARES = "Blues"  # matplotlib's colour map of shares
NUMBERS = "cividis"  # and of numbers


def class_style(index: int) -> dict[str, Any]:
    """Colour and marker of the class `index`."""
    return {"color": CLASSES[index % len(CLASSES)], "marker": MARKERS[index % len(MARKERS)]}


def class_dots(index: int) -> dict[str, Any]:
    """What `scatter` draws of the class `index`: full markers of the first colours, then hollow ones of the same."""
    style = class_style(index)
    if index // len(CLASSES) % 2 == 0:
        return style | {"linewidth": 0}
    return {"facecolors": "none", "edgecolors": style["color"], "marker": style["marker"], "linewidth": 0.9}


def signed_colours() -> Any:
    """matplotlib's colour map from what speaks against, by grey, to what speaks for."""
    colours = require_matplotlib("colors")
    return colours.LinearSegmentedColormap.from_list("siggpde_signed", [AGAINST, "#c4c4c4", FOR])
