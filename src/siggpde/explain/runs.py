"""The few stretches of a series that matter most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

_COUNTS = 0.25  # of the largest contribution: segments of less are not told


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
