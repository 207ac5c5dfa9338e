"""The few stretches of a series that matter most, and what its channels do there, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

_COUNTS = 0.25  # of the largest contribution: segments of less are not told
_MOVES = 0.5  # spreads of a channel by which it has to move to rise or fall, or to differ from what is ordinary


class Run(NamedTuple):
    """The segments first <= s <= last of a channel, by their numbers."""

    channel: int
    first: int
    last: int


def main_runs(contributions: Tensor, most: int) -> list[Run]:
    """The runs with the largest sums of contributions (segments, channels), largest first, at most so many.

    A run is made of neighbours with contributions of one sign, each at least a quarter of the largest.
    """
    least = _COUNTS * float(contributions.abs().max())
    if least == 0:
        return []
    sides = torch.where(contributions.abs() >= least, contributions.sign(), 0.0).T.tolist()
    runs = [Run(channel, *ends) for channel, own in enumerate(sides) for ends in _runs(own)]
    runs.sort(key=lambda run: -abs(float(contributions[run.first : run.last + 1, run.channel].sum())))
    return runs[:most]


def _runs(sides: list[float]) -> Iterator[tuple[int, int]]:
    """First and last of neighbours that are equal and not 0."""
    start = 0
    for end in range(1, len(sides) + 1):
        if end == len(sides) or sides[end] != sides[start]:
            if sides[start] != 0:
                yield start, end - 1
            start = end


def movement(values: Tensor, ordinary: Tensor, spread: float) -> str:
    """What the values (points,) do, beside ordinary ones, in units of the spread of their channel.

    A straight line is fitted. If it rises or falls by half a spread, and by more than the values depart from it, that
    is told; else whether the mean is half a spread above or below what is ordinary; else whether there is movement.

    Examples:
        >>> line = torch.linspace(0.0, 2.0, 9)
        >>> movement(line, 0 * line, 1.0), movement(1 + 0 * line, 0 * line, 1.0), movement(-line, 0 * line, 10.0)
        ('rises', 'is high', 'is steady')
    """
    places = torch.linspace(-0.5, 0.5, len(values), dtype=values.dtype, device=values.device)
    scale = spread if spread > 0 else 1.0
    centred = (values - values.mean()) / scale
    total = float(places.square().sum())
    rise = float(places @ centred) / total if total > 0 else 0.0
    apart = 2 * float((centred - rise * places).square().mean().sqrt())
    level = float((values - ordinary).mean()) / scale
    if abs(rise) >= max(_MOVES, apart):
        return "rises" if rise > 0 else "falls"
    if abs(level) >= _MOVES:
        return "is high" if level > 0 else "is low"
    return "goes up and down" if apart >= _MOVES else "is steady"
