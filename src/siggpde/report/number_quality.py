"""How good predicted numbers are: errors, intervals, and whether distributions are honest."""

from __future__ import annotations

from typing import Any

import numpy as np

from siggpde.plots import plot_intervals, plot_pit
from siggpde.plots.style import BLUE, GREY, ORANGE, finish
from siggpde.report.content import Content, NumberJudgement
from siggpde.report.html import Markup, caption, join, table
from siggpde.report.judgement import Interval, intervals, number_figures
from siggpde.report.pictures import figure, figures, on_axes, picture, thinned
from siggpde.report.wording import interval, number, percent, short

METRICS = {  # name, whether it is a share, and what it means
    "rmse": ("RMSE", False, "typical error, in the units of the number; large errors count more"),
    "mae": ("mean absolute error", False, "mean error, in the units of the number"),
    "r2": ("R²", False, "share of the variance that is explained; 1 is best, 0 is no better than the mean"),
    "nlpd": ("NLPD", False, "mean surprise, −log of the predicted density at the true number; smaller is better"),
    "coverage": ("coverage of 90 % intervals", True, "how often intervals that should hold 90 % hold the true number"),
    "width": ("mean width of 90 % intervals", False, "in the units of the number; narrow is good if coverage is right"),
}
_LEVEL = 0.9
_MOST_POINTS = 500
_LEVELS_SHOWN = (0.5, 0.8, 0.9, 0.95)
_MOST_GROUPS = 30


def ends(judged: NumberJudgement, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends (n,) of central intervals; the levels of the judgement have to hold them."""
    low, high = (1 - level) / 2, (1 + level) / 2
    columns = [int(np.flatnonzero(np.isclose(judged.levels, one))[0]) for one in (low, high)]
    return judged.quantiles[:, columns[0]], judged.quantiles[:, columns[1]]


def number_scores(judged: NumberJudgement, seed: int) -> dict[str, Interval]:
    """The metrics with their intervals."""
    return intervals(number_figures(judged, *ends(judged, _LEVEL)), len(judged.y), judged.groups, seed)


def number_quality(content: Content, judged: NumberJudgement, found: dict[str, Interval]) -> Markup:
    """Tables and figures."""
    rows = []
    for key, (name, share, meaning) in METRICS.items():
        value = percent(found[key].value) if share else number(found[key].value)
        rows.append((name, value, interval(found[key], share), meaning))
    spread = float(judged.y.std())
    note = f"Always naming the mean of these series would be off by {number(spread)} (RMSE)."
    scores = table(["", "value", "95 % interval", "what it is"], rows, numbers=(1, 2), title=note)
    covered = []
    for level in _LEVELS_SHOWN:
        low, high = ends(judged, level)
        inside = float(((low <= judged.y) & (judged.y <= high)).mean())
        covered.append((percent(level, 0), percent(inside), number(float((high - low).mean()))))
    shown = [_predicted(content, judged), _pit(judged), _errors(content, judged)]
    if judged.groups is not None:
        shown.append(_by_group(judged))
    wide = table(
        ["interval", "holds the number", "mean width"], covered, numbers=(1, 2), title="Intervals of other levels."
    )
    return join([scores, figures(*shown), wide])


def _predicted(content: Content, judged: NumberJudgement) -> Markup:
    rows = thinned(len(judged.y), _MOST_POINTS, content.seed)
    some = f" {len(rows)} of {len(judged.y)} series, drawn at random." if len(rows) < len(judged.y) else ""
    low, high = (end[rows] for end in ends(judged, _LEVEL))
    told = caption(
        "Predicted and true numbers. ",
        "On the dashed line a prediction is right. Bars are 90 % intervals: about one in ten should miss the line, "
        f"in orange.{some}",
    )
    draw = on_axes(lambda ax: plot_intervals(judged.y[rows], judged.mean[rows], low, high, ax))
    return figure(told, picture(draw, "predicted numbers with intervals against true numbers", height=4.6))


def _pit(judged: NumberJudgement) -> Markup:
    tenths = np.arange(1, 10) / 10
    columns = [int(np.flatnonzero(np.isclose(judged.levels, one))[0]) for one in tenths]
    told = caption(
        "Are the intervals honest? ",
        "How often the true number falls into each tenth of its predicted distribution. Level bars, between the "
        "dotted lines, are honest. High at both ends: intervals are too narrow. High in the middle: too wide. "
        "Sloping: predictions are too low or too high.",
    )
    draw = on_axes(lambda ax: plot_pit(judged.y, judged.quantiles[:, columns], tenths, ax))
    return figure(told, picture(draw, "histogram of where true numbers fall in predicted distributions", height=3.6))


def _errors(content: Content, judged: NumberJudgement) -> Markup:
    rows = thinned(len(judged.y), _MOST_POINTS, content.seed)
    error, spread = (judged.mean - judged.y)[rows], judged.std[rows]

    def draw(ax: Any) -> None:
        far = np.abs(error) > 2 * spread
        for part, colour, marker in ((~far, BLUE, "o"), (far, ORANGE, "D")):
            ax.scatter(spread[part], np.abs(error[part]), color=colour, marker=marker, s=12, alpha=0.8, linewidth=0)
        top = float(spread.max())
        ax.plot([0, top], [0, 2 * top], color=GREY, linestyle="--", linewidth=1)
        ax.set(xlabel=f"predicted standard deviation of {short(content.data.target, 20)}", ylabel="error, its size")
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0)
        finish(ax)

    told = caption(
        "Does it know when it is wrong? ",
        "Where the model says that it is less sure, to the right, errors may be larger. About one series in twenty "
        "should be above the dashed line, two standard deviations, in orange.",
    )
    return figure(told, picture(on_axes(draw), "size of errors against predicted standard deviation", height=3.6))


def _by_group(judged: NumberJudgement) -> Markup:
    assert judged.groups is not None
    names, member = np.unique(judged.groups, return_inverse=True)
    count = np.bincount(member)
    error = np.sqrt(np.bincount(member, np.square(judged.mean - judged.y)) / count)
    order = np.argsort(-error, kind="stable")[:_MOST_GROUPS]
    some = f" The worst {len(order)} of {len(names)}." if len(order) < len(names) else ""

    def draw(ax: Any) -> None:
        ax.barh(range(len(order)), error[order], color=BLUE, height=0.6)
        ax.axvline(float(np.sqrt(np.square(judged.mean - judged.y).mean())), color=GREY, linestyle=":", linewidth=1)
        ax.set_yticks(range(len(order)), [f"{short(names[i], 22)} ({count[i]})" for i in order])
        ax.invert_yaxis()
        ax.set_xlabel("RMSE; dotted: all series")
        finish(ax)

    told = caption("Group by group. ", f"The error in every group, worst first.{some}")
    alt = f"errors of {len(order)} groups, the largest {names[order[0]]} with {number(float(error[order[0]]))}"
    return figure(told, picture(on_axes(draw), alt, height=max(1.8, 0.9 + 0.27 * len(order))))
