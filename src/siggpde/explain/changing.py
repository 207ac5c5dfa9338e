"""The search for the smallest change of one stretch that turns a prediction.

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

import numpy as np

from siggpde.explain.goals import Goal
from siggpde.explain.replacing import Canvas, Change

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
