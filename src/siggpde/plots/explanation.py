"""The explanation of one series, drawn on the series itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from siggpde.explain import Counterfactual, SegmentContributions, SeriesExplanation
from siggpde.plots.axes import letters, literal
from siggpde.plots.inputs import matrix
from siggpde.plots.series import plot_series

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
) -> np.ndarray:
    """A series with its lines coloured by what they contribute to its prediction; what is uncertain is pale.

    - `explanation`: one of those that `estimator.explain(X)` returns, with segments. Of classes it is the difference of
      the predicted one and the runner-up that is drawn, of numbers the number itself, whose `unit` labels the colours.
    - `x` (channels, points) or (1, channels, points): the series that is explained, as it was handed in; None takes
      that of the counterfactual. `time_channel`: which of its channels holds time stamps, as in the estimator.
    - `counterfactual`: what `estimator.counterfactual(x)` returns, or another series of the same shape, drawn dashed
      where it differs.
    - `units`: those of the channels, without the time channel, and `time_unit` that of time.

    `most` and `axes` are as for `plot_series`, and so is what is returned.
    """
    if not isinstance(explanation, SeriesExplanation):
        raise ValueError(
            f"explanation must be one of those that explain returns, such as explain(X)[0], got "
            f"{type(explanation).__name__}"
        )
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
    drawn = plot_series(
        values,
        contrast,
        _edges(segments),
        axes,
        times=times,
        std=std,
        counterfactual=None if other is None else _split("counterfactual", other, time_channel)[0],
        counterfactual_label=_counterfactual_label(counterfactual),
        channels=list(segments.channels[: len(values)]),
        units=units,
        time_unit=time_unit,
        label=_colour_label(explanation, unit),
        most=most,
    )
    _headline(drawn[0], _title(explanation, unit), 1 if other is None else 2)
    literal(drawn[0].get_figure(root=True))
    return drawn


def _headline(ax: Axes, text: str, lines: int) -> None:
    """A title at the left, above the name of the first channel and as many other lines."""
    size = letters(ax)
    above: dict[str, Any] = {"xy": (0, 1), "xycoords": "axes fraction", "textcoords": "offset points"}
    ax.annotate(text, xytext=(0, 1.5 * size * lines + 3), size=size + 0.5, fontweight="bold", va="bottom", **above)


def _title(explanation: SeriesExplanation, unit: str | None) -> str:
    if explanation.probability is None:
        return f"predicted {_number(explanation.mean, explanation.std)}{f' {unit}' if unit else ''}"
    return f"{explanation.label}: probability {_chance(explanation.probability)}"


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


def _colour_label(explanation: SeriesExplanation, unit: str | None) -> str:
    if explanation.probability is None:
        return f"contribution ({unit})" if unit else "contribution"
    return f"for {explanation.label} (+) or for {explanation.runner_up} (−), logits"


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
    """Contributions and standard deviations, if there are any, (channels, segments). What a mask of observed values
    contributes counts for its channel."""
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


def _edges(segments: SegmentContributions) -> np.ndarray:
    """Where segments begin and end, (segments + 1,): half way from the last point of one to the first of the next."""
    starts, ends = (np.asarray(each, dtype=np.float64) for each in (segments.starts, segments.ends))
    return np.concatenate([starts[:1], (ends[:-1] + starts[1:]) / 2, ends[-1:]])
