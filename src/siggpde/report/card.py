"""What a fitted model is, in words: facts for reports, and the card that is saved with it."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from siggpde.committee.recipes import in_words
from siggpde.report.wording import listed, number, percent
from siggpde.views.kinds import kinds_of_kernels

_PAPER = "SigGPDE as published: all words by the PDE of the kernel, the first words as inducing variables, Nadam"
_OPTIONS = {
    "time": "Time as a channel",
    "base_point": "Path starts at 0, so that positions count",
    "append": "Channels appended",
    "lead_lag": "Lead-lag",
    "difference": "Differences taken",
    "clock": "Time has unit spread over",
    "scale": "Channels standardised over the",
}
_LONGEST_LIST = 20
_FEW_PER_LABEL = 10
_FEW_SERIES = 100


@dataclass(frozen=True)
class Member:
    """A model that is averaged: its weight, short name, kernel in words, and loss of left-out series (nats) or None."""

    weight: float
    name: str
    kernel: str
    score: float | None


@dataclass(frozen=True)
class ModelFacts:
    """What a fitted model is, and what it learned from: `kinds` of views, `options` of the paper's path, `labels` with
    their numbers or `target` (mean, standard deviation), `tried` candidates (name, loss, weight); losses are of numbers
    as they were handed in, `units` times those that members learn."""

    estimator: str
    committee: Any
    task: Literal["classification", "regression"]
    method: str
    likelihood: str
    members: list[Member]
    kinds: list[str]
    options: Mapping[str, Any]
    series: int
    groups: int | None
    landmarks: int
    channels: tuple[str, ...]
    lengths: tuple[int, int]
    labels: Mapping[str, int] | None
    target: tuple[float, float] | None
    tried: list[tuple[str, float, float]] = field(default_factory=list)
    seconds: float | None = None
    fact_names: tuple[str, ...] = ()
    figures: Mapping[str, float] | None = None
    units: float = 1.0

    def rows(self, digits: int = 1) -> list[tuple[str, str, str]]:
        """Returns the kernel, the weight in per cent with so many digits, and the score of every member."""
        return [(member.kernel, percent(member.weight, digits), number(member.score)) for member in self.members]

    def numbered(self) -> list[tuple[str, str, str, str]]:
        """Returns the same rows after the names that figures have for members."""
        return [(f"member\N{NO-BREAK SPACE}{number}", *row) for number, row in enumerate(self.rows(), 1)]

    @property
    def refitted(self) -> bool:
        """Whether members have other losses than in the comparison with all candidates, which saw fewer series."""
        compared = {name: loss for name, loss, _ in self.tried}
        return any(compared.get(member.name, member.score) != member.score for member in self.members)

    @property
    def loss(self) -> str:
        """What the members' scores are."""
        if self.method == "paper":
            return "validation NLPP"
        return "leave-one-out loss" if self.groups is None else "leave-one-group-out loss"

    @property
    def judged(self) -> str | None:
        """How well left-out series are predicted, in words; None where that is not known."""
        if self.figures is None:
            return None
        n, shown = f"{self.figures['series']:,.0f}", {key: number(value) for key, value in self.figures.items()}
        what = "" if self.groups is None else " with their groups"
        if "accuracy" in self.figures:
            right = f"{percent(self.figures['accuracy'])} of {n} series are recognised when left out of the fit{what}"
            return f"{right}; mean surprise at the true label (NLPP) {shown['nlpp']} nats, 0 is best"
        error = f"typical error (RMSE) {shown['rmse']} on {n} series that are left out of the fit{what}"
        return f"{error}; mean surprise at the true number (NLPD) {shown['nlpd']} nats, smaller is better"

    @property
    def left_out(self) -> str | None:
        """A sentence on the series left out together for the losses; None where some were held back for validation."""
        if self.method == "paper":
            return None
        if self.groups is None:
            return (
                "The leave-one-out losses of the fit assume that the series are independent of each other: where "
                "several are of one person or recording, they flatter, unless these are given as groups."
            )
        return (
            f"The losses of the fit are those of left-out groups: each of {self.groups} groups was left out as a whole."
        )

    @property
    def contains(self) -> str:
        """What of the training series is in the model, in sentences."""
        if not self.landmarks:
            return "This model contains no training series, only weights of features."
        share = "all of them" if self.landmarks >= self.series else f"of {self.series}"
        return (
            f"This model contains {self.landmarks} training series (landmarks), {share}: whoever has it can read them. "
            "Fit with keep_series=False for a model that contains none."
        )


