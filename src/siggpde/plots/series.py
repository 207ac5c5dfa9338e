r"""One series and what in it speaks for or against a prediction: its channels as small multiples.

Every segment of a channel is drawn in the colour of its contribution c, blue for and orange against, on one scale for
all channels. Where the contribution is uncertain the colour is pale: with its standard deviation s the full colour
keeps the share

.. math:: 2 \Phi(|c| / s) - 1,

which is 0 where the sign is a toss-up and 1 where it is sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from siggpde.plots.axes import few_ticks, finish, height, letters, require_matplotlib, room, with_unit
from siggpde.plots.inputs import matrix, vector
from siggpde.plots.palette import INK, PALE, signed_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PALEST = 0.3  # the share of its colour that a line keeps at least
_COLUMN = 1.05  # inches of height for a channel
_LETTERS = 0.12  # inches of height a channel for each point of the letters: less has room for two ticks
_FAR = 3.0  # times its range, beyond a channel's values: further out another series is cut off
_CHANGED = 1e-9  # of the range of a channel: less is no change


class _Series(NamedTuple):
    values: np.ndarray
    times: np.ndarray
    contributions: np.ndarray
    edges: np.ndarray
    spread: np.ndarray | None
    changed: np.ndarray | None


def plot_series(
    values: ArrayLike,
    contributions: ArrayLike,
    edges: ArrayLike,
    axes: Sequence[Axes] | np.ndarray | None = None,
    *,
    times: ArrayLike | None = None,
    std: ArrayLike | None = None,
    counterfactual: ArrayLike | None = None,
    counterfactual_label: str = "counterfactual",
    channels: Sequence[str] | None = None,
    units: Sequence[str | None] | None = None,
    time_unit: str | None = None,
    label: str = "contribution",
    most: int = 8,
) -> np.ndarray:
    """A series, its lines coloured by what they contribute to a prediction; uncertain contributions are pale.

    - `values` (channels, points): the series, NaN where a value is missing; `times` (points,), ascending, or 0, 1, ...
    - `contributions` (channels, segments), with standard deviations `std` of the same shape: positive for what speaks
      for a class or raises a number. Segment j of every channel is from `edges[j]` to `edges[j + 1]`, `edges`
      (segments + 1,) being times, ascending.
    - `counterfactual` (channels, points): another series, drawn dashed where it differs, and named in the legend.
    - `channels` and `units`: names and units of the channels. `label` is that of the colour bar, such as "latent of
      class 3".

    Of more than `most` channels, those with the largest contributions are drawn, in their order. `axes` are as many as
    channels drawn, or None for a new figure; they are returned, (channels drawn,).
    """
    data = _checked(values, contributions, edges, times, std, counterfactual)
    count = len(data.values)
    names = [f"channel {index}" for index in range(count)] if channels is None else [str(name) for name in channels]
    given = [None] * count if units is None else list(units)
    for what, own in (("channels", names), ("units", given)):
        if len(own) != count:
            raise ValueError(f"{what} must have {count} entries, one a channel of values, got {len(own)}")
    shown = _largest(data.contributions, most)
    drawn = _axes(axes, len(shown))
    largest = float(np.abs(data.contributions).max()) or 1.0
    scale = require_matplotlib("colors").Normalize(-largest, largest)
    colours = require_matplotlib("cm").ScalarMappable(scale, signed_colours())
    for ax, channel in zip(drawn, shown, strict=True):
        _channel(ax, data, channel, colours)
        ax.set_title(with_unit(names[channel], given[channel]), loc="left", size=letters(ax), pad=2)
        ax.locator_params(axis="y", nbins=3 if height(ax) > _LETTERS * letters(ax) else 2)
        ax.margins(x=0.01)
        finish(ax)
        ax.tick_params(labelbottom=ax is drawn[-1])
    last = drawn[-1]
    last.set_xlabel(("point" if times is None else with_unit("time", time_unit)), size=letters(last))
    below: dict[str, Any] = {"location": "bottom", "pad": 0.02, "aspect": 40, "shrink": 0.7}
    bar: Any = last.figure.colorbar(colours, ax=list(drawn), **below)
    note = f"; {len(shown)} of {count} channels" if len(shown) < count else ""
    bar.set_label(label + note, size=letters(last))
    bar.ax.tick_params(labelsize=letters(last) - 0.5)
    bar.outline.set_visible(False)
    few_ticks(bar.ax, 0.65 * room(last))
    if data.changed is not None:
        handle = require_matplotlib("lines").Line2D([], [], color=INK, linestyle="--", linewidth=1)
        offset = require_matplotlib("transforms").ScaledTranslation(
            0, 1.4 * letters(last) / 72, last.figure.dpi_scale_trans
        )
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.0}
        place |= {"bbox_transform": drawn[0].transAxes + offset, "borderpad": 0.0}  # above the name of the channel
        drawn[0].legend([handle], [counterfactual_label], frameon=False, fontsize=letters(last) - 0.5, **place)
    return drawn


def _channel(ax: Axes, data: _Series, channel: int, colours: Any) -> None:
    own, times, edges = data.values[channel], data.times, data.edges
    ax.plot(times, own, color=PALE, linewidth=1.2, zorder=1)  # what is in no segment
    for segment, contribution in enumerate(data.contributions[channel]):
        start, end = edges[segment], edges[segment + 1]
        inside = times[(times > start) & (times < end)]
        piece = np.concatenate([[max(start, times[0])], inside, [min(end, times[-1])]])
        if piece[0] > piece[-1]:
            continue
        spread = None if data.spread is None else float(data.spread[channel, segment])
        colour = _paled(colours.to_rgba(contribution)[:3], _certainty(float(contribution), spread), ax)
        ax.plot(piece, np.interp(piece, times, own), color=colour, linewidth=2.0, solid_capstyle="butt", zorder=2)
    if data.changed is not None:
        other = data.changed[channel]
        differs = np.abs(other - own) > _CHANGED * max(float(np.nanmax(own) - np.nanmin(own)), 1e-300)
        differs[:-1] |= differs[1:].copy()
        differs[1:] |= differs[:-1].copy()
        ax.plot(times, np.where(differs, other, np.nan), color=INK, linestyle="--", linewidth=1.0, zorder=3)
        ax.fill_between(times, own, other, where=differs.tolist(), color=INK, alpha=0.08, linewidth=0, zorder=0)
        _cut_far(ax, own, other[differs])


def _cut_far(ax: Axes, own: np.ndarray, other: np.ndarray) -> None:
    """Another series can go so far that the first is a flat line; the axis then ends on the way, and says how far."""
    low, high = float(np.nanmin(own)), float(np.nanmax(own))
    most = _FAR * (high - low)
    if most == 0 or not np.isfinite(other).any():
        return
    at: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "right"}
    at |= {"size": letters(ax) - 1, "color": INK}
    least, largest = float(np.nanmin(other)), float(np.nanmax(other))
    bottom, top = max(min(low, least), low - most), min(max(high, largest), high + most)
    if least < bottom or largest > top:
        ax.set_ylim(bottom - 0.05 * (top - bottom), top + 0.05 * (top - bottom))
    if largest > top:
        ax.annotate(f"up to {largest:.4g}".replace("-", "−"), (1, 1), (0, 2), va="bottom", **at)
    if least < bottom:
        ax.annotate(f"down to {least:.4g}".replace("-", "−"), (1, 0), (0, 2), va="bottom", **at)


def _certainty(contribution: float, spread: float | None) -> float:
    """2 Phi(|c| / s) - 1; 1 without a standard deviation."""
    from math import erf, sqrt  # noqa: PLC0415

    if spread is None:
        return 1.0
    return erf(abs(contribution) / spread / sqrt(2)) if spread > 0 else float(contribution != 0)


def _paled(colour: Sequence[float], certainty: float, ax: Axes) -> tuple[float, ...]:
    """Mixed with the background: transparent lines would show their joints."""
    background = require_matplotlib("colors").to_rgb(ax.get_facecolor())
    share = _PALEST + (1 - _PALEST) * certainty
    return tuple(share * own + (1 - share) * behind for own, behind in zip(colour, background, strict=True))


def _largest(contributions: np.ndarray, most: int) -> np.ndarray:
    """The indices of at most so many channels, ascending."""
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ValueError(f"most must be a whole number of at least 1, got {most!r}")
    total = np.abs(contributions).sum(axis=1)
    return np.sort(np.argsort(-total, kind="stable")[:most])


def _axes(axes: Any, count: int) -> np.ndarray:
    if axes is None:
        pyplot = require_matplotlib("pyplot")
        height = _COLUMN * count + 0.6
        return pyplot.subplots(count, 1, figsize=(6.4, height), sharex=True, squeeze=False, layout="constrained")[1][
            :, 0
        ]
    given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if len(given) != count:
        raise ValueError(f"there are {count} channels to draw but {len(given)} axes; give one for each, or none")
    return given


def _checked(values: Any, contributions: Any, edges: Any, times: Any, std: Any, counterfactual: Any) -> _Series:
    own = matrix("values", values, (None, None), "a row a channel and a column a point", gaps=True)
    if np.isnan(own).all(axis=1).any():
        channel = int(np.isnan(own).all(axis=1).argmax())
        raise ValueError(f"all values of channel {channel} are missing; leave the channel out")
    place = (
        np.arange(own.shape[1], dtype=float) if times is None else vector("times", times, own.shape[1], each="point")
    )
    ends = vector("edges", edges, each="edge")
    for name, array in (("times", place), ("edges", ends)):
        if (np.diff(array) < 0).any():
            index = int((np.diff(array) < 0).argmax())
            raise ValueError(
                f"{name} must be ascending, but entry {index + 1} is {array[index + 1]:g} after {array[index]:g}"
            )
    if len(ends) < 2:
        raise ValueError("edges must have at least two entries, the ends of one segment")
    shape = (len(own), len(ends) - 1)
    what = "a row a channel of values and a column a segment between edges"
    parts = matrix("contributions", contributions, shape, what)
    spread = None if std is None else matrix("std", std, shape, what)
    if spread is not None and (spread < 0).any():
        raise ValueError("std has negative numbers; give standard deviations")
    other = None
    if counterfactual is not None:
        other = matrix("counterfactual", counterfactual, (own.shape[0], own.shape[1]), "as values", gaps=True)
    return _Series(own, place, parts, ends, spread, other)
