"""Which views of the series there are: lifts, windows, dilations, depths and groups of channels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.numerics.windows import LIFTS, Lift, WindowView

_JOINT_CHANNELS = 3  # so many channels are in one path; more are cut into groups


@dataclass(frozen=True)
class WindowSettings:
    """The settings of window features; the defaults were chosen by accuracy on archive data sets.

    - `lifts`: what is looked at (`WindowView.lift`).
    - `points`: of a window; series with a median length below twice as many have windows of max(3, length / 2) points.
    - `max_dilations`: windows are dilated by 1, 2, 4, .. while they span at most the median length; of more than so
      many, evenly spaced ones are kept. Before dilating by D, all lifts but "dx" are averaged over D / 2 points.
    - `max_windows`: of a series. `max_channels`: of a view with more than three channels.
    - `thresholds`: how many quantiles of the training series there are shares of windows above.
    - `path_length`: of the median window, time included.
    - `seed`: of the generator that draws groups of channels.

    Examples:
        >>> views = WindowSettings(lifts=("x",)).views(1, torch.tensor([40, 40, 20]))
        >>> [(view.points, view.dilation, view.smoothing, view.base_point) for view in views]
        [(9, 1, 1, False), (9, 1, 1, True), (9, 2, 1, False), (9, 2, 1, True), (9, 4, 2, False), (9, 4, 2, True)]
    """

    lifts: tuple[Lift, ...] = LIFTS
    points: int = 9
    max_dilations: int = 8
    max_windows: int = 128
    max_channels: int = 12
    thresholds: int = 5
    path_length: float = 4.0
    seed: int = 0

    def __post_init__(self) -> None:
        listed = isinstance(self.lifts, list | tuple)
        unknown = not listed or [lift for lift in self.lifts if lift not in LIFTS]
        if unknown or not self.lifts or len(set(self.lifts)) < len(self.lifts):
            raise ValueError(f"lifts must be some of {', '.join(LIFTS)}, each once, got {self.lifts!r}")
        least = {"points": 3, "max_dilations": 1, "max_windows": 1, "max_channels": 2, "thresholds": 0}
        for name, minimum in least.items():
            if getattr(self, name) < minimum:
                raise ValueError(f"{name} must be at least {minimum}, got {getattr(self, name)}")
        if not self.path_length > 0:
            raise ValueError(f"path_length must be positive, got {self.path_length}")

    def views(self, channels: int, lengths: Tensor) -> list[WindowView]:
        """The views of series with so many channels; lengths (n,) are those of the training series."""
        random = torch.Generator().manual_seed(self.seed)
        views = []
        for lift in self.lifts:
            lifted = (lengths - 1).clamp_min(1) if lift == "dx" else lengths
            median = int(lifted.median())
            points = self.points if median >= 2 * self.points else max(3, median // 2)
            for dilation in dilations(points, median, self.max_dilations):
                smoothing = 1 if lift == "dx" else max(1, dilation // 2)
                for base_point in (False, True):
                    groups, depth = channel_groups(channels, self.max_channels, base_point, random)
                    views.append(
                        WindowView(
                            channels, groups, points, depth, dilation, smoothing, lift, base_point, self.max_windows
                        )
                    )
        return views


def dilations(points: int, length: int, most: int) -> list[int]:
    """Powers of two by which a window can be dilated in `length` points, at least 1; at most `most`, evenly spaced.

    Examples:
        >>> dilations(9, 100, 8), dilations(9, 100, 3), dilations(9, 5, 8)
        ([1, 2, 4, 8], [1, 4, 8], [1])
    """
    powers = [2**i for i in range(12) if (points - 1) * 2**i + 1 <= length] or [1]
    if len(powers) <= most:
        return powers
    last = len(powers) - 1
    return sorted({powers[round(j * last / (most - 1))] for j in range(most)} if most > 1 else powers[:1])


def channel_groups(
    channels: int, most: int, base_point: bool, random: torch.Generator
) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Groups of channels that have a path together, and the depth of its signature.

    Up to three channels are one group: depth 4 for one, 3 for two or three. Of more channels, `most` are drawn, which
    are single with base point (what matters is where they are) and paired without (how they move together): depth 3.
    """
    if channels <= _JOINT_CHANNELS:
        return (tuple(range(channels)),), 4 if channels == 1 else 3
    drawn = torch.randperm(channels, generator=random).tolist()[:most]
    size = 1 if base_point else 2
    return tuple(tuple(drawn[i : i + size]) for i in range(0, len(drawn), size)), 3
