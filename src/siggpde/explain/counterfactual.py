"""Counterfactuals: the smallest change of one stretch of a series that turns its prediction (docs/design.md)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from torch import Tensor

from siggpde.explain.results import ArrayResult
from siggpde.explain.text import interval, when
from siggpde.series import SeriesBatch
from siggpde.utils.times import TimeFormat

_KEPT = 64  # gaps to donors, which can be many
_DONORS = 4
_AT_ONCE = 32  # donors
_PARTS = 10  # of the grid
_SINGLE = 8  # channels that are tried by themselves
_PROMISING = 24
_BEST = 6
_SCALES = 4
_HALVINGS, _MOST_HALVINGS = 6, 20  # the most for narrow intervals

Judge: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""From series (n, channels, points) to numbers, (n,) or (n, classes)."""


@dataclass(frozen=True, eq=False)
class Counterfactual(ArrayResult):
    """One series, changed in one stretch so that the prediction becomes `target`.

    Attributes
    ----------
    original, series
        Before and after (channels, points), in the units of the data, with all channels handed in.
    start, end
        The first and the last point that is changed, counted from 0, or their time stamps.
    channels
        The names of the channels that are changed there.
    label
        The label predicted before; None for a number.
    target
        The label wanted, or the interval that the predicted number is to lie in.
    probability_before, probability_after
        Of the target; None for numbers.
    mean_before, mean_after
        The predicted numbers; None for classes.
    p_value
        The novelty of the changed series (`estimator.novelty`); None where the model does not know.
    size, share
        The mean over all values of \\|change\\| / standard deviation of the channel, and the share of values changed.
    valid
        Whether the changed series is predicted as the target. If not, `series` is the best of what was tried.
    time_channel, time_format
        Which channel of the series holds time stamps, and how they are told; None without any.

    Examples
    --------
    >>> import siggpde
    >>> X = np.linspace(0, 1, 6) * np.array([1.0, -1.0] * 5)[:, None, None]
    >>> classifier = siggpde.SigGPClassifier(members=1).fit(X, ["up", "down"] * 5)
    >>> change = classifier.counterfactual(X[0])
    >>> change.label, change.target
    ('up', 'down')
    """

    original: np.ndarray
    series: np.ndarray
    start: float
    end: float
    channels: tuple[str, ...]
    label: Any
    target: Any
    probability_before: float | None
    probability_after: float | None
    mean_before: float | None
    mean_after: float | None
    p_value: float | None
    size: float
    share: float
    valid: bool
    time_channel: int | None = None
    time_format: TimeFormat | None = None

    def __str__(self) -> str:
        where = f"{' and '.join(self.channels)}, {when(self.start, self.end, self.time_format)}"
        if self.mean_after is None:
            wanted, becomes = self.target, f"{self.label} becomes {self.target}"
            change = (
                f"probability of {self.target} {self.probability_before:.3g} before, {self.probability_after:.3g} after"
            )
        else:
            wanted, becomes = interval(*self.target), f"{self.mean_before:.4g} becomes {self.mean_after:.4g}"
            change = f"{self.mean_before:.4g} before, {self.mean_after:.4g} after"
        if self.valid:
            much = f"{self.share:.0%} of the values, by {self.size:.2g} spreads on average over the series"
            after = change if self.mean_after is None else f"the target is {wanted}"
            novelty = "" if self.p_value is None else f"; novelty p = {self.p_value:.2g}"
            return f"{becomes} if {where} is changed ({much}); {after}{novelty}"
        if not self.channels:
            return f"no change of a stretch was found that makes it {wanted}, or nearer to it"
        return f"no change of a stretch was found that makes it {wanted}; the best tried is of {where}: {change}"

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values; gaps are None, and so is an end of the target that is infinite."""
        plain = super().to_dict()
        for name in ("original", "series"):
            plain[name] = [[None if np.isnan(one) else one for one in row] for row in plain[name]]
            if self.time_channel is not None and self.time_format is not None and self.time_format.dates:
                times = plain[name][self.time_channel]
                plain[name][self.time_channel] = [None if one is None else self.time_format.iso(one) for one in times]
        if self.mean_after is not None:
            plain["target"] = [end if np.isfinite(end) else None for end in self.target]
        return plain


@dataclass(frozen=True)
class ClassGoal:
    """The class number `index`."""

    index: int

    def margin(self, predictions: np.ndarray) -> np.ndarray:
        """Returns log p of the class less the largest other (n,): 0 or more where `predict` answers with it."""
        logs = np.log(np.maximum(predictions, np.finfo(float).tiny))
        margin = logs[:, self.index] - np.delete(logs, self.index, axis=1).max(axis=1)
        return np.where(self.reached(predictions), margin, np.minimum(margin, -np.finfo(float).tiny))

    def reached(self, predictions: np.ndarray) -> np.ndarray:
        """Returns whether each is predicted so, (n,)."""
        return predictions.argmax(axis=1) == self.index

    def fitting(self, targets: Tensor) -> Tensor:
        """Returns which training series with these targets (n,) are of the class."""
        return targets == self.index


@dataclass(frozen=True)
class NumberGoal:
    """A number from `low` to `high`, in the units of y; `upwards`: the prediction is below them now."""

    low: float
    high: float
    upwards: bool
    shift: float
    scale: float

    def margin(self, predictions: np.ndarray) -> np.ndarray:
        """Returns how far numbers (n,) are beyond the nearer end of the interval."""
        return predictions - self.low if self.upwards else self.high - predictions

    def reached(self, predictions: np.ndarray) -> np.ndarray:
        """Returns whether each lies in the interval, (n,)."""
        return (predictions >= self.low) & (predictions <= self.high)

    def fitting(self, targets: Tensor) -> Tensor:
        """Returns which training series with targets (n,), in the committee's units, are beyond the nearer end."""
        numbers = self.shift + self.scale * targets
        return numbers >= self.low if self.upwards else numbers <= self.high


