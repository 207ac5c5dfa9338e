"""How many members and landmarks a fit on views has, by the size of its series and of the model to be saved."""

from __future__ import annotations

from siggpde.committee.budget import landmarks_for, landmarks_in_a_model
from siggpde.series import SeriesBatch

MAX_LANDMARKS = 1500
MEMBERS, _FEWER_MEMBERS = 8, 5


def most_members(batch: SeriesBatch, total: int, max_landmarks: int) -> int:
    """Eight; but five where with these, and not with eight, all of the `total` series can be landmarks of a small
    model."""
    with_all, with_fewer = (_most_landmarks(batch, members, max_landmarks) for members in (MEMBERS, _FEWER_MEMBERS))
    return _FEWER_MEMBERS if with_all < total <= with_fewer else MEMBERS


def landmark_count(batch: SeriesBatch, total: int, members: int, max_landmarks: int, limit: float | None) -> int:
    """How many of `total` series are landmarks of so many members; `limit` are the seconds that a user allows."""
    most = _most_landmarks(batch, members, max_landmarks)
    return landmarks_for(total, most, batch.values.shape[1], batch.channels, limit)


def _most_landmarks(batch: SeriesBatch, members: int, max_landmarks: int) -> int:
    numbers = batch.values.shape[1] * (batch.channels + (0 if batch.times is None else 2))  # times are float64
    return min(max_landmarks, landmarks_in_a_model(numbers, members))
