"""How good the predictions are: metrics with their intervals, and pictures of what they hide."""

from __future__ import annotations

from typing import Any

from siggpde.report.class_quality import class_quality, class_scores
from siggpde.report.content import ClassJudgement, Content
from siggpde.report.html import Markup, caption, join, paragraph
from siggpde.report.judgement import Interval
from siggpde.report.number_quality import number_quality, number_scores
from siggpde.report.wording import counted


def scores(content: Content) -> dict[str, Interval]:
    """The metrics with their intervals; none without true answers."""
    judged = content.judgement
    if judged is None:
        return {}
    found = class_scores if isinstance(judged, ClassJudgement) else number_scores
    return found(judged, content.seed)  # pyright: ignore[reportArgumentType]


def quality_section(content: Content, found: dict[str, Interval]) -> Markup:
    """The section, with the metrics `found`."""
    judged = content.judgement
    if judged is None:
        assert content.why_no_judgement is not None
        return paragraph(content.why_no_judgement, class_="note")
    parts: list[Any] = [paragraph(_whose(content)), paragraph(_intervals(content))]
    if isinstance(judged, ClassJudgement):
        parts.append(class_quality(content, judged, found))
    else:
        parts.append(number_quality(content, judged, found))
    return join(parts)


def _whose(content: Content) -> Markup:
    judged = content.judgement
    assert judged is not None
    count = counted(len(judged.loss), "series", "series")
    if judged.left_out:
        together = "its group" if content.fitted.groups is not None else "it"
        return caption(
            "Judged on left-out training series. ",
            f"The series of this page are those that the model was fitted to. Each of {count} was predicted by a "
            f"model without {together}. The same predictions chose the members, so the figures are a little too good: "
            "judge the model on new series before you rely on it.",
        )
    return caption("Judged on new series. ", f"The model had not seen any of these {count}.")


def _intervals(content: Content) -> str:
    judged = content.judgement
    units = "series" if judged is None or judged.groups is None else "groups"
    return (
        f"Behind every figure is the interval in which it would be, in 95 of 100 cases, for other {units} of the same "
        f"source: 1000 bootstrap samples of {units}. It is wide where there are few."
    )
