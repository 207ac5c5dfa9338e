"""The figures of the weather experiment: a week of the test with what the models say of it, and their features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from siggpde.explain import Importance
from siggpde.plots import plot_importance
from siggpde_paper.experiments.report import save_figure

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
