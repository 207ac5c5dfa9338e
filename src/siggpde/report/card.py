"""What a fitted model is, in words: the card that is saved with it, the card in notebooks, and facts for reports.

Every part of the content of a saved card is optional; what is missing is left out.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypedDict

from siggpde.committee.committee import Committee
from siggpde.committee.of_views import OfViews
from siggpde.committee.weight_space import WeightCommittee
from siggpde.committee.wording import in_words
from siggpde.report.html import Markup, join, table, tag
from siggpde.report.wording import counted, listed, number, percent, short, span
from siggpde.views.saved import kinds_of_kernels

PAPER_MODEL = "SigGPDE as published: all words by the PDE of the kernel, the first words as inducing variables, Nadam"
Kind = Literal["classification", "regression"]


class CardData(TypedDict, total=False):
    """What the model was trained on."""

    name: str
    series: int
    groups: int
    """Of which groups the series are, and each was left out as a whole, how many there are."""
    channels: int
    channel_names: Sequence[str]
    lengths: tuple[int, int]
    """The shortest and the longest series, in points."""
    labels: Mapping[str, int]
    """How many series have each label."""
    target_mean: float
    target_spread: float


class CardContent(TypedDict, total=False):
    """The content of a card. Scores and settings may have other names than those known here; `None` leaves one out."""

    title: str
    kind: Kind
    model: str
    """What it is, in one sentence."""
    data: CardData
    members: Sequence[tuple[float, str, float]]
    """Weight, what it is made of and loss of left-out series of every model that is averaged."""
    left_out: str
    """What the losses of left-out series mean, in a sentence."""
    contains: str
    """What of the training series is in the folder, in sentences."""
    settings: Mapping[str, Any]
    scores: Mapping[str, float | None]
    versions: Mapping[str, str]
    created: str
    path: str
    command: str
    """How to predict from the command line."""


_SETTINGS = {
    "method": "Method",
    "likelihood": "Likelihood",
    "time": "Time as a channel",
    "base_point": "Path starts at 0, so that positions count",
    "append": "Channels appended",
    "lead_lag": "Lead-lag",
    "path_length": "Median length of a path, after scaling",
    "words": "Signature words",
    "directions": "Directions kept of them",
}
_SCORES = {
    "accuracy": "Accuracy on validation series",
    "rmse": "Root mean squared error on validation series",
    "nlpp": "NLPP on validation series (mean of -log p of the true answer; lower is better)",
    "elbo": "ELBO a series, training",
    "seconds": "Seconds to fit",
}
_COUNTS = {"name": "Data", "series": "Series", "groups": "Groups of series"}
_VALIDATION_SCORES = ("accuracy", "rmse", "nlpp")
_MAX_LISTED = 20
_FEW_PER_LABEL = 10
_FEW_SERIES = 100


def model_card(content: Mapping[str, Any]) -> str:
    """The card in Markdown, from `CardContent` (all optional).

    Examples:
        >>> print(model_card({"title": "Gestures", "kind": "classification"}).splitlines()[0])
        # Gestures
    """
    content = without_none(content)
    _refuse_unknown(content, CardContent.__annotations__, "content")
    kind = content.get("kind")
    if kind not in (None, "classification", "regression"):
        raise ValueError(f"kind must be 'classification' or 'regression', got {kind!r}")
    data = without_none(content.get("data", {}))
    _refuse_unknown(data, CardData.__annotations__, "content['data']")
    scores = without_none(content.get("scores", {}))
    title = escaped(content.get("title") or "A model of time series")
    sections = [
        [f"# {title}", "", _summary(kind, content.get("model"))],
        section("Trained on", _data_rows(data)),
        _labels(data.get("labels")),
        _members(content.get("members", []), "groups" in data),
        ["## Training series", "", content["contains"]] if "contains" in content else [],
        section("Settings", _named_rows(without_none(content.get("settings", {})), _SETTINGS)),
        section("Scores", _named_rows(scores, _SCORES)),
        [content["left_out"]] if "left_out" in content else [],
        _usage(kind, content),
        ["## Limits", "", *(f"- {limit}" for limit in _limits(kind, data, scores))],
        _origin(content),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _summary(kind: Kind | None, model: str | None) -> str:
    answer = {
        "classification": "It gives every time series a probability for each label.",
        "regression": "It predicts a number for every time series, and how far off that may be.",
        None: "It predicts from time series, and says how sure it is.",
    }[kind]
    what = "A Gaussian process with the signature kernel" if model is None else escaped(model)
    return f"{what}, fitted by siggpde. {answer}"


def _data_rows(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = [(label, _in_words(data[key])) for key, label in _COUNTS.items() if key in data]
    names = [escaped(name) for name in data.get("channel_names", [])]
    if "channels" in data or names:
        listed = f" ({', '.join(names[:_MAX_LISTED])}{', ..' if len(names) > _MAX_LISTED else ''})" if names else ""
        rows.append(("Channels", f"{data.get('channels', len(names))}{listed}"))
    if "lengths" in data:
        shortest, longest = data["lengths"]
        rows.append(("Points a series", f"{shortest}" if shortest == longest else f"{shortest} to {longest}"))
    if "target_mean" in data:
        rows.append(("Mean of the target", _in_words(data["target_mean"])))
    if "target_spread" in data:
        rows.append(("Spread of the target (standard deviation)", _in_words(data["target_spread"])))
    return rows


def _labels(labels: Mapping[str, int] | None) -> list[str]:
    if not labels:
        return []
    shown = list(labels.items())[:_MAX_LISTED]
    rows = [f"| {escaped(label)} | {count} |" for label, count in shown]
    rest = list(labels.values())[_MAX_LISTED:]
    if rest:
        rows.append(f"| {len(rest)} more labels | {sum(rest)} |")
    return ["| Label | Series |", "| --- | ---: |", *rows]


def _members(members: Sequence[tuple[float, str, float]], groups: bool) -> list[str]:
    if not members:
        return []
    rows = [f"| {weight:.2f} | {escaped(made_of)} | {score:.4f} |" for weight, made_of, score in members]
    judged = "Leave-one-group-out" if groups else "Leave-one-out"
    head = [f"| Weight | Kernel | {judged} loss, nats a series |", "| ---: | --- | ---: |"]
    return ["## Members", "", *head, *rows]


def _named_rows(values: Mapping[str, Any], names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Rows (label, value): first the scores or settings that `names` has labels for, in its order, then the others."""
    keys = [*(key for key in names if key in values), *(key for key in values if key not in names)]
    return [
        (
            names.get(key) or escaped(str(key).replace("_", " ").capitalize()),
            f"{values[key]:.2%}" if key == "accuracy" else _in_words(values[key]),
        )
        for key in keys
    ]


