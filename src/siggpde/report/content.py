"""What a report is made of: plain values, arrays and explanations, gathered by an estimator and handed to the page.

Nothing here knows an estimator. Labels are plain Python values; numbers are in the units of the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from siggpde.explain import Importances, SeriesExplanation


@dataclass(frozen=True)
class Drawn:
    """A series as it was handed in: `values` (channels, points), NaN where missing, and `times` (points,) or None."""

    index: int
    name: str
    values: np.ndarray
    times: np.ndarray | None
    target: Any = None


@dataclass(frozen=True)
class Data:
    """The series of a report.

    - `channels`: names of the channels that hold values; `timed`: whether there are time stamps.
    - `lengths` (n,) and `missing` (n,): points of every series, and its share of missing values.
    - `levels`, `spreads` (n, channels): mean and standard deviation of every channel.
    - `y`: labels or numbers, None without; `groups`: what every series is part of, None without.
    - `drawn`: a few series, of every class some, or from the smallest to the largest number.
    """

    channels: tuple[str, ...]
    timed: bool
    lengths: np.ndarray
    missing: np.ndarray
    levels: np.ndarray
    spreads: np.ndarray
    y: list[Any] | None
    groups: list[str] | None
    drawn: list[Drawn]
    target: str

    def __len__(self) -> int:
        return len(self.lengths)


@dataclass(frozen=True)
class Member:
    """A model that is averaged: its weight, short name, kernel in words, and loss of left-out series (nats)."""

    weight: float
    name: str
    kernel: str
    score: float | None


@dataclass(frozen=True)
class Fitted:
    """What was fitted: `committee` is drawn, the rest is told in words.

    `kinds` are the kinds of views of the members; `labels` are the training series of every class; `left_out` says what
    the losses of left-out series mean; `link` how latents become probabilities or intervals.
    `tried` has name, loss and weight of every candidate, where known.
    """

    committee: Any
    task: str
    method: str
    likelihood: str
    members: list[Member]
    kinds: list[str]
    series: int
    groups: int | None
    labels: Mapping[str, int] | None
    left_out: str | None
    link: str
    seconds: float | None
    tried: list[tuple[str, float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class ClassJudgement:
    """Predictions beside true classes: `truth` (n,), indices, probabilities `p` (n, C) and `loss` (n,), -log p(true).

    `rows` (n,) are their series in the report, None where that is not known; `left_out`: whether they are training
    series, each predicted by the others; `groups` (n,) or None.
    """

    classes: list[Any]
    truth: np.ndarray
    p: np.ndarray
    loss: np.ndarray
    rows: np.ndarray | None
    left_out: bool
    groups: np.ndarray | None = None


@dataclass(frozen=True)
class NumberJudgement:
    """Predictions beside true numbers `y` (n,): mean, std, loss -log p(y) (n,), and `quantiles` (n, L) at `levels`."""

    y: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    loss: np.ndarray
    levels: np.ndarray
    quantiles: np.ndarray
    rows: np.ndarray | None
    left_out: bool
    groups: np.ndarray | None = None


Judgement = ClassJudgement | NumberJudgement


@dataclass(frozen=True)
class Newness:
    """Novelty scores and p-values (n,) of the series, beside the scores of left-out training series; `limit` is the
    score beyond which predictions tend to what is known without looking. `alarms` counts series beyond all doubt."""

    scores: np.ndarray
    p: np.ndarray
    training: np.ndarray
    limit: float
    alarms: int
    commonest: str | None


@dataclass(frozen=True)
class Case:
    """A series that deserves a look: why, the explanation of its prediction, and the series as the model saw it."""

    series: Drawn
    why: tuple[str, ...]
    explanation: SeriesExplanation
    loss: float | None
    p_value: float | None
    reason: str | None


@dataclass(frozen=True)
class Content:
    """Everything on the page. `warnings` are sentences; `card` is the model's card in Markdown; `origin` has rows of
    how to reproduce it. `points` (m, d) are places on a map of those of the judgement at
    `point_rows` (m,); `notes` say what was left out because there was too much of it."""

    title: str
    data: Data
    fitted: Fitted
    judgement: Judgement | None
    why_no_judgement: str | None
    importances: Importances | None
    point_rows: np.ndarray | None
    points: np.ndarray | None
    newness: Newness | None
    cases: list[Case]
    warnings: list[str]
    card: str
    origin: Sequence[tuple[str, str]]
    commands: Sequence[tuple[str, str]]
    notes: Sequence[str] = ()
    seed: int = 0
