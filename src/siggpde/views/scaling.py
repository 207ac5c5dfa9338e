"""Scales of the channels of paths, and words by their number of letters other than time."""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.paths import SeriesBatch
from siggpde.word_sets import Word

_MAX_LETTERS = 10


def channel_scales(paths: SeriesBatch, time_scale: float, path_length: float) -> Tensor:
    """Scales theta (channels,) at which the median length of the paths is `path_length`.

    All channels have the same scale but time, channel 0, whose scale is `time_scale` times that of the others.
    """
    weights = torch.ones(paths.channels, dtype=torch.float64, device=paths.values.device)
    weights[0] = time_scale
    lengths = (paths.values * weights).diff(dim=1).norm(dim=2).sum(dim=1)
    median = float(lengths.median())
    return weights * (path_length / median if median > 0 else 1.0)


def words_of_degree(channels: int, degree: int, count: int) -> list[Word]:
    """The words with at most `degree` letters other than 0: as many whole levels as have `count` words in all.

    Examples:
        >>> words_of_degree(2, 1, 7)
        [(), (0,), (1,), (0, 0), (0, 1), (1, 0)]
    """
    words: list[Word] = [()]
    level: list[tuple[Word, int]] = [((), 0)]
    for _ in range(_MAX_LETTERS):
        level = [
            ((*word, letter), others + (letter > 0))
            for word, others in level
            for letter in range(channels)
            if others + (letter > 0) <= degree
        ]
        if len(words) + len(level) > count:
            break
        words += [word for word, _ in level]
    return words
