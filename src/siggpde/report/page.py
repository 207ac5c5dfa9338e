"""The whole page: one HTML file that asks for nothing else."""

from __future__ import annotations

from typing import Any

from siggpde.report.basis_section import basis_section
from siggpde.report.cases_section import cases_section
from siggpde.report.closing import card_section, origin_section, warnings_section
from siggpde.report.content import ClassJudgement, Content
from siggpde.report.data_section import data_section
from siggpde.report.fitted_section import fitted_section
from siggpde.report.html import Markup, empty_tag, tag
from siggpde.report.judgement import Interval
from siggpde.report.quality_section import quality_section, scores
from siggpde.report.style import STYLE
from siggpde.report.wording import counted, interval, number, percent

GENERATOR = "siggpde report"
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def page(content: Content) -> str:
    """The report as HTML."""
    found = scores(content)
    sections: list[tuple[str, str, Markup]] = [
        ("data", "What the data are", data_section(content)),
        ("model", "What was fitted, and why", fitted_section(content)),
        ("quality", "How good it is", quality_section(content, found)),
        ("basis", "What it rests on", basis_section(content)),
        ("series", "Series to look at", cases_section(content)),
        ("warnings", "Warnings", warnings_section(content)),
        ("card", "Model card", card_section(content)),
        ("reproduce", "How to reproduce it", origin_section(content)),
    ]
    body = [_header(content, found, [(key, title) for key, title, _ in sections])]
    main = [tag("section", tag("h2", title), text, id=key) for key, title, text in sections]
    body += [tag("main", *main), tag("footer", "Written by siggpde. This file needs no network and runs no script.")]
    head = [
        empty_tag("meta", charset="utf-8"),
        empty_tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        empty_tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        empty_tag("meta", name="generator", content=GENERATOR),
        empty_tag("meta", name="color-scheme", content="light dark"),
        tag("title", content.title),
        tag("style", Markup(STYLE)),
    ]
    document = tag("html", tag("head", *head), tag("body", *body), lang="en")
    return f"<!doctype html>\n{document}\n"


def _header(content: Content, found: dict[str, Interval], sections: list[tuple[str, str]]) -> Markup:
    links = [tag("li", tag("a", title, href=f"#{key}")) for key, title in sections]
    parts: list[Any] = [
        tag("p", "siggpde report", class_="kicker"),
        tag("h1", content.title),
        tag("p", _lead(content), class_="lead"),
        tag("div", *_tiles(content, found), class_="scores"),
    ]
    if content.warnings:
        note = tag("a", counted(len(content.warnings), "warning"), href="#warnings")
        parts.append(tag("p", note, f": {content.warnings[0]}", class_="warn"))
    parts.append(tag("nav", tag("ol", *links), aria_label="Contents"))
    return tag("header", *parts)


def _lead(content: Content) -> str:
    target, fitted = content.data.target, content.fitted
    kind = "the class" if fitted.labels is not None else "a number"
    what = kind if target in ("class", "number") else f"“{target}”"
    judged = content.judgement
    if judged is None:
        return f"A model that predicts {what} of a time series, with its uncertainty, on {len(content.data):,} series."
    whose = "left-out training series" if judged.left_out else "new series"
    return (
        f"A model that predicts {what} of a time series, with its uncertainty, judged on {len(judged.loss):,} {whose}."
    )


def _tiles(content: Content, found: dict[str, Interval]) -> list[Markup]:
    judged = content.judgement
    if judged is None:
        tiles = []
    elif isinstance(judged, ClassJudgement):
        tiles = [
            _tile(percent(found["accuracy"].value), "right", interval(found["accuracy"], True)),
            _tile(number(found["nlpp"].value), "NLPP, smaller is better", interval(found["nlpp"], False)),
            _tile(percent(found["ece"].value), "calibration error", interval(found["ece"], True)),
        ]
    else:
        tiles = [
            _tile(number(found["rmse"].value), "RMSE, typical error", interval(found["rmse"], False)),
            _tile(number(found["r2"].value), "R², share explained", interval(found["r2"], False)),
            _tile(percent(found["coverage"].value), "of 90 % intervals hold", interval(found["coverage"], True)),
        ]
    if content.newness is not None:
        tiles.append(_tile(f"{content.newness.alarms:,}", "unlike the training series", f"of {len(content.data):,}"))
    tiles.append(_tile(f"{content.fitted.series:,}", "training series", _members(content)))
    return tiles


def _members(content: Content) -> str:
    seconds = content.fitted.seconds
    took = "" if seconds is None else f", fitted in {number(seconds, 2)} s"
    return f"{counted(len(content.fitted.members), 'member')}{took}"


def _tile(value: str, name: str, more: str) -> Markup:
    return tag("div", tag("b", value), tag("span", name), tag("span", more), class_="score")
