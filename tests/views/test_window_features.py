"""Features of windows: against a plain implementation of the whole chain, their settings, scales and names."""

import itertools
import math
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import window_oracle
from helpers.random_paths import few, make
from helpers.refusals import assert_refused
from siggpde.numerics.core import core
from siggpde.series import SeriesBatch
from siggpde.views import window_features
from siggpde.views.window_features import WindowFeatures, WindowSettings, dilations, feature_names

double = torch.float64


def threshold(values: list[float], share: float) -> float:
    """Midway in the gap next to a quantile, the upper one of two; a little above values that are all the same."""
    ordered = sorted(values)
    rank = share * (len(ordered) - 1)
    gaps = [k for k in range(1, len(ordered)) if ordered[k] - ordered[k - 1] > 1e-10]
    if not gaps:
        return ordered[-1] + 1e-6
    nearest = min(gaps, key=lambda k: (round(abs(k - 0.5 - rank), 9), -k))
    return (ordered[nearest - 1] + ordered[nearest]) / 2


def plain_features(series: list[list[list[float]]], settings: WindowSettings) -> list[tuple[str, list[list[float]]]]:
    """(block, [series][feature]) of all views, fitted to the same series, by loops over numbers.

    Series are [series][time][channel]; all windows of all series are looked at, so there must be fewer than 4000.
    """
    channels = range(len(series[0][0]))
    columns = [[point[c] for one in series for point in one] for c in channels]
    mean, spread = [statistics.fmean(c) for c in columns], [statistics.pstdev(c) for c in columns]
    series = [[[(point[c] - mean[c]) / spread[c] for c in channels] for point in one] for one in series]
    random, out = torch.Generator().manual_seed(settings.seed), []
    for lift in settings.lifts:
        raw = [window_oracle.lifted(one, lift, [1.0 for _ in channels]) for one in series]
        scale = [1.0 for _ in channels]
        if lift in ("dx", "cum"):
            count = sum(map(len, raw))
            scale = [math.sqrt(sum(p[c] ** 2 for one in raw for p in one) / count) for c in channels]
        median = statistics.median_low([len(one) for one in raw])
        points = settings.points if median >= 2 * settings.points else max(3, median // 2)
        dilation = 1
        while dilation == 1 or (points - 1) * dilation + 1 <= median:
            for base_point in (False, True):
                groups, depth = [list(channels)], 4 if len(channels) == 1 else 3
                if len(channels) > 3:
                    drawn = torch.randperm(len(channels), generator=random).tolist()[: settings.max_channels]
                    groups = [drawn[i : i + 2 - base_point] for i in range(0, len(drawn), 2 - base_point)]
                view = window_oracle.WindowView(
                    channels=len(channels),
                    groups=tuple(map(tuple, groups)),
                    points=points,
                    depth=depth,
                    dilation=dilation,
                    smoothing=1 if lift == "dx" else max(1, dilation // 2),
                    lift=lift,
                    base_point=base_point,
                    max_windows=settings.max_windows,
                )
                out += plain_view(series, view, scale, settings)
            dilation *= 2
    return out


def plain_view(series, view, scale, settings):
    windows = [window for one in series for window in window_oracle.windows(one, view, scale)]
    path_scales = []
    for group in view.groups:
        actual = [window_oracle.path_length(window_oracle.path(window, group, view.base_point)) for window in windows]
        path_scales.append(settings.path_length / statistics.median_low(actual))
    words = [window_oracle.features(window, view, path_scales) for window in windows]
    q = settings.thresholds
    thresholds = [[threshold(list(c), (j + 1) / (q + 1)) for c in zip(*words, strict=True)] for j in range(q)]
    pooled = [window_oracle.pooled(one, view, scale, path_scales, thresholds) for one in series]
    flat = itertools.chain.from_iterable
    return [
        (view.lift + "1", [list(flat(whole)) for whole, _ in pooled]),
        (view.lift + "3", [list(flat(flat(thirds))) for _, thirds in pooled]),
    ]


@pytest.mark.parametrize(
    ("channels", "length", "ragged"), [(1, 40, False), (2, 20, False), (5, 11, False), (1, 30, True)]
)
def test_the_whole_chain_by_plain_loops(channels, length, ragged):
    x = make("brownian", 7, 4, length, channels, 3.0)
    lengths = torch.tensor([length, length - 3, 2, length - 9]) if ragged else None
    batch = SeriesBatch(x, lengths)
    settings = WindowSettings(max_windows=5, max_channels=3, thresholds=2, seed=3)
    features = WindowFeatures.fit(batch, settings)
    series = [one[:count].tolist() for one, count in zip(x, batch.counts().tolist(), strict=True)]
    expected = plain_features(series, settings)
    blocks = list(features.blocks(batch, double))
    assert [block.name for block in blocks] == [name for name, _ in expected]
    for block, (_, values) in zip(blocks, expected, strict=True):
        torch.testing.assert_close(block.values, torch.tensor(values, dtype=double), rtol=0, atol=1e-7)
    whole = features.transform(batch, double)
    assert torch.equal(whole, torch.cat([block.values for block in blocks], 1))
    assert features.widths() == [block.values.shape[1] for block in blocks]


@few
@given(st.integers(1, 5), st.integers(2, 40), st.integers(0, 2**31), st.sampled_from([double, torch.float32]))
def test_a_series_depends_on_nothing_else(channels, length, seed, dtype):
    x = make("spiky", seed, 12, length, channels, 3.0)
    lengths = torch.randint(1, length + 1, (12,), generator=torch.Generator().manual_seed(seed))
    lengths[0] = length
    batch = SeriesBatch(x, lengths)
    features = WindowFeatures.fit(batch, WindowSettings(max_windows=9, lifts=("dx", "cum")))
    together = features.transform(batch, dtype)
    for row in (0, 5, 11):
        alone = features.transform(SeriesBatch(x[row : row + 1, : int(lengths[row])]), dtype)[0]
        if core is not None:
            assert torch.equal(alone, together[row])
        torch.testing.assert_close(alone, together[row])


def test_shares_are_above_training_quantiles_and_units_do_not_matter():
    x = make("brownian", 2, 60, 60, 1, 3.0)
    settings = WindowSettings(lifts=("x",), max_dilations=1, thresholds=3)
    features = WindowFeatures.fit(SeriesBatch(x), settings)
    shares = next(iter(features.blocks(SeriesBatch(x), double))).values.unflatten(1, (7, 26))[:, 4:].mean(0)
    wanted = torch.tensor([0.75, 0.5, 0.25]).double()[:, None].expand(3, 26)
    torch.testing.assert_close(shares, wanted, rtol=0, atol=1 / 3120)  # a window of 60 times 52: all are looked at
    x = make("smooth", 1, 10, 40, 3, 3.0)
    settings = WindowSettings(max_dilations=2)
    moved = x * torch.tensor([1e3, 1e-3, 5.0]) + torch.tensor([1.0, -7.0, 30.0])
    a, b = (WindowFeatures.fit(SeriesBatch(one), settings).transform(SeriesBatch(one), double) for one in (x, moved))
    torch.testing.assert_close(a, b, rtol=0, atol=1e-8)


@few
@given(st.integers(1, 4), st.integers(4, 40), st.integers(0, 2**31))
def test_rounding_moves_no_training_window_across_a_threshold(channels, length, seed):
    x = make("brownian", seed, 10, length, channels, 3.0)
    x[3:5] = 0.0  # still series: many words that are equal
    rounded = x * (1 + 1e-15 * torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)).double())
    settings = WindowSettings(max_windows=20)
    a, b = (WindowFeatures.fit(SeriesBatch(one), settings).transform(SeriesBatch(one), double) for one in (x, rounded))
    torch.testing.assert_close(b, a, rtol=0, atol=1e-9)


