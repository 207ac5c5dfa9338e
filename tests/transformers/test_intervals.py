"""Windows of series: where they lie, for every length."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.random_paths import modest
from siggpde.series import SeriesBatch
from siggpde.transformers.signature import Interval, intervals

Settings = tuple[Any, Any, Any, Any]


def spans(found: tuple[Interval, ...], points: int) -> list[tuple[int, int]]:
    """First and last point of each window in a series of so many points."""
    ends = [window.points(torch.tensor([points])) for window in found]
    return [(int(first), int(last)) for first, last in ends]


def test_in_series_of_the_length_of_fit_windows_are_counted_in_points():
    assert spans(intervals("whole", None, None, None, 9), 9) == [(0, 8)]
    assert spans(intervals("sliding", 4, 2, None, 10), 10) == [(0, 3), (2, 5), (4, 7), (6, 9)]
    assert spans(intervals("sliding", 4, 4, None, 10), 10) == [(0, 3), (4, 7), (6, 9)]  # the last one is at the end
    assert spans(intervals("expanding", 4, 3, None, 10), 10) == [(0, 3), (0, 6), (0, 9)]
    assert spans(intervals("expanding", 4, 4, None, 10), 10) == [(0, 3), (0, 7), (0, 9)]
    assert spans(intervals("dyadic", None, None, 2, 9), 9) == [
        (0, 8), (0, 4), (4, 8), (0, 2), (2, 4), (4, 6), (6, 8)
    ]  # fmt: skip
    assert spans(intervals("sliding", 10, None, None, 10), 10) == [(0, 9)]


def test_shares_and_defaults():
    assert spans(intervals("sliding", 0.5, 0.25, None, 9), 9) == [(0, 4), (2, 6), (4, 8)]
    assert intervals("sliding", 0.5, None, None, 9) == intervals("sliding", 5, 2, None, 9)
    assert intervals("sliding", None, None, None, 41) == intervals("sliding", 0.25, 0.125, None, 41)
    assert [str(window) for window in intervals("expanding", None, None, None, 41)] == [
        "0–25 %", "0–50 %", "0–75 %", "0–100 %"
    ]  # fmt: skip


shares = st.floats(0.01, 1)
kinds = st.one_of(
    st.tuples(
        st.sampled_from(["sliding", "expanding"]),
        st.floats(0.01, 1),
        st.one_of(st.none(), st.floats(0.01, 1)),
        st.none(),
    ),
    st.tuples(st.just("dyadic"), st.none(), st.none(), st.one_of(st.none(), st.integers(1, 4))),
    st.just(("whole", None, None, None)),
)


@modest
@given(kinds, st.integers(17, 60), st.integers(1, 90))
def test_windows_of_any_length_lie_in_the_series_and_reach_its_ends(settings: Settings, points: int, other: int):
    found = intervals(*settings, points)
    here = spans(found, other)
    assert len(here) == len(found)
    for first, last in here:
        assert 0 <= first <= last <= other - 1 and (last > first or other == 1)
    assert min(first for first, _ in here) == 0 and max(last for _, last in here) == other - 1
    scaled = [(window.start * (other - 1) / window.last, window.stop * (other - 1) / window.last) for window in found]
    for (first, last), (start, stop) in zip(here, scaled, strict=True):
        assert abs(first - start) <= 1 and abs(last - stop) <= 1


@modest
@given(st.integers(17, 90), st.integers(1, 4))
def test_neighbours_share_a_point(points: int, depth: int):
    found = spans(intervals("dyadic", None, None, depth, 33), points)
    finest = found[-(2**depth) :]
    assert finest[0][0] == 0 and all(a[1] == b[0] for a, b in itertools.pairwise(finest))


@modest
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), kinds)
def test_cutting_a_batch_is_cutting_each_series(lengths: list[int], settings: Settings):
    longest = max(lengths)
    values = torch.arange(len(lengths) * longest * 2).double().reshape(len(lengths), longest, 2)
    times = values[:, :, 0] * 2
    equal = len(set(lengths)) == 1
    batch = SeriesBatch(values, None if equal else torch.tensor(lengths), times, first=7)
    for window in intervals(*settings, 20):
        part = window.cut(batch)
        assert part.first == 7 and part.times is not None
        for i, length in enumerate(lengths):
            first, last = (int(end) for end in window.points(torch.tensor(length)))
            count = int(part.counts()[i])
            assert torch.equal(part.values[i, :count], values[i, first : last + 1])
            assert torch.equal(part.times[i, :count], times[i, first : last + 1])
            assert torch.isfinite(part.values).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ("hopping", None, None, None),
            "window must be one of 'whole', 'sliding', 'dyadic', 'expanding', got",
        ),
        ((3, None, None, None), "window must be one of .* got 3"),
        (("whole", 3, None, None), "window_length is for sliding and expanding windows, not for window='whole'; leave"),
        (("dyadic", None, 0.5, None), "window_step is for sliding and expanding windows, not for window='dyadic'"),
        (("sliding", None, None, 2), "window_depth is for dyadic windows, not for window='sliding'; leave it out"),
        (("dyadic", None, None, 5), "cuts a series into 32 parts, but those of fit have 20 points .*; the most is 4"),
        (("dyadic", None, None, 0), "window_depth must be an integer of at least 1, got 0"),
        (("sliding", 30, None, None), "window_length=30 is longer than the series of fit, which have 20 points"),
        (("sliding", 1, None, None), "window_length must be an integer of at least 2, got 1"),
        (
            ("expanding", 1.5, None, None),
            "window_length must be .* or a share between 0 and 1, got 1.5",
        ),
        (("sliding", 5, 0, None), "window_step must be an integer of at least 1, got 0"),
        (("sliding", 5, 0.0, None), "window_step must be a number of points or a share"),
    ],
)
def test_settings_that_make_no_sense(settings: Settings, message: str):
    with pytest.raises(ValueError, match=message):
        intervals(*settings, 20)