def model_facts(estimator: Any) -> ModelFacts:
    """Returns what there is to say of a fitted estimator; nothing is computed from its series."""
    committee, summary = estimator.committee_, estimator.summary_
    classifies, units = hasattr(estimator, "classes_"), getattr(estimator, "target_scale_", 1.0)
    series = (committee.landmarks, getattr(committee, "others", None))
    landmarks = sum(len(one) for one in series if one is not None)
    if committee.method == "views":
        kernels, options = kinds_of_kernels(committee.blocks), {}
        kinds = [name if kind == "features" else kind for name, kind in kernels.items()]
        described = [(one.recipe.name, in_words(one.recipe, kernels)) for one in committee.members]
    else:
        options, kinds = asdict(committee.transform.options), ["path"]
        described = [("model 1", f"{len(committee.model.features.words)} words of one path")]
    scores = [None if one.score is None else one.score + math.log(units) for one in committee.members]
    shares = committee.weights.tolist()
    members = [Member(weight, *words, score) for weight, words, score in zip(shares, described, scores, strict=True)]
    return ModelFacts(
        estimator="SigGPClassifier" if classifies else "SigGPRegressor",
        committee=committee,
        task="classification" if classifies else "regression",
        method=committee.method,
        likelihood=committee.likelihood_name,
        members=sorted(members, key=lambda member: -member.weight),
        kinds=list(dict.fromkeys(kinds)),
        options=options,
        series=estimator.n_series_,
        groups=getattr(estimator, "n_groups_", None),
        landmarks=landmarks,
        channels=tuple(estimator.channel_names_),
        lengths=tuple(estimator.length_range_),
        labels=summary.get("labels"),
        target=(summary["target_mean"], summary["target_spread"]) if "target_mean" in summary else None,
        tried=[
            (name, loss + math.log(units), weight) for name, loss, weight in getattr(estimator, "tried_", None) or []
        ],
        units=units,
        seconds=getattr(estimator, "seconds_", None),
        fact_names=tuple(fact.name for fact in getattr(estimator, "facts_", ())),
        figures=summary.get("left_out"),
    )


class Block(NamedTuple):
    """A part of a card: a "title", a "heading" or a "text" holds a string, "facts" rows of a name and a value, a
    "table" its header and rows, a "list" sentences, "code" its language and lines. The column `text_column` of a table
    is text; the others are numbers."""

    kind: Literal["title", "heading", "text", "facts", "table", "list", "code"]
    content: Any
    text_column: int = 0


def card_blocks(facts: ModelFacts, name: str, on_new: str | None = None) -> list[Block]:
    """Returns the card of a model that is saved as the folder `name`; `on_new` are its figures on new series."""
    classifies = facts.task == "classification"
    answer = (
        "It gives every time series a probability for each label."
        if classifies
        else "It predicts a number for every time series, and how far off that may be."
    )
    kind = "A Gaussian process with the signature kernel"
    if facts.method == "views":
        count = len(facts.members)
        what = "A Gaussian process" if count == 1 else f"A committee of {count} Gaussian processes"
        kind = f"{what} on views of the series"
    blocks = [Block("title", f"{facts.estimator}, {name}"), Block("text", f"{kind}, fitted by siggpde. {answer}")]
    new = [] if on_new is None else [("On new series", on_new)]
    blocks += [Block("heading", "Scores"), Block("facts", [*new, *_score_rows(facts)])]
    if facts.left_out is not None:
        blocks.append(Block("text", facts.left_out))
    blocks += [Block("heading", "Trained on"), Block("facts", _data_rows(facts))]
    if facts.labels:
        shown, rest = list(facts.labels.items())[:_LONGEST_LIST], list(facts.labels.values())[_LONGEST_LIST:]
        rows = [*shown, (f"{len(rest)} more labels", sum(rest))] if rest else shown
        blocks.append(Block("table", [("Label", "Series"), *rows]))
    if facts.method == "views":
        rows = [(f"{member.weight:.2f}", member.kernel, f"{member.score:.4f}") for member in facts.members]
        head = ("Weight", "Kernel", f"{facts.loss.capitalize()}, nats a series")
        blocks += [Block("heading", "Members"), Block("table", [head, *rows], text_column=1)]
        blocks += [Block("heading", "Training series"), Block("text", facts.contains)]
    blocks += [Block("heading", "Settings"), Block("facts", _settings_rows(facts))]
    ask = "probabilities = model.predict_proba(X)" if classifies else "mean, std = model.predict(X, return_std=True)"
    quoted = json.dumps(name, ensure_ascii=False)
    python = f"import siggpde\n\nmodel = siggpde.load({quoted})\n{ask}  # X: (series, channels, points)"
    blocks += [Block("heading", "Use it"), Block("code", ("python", python))]
    blocks.append(Block("code", ("console", f"siggpde predict {shlex.quote(name)} new-series.csv")))
    return [*blocks, Block("heading", "Limits"), Block("list", list(_limits(facts, on_new is not None)))]


def model_card(estimator: Any, path: str | os.PathLike[str]) -> str:
    """Returns the card of a fitted estimator that is saved as the folder `path`, in Markdown."""
    return as_markdown(card_blocks(model_facts(estimator), os.path.basename(os.fspath(path)) or "model"))


