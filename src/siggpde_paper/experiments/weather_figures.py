"""What models say of a week of the test, and which words they rest on: parts of the report with their figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from siggpde.explain import Importance
from siggpde.plots import plot_importance
from siggpde_paper.experiments.results import Record, Results
from siggpde_paper.experiments.tables import markdown_table, save_figure
from siggpde_paper.experiments.weather_models import to_natural

_BLUE, _GREY, _RAIN, _WET = "#3b6fb6", "#8a8a8a", "#9db8d9", "#d9752b"
_CHANNELS = ("#3b6fb6", "#d9752b", "#2f8f5b", "#8a4fa3", "#b5a21b", "#5bb5c9", "#8a8a8a")
_HOUR = np.timedelta64(60, "m")
_WITHIN = 1.645  # standard deviations on both sides that hold 90 % of a normal distribution


class Curve(NamedTuple):
    """A line with a band, all (n,), and what it is."""

    name: str
    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @staticmethod
    def of_latent(name: str, mean: Sequence[float], sd: Sequence[float]) -> Curve:
        """Posterior mean and 90 % of the posterior of a latent."""
        middle, half = np.array(mean), _WITHIN * np.array(sd)
        return Curve(name, middle, middle - half, middle + half)

    @staticmethod
    def of_log_odds(name: str, middle: np.ndarray, low: np.ndarray, high: np.ndarray) -> Curve:
        """Probabilities, from log-odds."""
        return Curve(name, expit(middle), expit(low), expit(high))


@dataclass(frozen=True)
class Stretch:
    """Some days of the test: stamps in minutes and rain of the hour after them in mm, (n,), and what models say.

    `series` are windows as they enter models, each with a title, (1 + channels, length) with time first, for the stamp
    `entering`; `panels` are the curves to draw under each other.
    """

    minutes: np.ndarray
    rain: np.ndarray
    more_than: float
    channels: Sequence[str]
    entering: int
    series: list[tuple[str, np.ndarray]]
    panels: list[Curve]


def draw_stretch(stretch: Stretch, folder: Path) -> str:
    """Windows as they enter models in the first row, then the panels and the rain under each other."""
    from matplotlib import pyplot  # noqa: PLC0415 - not everybody has it

    rows = len(stretch.panels) + 1
    heights = ([2.6] if stretch.series else []) + [1.9 * rows]
    figure = pyplot.figure(figsize=(9, sum(heights)), layout="constrained")
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    letters = iter("abcdefgh")
    if stretch.series:
        _draw_series(parts[0], stretch, next(letters))
    axes = np.atleast_1d(parts[-1].subplots(rows, 1, sharex=True))
    for ax, curve in zip(axes[:-1], stretch.panels, strict=True):
        _draw_curve(ax, stretch, curve, next(letters))
    _draw_rain(axes[-1], stretch, f"({next(letters)}) rain of the hour, mm")
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
    return save_figure(figure, folder, "weather-stretch")


def _draw_series(part: Any, stretch: Stretch, letter: str) -> None:
    axes = np.atleast_1d(part.subplots(1, len(stretch.series)))
    when = np.datetime64(stretch.entering, "m").item()
    for ax, (title, values) in zip(axes, stretch.series, strict=True):
        hours = (np.arange(values.shape[1]) - values.shape[1] + 1) / 6
        for name, row, colour in zip(stretch.channels, values[1:], _CHANNELS, strict=False):
            ax.plot(hours, row, color=colour, linewidth=1.2, label=name)
        ax.set_title(title, loc="left", fontsize="small")
        ax.set_xlabel(f"hours from {when:%H:%M on %-d %b %Y}", fontsize="small")
        ax.tick_params(labelsize="small")
    axes[0].set_title(f"({letter}) {stretch.series[0][0]}", loc="left", fontsize="small")
    axes[-1].legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False, fontsize="small")


def _draw_curve(ax: Any, stretch: Stretch, curve: Curve, letter: str) -> None:
    when: Any = stretch.minutes.astype("datetime64[m]")
    for moment in when[stretch.rain > stretch.more_than]:
        ax.axvspan(moment, moment + _HOUR, color=_WET, alpha=0.25, linewidth=0)
    # A forecast is drawn in the middle of the hour it is for; the line breaks where windows are missing.
    middle, gaps = when + _HOUR // 2, np.diff(stretch.minutes) > 60
    for run in np.split(np.arange(len(when)), np.flatnonzero(gaps) + 1):
        ax.fill_between(middle[run], curve.low[run], curve.high[run], color=_BLUE, alpha=0.2, linewidth=0)
        ax.plot(middle[run], curve.middle[run], color=_BLUE, linewidth=1.3)
    ax.set_title(f"({letter}) {curve.name}", loc="left", fontsize="small")
    ax.tick_params(labelsize="small")


def _draw_rain(ax: Any, stretch: Stretch, title: str) -> None:
    from matplotlib import dates  # noqa: PLC0415 - not everybody has it

    when: Any = stretch.minutes.astype("datetime64[m]")
    wet = stretch.rain > stretch.more_than
    ax.bar(when + _HOUR // 2, stretch.rain, width=1 / 24, color=np.where(wet, _WET, _RAIN))
    ax.axhline(stretch.more_than, color=_GREY, linestyle="--", linewidth=1)
    ax.set_title(title, loc="left", fontsize="small")
    ax.set_xlim(when[0], when[-1] + _HOUR)
    ax.xaxis.set_major_locator(dates.DayLocator())
    ax.xaxis.set_major_formatter(dates.DateFormatter("%d %b %Y"))
    ax.tick_params(labelsize="small")


class Bars(NamedTuple):
    """A title, a label of the axis, and features or channels with their shares, largest first."""

    title: str
    measure: str
    shares: list[tuple[str, float]]


def draw_features(rows: Sequence[Sequence[Bars]], folder: Path) -> str:
    """Bars of shares, a panel each, in rows; a row may be shorter than others."""
    from matplotlib import pyplot  # noqa: PLC0415 - not everybody has it

    columns = max(map(len, rows))
    size = (4.2 * columns, 3.3 * len(rows))
    figure, axes = pyplot.subplots(len(rows), columns, figsize=size, layout="constrained", squeeze=False)
    for row, panels in zip(axes, rows, strict=True):
        for ax in row[len(panels) :]:
            ax.remove()
        for ax, panel in zip(row, panels, strict=False):
            plot_importance([Importance(name, (), share, share) for name, share in panel.shares], ax)
            ax.set_title(panel.title, loc="left", fontsize="small")
            ax.set_xlabel(panel.measure, fontsize="small")
            ax.tick_params(labelsize="small")
            ax.locator_params(axis="x", nbins=5)
            ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
    return save_figure(figure, folder, "weather-features")


_DAY = 24 * 60
_OURS = "sd × |weight|"
_READING = (
    "How to read words: one letter is the change of a channel within the window, or, in views with a base point, its "
    "level at the end (of a variation: how much the channel went up and down). a–time is the mean of a, a–time–time "
    "the same with more weight to early readings and time–a the change of a with more weight to late ones; a–b is the "
    "change of b weighted by where a was when it happened. Without a base point all are relative to the first reading. "
    '"Before rain": the mean of the word before rain minus its mean otherwise, in standard deviations, on the training '
    "windows. m is the mean of q(u), by whose size the paper reads importance; sd is the standard deviation of the "
    "word over the training windows."
)


def describe_stretch(config: dict[str, Any], results: Results, described: dict[str, Record], test: Record) -> str:
    """The figure of the rainiest days, for the first runs `described` of the methods that have latents."""
    first, last = test["stretch"]
    days = np.array(test["minutes"]) // _DAY
    shown = (days >= first) & (days <= last)
    paper = {name: record for name, record in described.items() if "series" in record}
    ours = {name: record for name, record in described.items() if "band" in record}
    panels = [
        Curve.of_latent(f"posterior mean of the latent, {config['methods'][name]['name']}", **record["latent"])
        for name, record in described.items()
    ]
    for name, record in ours.items():
        natural = [np.array(record["natural"])[shown], *(np.array(record["band"][end]) for end in ("low", "high"))]
        corrected = [to_natural(values, record["kept"]) for values in natural]
        panels.append(Curve.of_log_odds(f"probability of rain, {config['methods'][name]['name']}", *corrected))
    stretch = Stretch(
        minutes=np.array(test["minutes"])[shown],
        rain=np.array(test["rain"])[shown],
        more_than=config["data"]["more_than"],
        channels=config["data"]["channels"],
        entering=next((record["series"]["minutes"] for record in paper.values()), 0),
        series=[
            (
                f"a window scaled by {'series' if config['methods'][name]['each'] else 'data set'}",
                np.array(record["series"]["values"]),
            )
            for name, record in paper.items()
        ],
        panels=panels,
    )
    file = draw_stretch(stretch, results.folder)
    return (
        f"![A window as it enters the paper's model, latents and probability of rain along the test]({file})\n\n"
        "Bands are 90 % of the posterior; more than "
        f"{config['data']['more_than']:g} mm fell in the hours on orange ground. Latents are those of the models as "
        "trained, with thinned dry windows; the probability is corrected to the natural rate."
    )


def describe_features(config: dict[str, Any], results: Results, described: dict[str, Record]) -> list[str]:
    """A table of the words of every model and reading, and one figure with a row for each model."""
    rows, sections = [], [_READING]
    for name, record in described.items():
        title, panels = config["methods"][name]["name"], []
        short = _short(config, name)
        for reading, features in record["features"].items():
            measure = "|m|" if reading == "by_size" else "sd × |m|" if "series" in record else _OURS
            shares = [(word["name"], word["share"]) for word in features]
            panels.append(Bars(short, f"words, share of {measure}", shares))
            cells = [[word["name"], f"{word['share']:.2%}", _signed(word["before_rain"])] for word in features]
            sections += [
                f"{title}, the first {len(cells)} words by {measure}, of the first run:",
                markdown_table(["word", "share", "before rain"], cells),
            ]
        if "channels" in record:
            shares = list(record["channels"].items())[: config["figure"]["features"]]
            panels.append(Bars(short, "channels, share of the effects", shares))
        rows.append(panels)
    file = draw_features(rows, results.folder)
    return [*sections, f"![The most important words of the first run, by two readings]({file})"]


def _short(config: dict[str, Any], name: str) -> str:
    """What tells a model that is described from the others."""
    options = config["methods"][name]
    if options["kind"] != "paper":
        return "SigGPClassifier"
    return f"the paper's model, scaled by {'series' if options['each'] else 'data set'}"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"
