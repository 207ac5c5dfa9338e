"""What the predictions rest on: channels, time, views and words; for all series, and class by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from siggpde.explain import Importance, Importances
from siggpde.plots import plot_effects, plot_importance, require_matplotlib
from siggpde.plots.style import finish, letters, signed_colours
from siggpde.report.content import Content
from siggpde.report.html import Markup, caption, join, paragraph
from siggpde.report.pictures import Picture, figure, figures, on_axes, picture
from siggpde.report.wording import counted, percent, short

_MOST = 12
_MOST_CLASSES = 25
_TELLING = 0.01  # words of a smaller share tell a reader nothing
_SURE = 0.9  # the probability of a sign from which an effect is shown


def basis_section(content: Content) -> Markup:
    """The section."""
    found = content.importances
    if found is None:
        return paragraph("Importance needs two series or more.", class_="note")
    intro = (
        "What counts is found by replacing parts of the series with what is usual there, and by looking at how far the "
        f"predictions for {counted(found.series, 'series', 'series')} move. It says what the model uses, not what it "
        "could not do without: if two channels tell the same, either could replace the other."
    )
    return join([paragraph(intro), figures(*_overall(found), *_by_class(content, found))])


def _overall(found: Importances) -> list[Markup]:
    told = [
        ("Channels. ", "The share of every channel in what tells the series apart.", found.channels),
        ("When. ", "The share of every stretch of time, from the beginning of a series to its end.", found.regions),
        ("How fast. ", "Whether short or long windows of the series count.", found.scales),
        ("Views. ", "Which ways of looking at the series count most in the end.", found.views),
    ]
    shown = [_bars(*each) for each in told if len(each[2]) > 1]
    if found.words and found.words[0].share >= _TELLING:
        text = (
            "The order of movements that counts most: x–y means that x moves first and then y. Alike ones are grouped."
        )
        shown.append(_bars("Words. ", text, found.words))
    return shown


def _bars(title: str, text: str, importances: list[Importance]) -> Markup:
    shown = importances[:_MOST]
    some = f" The first {len(shown)} of {len(importances)}." if len(shown) < len(importances) else ""
    lines = sum(max(1.0, len(each.name) / 40) for each in shown)
    first = max(shown, key=lambda each: each.share)
    alt = f"bars: importance; first {first.name} with {percent(first.share)}"
    drawn = picture(on_axes(lambda ax: plot_importance(shown, ax)), alt, height=1.0 + 0.32 * lines)
    return figure(caption(title, text, some), drawn)


def _by_class(content: Content, found: Importances) -> list[Markup]:
    """Effects on every class: of two classes and of numbers as bars, of more as a table of colours."""
    if not found.classes:
        return []
    goal = f"a larger {content.data.target}" if content.fitted.labels is None else None
    kinds = [("channels", "Channels"), ("regions", "Stretches of time")]
    kinds = [(kind, title) for kind, title in kinds if 1 < len(getattr(found.classes[0], kind)) <= _MOST_CLASSES]
    if goal is not None or len(found.classes) == 2:
        one = found.classes[-1]
        goal = goal or f"{short(one.label)} and against {short(found.classes[0].label)}"
        return [_effects(f"{title}. ", getattr(one, kind), goal, content) for kind, title in kinds]
    classes = found.classes[:_MOST_CLASSES]
    some = f" The first {len(classes)} of {len(found.classes)} classes." if len(classes) < len(found.classes) else ""
    shown = []
    for kind, title in kinds:
        told = caption(
            f"Class by class: {title.lower()}. ",
            "Blue speaks for the class of the row where its series differ from the others, orange against it; white "
            f"could be either.{some}",
        )
        shown.append(figure(told, _table(classes, kind)))
    return shown


def _effects(title: str, effects: Sequence[Any], goal: str, content: Content) -> Markup:
    label = "effect on the number" if content.fitted.labels is None else "effect on the logit"
    told = caption(title, f"Bars to the right speak for {goal}; lines are one standard deviation, pale bars unsure.")
    alt = f"bars: effects of {len(effects)} parts of the series"
    drawn = picture(
        on_axes(lambda ax: plot_effects(effects, ax, label=label)), alt, height=max(2.0, 0.3 * len(effects) + 1.0)
    )
    return figure(told, drawn)


def _table(classes: Sequence[Any], kind: str) -> Picture:
    rows = [getattr(each, kind) for each in classes]
    values = np.array([[one.effect for one in row] for row in rows])
    sure = np.array([[one.probability >= _SURE for one in row] for row in rows])
    names = [short(one.name, 24) for one in rows[0]]
    largest = float(np.abs(values).max()) or 1.0

    def draw(ax: Any) -> None:
        shown = np.ma.masked_where(~sure, values)
        scale = require_matplotlib("colors").Normalize(-largest, largest)
        mesh = ax.pcolormesh(shown, cmap=signed_colours(), norm=scale, edgecolors="white", linewidth=1.5)
        ax.set_yticks(np.arange(len(rows)) + 0.5, [short(each.label, 18) for each in classes])
        slanted: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        ax.set_xticks(np.arange(len(names)) + 0.5, names, **(slanted if sum(map(len, names)) > 40 else {}))
        ax.invert_yaxis()
        ax.tick_params(length=0)
        finish(ax)
        ax.spines[:].set_visible(False)
        bar = ax.figure.colorbar(mesh, ax=ax, location="bottom", aspect=40, shrink=0.7, pad=0.03)
        bar.set_label("effect on the logit of the class", size=letters(ax))
        bar.ax.tick_params(labelsize=letters(ax) - 0.5)
        bar.ax.locator_params(nbins=5)
        bar.outline.set_visible(False)

    alt = f"table of colours: effects of {len(names)} {kind} on {len(classes)} classes"
    return picture(on_axes(draw), alt, height=1.7 + 0.26 * len(rows))