def _usage(kind: Kind | None, content: Mapping[str, Any]) -> list[str]:
    path = content.get("path", "path/to/this/folder")
    command = content.get("command") or f"siggpde predict {shlex.quote(path)} new-series.csv"
    ask = {
        "classification": ["probabilities = model.predict_proba(X)  # X: (series, channels, points)"],
        "regression": ["mean, std = model.predict(X, return_std=True)  # X: (series, channels, points)"],
        None: ["model.predict(X)  # X: (series, channels, points)"],
    }[kind]
    quoted = json.dumps(path, ensure_ascii=False)
    python = ["import siggpde", "", f"model = siggpde.load({quoted})", *ask]
    return ["## Use it", "", *code_block("python", "\n".join(python)), "", *code_block("console", command)]


def _limits(kind: Kind | None, data: Mapping[str, Any], scores: Mapping[str, Any]) -> list[str]:
    what = {"classification": "Probabilities", "regression": "Means and spreads", None: "Predictions"}[kind]
    alike = "the same channels in the same order and units, sampled and cut in the same way"
    limits = [f"{what} are calibrated for series like those of the training data: {alike}. Others may mislead it."]
    if kind == "classification":
        limits.append(
            "Every series gets one of the labels it was trained on, also a series that belongs to none of them."
        )
    if any(name in scores for name in _VALIDATION_SCORES):
        limits.append(
            "The validation series also took part in choosing settings, so their scores are a little too good. Before "
            "relying on the model, score it on series that it has never seen."
        )
    else:
        limits.append("It was not scored on series held back. Before relying on the model, do so.")
    if data.get("series", _FEW_SERIES) < _FEW_SERIES:
        limits.append(f"It has seen {data['series']} series only: scores on so few are rough.")
    rare = [f"{escaped(label)} ({count})" for label, count in data.get("labels", {}).items() if count < _FEW_PER_LABEL]
    if rare:
        more = f" and {len(rare) - _MAX_LISTED} more" if len(rare) > _MAX_LISTED else ""
        limits.append(
            f"Labels with fewer than {_FEW_PER_LABEL} series are known poorly: {', '.join(rare[:_MAX_LISTED])}{more}."
        )
    return limits


