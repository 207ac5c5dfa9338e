"""What explanations are: contributions to a prediction, and importances over many series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from siggpde.explain.effects import ClassEffects
from siggpde.explain.neighbours import Neighbour
from siggpde.explain.segments import SegmentContributions
from siggpde.explain.wording import read_terms

Letters = tuple[str, ...]

_VIEWS_TOLD = 5


@dataclass(frozen=True)
class Contribution:
    """A term of the latent function: of a word or feature, of a group of them that move together, of all of those of a
    set of channels, or of a view.

    `letters` name the channels it is made of; of a view there are none. A group is named by its largest term, and
    `others` are the names of the rest.
    """

    name: str
    letters: Letters
    value: float
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.value:+.3g}"


@dataclass(frozen=True)
class SeriesExplanation:
    """The prediction of one series, and what contributes to it (positive: for it, negative: against it).

    - `series`: its index. For classes `label` and `runner_up` with their probabilities; for numbers `mean` and `std`.
    - `latent`: what is explained: the latent function of `label` minus that of `runner_up` (their logits, where there
      is a link), or that of the number, averaged over the members with their weights.
    - `contributions`: the words and features with the largest effect, largest first; `rest`: the sum of all others;
      `constant`: the part that is equal for all series. constant + contributions + rest = latent.
    - `interactions`: contributions summed over all words of a set of channels: "time & x" is the sum of time–x, x–time,
      time–x–x, .. Words are correlated and often cancel; these sums cancel less. The largest of them, largest first.
    - `views`: contributions summed over everything that a view of the series sees, all of them, largest first:
      constant + views = latent. Empty for models that see words of one path only.
    - `segments`: when and where: contributions of the segments and channels of the series; None if not asked for.
    - `neighbours`: with `segments`, the nearest training series of `label` and of `runner_up`, or for a number the two
      nearest of all; none where the model does not keep all training series.
    """

    series: int
    latent: float
    constant: float
    rest: float
    contributions: list[Contribution]
    interactions: list[Contribution]
    label: Any = None
    probability: float | None = None
    runner_up: Any = None
    runner_up_probability: float | None = None
    mean: float | None = None
    std: float | None = None
    views: list[Contribution] = field(default_factory=list)
    segments: SegmentContributions | None = None
    neighbours: list[Neighbour] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        """What speaks for the prediction, or raises the number: stretches of time, then the words and the view that
        weigh most: "x rises, 0.8 to 1.4; by its words, x moves, then y; above all from the words of the path"."""
        there = [] if self.segments is None or not self.segments.sentence else [self.segments.sentence]
        return "; ".join([*there, *read_terms(self.contributions, self.views)])

    @property
    def sentences(self) -> list[str]:
        """The explanation in plain English: the prediction, what speaks for it in one sentence, then a line for every
        stretch of time that matters, every contribution and the main views."""
        reason = "raised by" if self.probability is None else f"for {self.label}"
        told = [f"{reason}: {self.sentence}"] if self.sentence else []
        views = [f"in all, {each}" for each in self.views[:_VIEWS_TOLD]]
        places = [] if self.segments is None else list(map(str, self.segments.main))
        return [self._prediction(), *told, *places, *map(str, self.contributions), *views]

    def __str__(self) -> str:
        return "\n  ".join(self.sentences)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain = asdict(replace(self, segments=None, neighbours=[]))
        plain |= {"neighbours": [each.to_dict() for each in self.neighbours], "sentence": self.sentence}
        return plain if self.segments is None else plain | {"segments": self.segments.to_dict()}

    def in_units(self, scale: float, shift: float) -> SeriesExplanation:
        """The explanation of the number shift + scale * y, from this one of y."""
        if self.mean is None or self.std is None:
            raise ValueError("classes have no units; only the explanation of a number can be shifted and scaled")
        scaled = {
            name: [replace(each, value=scale * each.value) for each in getattr(self, name)]
            for name in ("contributions", "interactions", "views")
        }
        return replace(
            self,
            latent=shift + scale * self.latent,
            constant=shift + scale * self.constant,
            rest=scale * self.rest,
            mean=shift + scale * self.mean,
            std=scale * self.std,
            segments=None if self.segments is None else self.segments.in_units(scale, shift),
            neighbours=[replace(each, target=shift + scale * each.target) for each in self.neighbours],
            **scaled,
        )

    def _prediction(self) -> str:
        if self.probability is None:
            return f"series {self.series}: {self.mean:.4g} ± {self.std:.2g}"
        return (
            f"series {self.series}: {self.label} with probability {self.probability:.3g}, "
            f"then {self.runner_up} with {self.runner_up_probability:.3g}"
        )


@dataclass(frozen=True)
class Importance:
    """The importance of a word or feature, a channel, a time region, a scale or a view, and its share of the sum over
    all.

    `letters` are the names of the channels of a word; for a channel its own name alone, for a view none. A group of
    words is named by its largest one, and `others` are the rest.
    """

    name: str
    letters: Letters
    importance: float
    share: float
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Importances:
    """What the predictions for some series rest on (`siggpde.explain.global_importance` has the definitions).

    - `classes`: for every class, or for the number, the effects of channels, time regions, window scales, words and
      views, with their standard deviations and the probabilities of their signs.
    - `channels`, `regions`, `scales`: all of them, by the size of their effects in the mean over the classes; channels
      are largest first, regions in the order of time, scales from the shortest windows on.
    - `words`: the most important ones, largest first, those that move together being one; `all_words` is their number.
    - `views`: the importances of the views themselves, largest first; models that see words of one path have none.
    - `features`: the most important single features, largest first, over which iteration goes. Words of paths,
      statistics of words over windows, kernels without features; they are correlated, and often cancel. `all_features`
      is their number.
    - `series` is the number of series used.
    """

    features: list[Importance]
    series: int
    all_features: int
    views: list[Importance] = field(default_factory=list)
    classes: list[ClassEffects] = field(default_factory=list)
    channels: list[Importance] = field(default_factory=list)
    regions: list[Importance] = field(default_factory=list)
    scales: list[Importance] = field(default_factory=list)
    words: list[Importance] = field(default_factory=list)
    all_words: int = 0

    def __iter__(self) -> Iterator[Importance]:
        return iter(self.features)

    def __len__(self) -> int:
        return len(self.features)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def in_units(self, scale: float) -> Importances:
        """Those of the number scale * y, from these of y."""
        lists = ("features", "views", "channels", "regions", "scales", "words")
        scaled = {
            name: [replace(each, importance=scale * each.importance) for each in getattr(self, name)] for name in lists
        }
        return replace(self, **scaled, classes=[each.in_units(scale) for each in self.classes])
