"""The model card: what a saved model is, what it learned from, how good it is and how to use it, for people.

Every part of its content is optional; what is missing is left out of the card.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from siggpde.persistence.markdown import code_block, escaped, in_words, section, without_none

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
    rows = [(label, in_words(data[key])) for key, label in _COUNTS.items() if key in data]
    names = [escaped(name) for name in data.get("channel_names", [])]
    if "channels" in data or names:
        listed = f" ({', '.join(names[:_MAX_LISTED])}{', ..' if len(names) > _MAX_LISTED else ''})" if names else ""
        rows.append(("Channels", f"{data.get('channels', len(names))}{listed}"))
    if "lengths" in data:
        shortest, longest = data["lengths"]
        rows.append(("Points a series", f"{shortest}" if shortest == longest else f"{shortest} to {longest}"))
    if "target_mean" in data:
        rows.append(("Mean of the target", in_words(data["target_mean"])))
    if "target_spread" in data:
        rows.append(("Spread of the target (standard deviation)", in_words(data["target_spread"])))
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
            f"{values[key]:.2%}" if key == "accuracy" else in_words(values[key]),
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
