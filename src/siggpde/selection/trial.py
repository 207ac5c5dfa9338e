"""The record of one trial: what a candidate's settings became on some series, and how well it predicts those left out.

Candidates with the same path options have the same paths, whatever their scales and words, so these are prepared once
for each way of making them (`ways`, `Prepared`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from siggpde.numerics import inputs
from siggpde.numerics.signature import signature
from siggpde.numerics.words import Word
from siggpde.selection.candidates import Candidate, channel_scales, choose_words
from siggpde.series import PathOptions, PathTransform, SeriesBatch


class Scored(Protocol):
    """What left-out series say of a candidate: at least a score, in nats a series, of which less is better."""

    @property
    def score(self) -> float: ...


Result = TypeVar("Result", bound=Scored)


@dataclass(frozen=True, eq=False)
class Trial(Generic[Result]):
    """A candidate tried: its transform, channel scales theta (channels,), words, and the result on series left out."""

    candidate: Candidate
    transform: PathTransform
    theta: Tensor
    words: list[Word]
    result: Result

    @property
    def settings(self) -> dict[str, Any]:
        """The candidate's settings as plain values, from which `candidate_from_settings` makes it again."""
        return asdict(self.candidate)


class Described(NamedTuple):
    """Series as a candidate sees them: theta (channels,), words (M of them) and features S_M / |S_M| (n, M)."""

    theta: Tensor
    words: list[Word]
    features: Tensor


@dataclass(frozen=True)
class Prepared:
    """The transform of one way of making paths, and the paths of some series."""

    transform: PathTransform
    paths: SeriesBatch

    @staticmethod
    def of(batch: SeriesBatch, options: PathOptions) -> Prepared:
        """The transform fitted to the series of a batch, and their paths."""
        transform = PathTransform(options).fit(batch)
        return Prepared(transform, transform.paths(batch))

    def describe(self, candidate: Candidate) -> Described:
        """What a candidate of this way makes of the paths; an ArithmeticError where its numbers overflow."""
        theta = channel_scales(self.paths, candidate)
        words = choose_words(self.paths, theta, candidate)
        values = signature(self.paths.values * theta, words=words, lengths=self.paths.lengths)
        norms = values.norm(dim=1, keepdim=True)
        if not bool(torch.isfinite(norms).all()):
            inputs.raise_overflow(norms, "the norm of the signature")
        return Described(theta, words, values / norms)

    def trial(self, candidate: Candidate, seen: Described, result: Result) -> Trial[Result]:
        """The record, with a transform of its own."""
        return Trial(candidate, copy.copy(self.transform), seen.theta, seen.words, result)


def ways(candidates: Iterable[Candidate]) -> dict[PathOptions, list[int]]:
    """The places of the candidates of each way of making paths, in the order in which ways first appear."""
    places: dict[PathOptions, list[int]] = {}
    for place, candidate in enumerate(candidates):
        places.setdefault(candidate.options, []).append(place)
    return places


def best_kinds(ranked: Iterable[Trial[Result]], count: int | None = None) -> list[Trial[Result]]:
    """The best trial of each of the `count` best kinds, or of all; the best come first."""
    best: dict[tuple[PathOptions, int | None], Trial[Result]] = {}
    for trial in ranked:
        best.setdefault(trial.candidate.kind, trial)
    return list(best.values())[:count]
