"""Series that deserve a look: the most uncertain, the most surprising and the most novel, drawn and explained."""

from __future__ import annotations

from typing import Any

import numpy as np

from siggpde.explain import SeriesExplanation
from siggpde.explain.results import SegmentContributions
from siggpde.explain.text import when
from siggpde.plots import plot_novelty, plot_series
from siggpde.report.content import Case, Content, Newness
from siggpde.report.html import Markup, bullets, caption, join, paragraph, tag
from siggpde.report.pictures import Picture, figure, figures, on_axes, picture
from siggpde.report.wording import counted, number, percent, short

_MOST_CHANNELS = 6
_TOLD = 4


def cases_section(content: Content) -> Markup:
    """The section."""
    parts: list[Any] = [
        paragraph(
            "Look at these first. In the pictures a line is blue where it speaks for the prediction and orange where "
            "it speaks against it; pale parts could as well be the other way round. What a stretch counts is found by "
            "replacing it with what is usual there, in many combinations (Shapley values)."
        )
    ]
    parts += [paragraph(each, class_="note") for each in content.notes]
    parts += [_case(each, content) for each in content.cases]
    if content.newness is not None:
        parts.append(figures(_novelty(content.newness)))
    return join(parts)


def _case(case: Case, content: Content) -> Markup:
    title = tag("h3", f"Series {case.series.name}")
    badges = join(tag("span", why, class_="badge") for why in case.why)
    said = [paragraph(_prediction(case, content))]
    segments = case.explanation.segments
    if segments is not None:
        said.append(_where(case.explanation, segments))
    said.append(_more(case, content))
    drawn = _drawing(case, content)
    left = figure(_caption(case.explanation, content), drawn) if drawn is not None else ""
    return tag("article", left, tag("div", title, badges, *said), class_="case")


def _prediction(case: Case, content: Content) -> Markup:
    found, target = case.explanation, case.series.target
    if found.probability is None:
        text = f"Predicted {number(found.mean or 0.0)} ± {number(found.std or 0.0, 2)}"
        truth = "" if target is None else f"; true: {number(target)}"
        return caption(text, f"{truth}.")
    said = tag("b", f"Predicted {short(found.label)} with {percent(found.probability)}")
    rest = f", then {short(found.runner_up)} with {percent(found.runner_up_probability or 0.0)}."
    if target is None:
        return join([said, rest])
    right = "That is right." if str(target) == str(found.label) else f"In truth it is {short(target)}."
    return join([said, rest, " ", right])


def _where(found: SeriesExplanation, segments: SegmentContributions) -> Markup:
    """When and where the evidence is."""
    goal = (
        f"{short(found.label)} rather than {short(found.runner_up)}"
        if found.probability is not None
        else "a higher number"
    )
    parts: list[Any] = []
    if found.sentence:
        when_and_where, words = segments.sentence, found.sentence.removeprefix(segments.sentence)
        parts.append(paragraph(f"What speaks for {goal}: ", tag("b", when_and_where), f"{words}."))
    rows = [
        f"{each.channel} {each.does}, {when(each.start, each.end)}: {number(each.value, 2)}"
        for each in segments.main[:_TOLD]
    ]
    if rows:
        parts.append(bullets(rows))
    return join(parts)


def _more(case: Case, content: Content) -> Markup:
    said = []
    if case.p_value is not None:
        what = f" What is unusual: {case.reason}." if case.reason is not None and case.p_value < 0.2 else ""
        said.append(f"{percent(case.p_value)} of training series are as unusual (novelty p).{what}")
    if case.loss is not None:
        said.append(f"Surprise at the true answer: {number(case.loss)} nats.")
    near = case.explanation.neighbours
    if near:
        named = [f"{_answer(each.target)} at {each.distance:.2f}" for each in near]
        said.append(f"Nearest training series: {', '.join(named)} (series with nothing in common are about 1.4 apart).")
    return paragraph(" ".join(said)) if said else join([])


def _answer(target: Any) -> str:
    return number(target) if isinstance(target, float) else short(target)


def _caption(found: SeriesExplanation, content: Content) -> Markup:
    if found.probability is None:
        return caption("Blue raises the predicted number, orange lowers it. ", "The scale below says how much.")
    text = f"Blue speaks for {short(found.label)}, orange for {short(found.runner_up)}. "
    return caption(text, "The scale below is in logits: 1 multiplies the odds by 2.7.")


def _drawing(case: Case, content: Content) -> Picture | None:
    """The series with its contributions; None where there is nothing to draw along time."""
    segments = case.explanation.segments
    values, times = case.series.values, case.series.times
    if segments is None or values.shape[1] < 2 or len(values) != len(segments.channels):
        return None
    place = np.arange(values.shape[1], dtype=float) if times is None else times
    edges = np.concatenate([[segments.starts[0]], (segments.ends[:-1] + segments.starts[1:]) / 2, [segments.ends[-1]]])
    if not (np.all(np.diff(place) > 0) and np.all(np.diff(edges) > 0)):
        return None
    count = min(len(values), _MOST_CHANNELS)
    label = "contribution" if content.fitted.labels is None else "contribution (logits)"
    names = [short(name, 40) for name in segments.channels]

    def draw(drawing: Any) -> None:
        axes = drawing.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
        plot_series(
            values,
            segments.contrast.T,
            edges,
            axes,
            times=place,
            std=None if segments.contrast_std is None else segments.contrast_std.T,
            channels=names,
            label=label,
            most=count,
        )
        if not content.data.timed:
            axes[-1].set_xlabel("point")

    alt = f"series {case.series.name}, its channels coloured by what they contribute to the prediction"
    return picture(draw, alt, height=1.1 + 0.95 * count)


def _novelty(new: Newness) -> Markup:
    told = caption(
        "How new the series are. ",
        "Grey are training series, each as the others see it; the line is the series of this page. To the right of "
        "the first dotted line are 5 % of training series. Beyond the second one predictions fall back on what is "
        f"known without looking. {counted(new.alarms, 'series', 'series')} of this page "
        f"{'is' if new.alarms == 1 else 'are'} unlike all training series.",
    )
    draw = on_axes(lambda ax: plot_novelty(new.scores, new.training, ax, limit=new.limit))
    return figure(
        told, picture(draw, "histograms of novelty scores of training series and of these series", height=3.4)
    )
