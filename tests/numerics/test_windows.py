"""Pooled window signatures and thresholds near quantiles, against plain loops and identities."""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers import window_oracle
from helpers.random_paths import few, make, modest
from helpers.refusals import assert_refused
from siggpde.numerics import native, reference
from siggpde.numerics.core import core
from siggpde.numerics.windows import (
    LIFTS,
    FeatureScale,
    PooledWindows,
    ScaledView,
    ScaledWindows,
    ViewedSeries,
    WindowView,
    empty_pooled,
    pool_windows,
    separating_thresholds,
    window_path_lengths,
    window_signatures,
)

needs_core = pytest.mark.skipif(core is None, reason="the native core is not there")
distances, dtypes = st.sampled_from([0.0, 1e-3, 0.1, 10.0]), st.sampled_from([torch.float64, torch.float32])
GROUPS = {  # those with compiled numbers of letters first
    1: (((0,),), 4),
    2: (((0, 1),), 3),
    3: (((1, 2, 0),), 3),
    4: (((3,), (0,), (1,)), 3),
    6: (((5, 0, 1, 2), (4,)), 2),
    7: (((2, 6), (0,)), 5),
}


@st.composite
def views(draw: st.DrawFn) -> WindowView:
    channels = draw(st.sampled_from(sorted(GROUPS)))
    groups, depth = GROUPS[channels]
    return WindowView(
        channels=channels,
        groups=groups,
        depth=depth,
        points=draw(st.integers(2, 9)),
        dilation=draw(st.sampled_from([1, 2, 4, 8, 13])),
        smoothing=draw(st.sampled_from([1, 2, 3, 4, 7])),
        lift=draw(st.sampled_from(LIFTS)),
        base_point=draw(st.booleans()),
        max_windows=draw(st.sampled_from([1, 2, 3, 10, 128])),
    )


@st.composite
def cases(draw: st.DrawFn, most: int = 40, longest: int = 60):
    """A view, series, lengths or None, and the numbers that are fitted; float64."""
    view, seed = draw(views()), draw(st.integers(0, 2**31))
    random = torch.Generator().manual_seed(seed)
    n, length = draw(st.integers(1, most)), draw(st.integers(1, longest))
    x = make(draw(st.sampled_from(["smooth", "brownian", "spiky"])), seed, n, length, view.channels, 3.0)
    lengths = torch.randint(1, length + 1, (n,), generator=random) if draw(st.booleans()) else None
    numbers = {
        "lift_scale": 0.5 + torch.rand(view.channels, generator=random).double(),
        "path_scales": 0.3 + torch.rand(len(view.groups), generator=random).double(),
        "thresholds": 0.3 * torch.randn(draw(st.integers(0, 5)), view.columns, generator=random).double(),
    }
    return view, x, lengths, numbers


exact = partial(torch.tensor, dtype=torch.float64)


def padded_with_nan(x: Tensor, lengths: Tensor | None) -> Tensor:
    if lengths is None:
        return x
    return torch.where((torch.arange(x.shape[1]) < lengths[:, None])[:, :, None], x, float("nan"))


def pool_by(backend, x, lengths, view, numbers):
    out = empty_pooled(len(x), view, len(numbers["thresholds"]), x)
    lift_scale, path_scales, thresholds = (numbers[k].to(x.dtype) for k in numbers)
    backend.pool_windows(ViewedSeries(x, lengths, view, lift_scale, 1), path_scales, thresholds, out)
    return out


@needs_core
@modest
@given(cases())
def test_native_is_reference(case):
    view, x, lengths, numbers = case
    mine = pool_by(native, padded_with_nan(x, lengths), lengths, view, numbers)
    theirs = pool_by(reference, padded_with_nan(x, lengths), lengths, view, numbers)
    torch.testing.assert_close(mine[0], theirs[0], rtol=0, atol=1e-7)  # a deviation of 0 has the root of a rounding
    torch.testing.assert_close(mine[1], theirs[1], rtol=0, atol=1e-12)
    without = [0, 2, 3, *range(4, mine[0].shape[1])]
    torch.testing.assert_close(mine[0][:, without], theirs[0][:, without], rtol=0, atol=1e-12)


