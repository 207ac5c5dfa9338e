r"""New values for a stretch of a series, from another series, joined without a jump.

With x the series and z the donor, stretched to the length of x, the change from point a to point b - 1 is

.. math:: s \, (z_t - x_t - \ell_t), \qquad a \le t < b,

where the straight line :math:`\ell` is z - x at the points a - 1 and b beside the stretch, so that the change ends in
nothing on both sides; at an end of the series, where there is nothing to join, it is 0. s is the scale of the change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

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
