"""matplotlib, the axes that are drawn on, and letters that fit their width."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NARROW, _WIDE = 2.5, 5.0  # inches of a plot
_SMALLEST, _LARGEST = 7.0, 10.0  # points of its letters
_MARGIN = 40.0  # points at the left for ticks and labels


def require_matplotlib(part: str) -> Any:
    """The module `matplotlib.<part>`; an ImportError that says what to install where it is missing."""
    try:
        return import_module(f"matplotlib.{part}")
    except ModuleNotFoundError as trouble:
        if trouble.name is None or trouble.name.partition(".")[0] != "matplotlib":
            raise
        raise ImportError("plots need matplotlib; install it with: pip install matplotlib") from None


def axes_or_new(ax: Axes | None, width: float = 6.4, height: float = 4.8) -> Axes:
    """`ax`, or the axes of a new figure of this size in inches."""
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


def finish(ax: Axes, *, closed: bool = False) -> Axes:
    """Letters that fit the width of the plot and, unless `closed`, no frame above and at the right."""
    size = letters(ax)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_fontsize(size)
    ax.title.set_fontsize(size)
    ax.tick_params(labelsize=size - 0.5)
    legend = ax.get_legend()
    if legend is not None:
        for text in legend.get_texts():
            text.set_fontsize(size - 0.5)
    if not closed:
        ax.spines[["top", "right"]].set_visible(False)
    literal(ax)
    return ax


def literal(artist: Any) -> None:
    """Draws names with dollar signs that are no formula, which matplotlib refuses, as they are."""
    parser = require_matplotlib("mathtext").MathTextParser("path")
    for text in artist.findobj(require_matplotlib("text").Text):
        if "$" in text.get_text():
            try:
                parser.parse(text.get_text())
            except ValueError:
                text.set_parse_math(False)


def percent() -> Any:
    """Ticks of shares as percentages, with as few digits as they need."""
    return require_matplotlib("ticker").FuncFormatter(lambda share, _: f"{100 * share:.6g}%")


def legend_above(ax: Axes, *, title: str | None = None) -> None:
    """The legend above the plot, where it hides nothing, in as many columns as its width has room for."""
    handles, texts = ax.get_legend_handles_labels()
    size = letters(ax) - 0.5
    lengths = [len(text) for text in texts]
    columns = next((k for k in range(len(texts), 1, -1) if _width(lengths, k, size) < 72 * room(ax) - _MARGIN), 1)
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "ncols": columns, "alignment": "left"}
    spaces: dict[str, Any] = {"columnspacing": 1.0, "handletextpad": 0.4, "handlelength": 1.6, "borderaxespad": 0.2}
    ax.legend(handles, texts, frameon=False, fontsize=size, title=title, title_fontsize=size, **place, **spaces)


def _width(lengths: list[int], columns: int, size: float) -> float:
    """About how many points a legend of texts of these lengths is wide, the columns being filled one after another."""
    rows, longer = divmod(len(lengths), columns)
    total, start = 0.0, 0
    for column in range(columns):
        end = start + rows + (column < longer)
        total += size * (3.2 + 0.58 * max(lengths[start:end]))
        start = end
    return total


def shortened(names: list[str], most: int) -> list[str]:
    """Names of at most `most` characters: cut off at the end, or in the middle where they would then be the same.

    Examples:
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

    Examples:
        >>> with_unit("time", "s"), with_unit("time", None)
        ('time (s)', 'time')
    """
    return f"{name} ({unit})" if unit else name