@needs_core
@modest
@given(cases())
def test_float32_is_float64_up_to_rounding(case):
    view, x, lengths, numbers = case
    single = pool_by(native, x.float(), lengths, view, numbers)
    shifted = {move: {**numbers, "thresholds": numbers["thresholds"] + move} for move in (-1e-4, 0.0, 1e-4)}
    more, double, fewer = (pool_by(native, x.float().double(), lengths, view, shifted[move]) for move in shifted)
    torch.testing.assert_close(single[0][:, :4].double(), double[0][:, :4], rtol=0, atol=1e-4)
    torch.testing.assert_close(single[1][:, :1].double(), double[1][:, :1], rtol=0, atol=1e-4)
    # A value next to a threshold may be on either side of it.
    for part in (0, 1):
        first = 4 if part == 0 else 1
        share = single[part][:, first:].double()
        assert (share <= more[part][:, first:] + 1e-6).all() and (share >= fewer[part][:, first:] - 1e-6).all()


@pytest.mark.parametrize("backend", [pytest.param(native, marks=needs_core), reference])
@few
@given(cases(most=3, longest=25))
def test_both_are_the_plain_loops(backend, case):
    view, x, lengths, numbers = case
    if view.columns > 100:  # takes the loops long
        view = WindowView(view.channels, (view.groups[-1],), view.points, 2, view.dilation, view.smoothing, view.lift)
        numbers |= {"path_scales": numbers["path_scales"][:1], "thresholds": torch.zeros(2, view.columns).double()}
    whole, thirds = pool_by(backend, padded_with_nan(x, lengths), lengths, view, numbers)
    for row, series in enumerate(x):
        points = series[: x.shape[1] if lengths is None else lengths[row]].tolist()
        expected = window_oracle.pooled(points, view, *(numbers[k].tolist() for k in numbers))
        # Shares: values that are 0 but for rounding may be above a threshold of 0.
        torch.testing.assert_close(whole[row, :4], exact(expected[0][:4]), rtol=0, atol=1e-7)
        torch.testing.assert_close(thirds[row, 0], exact(expected[1][0]), rtol=0, atol=1e-12)
        if bool(numbers["thresholds"].all()):
            torch.testing.assert_close(whole[row], exact(expected[0]), rtol=0, atol=1e-7)
            torch.testing.assert_close(thirds[row], exact(expected[1]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", [pytest.param(native, marks=needs_core), reference])
@few
@given(cases(most=20, longest=40))
def test_chosen_windows_are_those_that_are_pooled(backend, case):
    view, x, lengths, numbers = case
    counts = view.window_counts(torch.full((len(x),), x.shape[1]) if lengths is None else lengths)
    series = torch.repeat_interleave(torch.arange(len(x)), counts)
    windows = torch.cat([torch.arange(count) for count in counts.tolist()])
    order = torch.randperm(len(series), generator=torch.Generator().manual_seed(0))
    series, windows = series[order], windows[order]
    scale, path_scales, _ = numbers.values()
    viewed = ViewedSeries(x, lengths, view, scale, 1)
    words = backend.window_signatures(viewed, path_scales, (series, windows))
    whole, _ = pool_by(backend, x, lengths, view, numbers)
    for row in range(len(x)):
        of_series = words[series == row]
        torch.testing.assert_close(of_series.mean(0), whole[row, 0], rtol=0, atol=1e-12)
        # To the last bit: a quantile of chosen words is compared with the same words when they are pooled.
        assert torch.equal(of_series.amax(0), whole[row, 2]) and torch.equal(of_series.amin(0), whole[row, 3])
    lengths_of_paths = backend.window_path_lengths(viewed, (series, windows))
    at = int(order[0]) % len(series)
    points = x[series[at], : x.shape[1] if lengths is None else lengths[series[at]]].tolist()
    window = window_oracle.windows(points, view, scale.tolist())[windows[at]]
    expected = [window_oracle.path_length(window_oracle.path(window, g, view.base_point)) for g in view.groups]
    torch.testing.assert_close(lengths_of_paths[at], exact(expected))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@modest
@given(cases(), st.integers(0, 39))
def test_a_row_depends_on_nothing_else(dtype, case, row):
    view, x, lengths, numbers = case
    row, x = row % len(x), padded_with_nan(x, lengths).to(dtype)
    whole, thirds = pool_windows(x, view, **numbers, lengths=lengths, n_jobs=1)
    of_series = x[row : row + 1, : x.shape[1] if lengths is None else int(lengths[row])]
    alone = pool_windows(of_series, view, **numbers)
    if core is not None:
        assert torch.equal(alone.whole[0], whole[row]) and torch.equal(alone.thirds[0], thirds[row])
    threads = pool_windows(x, view, **numbers, lengths=lengths, n_jobs=3)
    assert torch.equal(threads.whole, whole) and torch.equal(threads.thirds, thirds)


@needs_core
@modest
@given(cases(most=20), st.integers(0, 2**31), st.sampled_from([1, 3]))
def test_features_of_several_views_are_those_of_each_and_of_a_series_alone(case, seed, threads):
    view, x, lengths, numbers = case
    random = torch.Generator().manual_seed(seed)

    def scale(statistics: int, share: float) -> FeatureScale:
        count = statistics * view.columns
        kept = (torch.rand(count, generator=random) < share).nonzero()[:, 0]
        return FeatureScale(
            kept, torch.randn(len(kept), generator=random), 0.1 + torch.rand(len(kept), generator=random)
        )

    q = len(numbers["thresholds"])
    given = [numbers[name] for name in ("path_scales", "thresholds", "lift_scale")]
    sizes = 4 + q, 3 * (1 + (q + 1) // 2)
    views = [
        ScaledView(replace(view, points=points), *given, *(scale(size, share) for size in sizes))
        for points, share in ((view.points, 1.0), (2, 0.5), (3, 0.0), (4, 0.9))
    ]
    windows, series = ScaledWindows(tuple(views)), padded_with_nan(x, lengths)
    whole = windows(series, lengths, range(4), threads)
    assert torch.equal(whole, windows.pooled(series, lengths, range(4)))
    widths = [len(of_view.kept) for given in views for of_view in (given.whole, given.thirds)]
    assert torch.equal(windows(series, lengths, range(1, 3)), whole[:, sum(widths[:2]) : sum(widths[:6])])
    for row in range(len(x)):
        alone = series[row : row + 1, : x.shape[1] if lengths is None else int(lengths[row])]
        assert torch.equal(windows(alone, None, range(4))[0], whole[row])


def test_results_go_where_they_are_wanted():
    x = make("brownian", 1, 20, 30, 2, 3.0)
    view = WindowView(2, ((0, 1),), 5, 3)
    numbers = {"path_scales": torch.ones(1), "thresholds": torch.zeros(3, view.columns)}
    expected = pool_windows(x, view, **numbers)
    table = torch.full((20, 3 + 16 * view.columns), 7.0).double()
    rest, first, second = table.split([3, 7 * view.columns, 9 * view.columns], 1)
    out = PooledWindows(first.unflatten(1, (7, -1)), second.unflatten(1, (3, 3, -1)))
    pool_windows(x, view, **numbers, out=out)
    assert torch.equal(first, expected.whole.flatten(1)) and torch.equal(second, expected.thirds.flatten(1))
    assert (rest == 7).all()
    message, wrong = r"out\.thirds must have shape \(20, 3, 3, 36\)", PooledWindows(out.whole, out.thirds[:, :2])
    assert_refused(message, pool_windows, x, view, **numbers, out=wrong)
    turned = PooledWindows(torch.empty(20, 36, 7).double().mT, out.thirds)
    assert_refused(r"the rows of out\.whole must be contiguous", pool_windows, x, view, **numbers, out=turned)


def test_shapes_of_series_that_say_nothing():
    view = WindowView(1, ((0,),), 4, 3, base_point=False)
    numbers = {"path_scales": torch.ones(1), "thresholds": torch.full((1, view.columns), 1e-9)}
    whole, thirds = pool_windows(torch.full((2, 30, 1), 7.0).double(), view, **numbers)
    assert not whole.any() and not thirds.any()  # nothing moves, and words of time alone are left out
    assert whole.shape == (2, 5, 11) and thirds.shape == (2, 2, 3, 11)
    assert pool_windows(torch.zeros(0, 30, 1), view, **numbers).whole.shape == (0, 5, 11)


@few
@given(cases(most=4))
def test_what_position_and_scale_change(case):
    view, x, lengths, numbers = case
    moved = pool_windows(x + 5, view, **numbers, lengths=lengths).whole[:, 0]
    before = pool_windows(x, view, **numbers, lengths=lengths).whole[:, 0]
    if view.lift != "x" or not view.base_point:
        torch.testing.assert_close(moved, before, rtol=0, atol=1e-10)
    assert (before.square().sum(1) <= len(view.groups) + 1e-9).all()  # |S^a| / |S| are parts of unit vectors


def test_very_large_series():
    view = WindowView(1, ((0,),), 9, 4)
    numbers = {"path_scales": torch.ones(1), "thresholds": torch.zeros(1, view.columns)}
    x = make("brownian", 3, 20, 50, 1, 3.0).abs().cumsum(1)  # rising: nothing cancels
    x[::2] *= 1e7  # squares of words of four letters are out of the range of float32
    expected = pool_windows(x, view, **numbers).whole
    torch.testing.assert_close(pool_windows(x.float(), view, **numbers).whole.double(), expected, rtol=0, atol=3e-4)
    small = pool_windows(x[1::2].float(), view, **numbers).whole
    if core is not None:
        assert torch.equal(pool_windows(x.float(), view, **numbers).whole[1::2], small)
    x[6] *= 1e26
    with pytest.raises(OverflowError, match="the signature of a window of series 6 is too large for"):
        pool_windows(x.float(), view, **numbers)


def test_errors_name_the_culprit():
    view = WindowView(2, ((0, 1),), 4, 2)
    numbers = {"path_scales": torch.ones(1), "thresholds": torch.zeros(1, view.columns)}
    bad, x, one = torch.zeros(3, 10, 2), torch.zeros(3, 10, 2), torch.ones(1, dtype=torch.int64)
    bad[1, 5, 1] = float("nan")
    pool_windows(bad, view, **numbers, lengths=[10, 5, 10])
    for series, wrong, message in (
        (bad, {}, "series 1, at time index 5, channel 1"),
        (torch.zeros(3, 10, 3), {}, "view is of series with 2 channels, but x has 3"),
        (x, {"path_scales": torch.ones(2)}, r"path_scales must have shape \(1,\), got \(2,\)"),
        (x, {"thresholds": torch.ones(2)}, "thresholds must have shape"),
        (x, {"lift_scale": torch.zeros(2)}, "lift_scale must be positive, got 0"),
    ):
        assert_refused(message, pool_windows, series, view, **(numbers | wrong))
    message = r"windows\[0\] is 7, but series 1 has 7 windows"
    assert_refused(message, window_signatures, x, view, one, 7 * one, path_scales=torch.ones(1))
    assert_refused("series must be from 0 to 2, got 3 to 3", window_path_lengths, x, view, 3 * one, one)
    message = r"shape \(m, M\) with m at least 1, got \(0, 3\)"
    assert_refused(message, separating_thresholds, torch.zeros(0, 3), 2, distinct=1e-10, clearance=1e-6)
    for wrong in ({"lift": "log"}, {"points": 1}, {"depth": 9}, {"groups": ()}, {"groups": ((2,),)}, {"smoothing": 0}):
        settings = {"channels": 2, "groups": ((0,),), "points": 4, "depth": 2} | wrong
        assert_refused(r"must be|has channel 2", WindowView, **settings)


def plain_thresholds(column: list[float], count: int, distinct: float, clearance: float) -> list[float]:
    v, out = sorted(column), []
    gaps = [k for k in range(1, len(v)) if v[k] - v[k - 1] > distinct]
    for j in range(1, count + 1):
        rank = Fraction(j * (len(v) - 1), count + 1)
        k = min(gaps, key=lambda k: (abs(Fraction(2 * k - 1, 2) - rank), -k), default=None)
        out.append(v[-1] + clearance if k is None else (v[k - 1] + v[k]) / 2)
    return out


@modest
@given(st.integers(1, 300), st.integers(1, 30), st.integers(0, 7), distances, dtypes)
def test_a_search_through_all_gaps_says_the_same(m, columns, count, distinct, dtype):
    values = torch.randn(m, columns, generator=torch.Generator().manual_seed(m)).double()
    values[:, ::3] = values[:, ::3].round()  # ties
    values[:, 1::4] = torch.where(values[:, 1::4] > 1, values[:, 1::4], 0.0)  # most are equal
    values[:, ::7] = 1.0
    values = values.to(dtype)
    before = values.clone()
    computed = separating_thresholds(values, count, distinct=distinct, clearance=0.5)
    by_column = [plain_thresholds(column, count, distinct, 0.5) for column in values.double().T.tolist()]
    assert torch.equal(computed, torch.tensor(by_column, dtype=torch.float64).T)
    assert torch.equal(values, before)
    assert torch.equal(reference.separating_thresholds(values.double(), count, distinct, 0.5, 1), computed)


@modest
@given(st.integers(1, 300), st.integers(1, 6), st.integers(0, 2**31))
def test_roundings_and_the_order_of_values_move_none_across(m, count, seed):
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(m, 8, generator=random).double()
    values[:, ::2] = values[:, ::2].mul(3).round() / 3
    thresholds = separating_thresholds(values, count, distinct=1e-10, clearance=1e-6)
    assert bool((thresholds.diff(dim=0) >= 0).all())
    assert float((values[:, None] - thresholds).abs().min()) > 4.9e-11
    rounded = values + 1e-13 * torch.randn(m, 8, generator=random).double()
    again = separating_thresholds(rounded[torch.randperm(m, generator=random)], count, distinct=1e-10, clearance=1e-6)
    torch.testing.assert_close(again, thresholds, rtol=0, atol=1e-12)
    assert torch.equal(rounded[:, None] > again, values[:, None] > thresholds)
