"""What notebooks show of a fitted estimator: what it is, on what it was fitted, its members, and how sure it is."""

from __future__ import annotations

from typing import Any

from siggpde.committee.committee import Committee
from siggpde.estimators.describing import likelihood_name, members_of_views
from siggpde.report.html import Markup, join, table, tag
from siggpde.report.wording import counted, listed, number, percent, short, span

_MOST = 5
_STYLE = "max-width:46rem;padding:.6rem 1rem;border:1px solid #8886;border-radius:8px;font-size:13px;line-height:1.45"


def notebook_card(estimator: Any) -> str:
    """A few lines of HTML; colours are those of the notebook."""
    classifies = hasattr(estimator, "classes_")
    committee = estimator.committee_
    labels = estimator.summary_.get("labels", {})
    what = (
        f"{counted(len(labels), 'class', 'classes')}: {listed([*map(short, labels)], 6)}" if classifies else "a number"
    )
    shortest, longest = estimator.length_range_
    groups = getattr(estimator, "n_groups_", None)
    series = counted(estimator.n_series_, "series", "series") + ("" if groups is None else f" in {groups} groups")
    facts = [
        ("predicts", what),
        ("fitted on", f"{series}, {counted(estimator.n_channels_, 'channel')}, {span(shortest, longest)} points"),
        ("likelihood", likelihood_name(committee, classifies)),
        ("seconds", number(float(estimator.seconds_), 3) if hasattr(estimator, "seconds_") else "–"),
    ]
    rows = [tag("div", tag("b", f"{name}: "), value) for name, value in facts]
    name = type(estimator).__name__.removesuffix("Methods")
    title = tag("div", tag("b", name), ", fitted", style="font-size:15px;margin-bottom:.3rem")
    return str(tag("div", title, *rows, _members(committee, groups), style=_STYLE))


def _members(committee: Any, groups: int | None) -> Markup:
    if isinstance(committee, Committee):
        pairs = zip(committee.weights.tolist(), committee.members, strict=True)
        rows = [
            (f"{len(each.model.features.words)} words", percent(weight, 0), _loss(each.score)) for weight, each in pairs
        ]
    else:
        rows = [(each.kernel, percent(each.weight, 0), _loss(each.score)) for each in members_of_views(committee)]
    judged = "leave-one-out" if groups is None else "leave-one-group-out"
    more = len(rows) - _MOST
    shown = table(["member", "weight", f"{judged} loss (nats)"], rows[:_MOST], numbers=(1, 2))
    return join([shown, tag("div", f"and {more} more members") if more > 0 else ""])


def _loss(score: float | None) -> str:
    return "–" if score is None else number(score)
