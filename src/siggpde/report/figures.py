"""The figures of a report: transparent SVG in data URIs by matplotlib, the same bytes for the same figure."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from siggpde import plots
from siggpde.explain import ClassEffects, Effect, Importance
from siggpde.metrics import classification_metrics
from siggpde.plots import style as looks
from siggpde.plots.explanation import segment_edges
from siggpde.plots.style import BLUE, GREY, ORANGE, SKY, colour_bar, finish, percent, require_matplotlib, signed_colours
from siggpde.report.card import ModelFacts
from siggpde.report.content import Case, Content, Data, NoveltyScores, Series
from siggpde.report.judgement import INTERVAL, ClassJudgement, NumberJudgement, Part
from siggpde.report.wording import counted, listed, number, short
from siggpde.report.wording import percent as in_percent
from siggpde.utils.times import TimeFormat

EXAMPLE_CHANNELS = 3  # of a small picture
_WIDTH, _SMALL = 5.6, 3.0  # inches of a picture that has half of a wide page, and of a small one
_DPI = 96.0  # of CSS
_FONTS = re.compile(r"font: ((?:[\w.]+ )*[\d.]+px) [^;\"]*")
_COORDINATE = re.compile(r"(?<=[\s\"(,-])(\d+\.\d{3,})(?=[\s\",)])")
_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "siggpde",
    "text.parse_math": False,  # a label may hold dollars
    "axes.unicode_minus": True,
    "figure.facecolor": "none",
    "axes.facecolor": "white",
}
MOST_POINTS = 500
_MOST_CHANNELS = 6
_UNSURE = 0.8
_ENDINGS = (" of the series", " after the start")  # of the names of all regions
_SURE = 0.9  # the probability of a sign from which an effect is shown


class Picture(NamedTuple):
    """An image: `svg`, its width and height in CSS pixels, and what it shows for those who cannot see it."""

    svg: str
    width: int
    height: int
    alt: str

    @property
    def source(self) -> str:
        """The image as an address."""
        return f"data:image/svg+xml;base64,{base64.b64encode(self.svg.encode()).decode()}"


def picture(draw: Callable[[Any], Any], alt: str, height: float, width: float = _WIDTH) -> Picture:
    """Returns what `draw` draws on an empty figure of this size in inches."""
    with require_matplotlib("style").context(["default", _SETTINGS]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")  # the reader's fonts may have them
        figure = require_matplotlib("figure").Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        for ax in figure.axes:
            ax.patch.set_alpha(0.0)
        content = io.StringIO()
        metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
        # `savefig` draws twice, first for the layout, which one drawing makes as well.
        require_matplotlib("backends.backend_svg").FigureCanvasSVG(figure).print_svg(content, metadata=metadata)
    svg = content.getvalue()
    svg = _FONTS.sub(r"font: \1 system-ui, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif", svg[svg.index("<svg") :])
    # Coordinates, which are inside of tags, to a hundredth of a point, which nobody sees, and no blank lines.
    svg = re.sub(r"<[^>]*>", lambda tag: _COORDINATE.sub(lambda match: f"{float(match[1]):.2f}", tag[0]), svg)
    return Picture(re.sub(r"\n\s*", "\n", svg), round(width * _DPI), round(height * _DPI), alt)


def _plot(draw: Callable[[Any], Any], alt: str, height: float) -> Picture:
    """The picture of what `draw` draws on one pair of axes."""
    return picture(lambda figure: draw(figure.subplots()), alt, height)


def example_channels(content: Content) -> list[int]:
    """Returns the channels that examples show, those that matter most, in their order."""
    names, data = content.data.channels, content.data
    if len(names) <= EXAMPLE_CHANNELS:
        return list(range(len(names)))
    ranked = []
    if content.importances is not None:
        ranked = [names.index(part.name) for part in content.importances.channels if part.name in names]
    spread = np.nan_to_num(np.nanstd(data.levels, axis=0) + np.nanmean(data.spreads, axis=0))
    ranked += [index for index in np.argsort(-spread, kind="stable").tolist() if index not in ranked]
    return sorted(ranked[:EXAMPLE_CHANNELS])


def examples(content: Content) -> list[Picture]:
    """Returns small pictures of series, those of one class together; in all of them a channel has the same scale."""
    channels, data = example_channels(content), content.data
    frames: dict[str, list[Series]] = {}
    for place, series in enumerate(data.examples):
        frames.setdefault(str(place) if data.classes is None else f"class {series.target}", []).append(series)
    return [_example(frame, channels, data) for frame in frames.values()]


def _example(frame: Sequence[Series], channels: Sequence[int], data: Data, title: str | None = None) -> Picture:
    target, alike = frame[0].target, data.examples if title is None else frame  # which have one scale
    limits = []
    for channel in channels:
        values = np.concatenate([series.values[channel] for series in alike])
        known = values[np.isfinite(values)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.5, 0.5)
        margin = 0.06 * (high - low) or 0.5
        limits.append((low - margin, high + margin))
    if title is None:
        title = frame[0].name if target is None else short(target, 26)
        if data.numbers is not None:
            title = f"{short(data.target, 16)} = {number(target)}"

    def draw(figure: Any) -> None:
        axes = figure.subplots(len(channels), 1, sharex=True, squeeze=False)[:, 0]
        clock = data.time_format or TimeFormat()
        if not clock.as_dates:
            clock = clock._replace(elapsed=True, start=0.0)
        points = [np.arange(one.values.shape[1]) if one.times is None else one.times for one in frame]
        stamps = [times - (0 if clock.as_dates else times[0]) for times in points]
        to_axis, label = looks.time_axis(axes, clock if data.timed else None, np.sort(np.concatenate(stamps)))
        for ax, channel, limit in zip(axes, channels, limits, strict=True):
            for place, series in enumerate(frame):
                times, values = to_axis(stamps[place]), series.values[channel]
                known, marked = np.isfinite(values), looks.marked_readings(ax, values)
                style: dict[str, Any] = {"zorder": 2, "color": SKY} if place else {"zorder": 3, "color": BLUE}
                ax.plot(times[known], values[known], linewidth=0.5, **style)  # across gaps
                ax.plot(times, values, linewidth=1.1, **style)
                ax.plot(times[marked], values[marked], "o", markersize=2.2, **style)
            ax.set_ylim(*limit)
            ax.set_ylabel(short(data.channels[channel], 12), size=8)
            ax.locator_params(axis="y", nbins=3)
            if not clock.as_dates or not data.timed:
                ax.locator_params(axis="x", nbins=4)
            finish(ax)
        axes[0].set_title(title, loc="left", size=10, weight="bold")
        axes[-1].set_xlabel(label if data.timed else "", size=8)

    names = listed([short(data.channels[channel], 30) for channel in channels])
    alt = f"series {title} over time" if target is None else f"{data.target} {target}: {names} over time"
    return picture(draw, alt, 0.55 + 0.85 * len(channels), _SMALL)


def class_counts(data: Data, most: int) -> Picture:
    """Returns bars of how many series each class has, the `most` frequent ones."""
    counts = Counter(data.classes).most_common()
    shown = counts[:most]

    def draw(ax: Any) -> None:
        ax.barh(range(len(shown)), [count for _, count in shown], color=BLUE, height=0.7)
        ax.set_yticks(range(len(shown)), [short(label, 24) for label, _ in shown])
        ax.invert_yaxis()
        ax.set(xlabel="series", ylabel=short(data.target, 30))
        ax.locator_params(axis="x", nbins=6, integer=True)
        finish(ax)

    alt = f"bars: series of {counted(len(counts), 'class', 'classes')}, from {counts[0][1]} to {counts[-1][1]}"
    return _plot(draw, alt, max(1.6, min(9.0, 0.9 + 0.26 * len(shown))))


def histogram(values: np.ndarray, label: str, alt: str) -> Picture:
    """Returns how many series have which of the values (n,)."""

    def draw(ax: Any) -> None:
        ax.hist(values, bins=min(30, max(5, int(np.sqrt(len(values))))), color=SKY, edgecolor=GREY, linewidth=0.4)
        ax.set(xlabel=short(label, 40), ylabel="series")
        finish(ax)

    return _plot(draw, alt, 2.8)


def weights(model: ModelFacts) -> Picture:
    best = model.members[0]
    count = counted(len(model.members), "member")
    alt = f"bars: weights of {count}, the largest {in_percent(best.weight, 0)} ({best.name})"
    return _plot(
        lambda ax: plots.plot_weights(model.committee, ax, units=model.units),
        alt,
        max(1.9, 0.3 * len(model.members) + 1.5),
    )


def candidates(losses: Sequence[float]) -> Picture:
    alt = f"losses of {len(losses)} candidates, from {number(min(losses))} to {number(max(losses))}"
    return _plot(lambda ax: plots.plot_trials(losses, ax), alt, 3.0)


def calibration(judgement: ClassJudgement) -> Picture:
    alt = "reliability diagram: share that is right against probability"
    return _plot(lambda ax: plots.plot_calibration(judgement.labels, judgement.p, judgement.classes, ax), alt, 5.2)


def confusion(judgement: ClassJudgement) -> Picture:
    metrics = classification_metrics(judgement.labels, judgement.p, judgement.classes)
    alt = f"confusion matrix of {len(judgement.classes)} classes, accuracy {in_percent(metrics.accuracy)}"
    return _plot(lambda ax: plots.plot_confusion(metrics, ax), alt, 5.2)


def risk_coverage(judgement: ClassJudgement) -> Picture:
    alt = "share that is wrong against share predicted"
    return _plot(lambda ax: plots.plot_risk_coverage(judgement.labels, judgement.p, judgement.classes, ax), alt, 3.6)


def series_map(content: Content, judgement: ClassJudgement) -> Picture:
    points, rows = content.map_points, content.map_rows
    assert points is not None and rows is not None
    labels = [str(judgement.classes[index]) for index in judgement.truth[rows]]
    unsure, name = judgement.p[rows].max(axis=1) < _UNSURE, short(content.data.target, 30)
    alt = f"map of {len(rows)} series by class"
    return _plot(lambda ax: plots.plot_map(points, labels, ax, uncertain=unsure, name=name), alt, 4.6)


def shares(parts: Sequence[Part], label: str, mean: float) -> Picture:
    """Returns the shares of what is right in classes or groups, with their intervals, and the mean of all series."""
    value, low, high = (np.array(column) for column in list(zip(*parts, strict=True))[2:])

    def draw(ax: Any) -> None:
        ends = np.stack([value - low, high - value])
        place = np.arange(len(parts))
        ax.errorbar(value, place, xerr=ends, fmt="o", color=BLUE, markersize=4, elinewidth=1.2, capsize=2)
        ax.set_xlim(min(0.9, float(low.min()) - 0.02), 1.01)
        ax.xaxis.set_major_formatter(percent())
        ax.locator_params(axis="x", nbins=6)

    worst = f"{parts[0].name} with {in_percent(parts[0].value)}"
    return _rows(parts, draw, mean, label, f"{label} for {counted(len(parts), 'row')}; the lowest is {worst}")


def group_errors(parts: Sequence[Part], mean: float) -> Picture:
    """Returns the errors of numbers in groups, and the error of all series."""
    alt = f"errors of {len(parts)} groups, the largest {parts[0].name} with {number(parts[0].value)}"
    values = [part.value for part in parts]
    return _rows(parts, lambda ax: ax.barh(range(len(parts)), values, color=BLUE, height=0.6), mean, "RMSE", alt)


def _rows(parts: Sequence[Part], draw: Callable[[Any], Any], mean: float, label: str, alt: str) -> Picture:
    """The picture of what `draw` draws in a row for each class or group, and a dotted line at the mean."""

    def rows(ax: Any) -> None:
        ax.axvline(mean, color=GREY, linestyle=":", linewidth=1)
        draw(ax)
        ax.set_yticks(range(len(parts)), [f"{short(part.name, 22)} ({part.series})" for part in parts])
        ax.invert_yaxis()
        ax.set_xlabel(f"{label}; dotted: all series")
        finish(ax)

    return _plot(rows, alt, max(1.8, 0.9 + 0.27 * len(parts)))


def predicted_numbers(judgement: NumberJudgement, seed: int) -> Picture:
    rows = _some(len(judgement), seed)
    low, high = (ends[rows] for ends in judgement.interval(INTERVAL))
    alt = "predicted numbers with intervals against true numbers"
    return _plot(lambda ax: plots.plot_intervals(judgement.y[rows], judgement.mean[rows], low, high, ax), alt, 4.6)


def pit(judgement: NumberJudgement) -> Picture:
    tenths = np.arange(1, 10) / 10
    alt = "histogram of where true numbers fall in predicted distributions"
    return _plot(lambda ax: plots.plot_pit(judgement.y, judgement.at(tenths), tenths, ax), alt, 3.6)


def errors(judgement: NumberJudgement, target: str, seed: int) -> Picture:
    """Returns the size of errors against the predicted standard deviation."""
    rows = _some(len(judgement), seed)
    error, spread = np.abs(judgement.mean - judgement.y)[rows], judgement.std[rows]

    def draw(ax: Any) -> None:
        far = error > 2 * spread
        for part, colour, marker in ((~far, BLUE, "o"), (far, ORANGE, "D")):
            ax.scatter(spread[part], error[part], color=colour, marker=marker, s=12, alpha=0.8, linewidth=0)
        top = float(spread.max())
        ax.plot([0, top], [0, 2 * top], color=GREY, linestyle="--", linewidth=1)
        ax.set(xlabel=f"predicted standard deviation of {short(target, 20)}", ylabel="error, its size")
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0)
        finish(ax)

    return _plot(draw, "size of errors against predicted standard deviation", 3.6)


def _some(count: int, seed: int) -> np.ndarray:
    """All rows 0..count-1, or some of many, ascending, drawn at random."""
    if count <= MOST_POINTS:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, MOST_POINTS, replace=False))


def importance(parts: Sequence[Importance]) -> Picture:
    lines = sum(max(1.0, len(part.name) / 40) for part in parts)
    first = max(parts, key=lambda part: part.share)
    alt = f"bars: importance; first {first.name} with {in_percent(first.share)}"
    return _plot(lambda ax: plots.plot_importance(parts, ax), alt, 1.0 + 0.32 * lines)


def effects(parts: Sequence[Effect], label: str) -> Picture:
    alt = f"bars: effects of {len(parts)} parts of the series"
    return _plot(lambda ax: plots.plot_effects(parts, ax, label=label), alt, max(2.0, 0.3 * len(parts) + 1.0))


def effects_by_class(classes: Sequence[ClassEffects], kind: str) -> Picture:
    """Returns a table of colours: the effects of channels or regions on every class; white where a sign is unsure."""
    rows = [getattr(one, kind) for one in classes]
    values = np.array([[part.effect for part in row] for row in rows])
    sure = np.array([[part.probability >= _SURE for part in row] for row in rows])
    ending = next((end for end in _ENDINGS if all(part.name.endswith(end) for part in rows[0])), "")
    names = [short(part.name.removesuffix(ending), 36) for part in rows[0]]
    slanted = sum(map(len, names)) > 40
    largest = float(np.abs(values).max()) or 1.0

    def draw(ax: Any) -> None:
        scale = require_matplotlib("colors").Normalize(-largest, largest)
        shown = np.ma.masked_where(~sure, values)
        mesh = ax.pcolormesh(shown, cmap=signed_colours(), norm=scale, edgecolors="white", linewidth=1.5)
        ax.set_yticks(np.arange(len(rows)) + 0.5, [short(one.label, 18) for one in classes])
        turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
        ax.set_xticks(np.arange(len(names)) + 0.5, names, **turned)
        ax.set_xlabel(ending.strip())
        ax.invert_yaxis()
        ax.tick_params(length=0)
        finish(ax)
        ax.spines[:].set_visible(False)
        place: dict[str, Any] = {"location": "bottom", "aspect": 40, "shrink": 0.7, "pad": 0.03}
        bar = colour_bar(ax, mesh, "effect on the logit of the class", ax=ax, **place)
        bar.ax.locator_params(nbins=5)

    alt = f"table of colours: effects of {len(names)} {kind} on {len(classes)} classes"
    letters = 0.055 * max(map(len, names)) if slanted else 0.0  # inches of height
    return _plot(draw, alt, 1.7 + 0.26 * len(rows) + letters)


def neighbours(case: Case, content: Content) -> list[tuple[str, Picture | None]]:
    """Returns the names of the nearest training series, and pictures with the series itself, pale, behind them."""
    channels, segments, shown = example_channels(content), case.explanation.segments, []
    drawable = segments is not None and segments.channels[: len(content.data.channels)] == content.data.channels
    for one in case.explanation.neighbours:
        name = "" if one.index is None else f" {one.index if content.names is None else content.names[one.index]}"
        title = number(one.target) if case.explanation.probability is None else short(one.target, 20)
        frame = [Series(name, one.values, one.times, one.target), case.series]
        drawn = _example(frame, channels, content.data, title) if drawable else None
        shown.append((f"training series{name}", drawn))
    return shown


def case(case: Case, data: Data, label: str, against_truth: bool = False) -> Picture | None:
    """Returns a series with its contributions; None where there is nothing to draw along time."""
    segments, values = case.explanation.segments, case.series.values
    if against_truth and segments is not None:
        segments = segments.against_truth
    if segments is None or values.shape[1] < 2 or len(values) != len(segments.channels):
        return None
    place = np.arange(values.shape[1], dtype=float) if case.series.times is None else case.series.times
    edges = segment_edges(segments)
    if not (np.all(np.diff(place) > 0) and np.all(np.diff(edges) > 0)):
        return None
    count = min(len(values), _MOST_CHANNELS)

    def draw(figure: Any) -> None:
        axes = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
        plots.plot_series(
            values,
            segments.contrast.T,
            edges,
            axes,
            times=place,
            time_format=segments.time_format,
            std=None if segments.contrast_std is None else segments.contrast_std.T,
            channels=[short(name, 40) for name in segments.channels],
            label=label,
            most=count,
        )
        if not data.timed:
            axes[-1].set_xlabel("point")

    alt = f"series {case.series.name}, its channels coloured by what they contribute to the prediction"
    return picture(draw, alt, 1.1 + 0.95 * count)


def novelty(scores: NoveltyScores) -> Picture:
    alt = "histograms of novelty scores of training series and of these series"
    return _plot(lambda ax: plots.plot_novelty(scores.scores, scores.training, ax, limit=scores.limit), alt, 3.4)
