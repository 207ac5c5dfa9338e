"""How all plots look: the colours of Okabe and Ito (2008) without yellow, letters, ticks and legends that fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from siggpde.utils.times import TimeFormat

BLUE, ORANGE, GREEN, PURPLE, SKY, AMBER = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"
INK, GREY, PALE = "#222222", "#767676", "#a8a8a8"  # as visible on white as on black, where pages invert them
FOR, AGAINST = BLUE, ORANGE  # what speaks for a prediction, and what against it
CLASSES = (BLUE, ORANGE, GREEN, AMBER, PURPLE, SKY, INK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")  # one more than colours: 56 classes differ
SHARES = "Blues"  # matplotlib's colour map of shares
NUMBERS = "cividis"  # and of numbers

_NARROW, _WIDE = 2.5, 5.0  # inches of a plot
_SMALLEST, _LARGEST = 7.0, 10.0  # points of its letters
_MARGIN = 40.0  # points at the left for ticks and labels
_GAPS = 1.6  # letters of space in and after an entry of a legend
_ROW, _SHARE = 1.5, 0.45  # letters of height for a row of a legend, and its part of the plot at most
_MOST_TICKS = 9
_POINT_ROOM = 6.0  # points of width for a reading


def require_matplotlib(part: str) -> Any:
    """Imports a module of matplotlib, which may not be installed.

    Parameters
    ----------
    part : str
        Its name, such as "pyplot".

    Returns
    -------
    module
        `matplotlib.<part>`; an ImportError says what to install where it is missing.

    Examples
    --------
    >>> require_matplotlib("colors").to_hex("red")
    '#ff0000'
    """
    try:
        return import_module(f"matplotlib.{part}")
    except ModuleNotFoundError as trouble:
        if trouble.name is None or trouble.name.partition(".")[0] != "matplotlib":
            raise
        raise ImportError("plots need matplotlib; install it with: pip install matplotlib") from None


def axes_or_new(ax: Axes | None, width: float = 6.4, height: float = 4.8) -> Axes:
    """Returns `ax`, or the axes of a new figure of this size in inches."""
    if ax is not None:
        return ax
    return require_matplotlib("pyplot").subplots(figsize=(width, height), layout="constrained")[1]


def room(ax: Axes) -> float:
    """The inches across that a plot has, with its labels."""
    return _inches(ax)[0]


def height(ax: Axes) -> float:
    """The inches from top to bottom that a plot has, with its labels."""
    return _inches(ax)[1]


def _inches(ax: Axes) -> tuple[float, float]:
    """Before any layout, a subplot is its share of the figure without its margins; labels are drawn on these."""
    figure: Any = ax.get_figure(root=True)
    width, tall = figure.get_size_inches()
    place = ax.get_subplotspec()
    if place is None:
        box, across, up = ax.get_position(), 1.0, 1.0
    else:
        box, margins = place.get_position(figure), figure.subplotpars
        across, up = margins.right - margins.left, margins.top - margins.bottom
    return float(min(1.0, box.width / across) * width), float(min(1.0, box.height / up) * tall)


def letters(ax: Axes) -> float:
    """The size of letters in points: 7 in a plot of 63 mm or less, 10 in one of 127 mm or more."""
    share = (room(ax) - _NARROW) / (_WIDE - _NARROW)
    return _SMALLEST + (_LARGEST - _SMALLEST) * min(max(share, 0.0), 1.0)


def finish(ax: Axes, *, closed: bool = False, inches: float | None = None) -> Axes:
    """Makes letters and ticks fit the plot, or an axis of `inches`; no frame above and at the right unless `closed`."""
    size = letters(ax)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_fontsize(size)
    ax.title.set_fontsize(size)
    ax.tick_params(labelsize=size - 0.5)
    legend = ax.get_legend()
    if legend is not None:
        for text in legend.get_texts():
            text.set_fontsize(min(size - 0.5, float(text.get_fontsize())))
    if not closed:
        ax.spines[["top", "right"]].set_visible(False)
    few_ticks(ax, max(1.0, room(ax) - _MARGIN / 72) if inches is None else inches)
    literal(ax)
    return ax


def colour_bar(ax: Axes, colours: Any, label: str, /, **place: Any) -> Any:
    """The bar of a colour map with its label, in letters that fit the width of the plot; `place` says where it is."""
    bar: Any = ax.figure.colorbar(colours, **place)
    bar.set_label(label, size=letters(ax))
    bar.ax.tick_params(labelsize=letters(ax) - 0.5)
    bar.outline.set_visible(False)
    return bar


def time_axis(
    axes: Sequence[Axes], clock: TimeFormat | None, times: np.ndarray, unit: str | None = None
) -> tuple[Callable[[np.ndarray], Any], str]:
    """Makes axes tell time stamps (n,) in a format; returns what turns these into places on them, and the label."""
    for ax in axes:
        if isinstance(ax.xaxis.get_major_formatter(), require_matplotlib("ticker").ScalarFormatter):
            ax.ticklabel_format(axis="x", style="plain", useOffset=False)
    if clock is None:
        return lambda stamps: stamps, with_unit("time", unit)
    origin, size, label = clock.axis(float(times[0]), float(times[-1]))
    if not clock.as_dates:
        return lambda stamps: (stamps - origin) / size, label
    dates = require_matplotlib("dates")
    for ax in axes:
        locator = dates.AutoDateLocator(tz=clock.tz, minticks=2, maxticks=max(5, int(1.3 * room(ax))))
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=clock.tz))
        ax.xaxis.get_offset_text().set_fontsize(letters(ax) - 0.5)
    return lambda stamps: dates.date2num([clock.moment(float(stamp)) for stamp in stamps]), label


def marked_readings(ax: Axes, values: np.ndarray) -> np.ndarray:
    """Returns which values (n,) are drawn as points: all that are there where they have room, or those at gaps."""
    known = np.isfinite(values)
    if 72 * room(ax) > _POINT_ROOM * len(values):
        return known
    gap = np.concatenate([[True], ~known, [True]])
    return known & (gap[:-2] | gap[2:]) & bool((~known).any())


def literal(artist: Any) -> None:
    """Draws names with dollar signs that are no formula, which matplotlib refuses, as they are."""
    parser = require_matplotlib("mathtext").MathTextParser("path")
    for text in artist.findobj(require_matplotlib("text").Text):
        if "$" in text.get_text():
            try:
                parser.parse(text.get_text())
            except ValueError:
                text.set_parse_math(False)


def few_ticks(ax: Axes, inches: float) -> None:
    """No more ticks on a linear horizontal axis of this length than their numbers have room for."""
    axis, ticker = ax.xaxis, require_matplotlib("ticker")
    locator: Any = axis.get_major_locator()
    if not isinstance(locator, ticker.AutoLocator):  # one that the plot has chosen
        return
    size, (low, high) = letters(ax) - 0.5, sorted(ax.get_xlim())
    for most in range(_MOST_TICKS, 1, -1):
        locator.set_params(nbins=most)
        places = [place for place in locator.tick_values(low, high) if low <= place <= high]
        widths = [text_width(text, size) + size for text in axis.get_major_formatter().format_ticks(places)]
        if max(widths, default=0.0) * len(widths) < 72 * inches:
            return


@lru_cache(4096)
def text_width(text: str, size: float) -> float:
    """How many points a line of text is wide."""
    font = require_matplotlib("font_manager").FontProperties(size=size)
    width, _, _ = require_matplotlib("textpath").text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width)


def percent() -> Any:
    """Ticks of shares as percentages, with as few digits as they need."""
    return require_matplotlib("ticker").FuncFormatter(lambda share, _: f"{100 * share:.6g}%")


def legend_above(
    ax: Axes,
    *,
    title: str | None = None,
    above: float = 1.0,
    handle: float = 1.6,
    markers: float = 1.0,
    whole: int = 0,
    margin: float = _MARGIN,
) -> None:
    """The legend above the plot, with columns and letters that fit, whose last `whole` texts are never cut."""
    handles, texts = ax.get_legend_handles_labels()
    size, columns = letters(ax) - 0.5, 1
    first, longest = size, max(map(len, texts), default=0)
    names, ends = texts[: len(texts) - whole], texts[len(texts) - whole :]

    def wide(widths: list[float], columns: int) -> float:
        """How many points entries of these widths are wide, the columns being filled one after another."""
        return sum(float(part.max()) for part in np.array_split(widths, columns))

    for size, most in [(first, longest), *((_SMALLEST - 1, most) for most in range(longest, 4, -1))]:
        texts = [*shortened(names, most), *ends]
        widths = [text_width(text, size) + (handle + _GAPS) * size for text in texts]
        columns = next((k for k in range(len(texts), 1, -1) if wide(widths, k) - size < 72 * room(ax) - margin), 1)
        rows = max(1, math.ceil(len(texts) / columns))
        columns = math.ceil(len(texts) / rows)  # no column more than the rows need
        if (rows + (title is not None)) * _ROW * size < max(_SHARE * 72 * height(ax), 3 * _ROW * first):
            break
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, above), "ncols": columns, "alignment": "left"}
    spaces: dict[str, Any] = {"columnspacing": 1.0, "handletextpad": 0.4, "handlelength": handle, "borderaxespad": 0.2}
    spaces["markerscale"] = markers
    ax.legend(handles, texts, frameon=False, fontsize=size, title=title, title_fontsize=size, **place, **spaces)


def shortened(names: list[str], most: int) -> list[str]:
    """Names of at most `most` characters: cut off at the end, or in the middle where they would then be the same.

    >>> shortened(["standing still", "sitting"], 10), shortened(["class of 1998", "class of 1999"], 9)
    (['standing …', 'sitting'], ['clas…1998', 'clas…1999'])
    """
    cut = [name if len(name) <= most else f"{name[: most - 1]}…" for name in names]
    if len(set(cut)) == len(set(names)):
        return cut
    half = (most - 1) // 2
    return [name if len(name) <= most else f"{name[: most - 1 - half]}…{name[-half:]}" for name in names]


def with_unit(name: str, unit: str | None) -> str:
    """The label of an axis.

    >>> with_unit("time", "s"), with_unit("time", None)
    ('time (s)', 'time')
    """
    return f"{name} ({unit})" if unit else name


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
    return colours.LinearSegmentedColormap.from_list("siggpde_signed", [AGAINST, PALE, FOR])
