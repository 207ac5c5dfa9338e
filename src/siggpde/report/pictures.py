"""Figures of matplotlib as images inside the page: SVG in a data URI, the same bytes for the same figure.

Letters stay letters, in a font of the reader's machine. The background is transparent; where the reader prefers dark
pages a filter of the page's style turns light and dark round and keeps the hues.
"""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from siggpde.plots import require_matplotlib
from siggpde.report.html import Markup, empty_tag, join, tag

WIDTH = 5.6  # inches of a picture that has half of a wide page
_DPI = 96.0  # of CSS
_FONTS = re.compile(r"font: ((?:[\w.]+ )*[\d.]+px) [^;\"]*")
_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "siggpde",
    "text.parse_math": False,  # a label may hold dollars
    "axes.unicode_minus": True,
    "figure.facecolor": "none",
    "axes.facecolor": "white",
}


@dataclass(frozen=True)
class Picture:
    """An image: `svg`, its width and height in CSS pixels, and what it shows for those who cannot see it."""

    svg: str
    width: int
    height: int
    alt: str

    def html(self) -> Markup:
        content = base64.b64encode(self.svg.encode()).decode()
        source = f"data:image/svg+xml;base64,{content}"
        return empty_tag("img", src=source, width=self.width, height=self.height, alt=self.alt)


def picture(draw: Callable[[Any], Any], alt: str, width: float = WIDTH, height: float = 3.6) -> Picture:
    """What `draw` draws on a figure (inches), which it is given empty."""
    matplotlib_figure = require_matplotlib("figure")
    with require_matplotlib("style").context(["default", _SETTINGS]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")  # the reader's fonts may have them
        figure = matplotlib_figure.Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        for ax in figure.axes:
            ax.patch.set_alpha(0.0)
        content = io.StringIO()
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = content.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = _FONTS.sub(r"font: \1 system-ui, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif", svg)
    return Picture(_shorter(svg), round(width * _DPI), round(height * _DPI), alt)


def on_axes(draw: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """For functions that draw on one pair of axes."""
    return lambda figure: draw(figure.subplots())


def figure(caption: Any, *pictures: Picture, kind: str = "") -> Markup:
    """Pictures with a caption that says how to read them."""
    images = join(each.html() for each in pictures)
    shown = tag("div", images, class_="tiles") if kind == "strip" else images
    return tag("figure", shown, tag("figcaption", caption), class_=kind or None)


def figures(*shown: Markup) -> Markup:
    """Figures side by side where the page is wide enough."""
    return tag("div", *shown, class_="figures")


def thinned(count: int, most: int, seed: int) -> np.ndarray:
    """At most so many of the numbers 0..count-1, ascending, drawn at random."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


def _shorter(svg: str) -> str:
    """Coordinates to a hundredth of a point, which nobody sees, and no blank lines."""
    svg = re.sub(r"(?<=[\s\"(,-])(\d+\.\d{3,})(?=[\s\",)])", lambda match: f"{float(match[1]):.2f}", svg)
    return re.sub(r"\n\s*", "\n", svg)
