"""What a reader of a report should not overlook, in plain words."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from siggpde.report import ClassJudgement, Data, Fitted, Newness, NumberJudgement
from siggpde.report.content import Judgement
from siggpde.report.wording import counted, listed, percent, short

_FEW, _FEW_OF_CLASS, _FEW_GROUPS = 100, 10, 10
_UNEVEN = 10.0
_GAPPY = 0.2
_DOUBT = 0.05


def warnings_of(
    estimator: Any, data: Data, fitted: Fitted, judged: Judgement | None, training: bool, new: Newness | None
) -> list[str]:
    """Sentences, the gravest first."""
    said: list[str] = []
    if training:
        said.append(
            "The series of this page are those that the model was fitted to"
            + (
                "; the figures are those of left-out series, and a little too good. Judge it on new ones."
                if judged is not None
                else ": they say nothing about how good it is. Judge it on new ones."
            )
        )
    if new is not None and new.alarms:
        what = "" if new.commonest is None else f" What is unusual most often: {new.commonest}."
        said.append(
            f"{counted(new.alarms, 'series', 'series')} of {len(data):,} "
            f"{'is' if new.alarms == 1 else 'are'} unlike all training series; predictions for them tell little.{what}"
        )
    link = getattr(estimator.committee_, "link", None)
    if link is not None and getattr(link, "nothing", 0.0) > _DOUBT:
        said.append(
            f"The labels may have nothing to do with the series: left-out predictions leave a probability of "
            f"{percent(link.nothing)} for that."
        )
    if isinstance(judged, ClassJudgement):
        said += _of_classes(judged)
    elif isinstance(judged, NumberJudgement):
        said += _of_numbers(judged)
    said += _of_training(fitted)
    said += _of_data(data, fitted, judged)
    return said


def _of_classes(judged: ClassJudgement) -> list[str]:
    said = []
    n = len(judged.truth)
    right = judged.p.argmax(axis=1) == judged.truth
    guess = np.bincount(judged.truth).max() / n
    error = 2 * (right.mean() * (1 - right.mean()) / n) ** 0.5
    if right.mean() - error <= guess < 1:
        said.append(
            f"It is hardly better than always naming the most frequent class, right in {percent(float(guess))}."
        )
    top = judged.p.max(axis=1)
    gap, noise = float((top - right).mean()), 2 * float((top - right).std()) / n**0.5
    if abs(gap) > max(noise, 0.01):
        way = "too sure of itself" if gap > 0 else "too cautious"
        said.append(
            f"It is {way} on these series: on average it gives its answer {percent(float(top.mean()))} and is"
            f" right in {percent(float(right.mean()))}."
        )
    absent = [str(label) for index, label in enumerate(judged.classes) if index not in set(judged.truth.tolist())]
    if absent:
        said.append(
            f"No series of class {listed([*map(short, absent)], 5)} is among these: nothing is known of them here."
        )
    return said


def _of_numbers(judged: NumberJudgement) -> list[str]:
    low, high = judged.quantiles[:, 1], judged.quantiles[:, -2]
    inside, n = float(((low <= judged.y) & (judged.y <= high)).mean()), len(judged.y)
    if abs(inside - 0.9) > max(2 * (0.09 / n) ** 0.5, 0.02):
        way = "too narrow" if inside < 0.9 else "wider than they need be"
        return [f"Intervals are {way} for these series: those of 90 % hold {percent(inside)} of the numbers."]
    return []


def _of_training(fitted: Fitted) -> list[str]:
    said = []
    if fitted.series < _FEW:
        said.append(f"The model has seen {counted(fitted.series, 'series', 'series')} only: what it knows is rough.")
    if fitted.labels:
        counts = list(fitted.labels.values())
        rare = [f"{short(label)} ({count})" for label, count in fitted.labels.items() if count < _FEW_OF_CLASS]
        if rare:
            said.append(f"Classes with fewer than {_FEW_OF_CLASS} training series are known poorly: {listed(rare, 5)}.")
        if max(counts) > _UNEVEN * max(min(counts), 1):
            said.append(
                f"Classes are uneven, from {min(counts):,} to {max(counts):,} training series: accuracy flatters, look "
                "at balanced accuracy and at the classes one by one. class_weight='balanced' lets rare ones count more."
            )
    if fitted.groups is None and fitted.left_out is not None:
        said.append(
            "The model was fitted without groups. If several series are of one person, machine or recording, what it "
            "believes of itself is too good: give groups to the fit."
        )
    if fitted.groups is not None and fitted.groups < _FEW_GROUPS:
        said.append(f"There are {fitted.groups} groups only: how well it does in new groups is known roughly.")
    return said


def _of_data(data: Data, fitted: Fitted, judged: Judgement | None) -> list[str]:
    said = []
    if judged is not None and len(judged.loss) < _FEW:
        said.append(f"It is judged on {counted(len(judged.loss), 'series', 'series')} only: mind the intervals.")
    share = float(np.average(data.missing, weights=data.lengths))
    if share > _GAPPY:
        said.append(
            f"{percent(share)} of the values are missing; they are filled by straight lines. mask=True marks gaps."
        )
    if data.groups is not None and data.y is not None and fitted.labels is not None:
        of_class: dict[str, set[str]] = {}
        for label, group in zip(data.y, data.groups, strict=True):
            of_class.setdefault(str(label), set()).add(group)
        confined = [label for label, groups in of_class.items() if len(groups) == 1]
        if confined and len(set(data.groups)) > 1:
            said.append(
                f"All series of class {listed([*map(short, confined)], 5)} are of one group: nothing tells how well "
                "the class is recognised in others."
            )
    same = Counter(data.channels)
    if same and max(same.values()) > 1:
        said.append(
            f"Several channels are called {max(same, key=lambda name: same[name])!r}: give them names of their own."
        )
    return said
