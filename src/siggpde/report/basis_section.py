"""What the predictions rest on: channels, views and words."""

from __future__ import annotations

from typing import Any

from siggpde.explain import Importance
from siggpde.plots import plot_importance
from siggpde.report.content import Content
from siggpde.report.html import Markup, caption, join, paragraph
from siggpde.report.pictures import figure, figures, on_axes, picture
from siggpde.report.wording import counted, percent

_MOST = 12
_TELLING = 0.01  # words of a smaller share tell a reader nothing


def basis_section(content: Content) -> Markup:
    """The section."""
    found = content.importances
    if found is None:
        return paragraph("Importance needs two series or more.", class_="note")
    intro = (
        "Something is important if what it contributes to the predictions differs much from series to series. "
        f"Measured on {counted(found.series, 'series', 'series')}. It says what the model uses, not what it could not "
        "do without: if two channels tell the same, either could replace the other."
    )
    shown = [
        _bars(
            "Channels. ",
            "The share of every channel in what tells the series apart. “time” is the order and duration of events.",
            found.channels,
        )
    ]
    if len(found.views) > 1:
        text = "Which ways of looking at the series count most in the end."
        shown.append(_bars("Views. ", text, found.views))
    if found.words and found.words[0].share >= _TELLING:
        text = (
            "The single features with the largest share. A word such as x–y means that x moves first and then y. There "
            f"are {found.all_words:,} features, so each has a small share."
        )
        shown.append(_bars("Words and features. ", text, found.words))
    return join([paragraph(intro), figures(*shown)])


def _bars(title: str, text: str, importances: list[Importance]) -> Markup:
    shown = importances[:_MOST]
    some = f" The first {len(shown)} of {len(importances)}." if len(shown) < len(importances) else ""
    lines = sum(max(1.0, len(each.name) / 40) for each in shown)
    alt = f"bars: importance; first {shown[0].name} with {percent(shown[0].share)}"

    def draw(ax: Any) -> None:
        plot_importance(shown, ax)

    return figure(caption(title, text, some), picture(on_axes(draw), alt, height=1.0 + 0.32 * lines))
