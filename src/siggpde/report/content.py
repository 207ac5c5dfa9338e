"""What a report is made of: plain values, arrays and explanations; labels are text, numbers in the target's units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from siggpde.explain import Importances, SeriesExplanation
from siggpde.report.card import ModelFacts
from siggpde.report.judgement import Judgement
from siggpde.utils.times import TimeFormat


@dataclass(frozen=True)
class Series:
    """A series: `values` (channels, points), NaN where missing, `times` (points,) or None, true answer or None."""

    name: str
    values: np.ndarray
    times: np.ndarray | None
    target: Any = None


@dataclass(frozen=True)
class Data:
    """The series of a report: `channels` are those with values, `lengths` and `missing` (n,) points and shares of
    missing values, `levels` and `spreads` (n, channels); `classes`, `numbers` and `groups` (n,) are None where not
    known. `examples` are a few series, of every class some, or from the smallest to the largest number; `facts` are
    rows about what is known beside the series, `time_format` says how time stamps are told, None as numbers."""

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
    facts: Sequence[tuple[str, str]] = ()
    time_format: TimeFormat | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def gaps(self) -> float:
        """The share of missing values of all series together."""
        return float(np.average(self.missing, weights=self.lengths))


@dataclass(frozen=True)
class NoveltyScores:
    """Scores (n,), left-out ones in training, the limit, how many are surely unlike, and the commonest reason."""

    scores: np.ndarray
    training: np.ndarray
    limit: float
    alarms: int
    commonest: str | None


@dataclass(frozen=True)
class Case:
    """A series as the model saw it, why it is looked at, its explanation, -log p of the answer, and its novelty."""

    series: Series
    reasons: tuple[str, ...]
    explanation: SeriesExplanation
    loss: float | None
    p_value: float | None
    unusual: str | None


@dataclass(frozen=True)
class Content:
    """Everything on the page: `judgement` is None where no predictions can be judged, and is of the series of the fit
    with `training`; `map_points` (m, d) are places of its series `map_rows` (m,); `names` are those of the training
    series where the page is about them, `commands` make the page again."""

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
    names: Sequence[str] | None
    origin: Sequence[tuple[str, str]]
    commands: Sequence[tuple[str, str]]
    seed: int = 0
