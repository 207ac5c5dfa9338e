"""What was fitted and why: the members, what they see, their weights, what was tried, and how latents are read."""

from __future__ import annotations

from typing import Any

from siggpde.plots import plot_trials, plot_weights
from siggpde.report.content import Content, Fitted
from siggpde.report.html import Markup, bullets, caption, join, paragraph, table, tag
from siggpde.report.pictures import figure, figures, on_axes, picture
from siggpde.report.wording import counted, number, percent

_SEEN = {  # by the kinds of views, with the names of the legend
    "linear": ("short words", "plain values: means, trends and weighted averages of single channels"),
    "path": ("words", "signatures of the whole path: the order in which channels move"),
    "kernel": ("signature kernel", "the untruncated signature, by its PDE: all orders of all channels at once"),
    "lifted": ("lifted paths", "the same kernel of a path in a curved space: shapes, not only areas"),
    "windows": ("windows", "signatures of short windows of the series and of its steps: what happens, wherever it is"),
    "spectrum": ("spectrum", "windows of the spectrum: how fast the series swings"),
}


def fitted_section(content: Content) -> Markup:
    """The section."""
    fitted = content.fitted
    parts: list[Any] = [paragraph(_what(fitted)), paragraph(_why(fitted))]
    if fitted.method == "views":
        parts.append(paragraph("A view is a way of looking at a series. The members are made of these:"))
        parts.append(bullets(_seen(kind) for kind in fitted.kinds))
    drawn = [_weights(content)]
    if len(fitted.tried) > 1:
        drawn.append(_tried(fitted))
    parts.append(figures(*drawn))
    parts.append(_members(fitted))
    parts.append(paragraph(tag("b", "From latents to answers. "), fitted.link))
    if fitted.left_out is not None:
        parts.append(paragraph(fitted.left_out, class_="note"))
    return join(parts)


def _seen(kind: str) -> Markup:
    name, text = _SEEN.get(kind, (kind, "features of a transformer of your own"))
    return join([tag("b", name), f": {text}"])


def _what(fitted: Fitted) -> str:
    kind = "classes" if fitted.task == "classification" else "numbers"
    if fitted.method == "paper":
        return (
            f"One sparse variational Gaussian process for {kind} with the untruncated signature kernel and words as "
            f"inducing variables, as published (SigGPDE), fitted to {counted(fitted.series, 'series', 'series')}."
        )
    count = len(fitted.members)
    committee = "one Gaussian process" if count == 1 else f"a committee of {count} Gaussian processes"
    return (
        f"The model is {committee} for {kind}, fitted to {counted(fitted.series, 'series', 'series')}"
        f"{'' if fitted.groups is None else f' in {fitted.groups} groups'}. Each looks at the series in its own way, "
        "and their answers are averaged with weights."
    )


def _why(fitted: Fitted) -> str:
    if fitted.method == "paper":
        return "Its settings are those of the publication; scales and amplitude were learned by gradients."
    tried = (
        f"{len(fitted.tried)} candidates were compared. " if fitted.tried else "Some thirty candidates are compared. "
    )
    return (
        f"{tried}Every training series was predicted by the others; candidates that do this better have more weight, "
        "and the best of every family of views keeps some. Nothing was tuned by hand."
    )


def _weights(content: Content) -> Markup:
    fitted = content.fitted
    height = max(1.9, 0.3 * len(fitted.members) + 1.5)
    best = max(fitted.members, key=lambda member: member.weight)
    largest = f"{percent(best.weight, 0)} ({best.name})"
    alt = f"bars: weights of {counted(len(fitted.members), 'member')}, the largest {largest}"
    told = caption(
        "The members and their weights. ",
        "The longer a bar, the more a member counts. Colours are the views that it is made of. The figure at the end "
        "of a bar is its loss on series that it had not seen: smaller is better.",
    )
    return figure(told, picture(on_axes(lambda ax: plot_weights(fitted.committee, ax)), alt, height=height))


def _tried(fitted: Fitted) -> Markup:
    scores = [score for _, score, _ in fitted.tried]
    best = min(fitted.tried, key=lambda each: each[1])
    told = caption(
        "What was tried. ",
        "Every point is a candidate with its loss on left-out series; the lower, the better. The best alone is "
        f"{best[0]} with {number(best[1])}.",
    )
    alt = f"losses of {len(scores)} candidates, from {number(min(scores))} to {number(max(scores))}"
    return figure(told, picture(on_axes(lambda ax: plot_trials(scores, ax)), alt, height=3.0))


def _members(fitted: Fitted) -> Markup:
    rows = [
        (member.kernel, percent(member.weight), "–" if member.score is None else number(member.score))
        for member in fitted.members
    ]
    return table(["member: what it sees", "weight", "loss (nats)"], rows, numbers=(1, 2))
