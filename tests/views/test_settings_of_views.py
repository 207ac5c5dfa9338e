"""Which views there are by default, words by degree, scales, and series at mean 0 and spread 1."""

import itertools

import pytest
import torch

from helpers.view_data import ragged, random_walks, standardised
from siggpde.numerics.words import words_of_degree
from siggpde.series import PathOptions, PathTransform, SeriesBatch
from siggpde.views import KernelView, PathView, View, WindowsView
from siggpde.views.base import Standard
from siggpde.views.kinds import KINDS, default_views
from siggpde.views.paths import channel_scales


def batch_of(n: int, length: int, channels: int) -> SeriesBatch:
    return standardised(SeriesBatch(random_walks(n, length, channels)))


def kernels(actual: list[View]) -> list[KernelView]:
    return [view for view in actual if isinstance(view, KernelView)]


def test_all_kinds_are_there_and_settings_reach_them():
    actual = default_views(batch_of(20, 30, 2), 20)
    assert {view.kind for view in actual} == set(KINDS)
    names = [view.name for view in actual if isinstance(view, PathView | KernelView)]
    assert len(set(names)) == len(names) == 10
    assert all(view.max_points == 32 and view.max_pivots >= 20 for view in kernels(actual))
    given = PathOptions(lead_lag=True)
    actual = default_views(batch_of(20, 30, 2), 20, options=given, words=60, seed=7)
    paths = [view for view in actual if isinstance(view, PathView)]
    assert {view.options for view in paths} == {given} and {view.words for view in paths} == {60}
    assert {view.settings.seed for view in actual if isinstance(view, WindowsView)} == {7}
    many = [view.options.append for view in default_views(batch_of(9, 12, 9), 9) if isinstance(view, PathView)]
    assert "arc" in many and "variation" not in many


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_by_themselves(kind: str):
    actual = default_views(batch_of(20, 30, 2), 20, (kind,))
    assert actual and {view.kind for view in actual} == {kind}
    assert not default_views(batch_of(20, 8, 2), 20, ("spectrum",))  # too short


@pytest.mark.parametrize("channels", [2, 30])
def test_kernels_are_paid_for(channels: int):
    """More series have coarser kernels, and those of all series together stay within the seconds that there are."""
    landmarks, cost = batch_of(300, 64, channels), []
    for series in (300, 3000, 100_000, 10_000_000):
        actual = kernels(default_views(landmarks, series))
        seconds = sum(view.seconds(landmarks, series) for view in actual)
        assert seconds <= 2 * (1.0 + 2e-3 * series)
        cost.append([(view.max_points, view.max_pivots) for view in actual])
    assert all(later <= earlier for earlier, later in itertools.pairwise(cost))


def test_seconds_grow_with_points_pivots_and_series():
    landmarks = batch_of(300, 64, 3)
    plain = KernelView("P").seconds(landmarks, 1000)
    assert KernelView("P", max_points=16).seconds(landmarks, 1000) < plain / 2
    assert KernelView("P", max_pivots=75).seconds(landmarks, 1000) < plain / 2
    assert KernelView("P").seconds(landmarks, 4000) > 3 * plain
    assert KernelView("R", bandwidth=1.0).seconds(landmarks, 1000) > plain


@pytest.mark.parametrize(("channels", "degree", "count"), [(2, 1, 60), (3, 2, 200), (4, 1, 30), (1, 3, 100), (5, 2, 1)])
def test_words_of_a_degree(channels: int, degree: int, count: int):
    actual = words_of_degree(channels, degree, count)
    assert actual[0] == () and len(actual) <= max(1, count)
    depth = len(actual[-1])
    every = [word for length in range(depth + 1) for word in itertools.product(range(channels), repeat=length)]
    wanted = [word for word in every if sum(letter > 0 for letter in word) <= degree]
    assert actual == wanted


def test_words_of_paths_are_of_length_one_and_no_more_than_asked():
    batch = batch_of(12, 15, 3)
    for view in (PathView("a"), PathView("a", degree=1), PathView("a", PathOptions(time=False), words=30)):
        block, _ = view.fit(batch)
        (part,) = block.parts(batch)
        torch.testing.assert_close(part.values.norm(dim=1), torch.ones(12).double())
        assert part.values.shape[1] == len(block.words) <= view.words
        assert [len(names) for names in block.names(["x", "y", "z"])] == [len(block.words)]


@pytest.mark.parametrize("length", [2.0, 8.0])
def test_scales_make_the_median_path_as_long_as_asked(length: float):
    paths = PathTransform().fit(ragged()).paths(ragged())
    theta = channel_scales(paths, 3.0, length)
    assert theta[0] == 3 * theta[1] and bool((theta[1:] == theta[1]).all())
    actual = (paths.values * theta).diff(dim=1).norm(dim=2).sum(1)
    assert float(actual.median()) == pytest.approx(length)
    still = SeriesBatch(torch.zeros(3, 4, 2).double())
    assert torch.equal(channel_scales(still, 2.0, length), torch.tensor([2.0, 1.0]).double())


def test_series_at_mean_zero_and_spread_one():
    batch = ragged()
    standard = Standard.fit(batch)
    actual = standard(batch)
    points = actual.values[actual.inside()]
    torch.testing.assert_close(points.mean(0), torch.zeros(2).double(), rtol=0, atol=1e-6)
    torch.testing.assert_close(points.std(0, correction=0), torch.ones(2).double(), rtol=0, atol=1e-6)
    assert torch.equal(actual.values, actual.values.float().double()) and bool(torch.isfinite(actual.values).all())
    last = actual.values[torch.arange(9), actual.counts() - 1]
    assert torch.equal(actual.values[:, -1], last)
    assert float(standard(SeriesBatch(torch.full((1, 2, 2), 1e300, dtype=torch.float64))).values.max()) == 1e5
    moved = standard.to("cpu")
    assert torch.equal(moved.mean, standard.mean) and torch.equal(moved.spread, standard.spread)
