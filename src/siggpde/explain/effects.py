"""What tells a class apart from the others, or large numbers from small ones: effects with their uncertainty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from siggpde.explain.posterior import Gaussian, probability_of_sign

Letters = tuple[str, ...]


@dataclass(frozen=True)
class Effect:
    """What a channel, a time region, a window scale, a view or a group of words contributes to a class, in the mean
    over its series less the mean over the others: positive speaks for the class. Of numbers, over the larger half of
    them less the smaller half, in their units.

    `std` is the standard deviation under the posterior, `probability` that the effect has the sign it is told to have.
    `letters` name channels; `others` are the words beside the one that a group is named by.
    """

    name: str
    letters: Letters
    effect: float
    std: float
    probability: float
    others: Letters = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.effect:+.3g} ± {self.std:.2g} (probability of the sign {self.probability:.3g})"


@dataclass(frozen=True)
class ClassEffects:
    """Of the class `label` (None for numbers), of which there are so many `series`: all `channels` in their order, all
    `regions` in the order of time, all `scales` from the shortest windows on, and the `words` and `views` with the
    largest effects first."""

    label: Any
    series: int
    channels: list[Effect]
    regions: list[Effect]
    scales: list[Effect]
    words: list[Effect]
    views: list[Effect]

    def in_units(self, scale: float) -> ClassEffects:
        """Those on the number scale * y, from these on y."""
        parts = ("channels", "regions", "scales", "words", "views")
        scaled = {
            part: [replace(each, effect=scale * each.effect, std=scale * each.std) for each in getattr(self, part)]
            for part in parts
        }
        return replace(self, **scaled)


def effects_of(
    names: Iterable[str],
    letters: Iterable[Letters],
    posterior: Gaussian,
    others: Sequence[Letters] | None = None,
) -> list[Effect]:
    """An effect for each of q names."""
    chances = probability_of_sign(posterior).tolist()
    more = [()] * len(chances) if others is None else others
    numbers = zip(names, letters, posterior.mean.tolist(), posterior.std.tolist(), chances, more, strict=True)
    return [Effect(*each) for each in numbers]


def largest_first(effects: Iterable[Effect]) -> list[Effect]:
    return sorted(effects, key=lambda each: -abs(each.effect))
