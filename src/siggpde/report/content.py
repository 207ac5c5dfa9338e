"""What a report is made of: plain values, arrays and explanations, gathered from a fitted model and handed to the page.

Labels are text; numbers are in the units of the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from siggpde.explain import Importances, SeriesExplanation
from siggpde.report.card import Block, ModelFacts
from siggpde.report.judgement import Judgement


@dataclass(frozen=True)
class Series:
    """A series with its name, `values` (channels, points), NaN where they are missing, time stamps `times` (points,) or
    None, and its true label or number, None where that is not known."""

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
    - `classes` (n,), `numbers` (n,): the true labels or numbers, None without; `groups` (n,): what series are part of.
    - `examples`: a few series, of every class some, or from the smallest to the largest number.
    - `target`: the name of what is predicted.
    """

    channels: tuple[str, ...]
    timed: bool
    lengths: np.ndarray
    missing: np.ndarray
    levels: np.ndarray
    spreads: np.ndarray
    classes: list[str] | None
    numbers: np.ndarray | None
    groups: list[str] | None
    examples: list[Series]
    target: str

    def __len__(self) -> int:
        return len(self.lengths)


@dataclass(frozen=True)
class NoveltyScores:
    """The novelty scores of the series (n,) and of left-out `training` series (m,); the `limit` beyond which
    predictions tend to what is known without looking. `alarms` counts series that are beyond all doubt unlike the
    training series, and `commonest` says what is unusual about most of these."""

    scores: np.ndarray
    training: np.ndarray
    limit: float
    alarms: int
    commonest: str | None


@dataclass(frozen=True)
class Case:
    """A series, as the model saw it, that deserves a look for some `reasons`: the explanation of its prediction, -log p
    of the true answer, the p-value of its novelty and what is most unusual about it, each None where not known."""

    series: Series
    reasons: tuple[str, ...]
    explanation: SeriesExplanation
    loss: float | None
    p_value: float | None
    unusual: str | None


@dataclass(frozen=True)
class Content:
    """Everything on the page.

    - `judgement`: predictions beside true answers, None where there are none, or none that say anything; `training`:
      whether these are the series of the fit.
    - `map_points` (m, d): places on a map of the series of the judgement with the indices `map_rows` (m,).
    - `card`: the card that is saved with the model.
    - `origin`, `commands`: rows of how to reproduce the page, and commands with their titles.
    """

    title: str
    data: Data
    model: ModelFacts
    judgement: Judgement | None
    training: bool
    importances: Importances | None
    map_rows: np.ndarray | None
    map_points: np.ndarray | None
    novelty: NoveltyScores | None
    cases: list[Case]
    card: list[Block]
    origin: Sequence[tuple[str, str]]
    commands: Sequence[tuple[str, str]]
    seed: int = 0
