"""What estimators say about their own predictions: how new a series is, and how uncertain the latents are."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.committee.novelty import Novelty, Scores, joined_variances
from siggpde.committee.predictions import spread_of
from siggpde.committee.view_committee import AveragedMembers, ViewCommittee
from siggpde.series import SeriesBatch

_JOINED = 2**23  # numbers of joined variances at a time
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


def novelty_of(committee: Any) -> Novelty:
    """The novelty of a committee; a ValueError where it has none."""
    novelty = getattr(committee, "novelty", None)
    if novelty is None:
        raise ValueError(f"this model cannot tell how new a series is; {_FIT_AGAIN}")
    return novelty


@torch.no_grad()
def p_values(committee: Any, batch: SeriesBatch, by_class: bool) -> tuple[Tensor, Scores]:
    """p-values (n,) or (n, classes) of the series of a batch, and their scores."""
    novelty = novelty_of(committee)
    if by_class and novelty.labels is None:
        raise ValueError("by_class=True is for classifiers; numbers have no classes")
    scores = scores_of(committee, batch)
    record = getattr(committee, "left_out", None)
    if not isinstance(committee, ViewCommittee) or record is None or not record.exact or record.groups is not None:
        return novelty.p_values(scores.score, by_class=by_class), scores
    size = max(1, _JOINED // (len(committee.members) * len(record.y)))
    parts = []
    for part, score in zip(batch.split(size), scores.score.split(size), strict=True):
        parts.append(novelty.p_values(score, joined_variances(committee, part), by_class))
    return torch.cat(parts), scores


def scores_of(committee: Any, batch: SeriesBatch) -> Scores:
    """The scores of the series of a batch."""
    if isinstance(committee, AveragedMembers):
        scores = committee.judged(batch).scores
        assert scores is not None
        return scores
    assert batch.facts is not None
    return novelty_of(committee).scores(spread_of(committee, batch), batch.facts)


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
    if bool(novelty.alarms(scores.score).any()):
        unlike = newness(novelty, scores, channels).unlike
        first = next(number for number, reason in enumerate(unlike) if reason is not None)
        found = Counter(reason for reason in unlike if reason is not None)
        warnings.warn(unlike_line(len(unlike), first, found), NoveltyWarning, stacklevel=_callers_level())


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