def _origin(content: Mapping[str, Any]) -> list[str]:
    versions = ", ".join(f"{escaped(name)} {escaped(value)}" for name, value in content.get("versions", {}).items())
    words = [escaped(content["created"])] if "created" in content else []
    words += [f"with {versions}"] if versions else []
    return [f"Saved {' '.join(words)}."] if words else []


def _refuse_unknown(given: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    for key in given:
        if key not in known:
            raise ValueError(f"{where} cannot hold {key!r}; it takes {', '.join(known)}")


def section(title: str, rows: list[tuple[str, str]]) -> list[str]:
    """The lines of a heading and a table of these rows (label, value); none where there are no rows."""
    if not rows:
        return []
    return [f"## {title}", "", "| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)]


def _in_words(value: Any) -> str:
    """A value for people, escaped: numbers to 4 digits, lists with commas, dictionaries as "name (key value, ..)".

    Examples:
        >>> _in_words([True, 0.123456, {"name": "x", "size": 2}])
        'yes, 0.1235, x (size 2)'
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        plain = math.isfinite(value) and abs(value) < 1e9 and (abs(value) >= 1e3 or value == round(value))
        return f"{value:.0f}" if plain else f"{value:.4g}"
    if isinstance(value, Mapping):
        known = without_none(value).items()
        rest = ", ".join(f"{escaped(key)} {_in_words(item)}" for key, item in known if key != "name")
        name = escaped(value["name"]) if value.get("name") else ""
        return f"{name} ({rest})" if name and rest else name or rest
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value))
    return escaped(value)


def escaped(value: Any) -> str:
    """The text on one line, with the characters escaped that are markup in Markdown or HTML."""
    line = " ".join(str(value).split()) or "(empty)"
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", line)


def code_block(language: str, code: str) -> list[str]:
    """The lines of a fenced block; the fence is longer than any in the code."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", code, fence]


def without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """The items that are known."""
    return {key: value for key, value in values.items() if value is not None}


class MemberOfViews(NamedTuple):
    """A member of a committee of views: its weight, short name, kernel in words, and leave-one-out loss."""

    weight: float
    name: str
    kernel: str
    score: float


def members_of_views(committee: OfViews) -> list[MemberOfViews]:
    """The members, heaviest first."""
    kinds = kinds_of_kernels(committee.blocks)
    members = [
        MemberOfViews(weight, member.recipe.name, in_words(member.recipe, kinds), member.score)
        for weight, member in zip(committee.weights.tolist(), committee.members, strict=True)
    ]
    return sorted(members, key=lambda member: -member.weight)


def series_within(committee: Committee | OfViews) -> int:
    """How many training series the model contains."""
    return 0 if isinstance(committee, Committee | WeightCommittee) else len(committee.landmarks)


def likelihood_name(committee: Committee | OfViews, classifies: bool) -> str:
    """The class of the likelihood."""
    if isinstance(committee, Committee):
        return type(committee.members[0].model.likelihood).__name__
    return "LeastSquares" if classifies else "Gaussian"


def left_out_in_words(estimator: Any) -> str | None:
    """What the losses of left-out series mean, in a sentence: which series were left out together; None where no
    series were left out but some held back for validation."""
    committee = estimator.committee_
    if isinstance(committee, Committee):
        first = committee.members[0]
        if first.settings.get("method") == "paper" or not first.model.likelihood.is_gaussian:
            return None
    groups = getattr(estimator, "n_groups_", None)
    if groups is None:
        return (
            "The leave-one-out losses of the fit assume that the series are independent of each other: where several "
            "are of one person or recording, they flatter, unless these are given as groups."
        )
    return f"The losses of the fit are those of left-out groups: each of {groups} groups was left out as a whole."


def estimator_card(estimator: Any, path: str | os.PathLike[str]) -> str:
    """The card of a fitted estimator that is saved as the folder `path`."""
    shown = os.path.basename(os.fspath(path)) or "model"
    committee = estimator.committee_
    own = _card_of_words(estimator) if isinstance(committee, Committee) else _card_of_views(estimator)
    return model_card(
        {
            "title": f"{type(estimator).__name__}, {shown}",
            "kind": "classification" if hasattr(estimator, "classes_") else "regression",
            "data": {
                "series": estimator.n_series_,
                "groups": getattr(estimator, "n_groups_", None),
                "channels": estimator.n_channels_,
                "channel_names": list(estimator.channel_names_),
                "lengths": tuple(estimator.length_range_),
                **getattr(estimator, "summary_", {}),
            },
            "left_out": left_out_in_words(estimator),
            "path": shown,
            "command": f"siggpde predict {shown} new-series.csv",
            **own,
        }
    )


def _card_of_views(estimator: Any) -> dict[str, Any]:
    committee = estimator.committee_
    members = members_of_views(committee)
    count = series_within(committee)
    return {
        "model": f"A committee of {len(members)} Gaussian processes on views of the series"
        if len(members) > 1
        else "A Gaussian process on views of the series",
        "members": [(member.weight, member.kernel, member.score) for member in members],
        "contains": f"This model contains {count} training series (landmarks), "
        f"{_share_of(count, estimator.n_series_)}: whoever has it can read them. Fit with keep_series=False for a "
        "model that contains none."
        if count
        else "This model contains no training series, only weights of features.",
        "settings": {
            "method": "views",
            "likelihood": likelihood_name(committee, hasattr(estimator, "classes_")),
            "Models averaged": len(members),
            "Landmark series": count or None,
        },
        "scores": {
            f"{_judged(estimator)} loss of the best member, nats a series": min(member.score for member in members),
            "seconds": getattr(estimator, "seconds_", None),
        },
    }


def _judged(estimator: Any) -> str:
    return "Leave-one-out" if getattr(estimator, "n_groups_", None) is None else "Leave-one-group-out"


def _share_of(count: int, total: int) -> str:
    return "all of them" if count >= total else f"of {total}"


def _card_of_words(estimator: Any) -> dict[str, Any]:
    members = estimator.committee_.members
    first = members[0]
    by_the_paper = first.settings.get("method") == "paper"
    settings = {
        "method": f"paper ({PAPER_MODEL})" if by_the_paper else "views",
        "likelihood": type(first.model.likelihood).__name__,
        "Models averaged": len(members),
        "Their weights": ", ".join(f"{weight:.2f}" for weight in estimator.committee_.weights.tolist()),
        "words": ", ".join(str(len(member.model.features.words)) for member in members),
        "directions": ", ".join(str(member.model.features.size) for member in members),
    }
    settings |= first.settings["options"]
    settings["path_length"] = first.settings.get("path_length")
    exact = first.model.likelihood.is_gaussian
    judged = f"{_judged(estimator) if exact else 'Validation'} NLPP of the best member"
    scores = {"nlpp" if by_the_paper else judged: first.score, "seconds": getattr(estimator, "seconds_", None)}
    return {"settings": settings, "scores": scores}


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
    return str(tag("div", title, *rows, _notebook_members(committee, groups), style=_STYLE))


def _notebook_members(committee: Any, groups: int | None) -> Markup:
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
