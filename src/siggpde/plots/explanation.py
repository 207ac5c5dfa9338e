"""One series and what in it speaks for or against its prediction: its channels one below the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from siggpde.explain import Counterfactual, SegmentContributions, SeriesExplanation
from siggpde.plots import style
from siggpde.plots.inputs import matrix, vector
from siggpde.utils.times import TimeFormat

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PALEST = 0.05  # the share of its colour that a line keeps at least
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
    time_format: TimeFormat | None = None,
    label: str = "contribution",
    most: int = 8,
) -> np.ndarray:
    """Draws a series, its lines coloured by what they contribute to a prediction; uncertain contributions are pale.

    Readings are points where these have room. Lines are thin across gaps, where values are interpolated or held.

    Parameters
    ----------
    values : array-like (channels, points)
        The series, NaN where a value is missing.
    contributions : array-like (channels, segments)
        Positive for what speaks for a class or raises a number. Segment j of every channel is from `edges[j]` to
        `edges[j + 1]`.
    edges : array-like (segments + 1,)
        Times, ascending.
    axes : sequence of matplotlib.axes.Axes, optional
        As many as channels are drawn; those of a new figure without them.
    times : array-like (points,), optional
        Ascending; 0, 1, ... without them.
    std : array-like (channels, segments), optional
        The standard deviations of the contributions.
    counterfactual : array-like (channels, points), optional
        Another series, drawn dashed where it differs.
    counterfactual_label : str, default "counterfactual"
        Its name in the legend.
    channels, units : sequence of str, optional
        The names and units of the channels.
    time_unit : str, optional
        The unit of time.
    time_format : siggpde.io.TimeFormat, optional
        What the times are, such as the `time_format` of a `SeriesData`: dates, or durations with a unit.
    label : str
        The label of the colour bar, such as "latent of class 3".
    most : int
        Of more channels those with the largest contributions are drawn, in their order.

    Returns
    -------
    ndarray of matplotlib.axes.Axes (channels drawn,)

    Examples
    --------
    >>> plot_series([[0.0, 1.0, 3.0, 2.0]], [[0.5, -0.2]], edges=[0, 1, 3], channels=["pressure"]).shape
    (1,)
    """
    data = _checked(values, contributions, edges, times, std, counterfactual)
    count = len(data.values)
    names = [f"channel {index}" for index in range(count)] if channels is None else [str(name) for name in channels]
    given = [None] * count if units is None else list(units)
    for what, entries in (("channels", names), ("units", given)):
        if len(entries) != count:
            raise ValueError(f"{what} must have {count} entries, one a channel of values, got {len(entries)}")
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ValueError(f"most must be a whole number of at least 1, got {most!r}")
    shown = np.sort(np.argsort(-np.abs(data.contributions).sum(axis=1), kind="stable")[:most])
    drawn = _axes(axes, len(shown))
    largest = float(np.abs(data.contributions).max()) or 1.0
    to_axis, time_label = style.time_axis(drawn.tolist(), None if times is None else time_format, data.times, time_unit)
    data = data._replace(times=to_axis(data.times), edges=to_axis(data.edges))
    scale = style.require_matplotlib("colors").Normalize(-largest, largest)
    colours = style.require_matplotlib("cm").ScalarMappable(scale, style.signed_colours())
    for ax, channel in zip(drawn, shown, strict=True):
        _channel(ax, data, channel, colours)
        ax.set_title(style.with_unit(names[channel], given[channel]), loc="left", size=style.letters(ax), pad=2)
        ax.locator_params(axis="y", nbins=3 if style.height(ax) > _LETTERS * style.letters(ax) else 2)
        ax.margins(x=0.01)
        style.finish(ax)
        ax.tick_params(labelbottom=ax is drawn[-1])
    last = drawn[-1]
    last.set_xlabel(("point" if times is None else time_label), size=style.letters(last))
    note = f"; {len(shown)} of {count} channels" if len(shown) < count else ""
    below: dict[str, Any] = {"location": "bottom", "pad": 0.02, "aspect": 40, "shrink": 0.7}
    bar = style.colour_bar(last, colours, label + note, ax=list(drawn), **below)
    style.few_ticks(bar.ax, 0.65 * style.room(last))
    if data.changed is not None:
        handle = style.require_matplotlib("lines").Line2D([], [], color=style.INK, linestyle="--", linewidth=1)
        up = 1.4 * style.letters(last) / 72
        offset = style.require_matplotlib("transforms").ScaledTranslation(0, up, last.figure.dpi_scale_trans)
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.0}
        place |= {"bbox_transform": drawn[0].transAxes + offset, "borderpad": 0.0}  # above the name of the channel
        drawn[0].legend([handle], [counterfactual_label], frameon=False, fontsize=style.letters(last) - 0.5, **place)
    return drawn


def _channel(ax: Axes, data: _Series, channel: int, colours: Any) -> None:
    series, times, edges = data.values[channel], data.times, data.edges
    known, across = np.isfinite(series), []
    if not known.any():
        ax.text(0.5, 0.5, "no readings", transform=ax.transAxes, ha="center", va="center", color=style.GREY)
        ax.set_yticks([])
        return
    ax.plot(times, series, color=style.PALE, linewidth=1.2, zorder=1)  # what is in no segment
    certain, parts = np.ones((len(edges) - 1, 1)), data.contributions[channel]
    if data.spread is not None:  # the share 2 Phi(|c| / s) - 1 of the full colour for a contribution c, of spread s
        spread = data.spread[channel]
        ratio = np.divide(np.abs(parts), spread, out=np.where(parts != 0, np.inf, 0.0), where=spread > 0)
        certain = np.array([[math.erf(one / math.sqrt(2))] for one in ratio.tolist()])
    # Mixed with a grey that is visible on every background: transparent lines would show their joints.
    pale, share = style.require_matplotlib("colors").to_rgb(style.PALE), _PALEST + (1 - _PALEST) * certain
    paled = share * colours.to_rgba(parts)[:, :3] + (1 - share) * pale
    for segment, colour in enumerate(paled):
        start, end = edges[segment], edges[segment + 1]
        inside = times[(times > start) & (times < end)]
        piece = np.concatenate([[max(start, times[0])], inside, [min(end, times[-1])]])
        if piece[0] > piece[-1]:
            continue
        across.append((np.stack([piece, np.interp(piece, times[known], series[known])], axis=1), colour))
        ax.plot(piece, np.interp(piece, times, series), color=colour, linewidth=2.0, solid_capstyle="butt", zorder=2)
    thin: dict[str, Any] = {"colors": [colour for _, colour in across], "linewidths": 0.8, "zorder": 1.5}
    ax.add_collection(style.require_matplotlib("collections").LineCollection([line for line, _ in across], **thin))
    marked = np.flatnonzero(style.marked_readings(ax, series))
    inside = np.clip(np.searchsorted(edges, times[marked], side="right") - 1, 0, len(paled) - 1)
    ax.scatter(times[marked], series[marked], s=14, c=paled[inside], linewidth=0, zorder=2.5)
    if data.changed is not None:
        other = data.changed[channel]
        differs = np.abs(other - series) > _CHANGED * max(float(np.nanmax(series) - np.nanmin(series)), 1e-300)
        differs[:-1] |= differs[1:].copy()
        differs[1:] |= differs[:-1].copy()
        ax.plot(times, np.where(differs, other, np.nan), color=style.INK, linestyle="--", linewidth=1.0, zorder=3)
        shade: dict[str, Any] = {"color": style.INK, "alpha": 0.08, "linewidth": 0, "zorder": 0}
        ax.fill_between(times, series, other, where=differs.tolist(), **shade)
        _cut_far(ax, series, other[differs])


def _cut_far(ax: Axes, series: np.ndarray, other: np.ndarray) -> None:
    """Another series can go so far that the first is a flat line; the axis then ends on the way, and says how far."""
    low, high = float(np.nanmin(series)), float(np.nanmax(series))
    most = _FAR * (high - low)
    if most == 0 or not np.isfinite(other).any():
        return
    at: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "right"}
    at |= {"size": style.letters(ax) - 1, "color": style.INK}
    least, largest = float(np.nanmin(other)), float(np.nanmax(other))
    bottom, top = max(min(low, least), low - most), min(max(high, largest), high + most)
    if least < bottom or largest > top:
        ax.set_ylim(bottom - 0.05 * (top - bottom), top + 0.05 * (top - bottom))
    if largest > top:
        ax.annotate(f"up to {largest:.4g}".replace("-", "−"), (1, 1), (0, 2), va="bottom", **at)
    if least < bottom:
        ax.annotate(f"down to {least:.4g}".replace("-", "−"), (1, 0), (0, 2), va="bottom", **at)


def _axes(axes: Any, count: int) -> np.ndarray:
    if axes is None:
        pyplot = style.require_matplotlib("pyplot")
        tall = _COLUMN * count + 0.6
        return pyplot.subplots(count, 1, figsize=(6.4, tall), sharex=True, squeeze=False, layout="constrained")[1][:, 0]
    given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if len(given) != count:
        raise ValueError(f"there are {count} channels to draw but {len(given)} axes; give one for each, or none")
    return given


def _checked(values: Any, contributions: Any, edges: Any, times: Any, std: Any, counterfactual: Any) -> _Series:
    series = matrix("values", values, (None, None), "a row a channel and a column a point", gaps=True)
    if np.isnan(series).all():
        raise ValueError("all values of all channels are missing; give a series with some")
    points = series.shape[1]
    place = np.arange(points, dtype=float) if times is None else vector("times", times, points, unit="point")
    ends = vector("edges", edges, unit="edge")
    for name, array in (("times", place), ("edges", ends)):
        if (np.diff(array) < 0).any():
            index = int((np.diff(array) < 0).argmax())
            raise ValueError(
                f"{name} must be ascending, but entry {index + 1} is {array[index + 1]:g} after {array[index]:g}"
            )
    if len(ends) < 2:
        raise ValueError("edges must have at least two entries, the ends of one segment")
    shape = (len(series), len(ends) - 1)
    what = "a row a channel of values and a column a segment between edges"
    parts = matrix("contributions", contributions, shape, what)
    spread = None if std is None else matrix("std", std, shape, what)
    if spread is not None and (spread < 0).any():
        raise ValueError("std has negative numbers; give standard deviations")
    other = None
    if counterfactual is not None:
        other = matrix("counterfactual", counterfactual, (len(series), points), "as values", gaps=True)
    return _Series(series, place, parts, ends, spread, other)


def plot_explanation(
    explanation: SeriesExplanation,
    x: ArrayLike | None = None,
    axes: Sequence[Axes] | np.ndarray | None = None,
    *,
    counterfactual: Counterfactual | ArrayLike | None = None,
    time_channel: int | None = None,
    units: Sequence[str | None] | None = None,
    time_unit: str | None = None,
    unit: str | None = None,
    most: int = 8,
    name: str | None = None,
) -> np.ndarray:
    """Draws a series with its lines coloured by what they contribute to its prediction; what is uncertain is pale.

    Parameters
    ----------
    explanation : siggpde.explain.SeriesExplanation
        One of those that `estimator.explain(X)` returns, with segments. Of classes the difference of the predicted one
        and the runner-up is drawn, of numbers the number itself.
    x : array-like (channels, points) or (1, channels, points), optional
        The series that is explained, as it was handed in; that of the counterfactual without it.
    axes : sequence of matplotlib.axes.Axes, optional
        As for `plot_series`.
    counterfactual : siggpde.explain.Counterfactual or array-like, optional
        What `estimator.counterfactual(x)` returns, or another series of the same shape, drawn dashed where it differs.
    time_channel : int, optional
        Which channel of x holds time stamps, as in the estimator.
    units : sequence of str, optional
        Those of the channels, without the time channel.
    time_unit, unit : str, optional
        Those of time and of a predicted number, which labels the colours.
    most : int
        As for `plot_series`.
    name : str, optional
        That of the series, with which the title begins.

    Returns
    -------
    ndarray of matplotlib.axes.Axes (channels drawn,)

    Examples
    --------
    >>> from siggpde import SigGPClassifier
    >>> X = np.random.default_rng(0).normal(size=(10, 1, 5)).cumsum(axis=2)
    >>> explanation = SigGPClassifier(members=1).fit(X, [0, 1] * 5).explain(X[:1], segments=2)[0]
    >>> plot_explanation(explanation, X[0]).shape
    (1,)
    """
    if not isinstance(explanation, SeriesExplanation):
        got = type(explanation).__name__
        raise ValueError(f"explanation must be one of those that explain returns, such as explain(X)[0], got {got}")
    segments = explanation.segments
    if segments is None:
        raise ValueError("the explanation has no segments to draw; make it without segments=0")
    if x is None:
        if not isinstance(counterfactual, Counterfactual):
            raise ValueError("give the series that is explained as x, (channels, points)")
        x = counterfactual.original
    other = counterfactual.series if isinstance(counterfactual, Counterfactual) else counterfactual
    values, times = _split("x", x, time_channel)
    contrast, std = _of_channels(segments, len(values))
    _check_same_points(segments, values.shape[1], times)
    title = f"{explanation.label}: probability {_chance(explanation.probability or 0.0)}"
    label = f"for {explanation.label} (+) or for {explanation.runner_up} (−), logits"
    if explanation.probability is None:
        title = f"predicted {_number(explanation.mean, explanation.std)}{f' {unit}' if unit else ''}"
        label = style.with_unit("contribution", unit)
    changed = None if other is None else _split("counterfactual", other, time_channel)[0]
    known: dict[str, Any] = {"times": times, "time_unit": time_unit, "time_format": segments.time_format, "std": std}
    known |= {"channels": list(segments.channels[: len(values)]), "units": units, "label": label, "most": most}
    known |= {"counterfactual": changed, "counterfactual_label": _counterfactual_label(counterfactual)}
    drawn = plot_series(values, contrast, segment_edges(segments), axes, **known)
    size, lines = style.letters(drawn[0]), 1 if other is None else 2  # above the name of the channel and the legend
    above: dict[str, Any] = {"xy": (0, 1), "xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom"}
    title = title if name is None else f"{name}: {title}"
    drawn[0].annotate(title, xytext=(0, 1.5 * size * lines + 3), size=size + 0.5, fontweight="bold", **above)
    style.literal(drawn[0].get_figure(root=True))
    return drawn


def _number(mean: float | None, std: float | None) -> str:
    """A number with its standard deviation, both to the second digit of the latter."""
    if mean is None or std is None or not 1e-4 <= std < 1e4:
        return f"{mean:.4g} ± {std:.2g}"
    digits = max(0, 1 - math.floor(math.log10(std)))
    return f"{mean:.{digits}f} ± {std:.{digits}f}".replace("-", "−")


def _chance(probability: float) -> str:
    """Rounded, but never to certainty."""
    rounded = f"{probability:.3f}"
    return "> 0.999" if rounded == "1.000" else rounded


def _counterfactual_label(counterfactual: Any) -> str:
    if not isinstance(counterfactual, Counterfactual):
        return "counterfactual"
    if counterfactual.probability_after is None:
        name = f"{counterfactual.mean_after:.4g}"
    else:
        name = f"{counterfactual.target}, {_chance(counterfactual.probability_after)}"
    return f"changed: {name}" if counterfactual.valid else f"best try: {name}"


def _split(name: str, series: ArrayLike, time_channel: int | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Values (channels, points) and times (points,) or None, without padding."""
    array = np.asarray(series, dtype=np.float64)
    array = array[0] if array.ndim == 3 and len(array) == 1 else array
    array = matrix(name, array, (None, None), "a row a channel and a column a point", gaps=True)
    observed = np.flatnonzero(np.isfinite(array).any(axis=0))
    if len(observed) == 0:
        raise ValueError(f"{name} is NaN everywhere; give the series that is explained")
    array = array[:, : int(observed[-1]) + 1]
    if time_channel is None:
        return array, None
    if not -len(array) <= time_channel < len(array):
        raise ValueError(f"time_channel is {time_channel}, but {name} has {len(array)} channels")
    return np.delete(array, time_channel, axis=0), array[time_channel]


