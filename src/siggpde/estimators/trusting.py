"""What estimators say about their own predictions: how new a series is, and how uncertain the latents are."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.committee.novelty import Novelty, Scores
from siggpde.series import SeriesBatch

_FIT_AGAIN = (
    "it was fitted by an earlier version of siggpde, which did not keep what that needs: fit the model again to have it"
)


class NoveltyWarning(UserWarning):
    """Series to be predicted are unlike all training series."""


@dataclass(frozen=True)
class Newness:
    """How new n series are: p-values (n,), not joined to the training series; and of each series that is unlike all
    training series what is unusual about it, None for the others."""

    p: np.ndarray
    unlike: list[str | None]


def novelty_of(committee: Committee) -> Novelty:
    """The novelty of a committee; a ValueError where it has none."""
    if committee.novelty is None:
        raise ValueError(f"this model cannot tell how new a series is; {_FIT_AGAIN}")
    return committee.novelty


def p_values(committee: Committee, batch: SeriesBatch, by_class: bool) -> tuple[Tensor, Scores]:
    """Returns p-values (n,), or by class (n, classes), of the series of a batch, and their scores."""
    if by_class and novelty_of(committee).labels is None:
        raise ValueError("by_class=True is for classifiers; numbers have no classes")
    return committee.p_values(batch, by_class)


def newness(novelty: Novelty, scores: Scores, channels: tuple[str, ...]) -> Newness:
    """How new the series are that have these scores: what predictions know without another look at the series."""
    alarms = novelty.alarms(scores.score).tolist()
    unlike = [reason if alarm else None for reason, alarm in zip(scores.reasons(channels), alarms, strict=True)]
    return Newness(novelty.p_values(scores.score).numpy(), unlike)


def unlike_line(total: int, first: Any, found: Mapping[str, int]) -> str:
    """What is said when some of `total` series are unlike all training series: `found` counts them by reason.

    Examples:
        >>> unlike_line(10, 3, {"length": 2, "shape": 1})[46:]
        '(first: series 3; length is unusual in 2 of them); their predictions tell little'
    """
    count = sum(found.values())
    commonest = max(sorted(found), key=lambda reason: found[reason])
    share = "all of them" if found[commonest] == count else f"{found[commonest]} of them"
    return (
        f"{count} of {total} series {'is' if count == 1 else 'are'} unlike all training series "
        f"(first: series {first}; {commonest} is unusual in {share}); their predictions tell little"
    )


def warn_of_novelty(novelty: Novelty, scores: Scores, channels: tuple[str, ...]) -> None:
    """One warning for all series that are unlike the training series, with their number and the commonest reason."""
    unlike = newness(novelty, scores, channels).unlike
    first = next(number for number, reason in enumerate(unlike) if reason is not None)
    counts = Counter(reason for reason in unlike if reason is not None)
    warnings.warn(unlike_line(len(unlike), first, counts), NoveltyWarning, stacklevel=_callers_level())


def _callers_level() -> int:
    """The `stacklevel` with which a warning of the calling function names the first line outside of siggpde."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("siggpde."):
        frame, level = frame.f_back, level + 1
    return level


def as_arrays(p: Tensor, scores: Scores, names: list[str] | None, with_score: bool) -> Any:
    """What `novelty` returns: p-values alone, or with scores and reasons."""
    parts: list[Any] = [p.numpy()]
    if with_score:
        parts.append(scores.score.numpy())
    if names is not None:
        parts.append(np.array(names, dtype=object))
    return parts[0] if len(parts) == 1 else tuple(parts)
