"""Facts beside a series, such as age or sex, as a view: numbers by straight pieces, categories by their levels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from siggpde.series import SeriesBatch
from siggpde.views.base import FeatureBlock, Part, Rows, View
from siggpde.views.window_features import WindowBlock, WindowScaler

KERNEL, BESIDE = "facts", "facts beside the series"  # the names of the kernel, and of all its terms
_QUANTILES = (0.2, 0.4, 0.6, 0.8)  # of the landmarks, at which the straight pieces of a number meet


class Fact(NamedTuple):
    """A fact by its `name`; `levels` are those of a category, the most frequent first, None for a number."""

    name: str
    levels: tuple[str, ...] | None

    def text(self, value: float) -> str:
        """Returns a value of the fact as in `SeriesBatch.facts`, in words.

        >>> Fact("sex", ("f", "m")).text(1.0), Fact("age", None).text(82.0), Fact("age", None).text(float("nan"))
        ('m', '82', 'not known')
        """
        if math.isnan(value):
            return "not known"
        if self.levels is None:
            return f"{value:.6g}"
        return self.levels[int(value)] if value >= 0 else "new to the model"


@dataclass(frozen=True)
class FactsView(View):
    """The facts of the series (`SeriesBatch.facts`), each a part of one kernel, which all count alike.

    Parameters
    ----------
    facts : tuple of Fact
        The facts, in the order of the columns.
    """

    facts: tuple[Fact, ...]
    kind = "facts"

    def fit(self, landmarks: SeriesBatch) -> tuple[FactsBlock, dict[str, Rows]]:
        columns = _columns(landmarks)
        knots = [_knots(*one) for one in zip(self.facts, columns, strict=True)]
        features = [_features(*one) for one in zip(self.facts, columns, knots, strict=True)]
        # Gaps are filled by means, so that they then count nothing.
        filled = [torch.where(values.isnan(), torch.nan_to_num(values.nanmean(0)), values) for values in features]
        scaler, _ = WindowScaler.fit_transform(WindowBlock(KERNEL, 0, values) for values in filled)
        state = [_even(*one) for one in zip(self.facts, scaler.state(), strict=True)]
        block = FactsBlock(self.facts, knots, WindowScaler.from_state(state), landmarks)
        return block, block.centre()


class FactsBlock(FeatureBlock):
    """The features of facts, at mean 0 and spread 1 over the landmarks; a fact that is not known counts nothing."""

    kind = "facts"

    def __init__(
        self,
        facts: Sequence[Fact],
        knots: list[Tensor],
        scaler: WindowScaler,
        landmarks: list[Part] | SeriesBatch,
    ) -> None:
        self.facts, self.knots, self.scaler = tuple(facts), knots, scaler
        self.kernels, self.widths = [KERNEL] * len(facts), [len(columns.kept) for columns in scaler.columns]
        super().__init__(landmarks)

    def parts(self, batch: SeriesBatch) -> Iterator[Part]:
        features = (_features(*one) for one in zip(self.facts, _columns(batch), self.knots, strict=True))
        for scaled in self.scaler(WindowBlock(KERNEL, 0, values) for values in features):
            yield Part(KERNEL, torch.nan_to_num(scaled.values))

    def names(self, channels: Sequence[str]) -> list[list[str]]:
        return [[BESIDE] * width for width in self.widths]  # in words one term; explanations cut facts out one by one

    def letters(self, channels: Sequence[str]) -> list[list[tuple[str, ...]]]:
        return [[(BESIDE,)] * width for width in self.widths]

    def to(self, device: torch.device | str) -> Self:
        block = super().to(device)
        block.scaler, block.knots = self.scaler.to(device), [knots.to(device) for knots in self.knots]
        return block

    def state(self) -> dict[str, Any]:
        facts = [[fact.name, None if fact.levels is None else list(fact.levels)] for fact in self.facts]
        return {"facts": facts, "knots": self.knots, "scaler": self.scaler.state()}

    @staticmethod
    def from_state(state: dict[str, Any], landmarks: list[Part] | SeriesBatch) -> FactsBlock:
        scaler = WindowScaler.from_state(state["scaler"])
        return FactsBlock(facts_of(state["facts"]), state["knots"], scaler, landmarks)


def facts_of(stored: Sequence[Any]) -> tuple[Fact, ...]:
    """Returns facts from pairs of a name and the list of its levels, or None, as a model stores them."""
    return tuple(Fact(name, None if levels is None else tuple(levels)) for name, levels in stored)


def feature_count(fact: Fact, knots: Tensor) -> int:
    """Returns how many features a fact has before those are left out that do not vary."""
    return 2 + (len(knots) if fact.levels is None else len(fact.levels) - 1)


def _columns(batch: SeriesBatch) -> tuple[Tensor, ...]:
    assert batch.facts is not None
    return batch.facts.double().unbind(1)


def _knots(fact: Fact, column: Tensor) -> Tensor:
    known = column[~column.isnan()]
    if fact.levels is not None or not len(known):
        return column[:0]
    knots = known.quantile(known.new_tensor(_QUANTILES)).unique()
    return knots[(knots > known.min()) & (knots < known.max())]


def _features(fact: Fact, column: Tensor, knots: Tensor) -> Tensor:
    """Returns (n, p): a number and its excess over every knot, or 1 for the level of a category, NaN where not known;
    then 1 where the fact is missing."""
    if fact.levels is None:
        values = torch.cat([column[:, None], (column[:, None] - knots).clamp_min(0.0)], dim=1)
    else:
        known = torch.where(column >= 0, column, torch.nan)[:, None]
        levels = torch.arange(len(fact.levels), dtype=column.dtype, device=column.device)
        values = torch.where(known.isnan(), torch.nan, (known == levels).to(column))
    return torch.cat([values, column.isnan().to(column)[:, None]], dim=1)


def _even(fact: Fact, scaler: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the scaler of a fact with one spread for all indicators of a category: rare levels count no more."""
    if fact.levels is None:
        return scaler
    spread = scaler["spread"]
    return scaler | {"spread": spread.square().mean().sqrt().expand_as(spread).clone()}