Goal: TypeAlias = ClassGoal | NumberGoal


def class_goal(target: Any, classes: np.ndarray, probabilities: np.ndarray) -> ClassGoal:
    """Returns the goal of the class `target`, None being the runner-up, for a series with these probabilities."""
    labels = classes.tolist()
    if target is None:
        return ClassGoal(int(np.argsort(-probabilities, kind="stable")[1]))
    plain = target.item() if isinstance(target, np.generic) else target
    if np.ndim(plain) > 0 or plain not in labels or isinstance(plain, bool) != isinstance(labels[0], bool):
        raise ValueError(f"target must be one of the classes {labels}, got {target!r}")
    index = labels.index(plain)
    if index == int(probabilities.argmax()):
        raise ValueError(f"the series is predicted as {target!r} already; give another target, or None")
    return ClassGoal(index)


def number_goal(target: Any, prediction: float, shift: float, scale: float) -> NumberGoal:
    """Returns the goal `target` of a predicted number: a pair (low, high), or one number that is to be reached."""
    if target is None:
        raise ValueError(
            "give a target: a number that the prediction is to reach, or a pair (low, high) to lie between"
        )
    try:
        ends = np.atleast_1d(np.asarray(target, dtype=np.float64)).tolist()
    except (TypeError, ValueError):
        ends = []
    if np.shape(ends) not in ((1,), (2,)) or not np.isfinite(ends).any() or np.isnan(ends).any() or ends[0] > ends[-1]:
        raise ValueError(f"target must be a number, or a pair of numbers (low, high), got {target!r}")
    if len(ends) == 1:
        ends = [ends[0], np.inf] if prediction < ends[0] else [-np.inf, ends[0]]
    low, high = ends
    if low <= prediction <= high:
        raise ValueError(f"the prediction, {prediction:.6g}, is within the target already; give another target")
    return NumberGoal(low, high, bool(prediction < low), shift, scale)


class Donor(NamedTuple):
    """A series whose values may be put into another: `values` (points, channels), `times` (points,) or None."""

    values: np.ndarray
    times: np.ndarray | None

    def stretched(self, length: int, times: np.ndarray | None) -> np.ndarray:
        """Returns its values at `length` points, (length, channels), at shares of its span, as `times`, or evenly."""
        places, wanted = _shares(self.times, len(self.values)), _shares(times, length)
        return np.stack([np.interp(wanted, places, channel) for channel in self.values.T], axis=1)


def _shares(times: np.ndarray | None, count: int) -> np.ndarray:
    """Returns how far every point is on the way from the first to the last, (count,), from 0 to 1."""
    if times is None or times[-1] <= times[0]:
        return np.linspace(0.0, 1.0, count)
    return (times - times[0]) / (times[-1] - times[0])


