"""WindowView: one way to look at a series through windows, and the words that its signatures have."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

from siggpde.numerics.words import Word, count_up_to, words_up_to

Lift = Literal["x", "dx", "cum", "zn"]
LIFTS: tuple[Lift, ...] = get_args(Lift)  # in the order of the core's codes
MAX_DEPTH = 8
OVERFLOWING = "the signature of a window"  # what errors call it
_MAX_COLUMNS = 2**20


@dataclass(frozen=True)
class WindowView:
    """Windows of `points` points, `dilation` apart, of the lifted series, and the depth of their signatures.

    - `channels`: of the series. `groups`: the channels that a path has beside time; one path, and one set of words, for
      each group.
    - `lift`: what is looked at: "x" the series, "dx" its increments, "cum" the running sum of its deviations from its
      mean, "zn" the series less its mean, divided by its standard deviation (plus 0.001).
    - `smoothing`: the lifted series is averaged over so many consecutive points first.
    - `base_point`: every window starts with a step from the origin, so that position counts and not only shape.
    - `max_windows`: of a series; the distance of their starts is the smallest that gives no more.

    Examples:
        >>> view = WindowView(channels=2, groups=((0, 1),), points=9, dilation=4, smoothing=2, depth=2)
        >>> view.span, view.columns
        (33, 10)
        >>> view.window_counts(torch.tensor([100, 20])).tolist()
        [67, 1]
    """

    channels: int
    groups: tuple[tuple[int, ...], ...]
    points: int
    depth: int
    dilation: int = 1
    smoothing: int = 1
    lift: Lift = "x"
    base_point: bool = False
    max_windows: int = 128

    def __post_init__(self) -> None:
        if self.lift not in LIFTS:
            raise ValueError(f"lift must be one of {', '.join(LIFTS)}, got {self.lift!r}")
        for name, least in (("points", 2), ("depth", 1), ("dilation", 1), ("smoothing", 1), ("max_windows", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.depth > MAX_DEPTH:
            raise ValueError(f"depth must be at most {MAX_DEPTH}, got {self.depth}")
        if not self.groups or not all(self.groups):
            raise ValueError(f"groups must be tuples of channels, at least one in each, got {self.groups}")
        outside = [c for group in self.groups for c in group if not 0 <= c < self.channels]
        if outside:
            raise ValueError(f"groups has channel {outside[0]}, but the series have channels 0 to {self.channels - 1}")
        if self.columns > _MAX_COLUMNS:
            raise ValueError(f"depth {self.depth} gives a window {self.columns} words; lower it, or use smaller groups")

    @property
    def span(self) -> int:
        """Points from the first to the last of a window."""
        return (self.points - 1) * self.dilation + 1

    @property
    def used(self) -> tuple[int, ...]:
        """The channels that occur in a group, ascending."""
        return tuple(sorted({c for group in self.groups for c in group}))

    @cached_property
    def column_counts(self) -> tuple[int, ...]:
        """Words of each group: all up to the depth, except those of time alone, (), (0,), (0, 0), .."""
        return tuple(count_up_to(1 + len(group), self.depth) - self.depth - 1 for group in self.groups)

    @property
    def columns(self) -> int:
        """Words of a window, M."""
        return sum(self.column_counts)

    def words(self) -> list[tuple[tuple[int, ...], Word]]:
        """(group, word) of each column. Letter 0 is time, letter j the j-th channel of the group, from 1 on."""
        return [(g, w) for g in self.groups for w in words_up_to(1 + len(g), self.depth) if any(w)]

    def lifted_lengths(self, lengths: Tensor) -> Tensor:
        """Points of the lifted and smoothed series, (n,), for series of the given lengths (n,)."""
        lifted = (lengths - 1).clamp_min(1) if self.lift == "dx" else lengths
        return (lifted - self.smoothing + 1).clamp_min(1)

    def strides(self, lengths: Tensor) -> Tensor:
        """Distance of the starts of windows, (n,), for series of the given lengths (n,)."""
        return _divided_up(self._starts(lengths), self.max_windows)

    def window_counts(self, lengths: Tensor) -> Tensor:
        """Windows of each series, (n,), at least one; one that is longer than its series holds the last value."""
        starts = self._starts(lengths)
        return _divided_up(starts, _divided_up(starts, self.max_windows))

    def _starts(self, lengths: Tensor) -> Tensor:
        """Where windows could start, (n,)."""
        return (self.lifted_lengths(lengths) - self.span + 1).clamp_min(1)


def _divided_up(a: Tensor, b: Tensor | int) -> Tensor:
    """a / b, rounded up."""
    return torch.div(a + (b - 1), b, rounding_mode="floor")
