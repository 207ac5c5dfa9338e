r"""Counterfactuals: the smallest change of one stretch of a series that turns its prediction.

With x the series and z a donor, another series stretched to the length of x, the change from point a to point b - 1 is

.. math:: s \, (z_t - x_t - \ell_t), \qquad a \le t < b,

where the straight line :math:`\ell` is z - x at the points a - 1 and b beside the stretch, so that the change ends in
nothing on both sides; at an end of the series, where there is nothing to join, it is 0. s is the scale of the change.

The search goes in four steps:

1. The nearest donors whose values, put in place of the whole series, turn the prediction.
2. All stretches between points of a grid, in all channels and in each by itself, replaced from each of these donors.
3. The most promising of those that turn it are shrunk towards the series by bisection, channels are taken back that
   they can do without, their ends are moved inwards, and they are shrunk again.
4. Of everything that was tried the smallest change that turns the prediction and is plausible; if none is plausible,
   the most plausible that turns it.

Every candidate is judged by the model; nothing here assumes that predictions change evenly. Nothing is drawn at random.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from siggpde.series import SeriesBatch


@dataclass(frozen=True)
class ClassGoal:
    """The class number `index`."""

    index: int

    def margin(self, predictions: np.ndarray) -> np.ndarray:
        """log p of the class less the largest of the others, (n,), from probabilities (n, classes): 0 or more where
        `predict` answers with the class, which of equally probable ones is the first."""
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(predictions, np.finfo(float).tiny))
        others = np.delete(logs, self.index, axis=1).max(axis=1)
        margin = logs[:, self.index] - others
        won = predictions.argmax(axis=1) == self.index
        return np.where(won, margin, np.minimum(margin, -np.finfo(float).tiny))

    def reached(self, predictions: np.ndarray) -> np.ndarray:
        """Whether each is predicted so, (n,)."""
        return predictions.argmax(axis=1) == self.index

    def fitting(self, targets: Tensor) -> Tensor:
        """Which training series with these targets (n,) are of the class."""
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
        """How far numbers (n,) are beyond the nearer end of the interval."""
        return predictions - self.low if self.upwards else self.high - predictions

    def reached(self, predictions: np.ndarray) -> np.ndarray:
        """Whether each lies in the interval, (n,)."""
        return (predictions >= self.low) & (predictions <= self.high)

    def fitting(self, targets: Tensor) -> Tensor:
        """Which training series with these targets (n,), in the units of the committee, are beyond the nearer end."""
        numbers = self.shift + self.scale * targets
        return numbers >= self.low if self.upwards else numbers <= self.high


def class_goal(target: Any, classes: np.ndarray, probabilities: np.ndarray) -> ClassGoal:
    """The goal of the class `target` for a series with these `probabilities` (classes,); None is the runner-up."""
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
    """The goal `target` of a predicted number: a pair (low, high), or one number that is to be reached."""
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


Goal = ClassGoal | NumberGoal


_KEPT = 64  # gaps to donors, which can be many


class Donor(NamedTuple):
    """A series whose values may be put into another: `values` (points, channels), `times` (points,) or None."""

    values: np.ndarray
    times: np.ndarray | None


@dataclass(frozen=True)
class Change:
    """The stretch from point `start` up to point `end` - 1, of the series as the model sees it, in these `channels`
    (indices), moved towards donor number `donor` by `scale`."""

    donor: int
    start: int
    end: int
    channels: tuple[int, ...]
    scale: float = 1.0

    def with_scale(self, scale: float) -> Change:
        return replace(self, scale=scale)


class Canvas:
    """A series as it was handed in, and everything that is needed to change stretches of it.

    - `raw` (channels, points): the series as handed in; `rows`: which of its channels hold values, in order.
    - `seen` (length, value channels): the same as the model sees it, gaps filled and averaged down if it was long.
    - `donors`: other series, as the model sees them; `times` (length,), the time stamps of `seen`, or None.
    - `spread` (value channels,): standard deviations over the training series.
    - `points`: how many points the raw series has, without padding.
    """

    def __init__(
        self,
        raw: np.ndarray,
        rows: Sequence[int],
        seen: np.ndarray,
        times: np.ndarray | None,
        donors: Sequence[Donor],
        spread: np.ndarray,
        points: int,
    ) -> None:
        self.raw, self.rows, self.seen, self.times, self.donors = raw, list(rows), seen, times, donors
        self.spread = np.where(spread > 0, spread, 1.0)
        self.points = points
        self._gaps: dict[int, np.ndarray] = {}
        self.observed = np.isfinite(raw[self.rows, :points])
        bins = np.arange(self.length)
        self._centres = (bins + 0.5) * points / self.length - 0.5  # of the bins that are averaged, in raw points

    @property
    def length(self) -> int:
        return self.seen.shape[0]

    @property
    def channels(self) -> int:
        return self.seen.shape[1]

    def gap(self, donor: int) -> np.ndarray:
        """Donor number `donor`, stretched to the length of the series, less the series: (length, value channels)."""
        if donor not in self._gaps:
            if len(self._gaps) >= _KEPT:
                self._gaps.clear()
            self._gaps[donor] = stretched_onto(self.donors[donor], self.length, self.times) - self.seen
        return self._gaps[donor]

    def distance(self, donor: int) -> float:
        """The mean of |gap| / spread."""
        return float((np.abs(self.gap(donor)) / self.spread).mean())

    def limits(self, change: Change) -> tuple[int, int]:
        """The first raw point of the stretch, and the one after its last."""
        return change.start * self.points // self.length, -(-change.end * self.points // self.length)

    def delta(self, change: Change) -> np.ndarray:
        """The change of all values (value channels, raw points), zero outside of the stretch and at gaps."""
        a, b, gap = change.start, change.end, self.gap(change.donor)
        left = (a - 1, gap[a - 1]) if a > 0 else (a, np.zeros(self.channels))
        right = (b, gap[b]) if b < self.length else (b - 1, np.zeros(self.channels))
        share = (np.arange(a, b) - left[0]) / max(right[0] - left[0], 1)
        inside = gap[a:b] - (left[1] + share[:, None] * (right[1] - left[1]))
        first, last = self.limits(change)
        found = np.zeros((self.channels, self.points))
        for channel in change.channels:
            moved = np.zeros(self.length)
            moved[a:b] = inside[:, channel]
            found[channel, first:last] = np.interp(np.arange(first, last), self._centres, moved)
        return np.where(self.observed, change.scale * found, 0.0)

    def changed(self, changes: Sequence[Change]) -> np.ndarray:
        """The raw series with each of the changes, (changes, channels, raw points); gaps stay gaps."""
        found = np.repeat(self.raw[None], len(changes), axis=0)
        for series, change in zip(found, changes, strict=True):
            series[self.rows, : self.points] += self.delta(change)
        return found

    def size(self, change: Change) -> float:
        """The mean of |change| / spread over all values of the series."""
        moved = np.abs(self.delta(change)) / self.spread[:, None]
        return float(moved.sum() / max(1, self.observed.sum()))


def stretched_onto(donor: Donor, length: int, onto: np.ndarray | None) -> np.ndarray:
    """A donor at `length` points, (length, channels): at the same shares of its span as the time stamps `onto`
    (length,) are of theirs, or evenly.

    Examples:
        >>> stretched_onto(Donor(np.array([[0.0], [2.0]]), None), 3, None)[:, 0].tolist()
        [0.0, 1.0, 2.0]
    """
    own, wanted = _shares(donor.times, len(donor.values)), _shares(onto, length)
    return np.stack([np.interp(wanted, own, channel) for channel in donor.values.T], axis=1)


def _shares(times: np.ndarray | None, count: int) -> np.ndarray:
    """How far every point is on the way from the first to the last, (count,), from 0 to 1."""
    if times is None or times[-1] <= times[0]:
        return np.linspace(0.0, 1.0, count)
    return (times - times[0]) / (times[-1] - times[0])


def kept_series(committee: Any) -> tuple[list[Donor], Tensor | None]:
    """Returns the training series that the committee keeps, in the units of the data, and their targets (n,) in the
    units of the committee; None where it does not keep those. Empty for models without landmark series."""
    landmarks = getattr(committee, "landmarks", None)
    if landmarks is None:
        return [], None
    standard, record = committee.standard, committee.left_out
    values = landmarks.values * standard.spread + standard.mean
    known = None if record is None or not record.exact else record.y.cpu()
    return donors_of(SeriesBatch(values, landmarks.lengths, landmarks.times)), known


def donors_of(batch: SeriesBatch) -> list[Donor]:
    """The series of a batch, without padding."""
    values = batch.values.cpu().numpy()
    times = None if batch.times is None else batch.times.cpu().numpy()
    return [
        Donor(values[row, :count], None if times is None else times[row, :count])
        for row, count in enumerate(batch.counts().tolist())
    ]


def nearest_first(canvas: Canvas) -> Canvas:
    """The same canvas with its donors in the order of their distance, of equal ones the first."""
    distance = np.array([canvas.distance(donor) for donor in range(len(canvas.donors))])
    order = np.argsort(distance, kind="stable").tolist()
    donors = [canvas.donors[index] for index in order]
    return Canvas(canvas.raw, canvas.rows, canvas.seen, canvas.times, donors, canvas.spread, canvas.points)


def of_target(donors: list[Donor], fits: Tensor | None) -> list[Donor]:
    """Those that fit the target, (n,) bools; all of them where that is not known."""
    if fits is None:
        return donors
    return [donors[index] for index in torch.nonzero(fits)[:, 0].tolist()]


_DONORS = 4
_AT_ONCE = 32  # donors
_PARTS = 10  # of the grid
_SINGLE = 8  # channels that are tried by themselves
_PROMISING = 24
_BEST = 6
_SCALES = 4
_HALVINGS, _MOST_HALVINGS = 6, 20  # the most for narrow intervals

Judge = Callable[[np.ndarray], np.ndarray]
"""From series (n, channels, points) to numbers, (n,) or (n, classes)."""


@dataclass(frozen=True)
class Tried:
    """A change with its size, its margin (0 or more: it turns the prediction), whether it is predicted as wanted, which
    a number that is changed too far is not, and its p-value, NaN if not known."""

    change: Change
    size: float
    margin: float
    reached: bool
    p: float


class Search:
    """Looks for changes of a canvas that reach a goal. `predict` is what the model predicts for series, `novelty` their
    p-values; those above `plausible` are enough."""

    def __init__(self, canvas: Canvas, goal: Goal, predict: Judge, novelty: Judge, plausible: float) -> None:
        self.canvas, self.goal, self.plausible = canvas, goal, plausible
        self._predict, self._novelty = predict, novelty
        self.strict = False  # whether every step has to stay plausible, where the shortest way is not
        self.pool: list[Tried] = []

    def run(self) -> Tried:
        """The best change; its margin is negative where none turns the prediction."""
        turned = self._coarse()
        if not turned:
            return max(self.pool, key=lambda each: each.margin)
        promising = _promising(turned)
        shrunk = self._judged(self._shrunk(promising))
        if not any(each.p > self.plausible for each in shrunk):
            whole = [each for each in turned if each.change.end - each.change.start == self.canvas.length]
            shrunk += self._more_plausible([*shrunk, *whole[:_BEST]])
            self.strict = any(each.p > self.plausible for each in shrunk)
        best = self._best(shrunk)
        fewer = self._judged(self._shrunk(self._without_channels(best)))
        best = self._best([*best, *fewer])
        if self.strict:
            best = self._best([*best, *self._judged(self._shrunk(best))])
        for _ in range(2):
            best = self._best([*best, *self._judged(self._shrunk(self._narrowed(best)))])
        found = self._best(self.pool)
        return found[0] if found else max(self.pool, key=lambda each: each.margin)

    def _coarse(self) -> list[Tried]:
        """Stretches between points of a grid that turn the prediction; all that is tried is put into the pool."""
        canvas = self.canvas
        everything = tuple(range(canvas.channels))
        whole = self._whole(everything)
        usable = [each for each in whole if each.margin >= 0] or sorted(whole, key=lambda each: -each.margin)
        donors = [each.change.donor for each in usable[:_DONORS]]
        grid = np.unique(np.linspace(0, canvas.length, min(canvas.length, _PARTS) + 1).round().astype(int)).tolist()
        stretches = list(itertools.combinations(grid, 2))
        sets = [everything]
        if canvas.channels > 1:
            gap = np.mean([np.abs(canvas.gap(donor)).mean(axis=0) for donor in donors], axis=0) / canvas.spread
            sets += [(channel,) for channel in np.sort(np.argsort(-gap, kind="stable")[:_SINGLE]).tolist()]
        changes = []
        for channels in sets:
            for donor in donors if channels == everything else donors[:1]:
                changes += [Change(donor, a, b, channels) for a, b in stretches]
        self.pool = whole + self._turning(changes)
        return [each for each in self.pool if each.margin >= 0]

    def _whole(self, channels: tuple[int, ...]) -> list[Tried]:
        """The whole series replaced from the donors, one by one, until enough of them turn the prediction."""
        found: list[Tried] = []
        for start in range(0, len(self.canvas.donors), _AT_ONCE):
            stop = min(start + _AT_ONCE, len(self.canvas.donors))
            found += self._turning([Change(donor, 0, self.canvas.length, channels) for donor in range(start, stop)])
            if sum(each.margin >= 0 for each in found) >= _DONORS:
                break
        return found

    def _turning(self, changes: Sequence[Change]) -> list[Tried]:
        """Changes with their margins, not yet with p-values."""
        if not changes:
            return []
        found = self._predict(self.canvas.changed(changes))
        margins, reached = self.goal.margin(found).tolist(), self.goal.reached(found).tolist()
        return [
            Tried(change, self.canvas.size(change), margin, there, np.nan)
            for change, margin, there in zip(changes, margins, reached, strict=True)
        ]

    def _judged(self, tried: Sequence[Tried]) -> list[Tried]:
        """Those that are predicted as wanted, with p-values; they are put into the pool."""
        turned = [each for each in tried if each.reached]
        if not turned:
            return []
        p = self._novelty(self.canvas.changed([each.change for each in turned]))
        found = [replace(each, p=float(own)) for each, own in zip(turned, p, strict=True)]
        self.pool += found
        return found

    def _shrunk(self, tried: Sequence[Tried]) -> list[Tried]:
        """Each with the smallest scale at which it still turns the prediction, by bisection of all at once."""
        kept = [each for each in tried if each.margin >= 0]
        low = [0.0] * len(kept)
        for halving in range(_MOST_HALVINGS):
            if halving >= _HALVINGS and all(each.reached for each in kept):
                break
            middle = [(one + each.change.scale) / 2 for one, each in zip(low, kept, strict=True)]
            new = self._turning([each.change.with_scale(own) for each, own in zip(kept, middle, strict=True)])
            for index, (each, good) in enumerate(zip(new, self._good(new), strict=True)):
                if good:
                    kept[index] = each
                else:
                    low[index] = middle[index]
        return kept

    def _good(self, tried: Sequence[Tried]) -> list[bool]:
        """Whether each turns the prediction and, where that is asked for, is plausible."""
        turned = [each.margin >= 0 for each in tried]
        if not (self.strict and any(turned)):
            return turned
        p = iter(self._novelty(self.canvas.changed([each.change for each in tried if each.margin >= 0])).tolist())
        return [one and next(p) > self.plausible for one in turned]

    def _more_plausible(self, tried: Sequence[Tried]) -> list[Tried]:
        """Each at scales from its own up to full scale: half of one series and half of another may be like neither."""
        scales = np.linspace(0.0, 1.0, _SCALES + 1)[1:]
        more = [each.change.with_scale(float((1 - s) * each.change.scale + s)) for each in tried for s in scales]
        return self._judged(self._turning(more))

    def _without_channels(self, tried: Sequence[Tried]) -> list[Tried]:
        """Each at full scale with as few channels as possible: those that matter least are left out first."""
        found = []
        for each in tried:
            channels = each.change.channels
            if len(channels) < 2:
                continue
            full = each.change.with_scale(1.0)
            without = [replace(full, channels=tuple(c for c in channels if c != out)) for out in channels]
            loss = np.array([one.margin for one in self._turning(without)])
            order = [channels[index] for index in np.argsort(loss, kind="stable")]  # what matters most is first
            fewer = [replace(full, channels=tuple(sorted(order[:count]))) for count in range(1, len(order))]
            found += [one for one in self._turning(fewer) if one.margin >= 0][:3]
        return found

    def _narrowed(self, tried: Sequence[Tried]) -> list[Tried]:
        """Each with its ends moved inwards, by steps that are halved, as long as it turns the prediction: at full scale
        if it does so there, since that is shrunk afterwards, else at its own."""
        full = self._turning([each.change.with_scale(1.0) for each in tried])
        kept = [one if good else each for one, each, good in zip(full, tried, self._good(full), strict=True)]
        step = max(1, -(-self.canvas.length // (2 * min(self.canvas.length, _PARTS))))
        while step:
            for start, end in ((step, 0), (0, step)):
                moved = [
                    replace(each.change, start=each.change.start + start, end=each.change.end - end)
                    if each.change.end - each.change.start > step
                    else each.change
                    for each in kept
                ]
                new = self._turning(moved)
                for index, (each, good) in enumerate(zip(new, self._good(new), strict=True)):
                    if good and each.size <= kept[index].size:
                        kept[index] = each
            step //= 2
        return kept

    def _best(self, tried: Sequence[Tried]) -> list[Tried]:
        """The first few: plausible ones by their size, then the others by their p-values; one of each stretch."""
        judged = [each for each in tried if each.reached and not np.isnan(each.p)]
        likely = sorted((each for each in judged if each.p > self.plausible), key=lambda each: each.size)
        others = sorted((each for each in judged if not each.p > self.plausible), key=lambda each: (-each.p, each.size))
        found: dict[tuple[int, ...], Tried] = {}
        for each in [*likely, *others]:
            change = each.change
            found.setdefault((change.donor, change.start, change.end, *change.channels), each)
        return list(found.values())[:_BEST]


def _promising(turned: Sequence[Tried]) -> list[Tried]:
    """Half are the smallest changes, half those with the largest margin for their size, which shrink most."""
    small = sorted(turned, key=lambda each: each.size)[: _PROMISING // 2]
    strong = sorted(turned, key=lambda each: -each.margin / max(each.size, 1e-300))
    return small + [each for each in strong if each not in small][: _PROMISING - len(small)]