def as_markdown(blocks: Iterable[Block]) -> str:
    parts = []
    for kind, content, text_column in blocks:
        if kind == "facts":
            rows = [f"| {escaped(name)} | {escaped(value)} |" for name, value in content]
            parts.append("\n".join(["| | |", "| --- | --- |", *rows]))
        elif kind == "table":
            head, *rows = [f"| {' | '.join(map(escaped, row))} |" for row in content]
            sides = ["---" if column == text_column else "---:" for column in range(len(content[0]))]
            parts.append("\n".join([head, f"| {' | '.join(sides)} |", *rows]))
        elif kind == "list":
            parts.append("\n".join(f"- {escaped(line)}" for line in content))
        elif kind == "code":
            language, code = content
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", code)), default=0))
            parts.append(f"{fence}{language}\n{code}\n{fence}")
        else:
            parts.append({"title": "# ", "heading": "## ", "text": ""}[kind] + escaped(content))
    return "\n\n".join(parts) + "\n"


def escaped(value: Any) -> str:
    """Returns the text on one line, with the characters escaped that are markup in Markdown or HTML.

    >>> escaped("keep_series=False is _not_ <b>")
    'keep_series=False is \\\\_not\\\\_ \\\\<b\\\\>'
    """
    line = " ".join(str(value).split()) or "(empty)"
    return re.sub(r"([\\`*{}\[\]<>#|~&]|(?<!\w)_|_(?!\w))", r"\\\1", line)


def _data_rows(facts: ModelFacts) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = [("Series", facts.series)]
    rows += [("Groups of series", facts.groups)] * (facts.groups is not None)
    names = ", ".join(facts.channels[:_LONGEST_LIST]) + (", .." if len(facts.channels) > _LONGEST_LIST else "")
    shortest, longest = facts.lengths
    rows.append(("Channels", f"{len(facts.channels)} ({names})"))
    rows += [("Facts beside the series", ", ".join(facts.fact_names))] * bool(facts.fact_names)
    rows.append(("Points a series", shortest if shortest == longest else f"{shortest} to {longest}"))
    if facts.target is not None:
        rows += [("Mean of the target", _plain(facts.target[0]))]
        rows += [("Spread of the target (standard deviation)", _plain(facts.target[1]))]
    return rows


def _settings_rows(facts: ModelFacts) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = [("Method", facts.method if facts.method == "views" else f"paper ({_PAPER})")]
    rows.append(("Likelihood", facts.likelihood))
    if facts.method == "views":
        rows.append(("Models averaged", len(facts.members)))
        return [*rows, ("Landmark series", facts.landmarks)] if facts.landmarks else rows
    rows += [(_OPTIONS.get(name, name), _plain(value)) for name, value in facts.options.items()]
    return [*rows, ("Inducing variables", facts.members[0].kernel)]


def _score_rows(facts: ModelFacts) -> list[tuple[str, Any]]:
    best = min((one.score for one in facts.members if one.score is not None), default=None)
    if facts.method == "paper":
        rows = [("NLPP on validation series (mean of -log p of the true answer; lower is better)", _plain(best))]
    else:
        rows = [] if facts.judged is None else [("On left-out series", facts.judged)]
        rows.append((f"{facts.loss.capitalize()} of the best member, nats a series", _plain(best)))
    return rows if facts.seconds is None else [*rows, ("Seconds to fit", _plain(facts.seconds))]


def _plain(value: Any) -> str:
    """A value for people: numbers to 4 digits, yes and no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return str(value)
    whole = abs(value) < 1e9 and (abs(value) >= 1e3 or value == round(value))
    return f"{value:.0f}" if whole else f"{value:.4g}"


def _limits(facts: ModelFacts, judged_on_new: bool) -> Iterable[str]:
    what = "Probabilities" if facts.labels else "Means and spreads"
    yield (
        f"{what} are calibrated for series like those of the training data: the same channels in the same order and "
        "units, sampled and cut in the same way. Others may mislead it."
    )
    if facts.labels:
        yield "Every series gets one of the labels it was trained on, also a series that belongs to none of them."
    if facts.method == "paper":
        yield (
            "The validation series also took part in choosing settings, so their scores are a little too good. Before "
            "relying on the model, score it on series that it has never seen."
        )
    elif not judged_on_new:
        yield "It was not scored on series held back. Before relying on the model, do so."
    if facts.series < _FEW_SERIES:
        yield f"It has seen {facts.series} series only: scores on so few are rough."
    rare = [f"{label} ({count})" for label, count in (facts.labels or {}).items() if count < _FEW_PER_LABEL]
    if rare:
        yield f"Labels with fewer than {_FEW_PER_LABEL} series are known poorly: {listed(rare, _LONGEST_LIST)}."