def donors_of(batch: SeriesBatch) -> list[Donor]:
    """Returns the series of a batch, without padding."""
    values = batch.values.cpu().numpy()
    times = None if batch.times is None else batch.times.cpu().numpy()
    return [
        Donor(values[row, :count], None if times is None else times[row, :count])
        for row, count in enumerate(batch.counts().tolist())
    ]


def kept_series(committee: Any) -> tuple[list[Donor], Tensor | None]:
    """Returns the training series that the committee keeps, in units of the data, and their targets (n,) or None."""
    landmarks = committee.landmarks
    if landmarks is None:
        return [], None
    standard, record = committee.standard, committee.left_out
    values = landmarks.values * standard.spread + standard.mean
    known = None if record is None or not record.exact else record.y.cpu()
    return donors_of(SeriesBatch(values, landmarks.lengths, landmarks.times)), known


@dataclass(frozen=True)
class Change:
    """Points `start` to `end` - 1 of some `channels`, as the model sees them, moved towards a `donor` by `scale`."""

    donor: int
    start: int
    end: int
    channels: tuple[int, ...]
    scale: float = 1.0


@dataclass
class Canvas:
    """A series as it was handed in, and everything that is needed to change stretches of it.

    - `raw` (channels, points): the series as handed in; `rows`: its channels with values; `points`: its length.
    - `seen` (length, value channels): as the model sees it, without gaps, long ones averaged; `times` (length,).
    - `donors`: other series, as the model sees them; `spread` (value channels,) over the training series.
    """

    raw: np.ndarray
    rows: Sequence[int]
    seen: np.ndarray
    times: np.ndarray | None
    donors: list[Donor]
    spread: np.ndarray
    points: int

    def __post_init__(self) -> None:
        self.spread = np.where(self.spread > 0, self.spread, 1.0)
        self.length, self.channels = self.seen.shape
        self.observed = np.isfinite(self.raw[self.rows, : self.points])
        self._gaps: dict[int, np.ndarray] = {}
        self._centres = (np.arange(self.length) + 0.5) * self.points / self.length - 0.5  # of averaged bins, in points

    def sort_donors(self) -> None:
        """Puts the donors in the order of their distance, the mean of |gap| / spread."""
        distances = [(np.abs(self.gap(donor)) / self.spread).mean() for donor in range(len(self.donors))]
        self.donors = [self.donors[index] for index in np.argsort(distances, kind="stable")]
        self._gaps.clear()

    def gap(self, donor: int) -> np.ndarray:
        """Returns donor number `donor`, stretched to the series, less the series: (length, value channels)."""
        if donor not in self._gaps:
            if len(self._gaps) >= _KEPT:
                self._gaps.clear()
            self._gaps[donor] = self.donors[donor].stretched(self.length, self.times) - self.seen
        return self._gaps[donor]

    def limits(self, change: Change) -> tuple[int, int]:
        """Returns the first raw point of the stretch, and the one after its last."""
        return change.start * self.points // self.length, -(-change.end * self.points // self.length)

    def delta(self, change: Change) -> np.ndarray:
        """Returns scale (gap less the line between those beside the stretch), 0 at gaps, (channels, points)."""
        a, b, gap = change.start, change.end, self.gap(change.donor)
        left = (a - 1, gap[a - 1]) if a > 0 else (a, np.zeros(self.channels))
        right = (b, gap[b]) if b < self.length else (b - 1, np.zeros(self.channels))
        share = (np.arange(a, b) - left[0]) / max(right[0] - left[0], 1)
        inside = gap[a:b] - (left[1] + share[:, None] * (right[1] - left[1]))
        first, last = self.limits(change)
        delta = np.zeros((self.channels, self.points))
        for channel in change.channels:
            moved = np.zeros(self.length)
            moved[a:b] = inside[:, channel]
            delta[channel, first:last] = np.interp(np.arange(first, last), self._centres, moved)
        return np.where(self.observed, change.scale * delta, 0.0)

    def changed(self, changes: Sequence[Change]) -> np.ndarray:
        """Returns the raw series with each of the changes, (changes, channels, raw points); gaps stay gaps."""
        copies = np.repeat(self.raw[None], len(changes), axis=0)
        for series, change in zip(copies, changes, strict=True):
            series[self.rows, : self.points] += self.delta(change)
        return copies

    def size(self, change: Change) -> float:
        """Returns the mean of |change| / spread over all values of the series."""
        moved = np.abs(self.delta(change)) / self.spread[:, None]
        return float(moved.sum() / max(1, self.observed.sum()))


