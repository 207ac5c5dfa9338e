"""Candidate settings for the screening, and the words and channel scales that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.word_choice import grow_pool
from siggpde.numerics.words import Word, count_up_to, words_of_degree, words_up_to
from siggpde.series import PathOptions, SeriesBatch
from siggpde.views import scaling

_SERIES_FOR_WORDS = 128


@dataclass(frozen=True)
class Candidate:
    """Settings to try.

    - `options`: how a series becomes a path.
    - `path_length`: the median length of a path after scaling.
    - `time_scale`: the weight of the time channel against the others before scaling.
    - `words`: the maximum number of words.
    - `degree`: the maximum number of letters of a word that are not time; 1 makes predictions linear in the series,
      None sets no bound. Words of many time letters and few others tell *when* something happens in many channels.
    """

    options: PathOptions = field(default_factory=PathOptions)
    path_length: float = 8.0
    time_scale: float = 1.0
    words: int = 2000
    degree: int | None = None

    @property
    def kind(self) -> tuple[PathOptions, int | None]:
        """Path options and degree; candidates of one kind differ in scales and number of words only."""
        return self.options, self.degree


def candidate_from_settings(settings: Mapping[str, Any]) -> Candidate:
    """The candidate whose fields are among these settings, which may have other keys too."""
    fields = {name: settings[name] for name in ("path_length", "time_scale", "words", "degree")}
    return Candidate(PathOptions(**settings["options"]), **fields)


def path_options(channels: int) -> list[PathOptions]:
    """The path options to try for series of this many channels, the default first."""
    options = [PathOptions(), PathOptions(base_point=False), PathOptions(append="arc")]
    if 1 < channels <= 12:
        options.append(PathOptions(append="variation"))
    if channels <= 6:
        options.append(PathOptions(lead_lag=True))
    return options


def first_round(channels: int, words: int) -> list[Candidate]:
    """Candidates of every kind, at a few scales each."""
    candidates = []
    for options in path_options(channels):
        for time_scale in (1.0, 4.0, 16.0):
            for length in (4.0, 12.0):
                candidates.append(Candidate(options, length, time_scale, words))
                candidates.append(Candidate(options, length, time_scale, words, degree=2))
        candidates.append(Candidate(options, 8.0, 4.0, words, degree=1))
    return candidates


def neighbours(candidate: Candidate, words: int) -> list[Candidate]:
    """The same kind with more words, at scales around those of the candidate."""
    base = replace(candidate, words=words)
    lengths = [replace(base, path_length=base.path_length * factor) for factor in (0.6, 1.6)]
    times = [replace(base, time_scale=base.time_scale * factor) for factor in (0.5, 2.0)]
    return [base, *lengths, *times]


def channel_scales(paths: SeriesBatch, candidate: Candidate) -> Tensor:
    """The scales theta (channels,) of a candidate for these paths (`siggpde.views.scaling.channel_scales`)."""
    return scaling.channel_scales(paths, candidate.time_scale if candidate.options.time else 1.0, candidate.path_length)


def choose_words(paths: SeriesBatch, theta: Tensor, candidate: Candidate) -> list[Word]:
    """At most `candidate.words` words for paths scaled by theta (channels,).

    Those of its degree, level by level; without a degree whole levels where they nearly fill the number, else the words
    of the highest energy E[S(X)^a²].
    """
    channels, count = len(theta), candidate.words
    if candidate.degree is not None and candidate.options.time:
        return words_of_degree(channels, candidate.degree, count)
    depth = 1
    while depth < 12 and count_up_to(channels, depth + 1) <= count:
        depth += 1
    if depth >= 3 and count_up_to(channels, depth) >= 0.8 * count:
        return words_up_to(channels, depth)
    rows = torch.arange(0, len(paths), max(1, len(paths) // _SERIES_FOR_WORDS))
    kernel = SignatureKernel(channels, theta=theta)
    return grow_pool(kernel, paths[rows], count)


def describe(candidate: Candidate) -> str:
    """The settings of a candidate in plain English."""
    parts = [describe_options(candidate.options)]
    parts += [f"words of degree {candidate.degree}"] if candidate.degree else []
    return ", ".join([*parts, f"path length {candidate.path_length:.3g}", f"weight of time {candidate.time_scale:.3g}"])


def describe_options(options: PathOptions) -> str:
    """How a series becomes a path, in plain English."""
    parts = ["base point" if options.base_point else "no base point"]
    parts += [f"{options.append} channels"] if options.append == "variation" else []
    parts += ["arc-length channel"] if options.append == "arc" else []
    parts += ["lead-lag"] if options.lead_lag else []
    parts += [f"difference {options.difference}"] if options.difference else []
    return ", ".join(parts)