def test_state_is_all_there_is():
    x = make("brownian", 2, 10, 30, 5, 3.0)
    features = WindowFeatures.fit(SeriesBatch(x), WindowSettings(seed=4))
    again = WindowFeatures.from_state(features.state())
    assert again.settings == features.settings
    assert torch.equal(again.transform(SeriesBatch(x)), features.transform(SeriesBatch(x)))
    other = WindowFeatures.fit(SeriesBatch(x), WindowSettings(seed=5))
    assert [v.view.groups for v in other.views] != [v.view.groups for v in features.views]


def test_a_constant_channel_and_a_single_short_series():
    x = make("brownian", 2, 10, 30, 2, 3.0)
    x[:, :, 1] = 4.0
    features = WindowFeatures.fit(SeriesBatch(x))
    assert torch.isfinite(features.transform(SeriesBatch(x))).all()
    x[0, :, 1] += torch.arange(30.0)
    assert torch.isfinite(features.transform(SeriesBatch(x))).all()
    one = SeriesBatch(torch.ones(1, 1, 1).double())
    assert torch.isfinite(WindowFeatures.fit(one).transform(one)).all()
    assert_refused("3 channels, but those of fit had 2", features.transform, SeriesBatch(torch.zeros(1, 5, 3).double()))


@few
@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(1, 60))
def test_spread_windows_are_every_kth(counts, most):
    series, windows = window_features.spread_windows(torch.tensor(counts), most)
    everything = [(i, k) for i, count in enumerate(counts) for k in range(count)]
    chosen = list(zip(series.tolist(), windows.tolist(), strict=True))
    assert chosen == everything[:: max(1, len(everything) // most)]
    assert len(chosen) <= max(2 * most, 1) and len(chosen) >= min(most, len(everything))


def test_every_feature_has_a_name_of_its_own():
    for channels in (1, 3, 5):
        batch = SeriesBatch(make("brownian", 1, 5, 40, channels, 3.0))
        features = WindowFeatures.fit(batch, WindowSettings(max_windows=5))
        names = feature_names(features, [f"c{i}" for i in range(channels)])
        assert len(names) == len(set(names)) == features.transform(batch).shape[1]
        alike = feature_names(features, ["time"] * channels)
        assert len(set(alike)) == len(names) and "x dilation 1: mean of time 0" in alike
    # A series that rises in its first third only, and falls at once at the end, seen through windows of increments.
    flat, rise = torch.zeros(36), torch.linspace(0, 9, 12)
    x = torch.cat([rise, 9 + flat[:24]]).double()
    x[-1] = 0.0
    batch = SeriesBatch(torch.stack([x, flat.double()])[:, :, None])
    settings = WindowSettings(lifts=("x",), max_dilations=1, thresholds=1)
    features = WindowFeatures.fit(batch, settings)
    names = feature_names(features, ["level"])
    table = dict(zip(names, features.transform(batch, torch.float64)[0].tolist(), strict=True))
    head = "x dilation 1: "
    assert table[head + "mean of level, first third"] > 0.02
    assert table[head + "mean of level, last third"] < 0 < table[head + "largest of level"]
    assert table[head + "smallest of level"] < 0
    assert abs(table[head + "mean of level, middle third"]) < table[head + "mean of level, first third"]
    assert 0 < table[head + "share of level above q1/2"] < 1
    assert table[head + "deviation of level"] > 0
    # The word of time, then level, and the other way round: by parts, their sum is the product of both increments.
    assert "x dilation 1 base point: mean of time–level–level" in table


def test_kernels_of_blocks_have_unit_diagonal_without_features_that_do_not_vary():
    batch = SeriesBatch(make("brownian", 1, 60, 40, 2, 3.0))
    features = WindowFeatures.fit(batch, WindowSettings(lifts=("x", "dx")))
    scaler, training = window_features.WindowScaler.fit_transform(features.blocks(batch))
    assert {block.name for block in training} == {"x1", "x3", "dx1", "dx3"}
    for block in training:
        assert abs(float(block.values.square().sum(1).mean()) - 1) < 0.05  # n / (n - 1), and what is cut off
        assert block.values.abs().max() <= 8 / block.values.shape[1] ** 0.5 + 1e-6
    for mine, theirs in zip(training, scaler(features.blocks(batch)), strict=True):
        assert torch.equal(mine.values, theirs.values) and mine[:2] == theirs[:2]
    again = window_features.WindowScaler.from_state(scaler.state())
    for mine, theirs in zip(training, again(features.blocks(batch)), strict=True):
        assert torch.equal(mine.values, theirs.values)
    values = torch.tensor([[0.0, 3.0, 1.0], [2.0, 3.0, 1.0], [4.0, 3.0, 1.0]])
    scaler, (block,) = window_features.WindowScaler.fit_transform([window_features.WindowBlock("x1", 0, values)])
    assert torch.equal(block.values, torch.tensor([[-1.0], [0.0], [1.0]]))
    (new,) = scaler([window_features.WindowBlock("x1", 0, torch.tensor([[1e6, 7.0, 7.0], [-1e6, 0.0, 0.0]]))])
    assert torch.equal(new.values, torch.tensor([[8.0], [-8.0]]))
    _, (nothing,) = window_features.WindowScaler.fit_transform([window_features.WindowBlock("x1", 0, values[:1])])
    assert nothing.values.shape == (1, 0)


def test_windows_of_settings():
    assert dilations(9, 315, 8) == [1, 2, 4, 8, 16, 32]
    assert dilations(9, 9, 8) == [1] and dilations(9, 2, 8) == [1] and dilations(9, 17, 8) == [1, 2]
    assert dilations(3, 2**12, 12) == [2**i for i in range(11)] + [2**11 for _ in range(0)]
    assert dilations(3, 2**12, 3) == [1, 2**5, 2**10] and dilations(3, 2**12, 1) == [1]

    def points(length: int) -> list[int]:
        settings = WindowSettings(lifts=("x", "dx"), max_dilations=1)
        return [view.points for view in settings.views(1, torch.tensor([length]))]

    assert points(19) == [9, 9, 9, 9]
    assert points(18) == [9, 9, 8, 8]  # one increment less
    assert points(17) == [8, 8, 8, 8]
    assert points(1) == [3, 3, 3, 3]
    views = WindowSettings(lifts=("x",)).views(1, torch.tensor([10, 40, 40, 1000]))
    assert max(view.span for view in views) == 33


def test_groups_of_channels():
    random = torch.Generator().manual_seed(0)
    assert window_features.channel_groups(1, 12, False, random) == (((0,),), 4)
    assert window_features.channel_groups(3, 12, True, random) == (((0, 1, 2),), 3)
    for channels in (4, 7, 12, 30):
        pairs, depth = window_features.channel_groups(channels, 12, False, random)
        singles, same_depth = window_features.channel_groups(channels, 12, True, random)
        kept = min(channels, 12)
        assert depth == same_depth == 3
        for groups, sizes in ((pairs, {1, 2} if kept % 2 else {2}), (singles, {1})):
            drawn = [c for group in groups for c in group]
            assert len(drawn) == len(set(drawn)) == kept and set(drawn) <= set(range(channels))
            assert {len(group) for group in groups} == sizes
    one, same = (WindowSettings(seed=1).views(9, torch.tensor([60])) for _ in range(2))
    assert one == same and len({view.groups for view in one}) > len(one) / 2
    assert [v.smoothing for v in one if v.lift == "x"] == [1, 1, 1, 1, 2, 2]
    assert {v.smoothing for v in one if v.lift == "dx"} == {1}
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    WindowSettings().views(9, torch.tensor([60]))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_errors_name_the_setting():
    wrong = [
        ({"lifts": ("x", "log")}, "lifts must be some of x, dx, cum, zn, each once"),
        ({"lifts": ("x", "x")}, "each once"),
        ({"lifts": ()}, "lifts must be"),
        ({"points": 2}, "points must be at least 3, got 2"),
        ({"max_windows": 0}, "max_windows must be at least 1"),
        ({"path_length": 0.0}, "path_length must be positive"),
    ]
    for settings, message in wrong:
        assert_refused(message, WindowSettings, **settings)