def _of_channels(segments: SegmentContributions, channels: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Contributions and standard deviations or None, (channels, segments); those of a mask count for its channel."""
    contrast, std = segments.contrast.T, None if segments.contrast_std is None else segments.contrast_std.T
    if len(contrast) == channels:
        return contrast, std
    if len(contrast) == 2 * channels:
        both = None if std is None else np.hypot(std[:channels], std[channels:])
        return contrast[:channels] + contrast[channels:], both
    if segments.timed and len(contrast) % channels == 0 and all(name.endswith(" Hz") for name in segments.channels):
        raise ValueError(
            f"the explanation is of a spectrogram, {len(contrast)} channels ({segments.channels[0]}, ..), but x has "
            f"{channels}; give the spectrogram as x, with the seconds of its segments as one more channel, time_channel"
        )
    raise ValueError(
        f"the explanation is of {len(contrast)} channels ({', '.join(segments.channels[:3])}, ..), but x has "
        f"{channels}; give the series as it was handed to explain, and its time_channel"
    )


def _check_same_points(segments: SegmentContributions, points: int, times: np.ndarray | None) -> None:
    """Refuses a series that the segments are not of, as far as its points tell."""
    if segments.timed and times is None:
        raise ValueError(
            "the explanation is of a series with time stamps; say which channel of x has them, time_channel"
        )
    first, last = float(segments.starts[0]), float(segments.ends[-1])
    begins, ends = (0.0, points - 1.0) if times is None or not segments.timed else (np.nanmin(times), np.nanmax(times))
    slack = 1e-6 * max(1.0, abs(begins), abs(ends))
    if first < begins - slack or last > ends + slack or (not segments.timed and last < ends):
        raise ValueError(
            f"the explanation is of a series from {first:g} to {last:g}, but x goes from {begins:g} to {ends:g}; give "
            "the series as it was handed to explain"
        )


def segment_edges(segments: SegmentContributions) -> np.ndarray:
    """Where segments begin and end, (segments + 1,): half way from the last point of one to the first of the next."""
    starts, ends = (np.asarray(ends, dtype=np.float64) for ends in (segments.starts, segments.ends))
    return np.concatenate([starts[:1], (ends[:-1] + starts[1:]) / 2, ends[-1:]])
