"""The page of a report: one HTML file that asks for nothing else, from templates in which all text is escaped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from siggpde.report.card import ModelFacts, card_blocks, model_facts
from siggpde.report.content import Content, Data
from siggpde.report.judgement import INTERVAL, ClassJudgement, Judgement, Metric, metrics, mistakes, parts
from siggpde.report.wording import counted, listed, number, percent, short, span

GENERATOR = "siggpde report"
_TILES = {  # metrics at the top of the page
    "accuracy": "right",
    "nlpp": "NLPP, smaller is better",
    "ece": "calibration error",
    "rmse": "RMSE, typical error",
    "r2": "R², share explained",
    "coverage": "of 90 % intervals hold",
}
_ROUNDING = 1e-5  # levels so far below the spread are those of standardised series
_DESCRIBED = 3  # channels
_FEW, _FEW_OF_CLASS, _FEW_GROUPS = 100, 10, 10
_UNEVEN = 10.0
_GAPPY = 0.2
_DOUBT = 0.05


def page(content: Content) -> str:
    from siggpde.report import figures  # noqa: PLC0415 - the card in notebooks needs none

    measured, judgement = metrics(content.judgement, content.seed), content.judgement
    on_new = None
    if judgement is not None and not judgement.left_out:
        figures_shown = ", ".join(f"{one.name} {one.value}" for one in list(measured.values())[:3])
        on_new = f"{figures_shown}, for the {len(judgement):,} series of this page"
    return render(
        "page.html",
        content=content,
        figures=figures,
        generator=GENERATOR,
        metrics=measured,
        card=card_blocks(content.model, "model", on_new),
        tiles=_tiles(content, measured),
        warnings=list(warnings_of(content)),
        data_rows=_data_rows(content.data),
        class_sizes=list(Counter(content.data.classes or []).values()),
        levels=(0.5, 0.8, 0.9, 0.95),
    )


def notebook_card(estimator: Any) -> str:
    """Returns what notebooks show of a fitted estimator: a few lines of HTML in the colours of the notebook."""
    return render("notebook.html", model=model_facts(estimator))


def render(template: str, **values: Any) -> str:
    """Returns a template of this package filled with values, every one of which is escaped."""
    return _templates().get_template(template).render(values).strip() + "\n"


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("siggpde.report"), autoescape=True, undefined=StrictUndefined, lstrip_blocks=True
    )
    templates.filters |= {"counted": counted, "listed": listed, "number": number, "percent": percent, "short": short}
    templates.filters |= {"span": lambda ends: span(*ends)}
    templates.filters |= {"mistakes": mistakes, "parts_of": parts}
    return templates


def _tiles(content: Content, measured: Mapping[str, Metric]) -> list[tuple[str, str, str]]:
    """The figures at the top: value, name, and a note."""
    tiles = [(measured[key].value, name, measured[key].interval) for key, name in _TILES.items() if key in measured]
    if content.novelty is not None:
        tiles.append((f"{content.novelty.alarms:,}", "unlike the training series", f"of {len(content.data):,}"))
    model = content.model
    seconds = "" if model.seconds is None else f", fitted in {number(model.seconds, 2)} s"
    return [*tiles, (f"{model.series:,}", "training series", f"{counted(len(model.members), 'member')}{seconds}")]


def _data_rows(data: Data) -> list[tuple[str, str]]:
    rows = [("series", f"{len(data):,}"), ("channels", listed(data.channels))]
    rows.append(("points a series", span(float(data.lengths.min()), float(data.lengths.max()))))
    stamps = "stamped" if data.time_format is None else data.time_format.words
    rows.append(("time", stamps if data.timed else "points in order, evenly spaced"))
    gappy = int((data.missing > 0).sum())
    missing = f"{percent(data.gaps)} of the values, in {counted(gappy, 'series')}" if gappy else "none"
    rows.append(("missing values", missing))
    if data.numbers is not None:
        low, high, mean = map(number, (data.numbers.min(), data.numbers.max(), data.numbers.mean()))
        rows.append((data.target, f"{low} to {high}, mean {mean}"))
    if data.classes is not None:
        counts = Counter(data.classes)
        rows.append((f"{data.target}: {counted(len(counts), 'class', 'classes')}", listed(sorted(counts))))
        rows.append(("series a class", span(min(counts.values()), max(counts.values()))))
    if data.groups is not None:
        rows.append(("groups", f"{len(set(data.groups)):,}"))
    rows += data.facts
    for index, name in enumerate(data.channels[:_DESCRIBED]):
        known = np.isfinite(data.levels[:, index])
        typical = "no value at all"
        if known.any():
            level, spread = (float(values[known, index].mean()) for values in (data.levels, data.spreads))
            typical = f"{'0' if abs(level) < _ROUNDING * spread else number(level)} ± {number(spread)}"
        rows.append((f"{short(name, 30)}, typically", typical))
    return rows


def warnings_of(content: Content) -> Iterator[str]:
    """Yields what a reader should not overlook, in plain words, the gravest first."""
    judgement, novelty, model = content.judgement, content.novelty, content.model
    if content.training:
        says = (
            ": they say nothing about how good it is. Judge it on new ones."
            if judgement is None
            else "; the figures are those of left-out series, and a little too good. Judge it on new ones."
        )
        yield f"The series of this page are those that the model was fitted to{says}"
    if novelty is not None and novelty.alarms:
        what = "" if novelty.commonest is None else f" What is unusual most often: {novelty.commonest}."
        yield (
            f"{counted(novelty.alarms, 'series')} of {len(content.data):,} "
            f"{'is' if novelty.alarms == 1 else 'are'} unlike all training series; predictions for them tell "
            f"little.{what}"
        )
    nothing = getattr(getattr(model.committee, "link", None), "nothing", 0.0)
    if nothing > _DOUBT:
        yield (
            "The labels may have nothing to do with the series: left-out predictions leave a probability of "
            f"{percent(nothing)} for that."
        )
    if isinstance(judgement, ClassJudgement):
        yield from _warnings_of_classes(judgement)
    elif judgement is not None:
        share, _ = judgement.coverage(INTERVAL)
        if abs(share - INTERVAL) > max(2 * (INTERVAL * (1 - INTERVAL) / len(judgement)) ** 0.5, 0.02):
            way = "too narrow" if share < INTERVAL else "wider than they need be"
            yield f"Intervals are {way} for these series: those of 90 % hold {percent(share)} of the numbers."
    yield from _warnings_of_training(model)
    yield from _warnings_of_data(content.data, model, judgement)


def _warnings_of_classes(judgement: ClassJudgement) -> Iterator[str]:
    n, right, guess, top = len(judgement), judgement.right, judgement.most_frequent, judgement.p.max(axis=1)
    error = 2 * (right.mean() * (1 - right.mean()) / n) ** 0.5
    if right.mean() - error <= guess < 1:
        yield f"It is hardly better than always naming the most frequent class, right in {percent(guess)}."
    gap, noise = float((top - right).mean()), 2 * float((top - right).std()) / n**0.5
    if abs(gap) > max(noise, 0.01):
        way = "too sure of itself" if gap > 0 else "too cautious"
        yield (
            f"It is {way} on these series: on average it gives its answer {percent(float(top.mean()))} and is right in "
            f"{percent(float(right.mean()))}."
        )
    present = set(judgement.truth.tolist())
    absent = [label for index, label in enumerate(judgement.classes) if index not in present]
    if absent:
        yield f"No series of class {listed(absent, 5)} is among these: nothing is known of them here."


def _warnings_of_training(model: ModelFacts) -> Iterator[str]:
    if model.series < _FEW:
        yield f"The model has seen {counted(model.series, 'series')} only: what it knows is rough."
    if model.labels:
        fewest, most = min(model.labels.values()), max(model.labels.values())
        rare = [f"{short(label)} ({count})" for label, count in model.labels.items() if count < _FEW_OF_CLASS]
        if rare:
            yield f"Classes with fewer than {_FEW_OF_CLASS} training series are known poorly: {listed(rare, 5)}."
        if most > _UNEVEN * max(fewest, 1):
            yield (
                f"Classes are uneven, from {fewest:,} to {most:,} training series: accuracy flatters, look at balanced "
                "accuracy and at the classes one by one. class_weight='balanced' lets rare ones count more."
            )
    if model.groups is None and model.left_out is not None:
        yield (
            "The model was fitted without groups. If several series are of one person, machine or recording, what it "
            "believes of itself is too good: give groups to the fit."
        )
    if model.groups is not None and model.groups < _FEW_GROUPS:
        yield f"There are {model.groups} groups only: how well it does in new groups is known roughly."


def _warnings_of_data(data: Data, model: ModelFacts, judgement: Judgement | None) -> Iterator[str]:
    if judgement is not None and len(judgement) < _FEW:
        yield f"It is judged on {counted(len(judgement), 'series')} only: mind the intervals."
    if data.gaps > _GAPPY:
        yield (
            f"{percent(data.gaps)} of the values are missing; they are filled by straight lines. mask=True marks gaps."
        )
    if data.groups is not None and data.classes is not None and len(set(data.groups)) > 1:
        groups_of: dict[str, set[str]] = {}
        for label, group in zip(data.classes, data.groups, strict=True):
            groups_of.setdefault(label, set()).add(group)
        confined = [label for label, groups in groups_of.items() if len(groups) == 1]
        if confined:
            yield (
                f"All series of class {listed(confined, 5)} are of one group: nothing tells how well the class is "
                "recognised in others."
            )
    name, count = Counter(data.channels).most_common(1)[0]
    if count > 1:
        yield f"Several channels are called {name!r}: give each a name of its own."