@dataclass(frozen=True)
class Trial:
    """A change, its size, its margin (0 or more if it turns the prediction), whether it is as wanted, its p-value."""

    change: Change
    size: float
    margin: float
    reached: bool
    p: float


class Search:
    """Looks for changes that reach a goal, with p-values above `plausible` if possible; nothing is drawn at random."""

    def __init__(self, canvas: Canvas, goal: Goal, predict: Judge, novelty: Judge, plausible: float) -> None:
        self.canvas, self.goal, self.plausible = canvas, goal, plausible
        self._predict, self._novelty = predict, novelty
        self.strict = False  # whether every step has to stay plausible, where the shortest way is not
        self.pool: list[Trial] = []

    def run(self) -> Trial:
        """Returns the best change; its margin is negative where none turns the prediction."""
        turned = self._coarse()
        if not turned:
            return max(self.pool, key=lambda trial: trial.margin)
        # The smallest changes, and as many with the largest margin for their size, which shrink most.
        small = sorted(turned, key=lambda trial: trial.size)[: _PROMISING // 2]
        strong = sorted(turned, key=lambda trial: -trial.margin / max(trial.size, 1e-300))
        strong = [trial for trial in strong if trial not in small][: _PROMISING - len(small)]
        shrunk = self._judged(self._shrunk([*small, *strong]))
        if not any(trial.p > self.plausible for trial in shrunk):
            whole = [trial for trial in turned if trial.change.end - trial.change.start == self.canvas.length]
            shrunk += self._more_plausible([*shrunk, *whole[:_BEST]])
            self.strict = any(trial.p > self.plausible for trial in shrunk)
        best = self._best(shrunk)
        best = self._best([*best, *self._judged(self._shrunk(self._without_channels(best)))])
        if self.strict:
            best = self._best([*best, *self._judged(self._shrunk(best))])
        for _ in range(2):
            best = self._best([*best, *self._judged(self._shrunk(self._narrowed(best)))])
        return next(iter(self._best(self.pool)), max(self.pool, key=lambda trial: trial.margin))

    def _coarse(self) -> list[Trial]:
        """Returns stretches of a grid that turn the prediction; all that is tried is put into the pool."""
        canvas = self.canvas
        everything = tuple(range(canvas.channels))
        whole = self._whole(everything)
        usable = [trial for trial in whole if trial.margin >= 0] or sorted(whole, key=lambda trial: -trial.margin)
        donors = [trial.change.donor for trial in usable[:_DONORS]]
        grid = np.unique(np.linspace(0, canvas.length, min(canvas.length, _PARTS) + 1).round().astype(int)).tolist()
        stretches = list(itertools.combinations(grid, 2))
        changes = [Change(donor, a, b, everything) for donor in donors for a, b in stretches]
        if canvas.channels > 1:
            gap = np.mean([np.abs(canvas.gap(donor)).mean(axis=0) for donor in donors], axis=0) / canvas.spread
            for channel in np.sort(np.argsort(-gap, kind="stable")[:_SINGLE]).tolist():
                changes += [Change(donors[0], a, b, (channel,)) for a, b in stretches]
        self.pool = whole + self._tried(changes)
        return [trial for trial in self.pool if trial.margin >= 0]

    def _whole(self, channels: tuple[int, ...]) -> list[Trial]:
        """Replaces the whole series from the donors, one by one, until enough of them turn the prediction."""
        trials: list[Trial] = []
        for start in range(0, len(self.canvas.donors), _AT_ONCE):
            stop = min(start + _AT_ONCE, len(self.canvas.donors))
            trials += self._tried([Change(donor, 0, self.canvas.length, channels) for donor in range(start, stop)])
            if sum(trial.margin >= 0 for trial in trials) >= _DONORS:
                break
        return trials

    def _tried(self, changes: Sequence[Change]) -> list[Trial]:
        """Returns changes with their margins, not yet with p-values."""
        if not changes:
            return []
        predictions = self._predict(self.canvas.changed(changes))
        margins, reached = self.goal.margin(predictions).tolist(), self.goal.reached(predictions).tolist()
        return [
            Trial(change, self.canvas.size(change), margin, there, np.nan)
            for change, margin, there in zip(changes, margins, reached, strict=True)
        ]

    def _judged(self, trials: Sequence[Trial]) -> list[Trial]:
        """Returns those that are predicted as wanted, with p-values; they are put into the pool."""
        turned = [trial for trial in trials if trial.reached]
        if not turned:
            return []
        judged = [replace(trial, p=p) for trial, p in zip(turned, self._p_values(turned), strict=True)]
        self.pool += judged
        return judged

    def _good(self, trials: Sequence[Trial]) -> list[bool]:
        """Returns whether each turns the prediction and, where that is asked for, is plausible."""
        turned = [trial.margin >= 0 for trial in trials]
        if not (self.strict and any(turned)):
            return turned
        p = iter(self._p_values([trial for trial in trials if trial.margin >= 0]))
        return [good and next(p) > self.plausible for good in turned]

    def _p_values(self, trials: Sequence[Trial]) -> list[float]:
        return self._novelty(self.canvas.changed([trial.change for trial in trials])).tolist()

    def _shrunk(self, trials: Sequence[Trial]) -> list[Trial]:
        """Returns each with the smallest scale at which it still turns the prediction, by bisection of all at once."""
        kept = [trial for trial in trials if trial.margin >= 0]
        low = [0.0] * len(kept)
        for halving in range(_MOST_HALVINGS):
            if halving >= _HALVINGS and all(trial.reached for trial in kept):
                break
            middle = [(least + trial.change.scale) / 2 for least, trial in zip(low, kept, strict=True)]
            new = self._tried([_scaled(trial, scale) for trial, scale in zip(kept, middle, strict=True)])
            for index, (trial, good) in enumerate(zip(new, self._good(new), strict=True)):
                if good:
                    kept[index] = trial
                else:
                    low[index] = middle[index]
        return kept

    def _more_plausible(self, trials: Sequence[Trial]) -> list[Trial]:
        """Returns each at scales from its own up to 1: half of one series and half of another may be like neither."""
        scales = np.linspace(0.0, 1.0, _SCALES + 1)[1:].tolist()
        more = [_scaled(trial, (1 - s) * trial.change.scale + s) for trial in trials for s in scales]
        return self._judged(self._tried(more))

    def _without_channels(self, trials: Sequence[Trial]) -> list[Trial]:
        """Returns each at full scale with as few channels as possible: those that matter least are left out first."""
        fewer: list[Trial] = []
        for trial in trials:
            channels, full = trial.change.channels, _scaled(trial, 1.0)
            if len(channels) < 2:
                continue
            without = [replace(full, channels=tuple(c for c in channels if c != out)) for out in channels]
            loss = np.array([other.margin for other in self._tried(without)])
            order = [channels[index] for index in np.argsort(loss, kind="stable")]  # what matters most is first
            sets = [tuple(sorted(order[:count])) for count in range(1, len(order))]
            tried = self._tried([replace(full, channels=chosen) for chosen in sets])
            fewer += [other for other in tried if other.margin >= 0][:3]
        return fewer

    def _narrowed(self, trials: Sequence[Trial]) -> list[Trial]:
        """Returns each with ends moved inwards, by steps that are halved, as long as it turns the prediction."""
        full = self._tried([_scaled(trial, 1.0) for trial in trials])
        kept = [one if good else trial for one, trial, good in zip(full, trials, self._good(full), strict=True)]
        step = max(1, -(-self.canvas.length // (2 * min(self.canvas.length, _PARTS))))
        while step:
            for start, end in ((step, 0), (0, step)):
                moved = [
                    replace(change, start=change.start + start, end=change.end - end)
                    if change.end - change.start > step
                    else change
                    for change in (trial.change for trial in kept)
                ]
                new = self._tried(moved)
                for index, (trial, good) in enumerate(zip(new, self._good(new), strict=True)):
                    if good and trial.size <= kept[index].size:
                        kept[index] = trial
            step //= 2
        return kept

    def _best(self, trials: Sequence[Trial]) -> list[Trial]:
        """Returns the first few: plausible ones by their size, then the others by p-value; one of each stretch."""
        judged = [trial for trial in trials if trial.reached and not np.isnan(trial.p)]
        likely = sorted((trial for trial in judged if trial.p > self.plausible), key=lambda trial: trial.size)
        others = [trial for trial in judged if not trial.p > self.plausible]
        best: dict[Change, Trial] = {}
        for trial in [*likely, *sorted(others, key=lambda trial: (-trial.p, trial.size))]:
            best.setdefault(_scaled(trial, 1.0), trial)
        return list(best.values())[:_BEST]


def _scaled(trial: Trial, scale: float) -> Change:
    return replace(trial.change, scale=float(scale))
