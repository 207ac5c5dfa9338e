"""The two figures of the weather experiment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from siggpde.experiments.markdown import save_figure
from siggpde.explain import Importance
from siggpde.plots import plot_importance

_BLUE, _GREY, _RAIN, _WET = "#3b6fb6", "#8a8a8a", "#9db8d9", "#d9752b"
_HOUR = np.timedelta64(60, "m")


def draw_stretch(
    minutes: np.ndarray,
    rain: np.ndarray,
    log_odds: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    more_than: float,
    folder: Path,
) -> list[str]:
    """Probability of rain with its band, above the rain of the predicted hour; all (n,), stamps in minutes."""
    from matplotlib import dates, pyplot  # noqa: PLC0415 - not everybody has it

    figure, (top, bottom) = pyplot.subplots(
        2, 1, figsize=(9, 4.8), sharex=True, layout="constrained", height_ratios=[3, 2]
    )
    when: Any = minutes.astype("datetime64[m]")
    wet = rain > more_than
    for moment in when[wet]:
        top.axvspan(moment, moment + _HOUR, color=_WET, alpha=0.25, linewidth=0)
    # A forecast is drawn in the middle of the hour it is for; the line breaks where windows are missing.
    middle, gaps = when + _HOUR // 2, np.diff(minutes) > 60
    for run in np.split(np.arange(len(when)), np.flatnonzero(gaps) + 1):
        top.fill_between(middle[run], expit(low[run]), expit(high[run]), color=_BLUE, alpha=0.25, linewidth=0)
        top.plot(middle[run], expit(log_odds[run]), color=_BLUE, linewidth=1.4)
    top.set(ylim=(0, None), ylabel="probability of rain")
    top.legend(handles=_legend(more_than), frameon=False, loc="upper left", ncols=3, fontsize="small")
    top.set_ylim(top=top.get_ylim()[1] * 1.18)
    bottom.bar(middle, rain, width=1 / 24, color=np.where(wet, _WET, _RAIN))
    bottom.axhline(more_than, color=_GREY, linestyle="--", linewidth=1)
    bottom.set(ylabel="rain in the hour, mm", xlim=(when[0], when[-1] + _HOUR))
    bottom.xaxis.set_major_locator(dates.DayLocator())
    bottom.xaxis.set_major_formatter(dates.DateFormatter("%d %b %Y"))
    bottom.tick_params(axis="x", labelsize="small")
    for ax in (top, bottom):
        ax.spines[["top", "right"]].set_visible(False)
    return save_figure(figure, folder, "weather-stretch")


def _legend(more_than: float) -> list[Any]:
    from matplotlib import lines, patches  # noqa: PLC0415 - not everybody has it

    return [
        lines.Line2D([], [], color=_BLUE, label="predicted"),
        patches.Patch(color=_BLUE, alpha=0.25, label="90 % of the posterior"),
        patches.Patch(color=_WET, alpha=0.25, label=f"more than {more_than:g} mm fell"),
    ]


def draw_features(features: Sequence[dict[str, Any]], title: str, folder: Path, name: str) -> list[str]:
    """Bars of the shares of the most important features, records as `important` makes them, into the file `name`."""
    shown = [Importance(f["name"], tuple(f["letters"]), f["importance"], f["share"]) for f in features]
    ax = plot_importance(shown)
    ax.set_title(title, fontsize="medium", loc="left")
    ax.locator_params(axis="x", nbins=5)  # percentages with decimals are wide
    return save_figure(ax.figure, folder, name)
