"""How good class probabilities are: metrics, reliability, confusion, classes and groups one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from siggpde.metrics import classification_metrics
from siggpde.plots import plot_calibration, plot_confusion, plot_map, plot_risk_coverage
from siggpde.plots.classification import wilson_interval
from siggpde.plots.style import BLUE, CLASSES, GREY, MARKERS, finish
from siggpde.plots.style import percent as percent_ticks
from siggpde.report.content import ClassJudgement, Content
from siggpde.report.html import Markup, caption, join, table
from siggpde.report.judgement import LEVEL, Interval, class_figures, intervals
from siggpde.report.pictures import figure, figures, on_axes, picture
from siggpde.report.wording import counted, interval, number, percent, short

METRICS = {  # name, whether it is a share, and what it means
    "accuracy": ("accuracy", True, "share of series whose most probable class is the true one"),
    "balanced_accuracy": ("balanced accuracy", True, "the same, every class counting alike, however rare it is"),
    "nlpp": ("NLPP", False, "mean surprise, −log of the probability of the true class; 0 is best"),
    "brier": ("Brier score", False, "mean squared distance of probabilities from the truth; 0 is best, 2 the worst"),
    "ece": ("calibration error", True, "how far probabilities are from how often they are right (ECE)"),
    "f1": ("F1", True, "balance of false alarms and misses, mean over classes"),
}
_MOST_ROWS = 30
_UNSURE = 0.8
_MOST_NAMED = 60


def class_scores(judged: ClassJudgement, seed: int) -> dict[str, Interval]:
    """The metrics with their intervals."""
    return intervals(class_figures(judged), len(judged.loss), judged.groups, seed)


def class_quality(content: Content, judged: ClassJudgement, found: dict[str, Interval]) -> Markup:
    """Tables and figures."""
    rows = []
    for key, (name, share, meaning) in METRICS.items():
        value = percent(found[key].value) if share else number(found[key].value)
        rows.append((name, value, interval(found[key], share), meaning))
    guess = np.bincount(judged.truth, minlength=len(judged.classes)).max() / len(judged.truth)
    note = f"Always naming the most frequent class would be right in {percent(float(guess))}."
    scores = table(["", "value", "95 % interval", "what it is"], rows, numbers=(1, 2), title=note)
    shown = [_calibration(judged), _confusion(judged), _risk(judged)]
    if content.points is not None:
        shown.append(_map(content, judged))
    if len(judged.classes) > 2 or judged.groups is None:
        shown.append(_by_class(judged))
    if judged.groups is not None:
        shown.append(_by_group(judged))
    return join([scores, figures(*shown), _mistakes(judged)])


def _calibration(judged: ClassJudgement) -> Markup:
    told = caption(
        "Can the probabilities be trusted? ",
        "Series are sorted by the probability of their predicted class and put into bins of equally many. On the "
        "dashed line a probability of 80 % is right in 80 of 100 cases; below it the model is too sure, above it too "
        "cautious. Bars that reach the line are honest within chance. The strip above says where the series are.",
    )
    labels, p = _labels(judged), judged.p
    draw = on_axes(lambda ax: plot_calibration(labels, p, judged.classes, ax))
    return figure(told, picture(draw, "reliability diagram: share that is right against probability", height=5.2))


def _confusion(judged: ClassJudgement) -> Markup:
    metrics = classification_metrics(_labels(judged), judged.p, judged.classes)
    count = len(judged.classes)
    more = "" if count <= 20 else " With so many classes counts are left out; darker is more."
    told = caption(
        "Which classes are taken for which. ",
        "A row is what a series is, a column what it was taken for; the diagonal is right. Colours are shares of the "
        f"row.{more}",
    )
    alt = f"confusion matrix of {count} classes, accuracy {percent(metrics.accuracy)}"
    return figure(told, picture(on_axes(lambda ax: plot_confusion(metrics, ax)), alt, height=5.2))


def _risk(judged: ClassJudgement) -> Markup:
    told = caption(
        "What if it may say “I don't know”? ",
        "From right to left, the least sure series are withheld. The curve is the share of wrong predictions among "
        "the others; the faster it falls to the left, the better the model knows when it is wrong.",
    )
    draw = on_axes(lambda ax: plot_risk_coverage(_labels(judged), judged.p, judged.classes, ax))
    return figure(told, picture(draw, "share that is wrong against share predicted", height=3.6))


def _map(content: Content, judged: ClassJudgement) -> Markup:
    points, rows = content.points, content.point_rows
    assert points is not None and rows is not None
    labels = [str(judged.classes[index]) for index in judged.truth[rows]]
    unsure = judged.p[rows].max(axis=1) < _UNSURE
    total = len(judged.truth)
    some = f" {len(rows):,} of {total:,} series, drawn at random." if len(rows) < total else ""
    told = caption(
        "The series as the model sees them. ",
        "Every point is a series; near points look alike to the model. Classes that overlap here are hard to tell "
        f"apart. Rings are around series with a probability below 80 %.{some}",
    )
    name = short(content.data.target, 30)
    draw = on_axes(lambda ax: plot_map(points, labels, ax, uncertain=unsure, name=name))
    return figure(told, picture(draw, f"map of {len(rows)} series by class", height=4.6))


def _by_class(judged: ClassJudgement) -> Markup:
    labels = [str(label) for label in judged.classes]
    told = caption(
        "Class by class. ",
        "How many series of a class are recognised, worst first, with a 95 % interval: wide bars mean few series.",
    )
    right = judged.p.argmax(axis=1) == judged.truth
    return _shares(told, labels, judged.truth, right, "share recognised")


def _by_group(judged: ClassJudgement) -> Markup:
    assert judged.groups is not None
    names, member = np.unique(judged.groups, return_inverse=True)
    told = caption(
        "Group by group. ",
        "How often the model is right in every group, worst first. A group far to the left is one that the model "
        "does not understand, however good the mean is.",
    )
    right = judged.p.argmax(axis=1) == judged.truth
    return _shares(told, [str(name) for name in names], member, right, "share that is right")


def _shares(told: Markup, names: list[str], member: np.ndarray, right: np.ndarray, label: str) -> Markup:
    """Shares of what is right (n,) in every class or group, with Wilson's intervals; the worst of many."""
    count = np.bincount(member, minlength=len(names))
    kept = np.flatnonzero(count)
    share = np.bincount(member, right, minlength=len(names))[kept] / count[kept]
    low, high = wilson_interval(share, count[kept], LEVEL)
    order = np.argsort(share, kind="stable")[:_MOST_ROWS]
    some = f" The worst {len(order)} of {len(kept)}." if len(order) < len(kept) else ""
    mean = float(right.mean())

    def draw(ax: Any) -> None:
        place = np.arange(len(order))
        ax.axvline(mean, color=GREY, linestyle=":", linewidth=1)
        ends = np.stack([share[order] - low[order], high[order] - share[order]])
        ax.errorbar(share[order], place, xerr=ends, fmt="o", color=BLUE, markersize=4, elinewidth=1.2, capsize=2)
        ax.set_yticks(place, [f"{short(names[kept[i]], 22)} ({count[kept[i]]})" for i in order])
        ax.invert_yaxis()
        ax.set_xlim(min(0.9, float(low[order].min()) - 0.02), 1.01)
        ax.xaxis.set_major_formatter(percent_ticks())
        ax.locator_params(axis="x", nbins=6)
        ax.set_xlabel(f"{label}; dotted: all series")
        finish(ax)

    worst = order[0]
    lowest = f"{names[kept[worst]]} with {percent(float(share[worst]))}"
    alt = f"{label} for {counted(len(order), 'row')}; the lowest is {lowest}"
    shown = picture(on_axes(draw), alt, height=max(1.8, 0.9 + 0.27 * len(order)))
    return figure(join([told, some]), shown)


def _mistakes(judged: ClassJudgement) -> Markup:
    """The most frequent mistakes in words, where the matrix has too many classes to be read."""
    if len(judged.classes) <= 20:
        return join([])
    predicted = judged.p.argmax(axis=1)
    wrong = np.flatnonzero(predicted != judged.truth)
    if not len(wrong):
        return join([])
    pairs, times = np.unique(np.stack([judged.truth[wrong], predicted[wrong]], axis=1), axis=0, return_counts=True)
    order = np.argsort(-times, kind="stable")[:10]
    rows = [(judged.classes[pairs[i, 0]], judged.classes[pairs[i, 1]], int(times[i])) for i in order]
    return table(["true", "taken for", "series"], rows, numbers=(2,), title="The most frequent mistakes.")


def _labels(judged: ClassJudgement) -> list[Any]:
    return [judged.classes[index] for index in judged.truth]


MOST_CLASSES_OF_MAP = min(_MOST_NAMED, len(CLASSES) * len(MARKERS))
"""Of more classes there is no map: they cannot be told apart."""
