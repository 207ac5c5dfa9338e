"""What the screening tries: settings, the words and scales that follow from them, and in which order to try."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.word_choice import grow_pool
from siggpde.paths import PathOptions
from siggpde.word_sets import Word, count_up_to, words_up_to

_SERIES_FOR_POOL = 128
_MOST_LETTERS = 10


@dataclass(frozen=True)
class Candidate:
    """Settings to try.

    - `options`: how a series becomes a path.
    - `path_length`: the median length of a path after scaling.
    - `time_scale`: the weight of the time channel against the others before scaling.
    - `words`: the most words.
    - `degree`: the most letters of a word that are not time; 1 makes predictions linear in the series, None sets no
      bound. Words with much time and few others see *when* something happens in many channels.
    """

    options: PathOptions = field(default_factory=PathOptions)
    path_length: float = 8.0
    time_scale: float = 1.0
    words: int = 2000
    degree: int | None = None

    @property
    def kind(self) -> tuple[PathOptions, int | None]:
        """What makes candidates different in kind and not in a number."""
        return self.options, self.degree


def as_candidate(facts: Mapping[str, Any]) -> Candidate:
    """The candidate whose fields these are, among other things."""
    own = {name: facts[name] for name in ("path_length", "time_scale", "words", "degree")}
    return Candidate(PathOptions(**facts["options"]), **own)


def path_options(channels: int) -> list[PathOptions]:
    """The ways to make a path of a series with so many channels, the plain one first."""
    found = [PathOptions(), PathOptions(base_point=False), PathOptions(append="arc")]
    if 1 < channels <= 12:
        found.append(PathOptions(append="variation"))
    if channels <= 6:
        found.append(PathOptions(lead_lag=True))
    return found


def first_round(channels: int, words: int) -> list[Candidate]:
    """Every kind, at a few scales."""
    found = []
    for options in path_options(channels):
        for time_scale in (1.0, 4.0, 16.0):
            for length in (4.0, 12.0):
                found.append(Candidate(options, length, time_scale, words))
                found.append(Candidate(options, length, time_scale, words, degree=2))
        found.append(Candidate(options, 8.0, 4.0, words, degree=1))
    return found


def neighbours(candidate: Candidate, words: int) -> list[Candidate]:
    """The same kind with more words, at scales around those of the candidate."""
    base = replace(candidate, words=words)
    found = [base]
    found += [replace(base, path_length=base.path_length * factor) for factor in (0.6, 1.6)]
    found += [replace(base, time_scale=base.time_scale * factor) for factor in (0.5, 2.0)]
    return found


def best_kinds(ranked: Iterable[Candidate], count: int) -> list[Candidate]:
    """The best candidate of each of the `count` best kinds."""
    found: dict[tuple[PathOptions, int | None], Candidate] = {}
    for candidate in ranked:
        found.setdefault(candidate.kind, candidate)
    return list(found.values())[:count]


def scales(paths: Tensor, candidate: Candidate) -> Tensor:
    """Channel scales that give the paths the median length asked for; time, channel 0, weighs `time_scale`."""
    weights = torch.ones(paths.shape[2], dtype=torch.float64, device=paths.device)
    if candidate.options.time:
        weights[0] = candidate.time_scale
    steps = (paths * weights).diff(dim=1).norm(dim=2).sum(dim=1)
    median = float(steps.median())
    return weights * (candidate.path_length / median if median > 0 else 1.0)


def choose_words(paths: Tensor, counts: Tensor | None, theta: Tensor, candidate: Candidate) -> list[Word]:
    """All words of the candidate's degree up to the deepest level that fits, or those with the most energy."""
    channels, most = len(theta), candidate.words
    if candidate.degree is not None and candidate.options.time:
        return of_degree(channels, candidate.degree, most)
    depth = 1
    while depth < 12 and count_up_to(channels, depth + 1) <= most:
        depth += 1
    if depth >= 3 and count_up_to(channels, depth) >= 0.8 * most:
        return words_up_to(channels, depth)
    rows = torch.arange(0, len(paths), max(1, len(paths) // _SERIES_FOR_POOL))
    kernel = SignatureKernel(channels, theta=theta)
    return grow_pool(kernel, paths[rows], None if counts is None else counts[rows], most)


def of_degree(channels: int, degree: int, most: int) -> list[Word]:
    """All words with at most `degree` letters other than 0, level by level while at most `most` in all.

    Examples:
        >>> of_degree(2, 1, 7)
        [(), (0,), (1,), (0, 0), (0, 1), (1, 0)]
    """
    found: list[Word] = [()]
    level: list[tuple[Word, int]] = [((), 0)]
    for _ in range(_MOST_LETTERS):
        level = [
            ((*word, letter), others + (letter > 0))
            for word, others in level
            for letter in range(channels)
            if others + (letter > 0) <= degree
        ]
        if len(found) + len(level) > most:
            break
        found += [word for word, _ in level]
    return found
