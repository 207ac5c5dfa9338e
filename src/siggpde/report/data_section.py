"""What the data are: counts, lengths, gaps, classes or numbers, and a few series drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from siggpde.plots.style import BLUE, GREY, SKY, finish
from siggpde.report.content import Content, Data, Drawn
from siggpde.report.html import Markup, caption, facts, join, paragraph
from siggpde.report.pictures import Picture, figure, figures, on_axes, picture
from siggpde.report.wording import counted, listed, number, percent, short, span

_TILE = 3.0  # inches
_ROWS = 3  # channels of a tile
_MOST_BARS = 30
_ROUNDING = 1e-5  # levels so far below the spread are those of standardised series


def data_section(content: Content) -> Markup:
    """The section."""
    data = content.data
    shown = [_examples(data, content)] if data.drawn else []
    more = []
    if data.y is not None:
        if content.fitted.labels is None:
            more.append(_numbers(data))
        elif len(set(Counter(map(str, data.y)).values())) > 1:
            more.append(_classes(content))
    if data.lengths.min() < data.lengths.max():
        more.append(_lengths(data))
    if data.missing.any():
        more.append(_gaps(data))
    return join([paragraph(_sentence(content)), facts(_rows(data)), *shown, figures(*more) if more else ""])


def _sentence(content: Content) -> str:
    data = content.data
    what = f"This page is about {counted(len(data), 'time series', 'time series')}"
    what += f" with {counted(len(data.channels), 'channel')} each"
    return f"{what}. The model was fitted to {content.fitted.series:,} series."


def _rows(data: Data) -> list[tuple[Any, Any]]:
    rows: list[tuple[Any, Any]] = [("series", f"{len(data):,}"), ("channels", listed([*map(short, data.channels)]))]
    rows.append(("points a series", span(float(data.lengths.min()), float(data.lengths.max()))))
    rows.append(("time", "stamped" if data.timed else "points in order, evenly spaced"))
    gappy = int((data.missing > 0).sum())
    missing = "none"
    if gappy:
        share = float(np.average(data.missing, weights=data.lengths))
        missing = f"{percent(share)} of the values, in {counted(gappy, 'series', 'series')}"
    rows.append(("missing values", missing))
    if data.y is not None and isinstance(data.y[0], float):
        y = np.array(data.y)
        rows.append(
            (data.target, f"{number(float(y.min()))} to {number(float(y.max()))}, mean {number(float(y.mean()))}")
        )
    elif data.y is not None:
        names = sorted(set(map(str, data.y)))
        rows.append((f"{data.target}: {counted(len(names), 'class', 'classes')}", listed([*map(short, names)])))
        counts = Counter(map(str, data.y)).values()
        rows.append(("series a class", span(float(min(counts)), float(max(counts)))))
    if data.groups is not None:
        rows.append(("groups", f"{len(set(data.groups)):,}"))
    for index, name in enumerate(data.channels[:_ROWS]):
        known = np.isfinite(data.levels[:, index])
        if not known.any():
            rows.append((f"{short(name, 30)}, typically", "no value at all"))
            continue
        level, spread = (float(each[known, index].mean()) for each in (data.levels, data.spreads))
        about = "0" if abs(level) < _ROUNDING * spread else number(level)
        rows.append((f"{short(name, 30)}, typically", f"{about} ± {number(spread)}"))
    return rows


def _examples(data: Data, content: Content) -> Markup:
    """Small pictures of series; in all of them a channel has the same scale."""
    channels = _channels_to_draw(content)
    limits = [_limits([each.values[channel] for each in data.drawn]) for channel in channels]
    tiles = [_tile(one, channels, limits, data) for one in _gathered(data.drawn)]
    which = "Some series, drawn at random"
    if data.y is not None:
        by_class = not isinstance(data.y[0], float)
        which = "Series of every class" if by_class else f"Series from the smallest to the largest {data.target}"
        shown = len({str(each.target) for each in data.drawn})
        known = len(set(map(str, data.y)))
        if by_class and shown < known:
            which = f"Series of {shown} of the {known} classes, the most frequent ones"
    some = (
        "" if len(channels) == len(data.channels) else f" {len(channels)} of {len(data.channels)} channels are drawn."
    )
    told = caption(
        f"{which}. ",
        "Time runs to the right. Lines in one frame are different series of the same kind; a channel has the same "
        f"scale in all frames, so that heights can be compared.{some}",
    )
    return figure(told, *tiles, kind="strip")


def _channels_to_draw(content: Content) -> list[int]:
    """Those that matter most, in their order."""
    names = content.data.channels
    if len(names) <= _ROWS:
        return list(range(len(names)))
    ranked: list[int] = []
    if content.importances is not None:
        ranked = [names.index(each.name) for each in content.importances.channels if each.name in names]
    spread = np.nan_to_num(np.nanstd(content.data.levels, axis=0) + np.nanmean(content.data.spreads, axis=0))
    ranked += [index for index in np.argsort(-spread, kind="stable").tolist() if index not in ranked]
    return sorted(ranked[:_ROWS])


def _gathered(drawn: Sequence[Drawn]) -> list[list[Drawn]]:
    """Series of one class share a frame; numbers and series without labels have one each."""
    frames: dict[str, list[Drawn]] = {}
    for place, each in enumerate(drawn):
        alone = each.target is None or isinstance(each.target, float)
        frames.setdefault(str(place) if alone else f"class {each.target}", []).append(each)
    return list(frames.values())


def _tile(one: Sequence[Drawn], channels: Sequence[int], limits: Sequence[tuple[float, float]], data: Data) -> Picture:
    target = one[0].target
    title = one[0].name if target is None else short(target, 26)
    if isinstance(target, float):
        title = f"{short(data.target, 16)} = {number(target)}"

    def draw(drawing: Any) -> None:
        axes = drawing.subplots(len(channels), 1, sharex=True, squeeze=False)[:, 0]
        for row, (ax, channel) in enumerate(zip(axes, channels, strict=True)):
            for place, each in enumerate(one):
                times = np.arange(each.values.shape[1]) if each.times is None else each.times - each.times[0]
                few = {"marker": "o", "markersize": 2.5} if each.values.shape[1] <= 12 else {}
                ax.plot(times, each.values[channel], color=BLUE if place == 0 else SKY, linewidth=1.1,
                        zorder=3 if place == 0 else 2, alpha=1 if place == 0 else 0.6, **few)  # fmt: skip
            ax.set_ylim(*limits[row])
            ax.set_ylabel(short(data.channels[channel], 12), size=8)
            ax.locator_params(axis="y", nbins=3)
            ax.locator_params(axis="x", nbins=4)
            finish(ax)
        axes[0].set_title(title, loc="left", size=10, weight="bold")

    alt = f"{data.target} {target}: {listed([short(data.channels[channel], 30) for channel in channels])} over time"
    return picture(draw, alt if target is not None else f"series {title} over time", _TILE, 0.55 + 0.85 * len(channels))


def _limits(values: Sequence[np.ndarray]) -> tuple[float, float]:
    known = np.concatenate([each[np.isfinite(each)] for each in values])
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    margin = 0.06 * (high - low) or 0.5
    return low - margin, high + margin


def _classes(content: Content) -> Markup:
    data, target = content.data, content.data.target
    assert data.y is not None
    counts = Counter(map(str, data.y)).most_common()
    shown = counts[:_MOST_BARS]

    def draw(ax: Any) -> None:
        ax.barh(range(len(shown)), [count for _, count in shown], color=BLUE, height=0.7)
        ax.set_yticks(range(len(shown)), [short(label, 24) for label, _ in shown])
        ax.invert_yaxis()
        ax.set(xlabel="series", ylabel=short(target, 30))
        ax.locator_params(axis="x", nbins=6, integer=True)
        finish(ax)

    some = f" The {len(shown)} most frequent of {len(counts)} classes." if len(shown) < len(counts) else ""
    told = caption("How many series of each class. ", "Rare classes are learned, and judged, less surely.", some)
    height = min(9.0, 0.9 + 0.26 * len(shown))
    alt = f"bars: series of {counted(len(counts), 'class', 'classes')}, from {counts[0][1]} to {counts[-1][1]}"
    return figure(told, picture(on_axes(draw), alt, height=max(1.6, height)))


def _numbers(data: Data) -> Markup:
    y = np.array(data.y, dtype=float)
    told = caption(f"The numbers to predict ({data.target}). ", "The higher a bar, the more series have such a number.")
    alt = f"histogram of {data.target}, from {number(float(y.min()))} to {number(float(y.max()))}"
    return figure(told, picture(on_axes(lambda ax: _histogram(ax, y, data.target)), alt, height=2.8))


def _lengths(data: Data) -> Markup:
    told = caption("Lengths of the series. ", "Series need not be equally long.")
    alt = f"histogram of lengths, from {data.lengths.min()} to {data.lengths.max()} points"
    return figure(told, picture(on_axes(lambda ax: _histogram(ax, data.lengths, "points")), alt, height=2.8))


def _gaps(data: Data) -> Markup:
    told = caption("Missing values. ", "How much of a series is missing. Gaps are filled by straight lines in time.")
    alt = f"histogram of shares of missing values, up to {percent(float(data.missing.max()))}"
    drawn = picture(on_axes(lambda ax: _histogram(ax, 100 * data.missing, "missing values (%)")), alt, height=2.8)
    return figure(told, drawn)


def _histogram(ax: Any, values: np.ndarray, label: str) -> None:
    ax.hist(values, bins=min(30, max(5, int(np.sqrt(len(values))))), color=SKY, edgecolor=GREY, linewidth=0.4)
    ax.set(xlabel=short(label, 40), ylabel="series")
    finish(ax)
