"""What explanations are: contributions to a prediction, importances over many series, effects."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from typing import Any, Self

import numpy as np

from siggpde.explain.text import BESIDE, Letters, moving_together, read_word, when
from siggpde.utils.times import TimeFormat

_SENTENCE_VIEWS = 5
_SENTENCE_WORDS = 2
_WORTH_TELLING = 0.25  # of the largest term: words of less are not in the sentence
# In other units of a number these are shifted and scaled, and differences, errors and sizes are scaled alone.
_LEVELS = {"latent", "latents", "baseline", "constant", "mean", "target"}
_DIFFERENCES = {
    "values", "sampling_error", "std", "contrast", "contrast_error", "contrast_std",
    "rest", "value", "error", "effect", "importance",
}  # fmt: skip


class _Result:
    def to_dict(self: Any) -> dict[str, Any]:
        """Returns plain values."""
        return asdict(self, dict_factory=_plain)


class ArrayResult(_Result):
    """A result that holds arrays: two are equal if their values are."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.to_dict() == other.to_dict()

    __hash__ = None  # pyright: ignore[reportAssignmentType] - arrays have no hash


def _plain(items: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the fields of a result with lists for arrays, dates for time stamps that are dates, and when it is."""
    plain: dict[str, Any] = {
        name: value.tolist() if isinstance(value, np.ndarray) else list(value) if name == "channels" else value
        for name, value in items
        if not (name in ("against_truth", "index") and value is None)
    }
    clock = plain.pop("time_format", None)
    if "start" in plain:
        plain["when"] = when(plain["start"], plain["end"], clock)
    if clock is not None and clock.dates:
        for name in {"start", "end", "starts", "ends", "times"} & plain.keys():
            plain[name] = list(map(clock.iso, plain[name])) if isinstance(plain[name], list) else clock.iso(plain[name])
    return plain


class _InUnits:
    """A result whose numbers can be told in other units."""

    def in_units(self, scale: float, shift: float = 0.0) -> Self:
        """Returns the result for the number shift + scale * y, from this one for y."""
        return _rescaled(self, scale, shift)


def _rescaled(result: Any, scale: float, shift: float) -> Any:
    def changed(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [changed(name, item) for item in value]
        if is_dataclass(value):
            return _rescaled(value, scale, shift)
        if value is None or name not in _LEVELS | _DIFFERENCES:
            return value
        return shift + scale * value if name in _LEVELS else scale * value

    return replace(result, **{name: changed(name, value) for name, value in vars(result).items()})


@dataclass(frozen=True)
class Contribution:
    """A term of the latent function: of a word, feature or group of them, of a set of channels, or of a view.

    Attributes
    ----------
    name
        What it is; a group is named by its largest term.
    letters
        The names of the channels it is made of; () for a view.
    value
        What it adds to the latent function.
    others
        The names of the other terms of a group.

    Examples
    --------
    >>> print(Contribution("x–y", ("x", "y"), 0.71))
    x–y: +0.71
    """

    name: str
    letters: Letters
    value: float
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.value:+.3g}"


@dataclass(frozen=True)
class Stretch:
    """Neighbouring segments of one channel that speak for the same side.

    Attributes
    ----------
    channel
        The name of the channel.
    start, end
        The first and the last point, or their time stamps.
    does
        What the channel does there, such as "rises".
    value, error, std
        The sum of the contributions, its sampling error, and its standard deviation under the posterior, None where
        that was not asked for.
    time_format
        How time stamps are told; None for points and numbers.

    Examples
    --------
    >>> print(Stretch("x", 2, 5, "rises", value=1.25, error=0.1, std=0.4))
    x rises, 2 to 5: +1.25 ± 0.4
    """

    channel: str
    start: float
    end: float
    does: str
    value: float
    error: float
    std: float | None
    time_format: TimeFormat | None = None

    @property
    def when(self) -> str:
        """From when to when, in words."""
        return when(self.start, self.end, self.time_format)

    def __str__(self) -> str:
        doubt = "" if self.std is None else f" ± {self.std:.2g}"
        return f"{self.channel} {self.does}, {self.when}: {self.value:+.3g}{doubt}"


@dataclass(frozen=True, eq=False)
class SegmentContributions(_InUnits, ArrayResult):
    """When and where the evidence is: what each segment of each channel contributes to the latent of every class, or
    to the number.

    Attributes
    ----------
    channels
        The names of the channels.
    classes
        The labels; None for a number.
    starts, ends
        The first and the last point of every segment (segments,), counted from 0, or their time stamps.
    values
        The contributions (segments, channels, classes); for a number (segments, channels, 1). Their sum over segments
        and channels is `latents` - `baseline`.
    sampling_error
        Standard errors of the values, as far as more permutations would change them.
    std
        Standard deviations of the values under the posterior, which more training series make smaller, and more
        permutations do not; None without `uncertainty`.
    contrast, contrast_error, contrast_std
        The same (segments, channels) of the predicted class minus the runner-up, or of the number.
    latents, baseline
        The latents (classes,) of the series (logits, where there is a link), and those with everything cut out or, with
        a background, their mean over it.
    permutations
        How many were drawn.
    timed
        Whether `starts` and `ends` are time stamps.
    main
        The stretches that matter most to the contrast, largest first.
    against_truth
        The same for the predicted class minus the true one, where the true one is known and is neither of the two.
    time_format
        How time stamps are told; None for points and numbers.
    """

    channels: tuple[str, ...]
    classes: list[Any] | None
    starts: np.ndarray
    ends: np.ndarray
    values: np.ndarray
    sampling_error: np.ndarray
    std: np.ndarray | None
    contrast: np.ndarray
    contrast_error: np.ndarray
    contrast_std: np.ndarray | None
    latents: np.ndarray
    baseline: np.ndarray
    permutations: int
    timed: bool = False
    main: list[Stretch] = field(default_factory=list)
    against_truth: SegmentContributions | None = None
    time_format: TimeFormat | None = None

    @property
    def sentence(self) -> str:
        """The stretches that speak for the prediction, in the order of time: "x rises, then y falls, 0.8 to 1.4".

        Channels that do the same at the same time are told together, and what goes on after a pause is told once.
        """
        stretches = sorted((one for one in self.main if one.value > 0), key=lambda one: (one.start, one.end))
        if not stretches:
            return ""
        groups: list[list[Stretch]] = []
        for one in stretches:
            same = [group for group in groups if group[0].does == one.does and one.start < _end(group)]
            if same and one.channel not in [other.channel for other in same[0]]:
                same[0].append(one)
            else:
                groups.append([one])
        text = _read(groups[0])
        groups = [b for a, b in itertools.pairwise([[], *groups]) if not a or _read(a) != _read(b)]
        for before, group in itertools.pairwise(groups):
            text += f"{' while' if group[0].start < _end(before) else ', then'} {_read(group)}"
        start, end = stretches[0].start, _end(stretches)
        points = "" if self.timed or end == start else "points "
        return f"{text}, {points}{when(start, end, self.time_format)}"

    def of_readings(self, known: np.ndarray, times: np.ndarray) -> SegmentContributions:
        """Returns the contributions that say where a stretch has no reading but filled values; `known` (channels,
        points) are the readings, at `times` (points,)."""

        def told(one: Stretch) -> Stretch:
            channel, inside = self.channels.index(one.channel), (one.start <= times) & (times <= one.end)
            filled = channel < len(known) and not known[channel, inside].any()
            return replace(one, does="has no reading") if filled else one

        truth = None if self.against_truth is None else self.against_truth.of_readings(known, times)
        return replace(self, main=list(map(told, self.main)), against_truth=truth)

    def in_time(self, time_format: TimeFormat) -> SegmentContributions:
        """Returns the contributions that tell time stamps in this format."""
        main = [replace(stretch, time_format=time_format) for stretch in self.main]
        truth = None if self.against_truth is None else self.against_truth.in_time(time_format)
        return replace(self, main=main, against_truth=truth, time_format=time_format)


def _end(stretches: Sequence[Stretch]) -> float:
    return max(stretch.end for stretch in stretches)


def _read(stretches: Sequence[Stretch]) -> str:
    return moving_together([stretch.channel for stretch in stretches], stretches[0].does)


@dataclass(frozen=True, eq=False)
class Neighbour(ArrayResult):
    """A training series that is like the one that is explained.

    Attributes
    ----------
    target
        Its label or its number.
    distance
        How far it is, as the committee sees it.
    index
        Its number among the series of the fit, from 0; None in models of earlier versions.
    values, times
        Its values (channels, points), gaps filled and averaged if they were long, and time stamps (points,) or None.
    time_format
        How these are told.
    """

    target: Any
    distance: float
    values: np.ndarray
    times: np.ndarray | None
    index: int | None = None
    time_format: TimeFormat | None = None


@dataclass(frozen=True)
class SeriesExplanation(_InUnits, _Result):
    """The prediction of one series, and what contributes to it (positive: for it, negative: against it).

    Attributes
    ----------
    series
        Its index.
    latent
        What is explained: the latent function (or logit) of `label` minus that of `runner_up`, or that of the number,
        averaged over the members with their weights.
    constant
        The part that is equal for all series; constant + contributions + rest = latent.
    rest
        The sum of all contributions that are not listed.
    contributions
        The words and features with the largest effect, largest first.
    interactions
        The largest sums over all words of a set of channels: "time & x" has time–x, x–time, time–x–x, .. Words are
        correlated and often cancel; these sums cancel less.
    label, probability, runner_up, runner_up_probability
        The two most probable classes; None for a number.
    mean, std
        The predicted number; None for classes.
    views
        Contributions of all views of the series, largest first: constant + views = latent. Empty for models that see
        words of one path only.
    segments
        Contributions of the segments and channels of the series; None if not asked for.
    neighbours
        With `segments`, the nearest training series of `label`, of `runner_up` and of the truth, or for a number the
        two nearest of all; none where the model does not keep all training series.
    facts
        What each fact beside the series contributes by being known, largest first: Shapley values in two orders.

    Examples
    --------
    >>> import siggpde
    >>> X = np.linspace(0, 1, 6) * np.array([1.0, -1.0] * 5)[:, None, None]
    >>> classifier = siggpde.SigGPClassifier(members=1).fit(X, ["up", "down"] * 5)
    >>> explanation = classifier.explain(X[:1], segments=2)[0]
    >>> explanation.label, explanation.segments.sentence
    ('up', 'channel 0 rises, points 3 to 5')
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
    facts: list[Contribution] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        """What speaks for the prediction, or raises the number: stretches of time, then facts, words and view, as in "x
        rises, 0.8 to 1.4; age 82; by its words, x moves, then y; above all from the words of the path"."""
        places = "" if self.segments is None else self.segments.sentence
        least = _WORTH_TELLING * max((abs(fact.value) for fact in self.facts), default=0.0)
        facts = " and ".join(fact.name for fact in self.facts if fact.value >= max(least, 1e-9))
        return "; ".join(filter(None, [places, facts, *read_terms(self.contributions, self.views)]))

    @property
    def sentences(self) -> list[str]:
        """The explanation in plain English: the prediction, what speaks for it, then a line for each of its parts."""
        if self.probability is None:
            prediction, reason = f"series {self.series}: {self.mean:.4g} ± {self.std:.2g}", "raised by"
        else:
            runner_up = f"then {self.runner_up} with {self.runner_up_probability:.3g}"
            prediction = f"series {self.series}: {self.label} with probability {self.probability:.3g}, {runner_up}"
            reason = f"for {self.label}"
        sentence = [f"{reason}: {self.sentence}"] if self.sentence else []
        views = [f"in all, {view}" for view in self.views[:_SENTENCE_VIEWS]]
        places = [] if self.segments is None else list(map(str, self.segments.main))
        return [prediction, *sentence, *places, *map(str, self.facts), *map(str, self.contributions), *views]

    def __str__(self) -> str:
        return "\n  ".join(self.sentences)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        plain = super().to_dict() | {"sentence": self.sentence}
        return {name: value for name, value in plain.items() if name != "segments" or value is not None}

    def of_readings(self, values: np.ndarray, times: np.ndarray | None) -> SeriesExplanation:
        """Returns the explanation that says where there are no readings, of a series (channels, points) with NaN for
        gaps and its stamps (points,)."""
        if self.segments is None or np.isfinite(values).all():
            return self
        times = np.arange(values.shape[1]) if times is None else times
        return replace(self, segments=self.segments.of_readings(np.isfinite(values), times))

    def in_time(self, time_format: TimeFormat | None) -> SeriesExplanation:
        """Returns the explanation that tells time stamps in this format."""
        if time_format is None or self.segments is None or not self.segments.timed:
            return self
        segments = self.segments.in_time(time_format._replace(start=float(self.segments.starts[0])))
        near = [
            one if one.times is None else replace(one, time_format=time_format._replace(start=float(one.times[0])))
            for one in self.neighbours
        ]
        return replace(self, segments=segments, neighbours=near)

    def in_units(self, scale: float, shift: float = 0.0) -> Self:
        """Returns the explanation of the number shift + scale * y, from this one of y."""
        if self.mean is None:
            raise ValueError("classes have no units; only the explanation of a number can be shifted and scaled")
        return super().in_units(scale, shift)


def read_terms(contributions: Sequence[Contribution], views: Sequence[Contribution]) -> list[str]:
    """Returns what a sentence says of the words that speak most for a prediction, and of the view."""
    words = [term for term in contributions if term.value > 0 and is_word(term)]
    least = _WORTH_TELLING * max((term.value for term in words), default=0.0)
    readings = list(dict.fromkeys(read_word(term.letters) for term in words if term.value >= least))[:_SENTENCE_WORDS]
    parts = []
    if readings:
        quoted = readings if len(readings) == 1 else [f"“{reading}”" for reading in readings]
        parts.append(f"by its words, {' and '.join(quoted)}")
    best = max(views, key=lambda view: view.value, default=None)
    return parts if best is None or best.value <= 0 else [*parts, f"above all from the {best.name}"]


def is_word(term: Contribution) -> bool:
    """Returns whether a term is named by a word, or by the largest word of a group."""
    return bool(term.letters) and BESIDE not in term.letters and term.name.startswith("–".join(term.letters))


@dataclass(frozen=True)
class Effect:
    """What a channel, time region, window scale, view or group of words contributes to a class, in the mean over its
    series less the mean over the others; of numbers, over the larger half less the smaller half, in their units.

    Attributes
    ----------
    name
        What it is the effect of; a group is named by its largest word.
    letters
        The names of its channels.
    effect, std
        The difference of the two means, and its standard deviation under the posterior.
    probability
        That the effect has the sign it is said to have.
    others
        The other words of a group.

    Examples
    --------
    >>> print(Effect("x–y", ("x", "y"), effect=1.2, std=0.3, probability=0.99))
    x–y: +1.2 ± 0.3 (probability of the sign 0.99)
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
class ClassEffects(_InUnits):
    """The effects on one class, or on the number.

    Attributes
    ----------
    label
        The class; None for numbers.
    series
        How many series there are of it.
    channels, regions, scales
        All channels in their order, all regions in the order of time, all scales from the shortest windows on.
    words, views
        Those with the largest effects first.
    facts
        All facts beside the series, in the order of their table.
    """

    label: Any
    series: int
    channels: list[Effect]
    regions: list[Effect]
    scales: list[Effect]
    words: list[Effect]
    views: list[Effect]
    facts: list[Effect] = field(default_factory=list)


@dataclass(frozen=True)
class Importance:
    """The importance of a word or feature, a channel, a time region, a scale or a view.

    Attributes
    ----------
    name
        What it is; a group of words is named by its largest one.
    letters
        The names of the channels of a word; for a channel its own name alone, for a view ().
    importance
        How much it matters.
    share
        Its share of the sum over all.
    others
        The other words of a group.
    """

    name: str
    letters: Letters
    importance: float
    share: float
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Importances(_InUnits, _Result):
    """What the predictions for some series rest on.

    Attributes
    ----------
    features
        The most important single features, largest first, over which iteration goes: words of paths, statistics of
        words over windows, kernels without features. They are correlated, and often cancel.
    series
        The number of series used.
    all_features, all_words
        The numbers of all features and of all words.
    views
        The importances of the views, largest first; models that see words of one path have none.
    classes
        For every class, or for the number, effects with standard deviations and the probabilities of their signs.
    channels, regions, scales
        All of them, by their effects in the mean over the classes: channels largest first, regions in the order of
        time, scales from the shortest windows on.
    words
        The most important ones, largest first, those that move together being one.
    facts
        All facts beside the series by their effects, largest first.

    Examples
    --------
    >>> import siggpde
    >>> X = np.random.default_rng(0).normal(size=(10, 2, 5)).cumsum(axis=2)
    >>> importances = siggpde.SigGPClassifier(members=1).fit(X, [0, 1] * 5).importance(X)
    >>> sorted(channel.name for channel in importances.channels)
    ['channel 0', 'channel 1']
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
    facts: list[Importance] = field(default_factory=list)

    def __iter__(self) -> Iterator[Importance]:
        return iter(self.features)

    def __len__(self) -> int:
        return len(self.features)


@dataclass(frozen=True)
class WordWeight:
    """The weight of a word in the paper's model.

    Attributes
    ----------
    name, letters
        The word, such as "moisture–humidity–moisture", and the names of its channels.
    size
        |m|; of several latents the length of the vector of their means.
    std
        The standard deviation of its weight under q(u); of several latents the root of the mean variance.
    mean
        The weights (latents,) with their signs.
    """

    name: str
    letters: Letters
    size: float
    std: float
    mean: tuple[float, ...]


@dataclass(frozen=True)
class PaperReading(_Result):
    """Words by the size of their weights, as the paper ranks them.

    Attributes
    ----------
    words
        Those with the largest |m|.
    classes
        With several latents those of each class, by label.
    all_words
        The number of words, without the constant.

    Examples
    --------
    >>> reading = PaperReading([WordWeight("x–y", ("x", "y"), 0.8, 0.1, (0.8,))], {}, all_words=6)
    >>> [word.name for word in reading.words]
    ['x–y']
    """

    words: list[WordWeight]
    classes: dict[Any, list[WordWeight]]
    all_words: int

    def in_common(self, *others: PaperReading) -> list[str]:
        """Returns the names of the words that this reading and others list, such as those of other seeds."""
        listed = [{word.name for word in other.words} for other in others]
        return [word.name for word in self.words if all(word.name in names for names in listed)]
