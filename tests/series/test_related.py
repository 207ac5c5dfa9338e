"""Related series: those that were made related are found, and no others."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.series import Preparation
from siggpde.series.related import Related, find_related

RANDOM = np.random.default_rng(0)
WALKS = RANDOM.normal(size=(30, 2, 60)).cumsum(axis=2)


def related(series: Any, time_channel: int | None = None) -> Related:
    series = list(series)
    batch = Preparation(time_channel=time_channel).fit_transform(series)
    return find_related(series, batch, time_channel, Shard(ALONE, len(series)))


def windows(series: Any, width: int, step: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Windows of all the series, and of which series each of them is."""
    cut = [[one[:, start : start + width] for start in range(0, one.shape[1] - width + 1, step)] for one in series]
    return [part for parts in cut for part in parts], np.repeat(np.arange(len(cut)), [len(parts) for parts in cut])


def copies(times: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    made = np.concatenate([WALKS] + [WALKS + noise * RANDOM.normal(size=WALKS.shape) for _ in range(times - 1)])
    return made, np.tile(np.arange(30), times)


def with_clock(made: tuple[list[np.ndarray], np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """The same with time stamps that begin anew in every window, before the other channels."""
    return [np.concatenate([np.arange(one.shape[1])[None], one]) for one in made[0]], made[1]


GAPPY = np.where(RANDOM.random(WALKS.shape) < 0.2, np.nan, WALKS)
RAGGED = [one[:, : 30 + number] for number, one in enumerate(WALKS)]


@pytest.mark.parametrize(
    ("made", "kind", "time_channel"),
    [
        (copies(2, 0.0), "equal", None),
        (copies(5, 1e-3), "near", None),
        (copies(5, 1e-2), "near", None),
        (windows(WALKS, 20, 10), "overlapping", None),
        (windows(WALKS, 20, 2), "overlapping", None),
        (windows(WALKS, 7, 3), "overlapping", None),
        (windows(RAGGED, 20, 5), "overlapping", None),
        (windows(GAPPY, 20, 10), "overlapping", None),
        (with_clock(windows(WALKS, 20, 5)), "overlapping", 0),
    ],
)  # fmt: skip
def test_families_are_those_that_were_made(made: Any, kind: str, time_channel: int | None):
    series, owner = made
    order = np.random.default_rng(1).permutation(len(series))
    found = related([series[row] for row in order], time_channel)
    pairs = set(zip(found.family.tolist(), owner[order], strict=True))
    assert len(pairs) == len(set(owner)) == len(found.family.unique())
    assert getattr(found, kind) == found.count == len(series)
    assert str(found).startswith(f"{len(series)} of {len(series)} training series are related ({len(series)} ")


@pytest.mark.parametrize(
    "series",
    [
        WALKS,
        windows(WALKS, 20, 20)[0],
        np.ones((20, 1, 30)),
        RANDOM.integers(0, 2, size=(200, 1, 12)).astype(float),  # many are equal by chance
        RANDOM.integers(0, 4, size=(200, 1, 30)).astype(float),
        np.sin(np.linspace(0, 6, 30) + np.repeat([0, 2], 20)[:, None])[:, None]
        + 0.05 * RANDOM.normal(size=(40, 1, 30)),
        RANDOM.normal(size=(60, 1, 1)) + np.zeros(30),  # one number tells all of a series
        RANDOM.normal(size=(4, 1, 2)),
    ],
)
def test_other_series_are_unrelated(series: Any):
    assert related(series).count == 0


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(16, 30), st.floats(0.4, 0.95))
def test_steps_between_windows_are_their_distances(seed: int, width: int, overlap: float):
    series = np.random.default_rng(seed).normal(size=(2, 1, 90))
    step = max(1, int(width * (1 - overlap)))
    parts, owner = windows(series, width, step)
    starts = torch.arange(len(parts)) % int((owner == 0).sum()) * step
    found = related(parts)
    assert found.pairs[:, 2].tolist() == (starts[found.pairs[:, 1]] - starts[found.pairs[:, 0]]).tolist()
    assert found.family.tolist() == owner.tolist()


def sizes(groups: torch.Tensor) -> list[int]:
    return sorted(groups.bincount().tolist())


def test_a_recording_that_is_most_of_a_class_is_cut_into_spans_of_time():
    parts, owner = windows(RANDOM.normal(size=(2, 1, 400)).cumsum(axis=2), 20, 4)  # two recordings of 96 windows
    found = related(parts)
    of_recordings = found.groups(torch.from_numpy(owner), 2)
    assert len(of_recordings.unique()) == 12 and sizes(of_recordings) == [16] * 12
    within = torch.arange(96) // 16
    assert of_recordings.tolist() == [*within.tolist(), *(within + 6).tolist()]
    days = torch.arange(192) // 48  # labels that last
    by_day = found.groups(days % 2, 2)
    assert all(len(by_day[days % 2 == label].unique()) >= 3 for label in (0, 1))
    assert torch.equal(found.groups(torch.randn(192), None), of_recordings)


def test_copies_that_are_all_there_is_of_a_class_are_no_group():
    found = related(copies(4, 0.0)[0])
    original = torch.arange(120) % 30
    assert sizes(found.groups(original % 2, 2)) == [4] * 30
    assert sizes(found.groups((original == 0).long(), 2)) == [1] * 4 + [4] * 29
    many = np.concatenate([WALKS, np.repeat(WALKS[:1], 60, axis=0)])
    assert sizes(related(many).groups(torch.arange(90) % 2, 2)) == [1] * 90  # a group of two thirds cannot be left out
