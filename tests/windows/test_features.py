"""WindowFeatures: against a plain implementation of the whole chain, and what must hold of fitted features."""

import itertools
import math
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import window_oracle
from helpers.random_paths import few, make
from siggpde.numerics.core import core
from siggpde.series import SeriesBatch
from siggpde.windows import WindowFeatures, WindowSettings
from siggpde.windows.fitting import spread_windows

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
        found = [window_oracle.path_length(window_oracle.path(window, group, view.base_point)) for window in windows]
        path_scales.append(settings.path_length / statistics.median_low(found))
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


def test_units_and_positions_of_channels_do_not_matter():
    x = make("smooth", 1, 10, 40, 3, 3.0)
    settings = WindowSettings(max_dilations=2)
    moved = x * torch.tensor([1e3, 1e-3, 5.0]) + torch.tensor([1.0, -7.0, 30.0])
    a, b = (WindowFeatures.fit(SeriesBatch(one), settings).transform(SeriesBatch(one), double) for one in (x, moved))
    torch.testing.assert_close(a, b, rtol=0, atol=1e-8)


def test_shares_above_training_quantiles():
    x = make("brownian", 2, 60, 60, 1, 3.0)
    settings = WindowSettings(lifts=("x",), max_dilations=1, thresholds=3)
    features = WindowFeatures.fit(SeriesBatch(x), settings)
    shares = next(iter(features.blocks(SeriesBatch(x), double))).values.unflatten(1, (7, 26))[:, 4:].mean(0)
    wanted = torch.tensor([0.75, 0.5, 0.25]).double()[:, None].expand(3, 26)
    torch.testing.assert_close(
        shares, wanted, rtol=0, atol=1 / 3120
    )  # a window of 60 times 52, all of which are looked at


@few
@given(st.integers(1, 4), st.integers(4, 40), st.integers(0, 2**31))
def test_rounding_moves_no_training_window_across_a_threshold(channels, length, seed):
    x = make("brownian", seed, 10, length, channels, 3.0)
    x[3:5] = 0.0  # still series: many words that are equal
    rounded = x * (1 + 1e-15 * torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)).double())
    a, b = (
        WindowFeatures.fit(SeriesBatch(one), WindowSettings(max_windows=20)).transform(SeriesBatch(one), double)
        for one in (x, rounded)
    )
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
    with pytest.raises(ValueError, match="3 channels, but those of fit had 2"):
        features.transform(SeriesBatch(torch.zeros(1, 5, 3).double()))


@few
@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(1, 60))
def test_spread_windows_are_every_kth(counts, most):
    series, windows = spread_windows(torch.tensor(counts), most)
    everything = [(i, k) for i, count in enumerate(counts) for k in range(count)]
    chosen = list(zip(series.tolist(), windows.tolist(), strict=True))
    assert chosen == everything[:: max(1, len(everything) // most)]
    assert len(chosen) <= max(2 * most, 1) and len(chosen) >= min(most, len(everything))
