"""Gaps against numpy's interpolation of one channel at a time; long series against plain averages."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.random_paths import modest
from helpers.series_batches import times_of
from siggpde.paths import SeriesBatch, collect, fill_gaps, pool

NAN = float("nan")


def ragged(lengths: list[int], channels: int, gaps: float, seed: int) -> list[np.ndarray]:
    """Series with gaps anywhere but in the first point of the first channel and the last of the last."""
    random = np.random.default_rng(seed)
    x = [random.normal(size=(channels, length)) for length in lengths]
    for series in x:
        kept = series[0, 0], series[-1, -1]
        series[random.random(series.shape) < gaps] = NAN
        series[0, 0], series[-1, -1] = kept
    return x


def with_times(batch: SeriesBatch, seed: int) -> SeriesBatch:
    steps = torch.rand(batch.values.shape[:2], generator=torch.Generator().manual_seed(seed)).double()
    times = torch.where(steps < 0.2, 0.0, steps).cumsum(dim=1)  # some points share a time
    return SeriesBatch(batch.values, batch.lengths, torch.where(batch.inside(), times, NAN))


def by_interp(series: np.ndarray, times: np.ndarray, fill: list[float]) -> np.ndarray:
    """(length, channels) filled channel by channel."""
    done = series.copy()
    for channel, column in enumerate(done.T):
        seen = ~np.isnan(column)
        if seen.all():
            continue
        column[~seen] = np.interp(times[~seen], times[seen], column[seen]) if seen.any() else fill[channel]
    return done


shapes = given(
    lengths=st.lists(st.integers(1, 15), min_size=1, max_size=6),
    channels=st.integers(1, 4),
    gaps=st.sampled_from([0.0, 0.1, 0.5, 0.95]),
    seed=st.integers(0, 10**6),
)


@shapes
@modest
def test_gaps_are_filled_as_numpy_interpolates(lengths: list[int], channels: int, gaps: float, seed: int):
    plain = collect(ragged(lengths, channels, gaps, seed))
    fill = [100.0 + channel for channel in range(channels)]
    before = plain.values.clone()
    filled = fill_gaps(plain, fill)
    for number, length in enumerate(lengths):
        wanted = by_interp(before[number, :length].numpy(), np.arange(length, dtype=float), fill)
        assert np.allclose(filled.values[number, :length].numpy(), wanted, rtol=1e-12, atol=1e-12)
    assert np.array_equal(plain.values.numpy(), before.numpy(), equal_nan=True), "the input is as it was"


@shapes
@modest
def test_gaps_are_filled_on_real_time(lengths: list[int], channels: int, gaps: float, seed: int):
    batch = with_times(collect(ragged(lengths, channels, gaps, seed)), seed)
    filled = fill_gaps(batch, [0.0] * channels)
    assert filled.times is batch.times and filled.lengths is batch.lengths
    for number, length in enumerate(lengths):
        times, given_values = times_of(batch)[number, :length].numpy(), batch.values[number, :length].numpy()
        got = filled.values[number, :length].numpy()
        assert np.isfinite(got).all()
        assert np.array_equal(got[~np.isnan(given_values)], given_values[~np.isnan(given_values)])
        if len(set(times)) == length:
            assert np.allclose(got, by_interp(given_values, times, [0.0] * channels), rtol=1e-12, atol=1e-12)
        # Alone it is bitwise what it is among others.
        alone = SeriesBatch(
            batch.values[number : number + 1, :length], None, times_of(batch)[number : number + 1, :length], number
        )
        assert np.array_equal(fill_gaps(alone, [0.0] * channels).values[0].numpy(), got)


def test_a_gap_inside_a_jump_holds_the_value_before():
    values = torch.tensor([[[1.0], [NAN], [5.0], [NAN]]]).double()
    times = torch.tensor([[2.0, 2.0, 2.0, 3.0]]).double()
    assert fill_gaps(SeriesBatch(values, times=times), [0.0]).values.flatten().tolist() == [1, 1, 5, 5]


def test_padding_is_never_read():
    batch = collect(ragged([9, 4], 2, 0.3, 1))
    junk = SeriesBatch(torch.where(batch.inside()[:, :, None], batch.values, 1e300), batch.lengths)
    for both in ((batch, junk), (fill_gaps(batch, [0, 0]), fill_gaps(junk, [0, 0]))):
        wanted, got = (fill_gaps(x, [0.0, 0.0]) for x in both)
        assert torch.equal(got.values[got.inside()], wanted.values[got.inside()])
        wanted, got = pool(wanted, 3), pool(got, 3)
        assert torch.equal(got.values, wanted.values)


def test_a_constant_stays_exactly_constant():
    x = np.full((1, 1, 50), 0.1)
    x[0, 0, 1:-1:3] = x[0, 0, 2:-1:3] = NAN
    assert set(fill_gaps(collect(x), [0.0]).values.flatten().tolist()) == {0.1}


def test_the_mask_says_what_was_observed():
    x = ragged([5, 3, 1], 2, 0.4, 3)
    batch = collect(x)
    filled, masked = fill_gaps(batch, [0.0, 0.0]), fill_gaps(batch, [0.0, 0.0], mask=True)
    assert masked.values.shape == (3, 5, 4)
    for number, series in enumerate(x):
        points = series.shape[1]
        assert torch.equal(masked.values[number, :points, :2], filled.values[number, :points])
        assert np.array_equal(masked.values[number, :points, 2:].numpy(), (~np.isnan(series)).T.astype(float))
    assert np.isnan(x[0]).sum() > 0, "there is something to see"


def test_without_gaps_nothing_is_copied():
    batch = collect([np.ones((2, 4)), np.ones((2, 3))])
    assert fill_gaps(batch, [0.0, 0.0]).values is batch.values


@pytest.mark.parametrize("fill", [[1.0], [1.0, NAN], [[1.0, 2.0]]])
def test_fill_is_one_number_a_channel(fill: list[float]):
    with pytest.raises(ValueError, match="fill must be 2 finite numbers, one a channel"):
        fill_gaps(collect(np.ones((1, 2, 3))), fill)


def test_time_stamps_must_be_there_and_in_order():
    values = torch.ones(3, 4, 1).double()
    good = torch.arange(4.0).double().repeat(3, 1)
    for value, message in (
        (NAN, r"series 11 has no finite time stamp at time point 2 \(nan\); only values may be missing"),
        (float("inf"), r"series 11 has no finite time stamp at time point 2"),
        (0.5, r"series 11 goes back in time at time point 2, from 1.0 to 0.5; sort"),
    ):
        times = good.clone()
        times[1, 2] = value
        with pytest.raises(ValueError, match=message):
            fill_gaps(SeriesBatch(values, None, times, first=10), [0.0])
        fill_gaps(SeriesBatch(values, torch.tensor([4, 2, 4]), times), [0.0])  # padding is never read


# Long series


def averages(points: np.ndarray, bins: int) -> np.ndarray:
    """(length, channels) to (bins, channels), one point after the other."""
    length = len(points)
    if length <= bins:
        return points
    sums, counts = np.zeros((bins, points.shape[1])), np.zeros((bins, 1))
    edges = [b * length // bins for b in range(bins + 1)]
    for number, point in enumerate(points):
        b = max(b for b in range(bins) if edges[b] <= number)
        sums[b] += point
        counts[b] += 1
    assert counts.min() >= 1 and counts.max() - counts.min() <= 1
    return sums / counts


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    channels=st.integers(1, 3),
    most=st.integers(1, 20),
    timed=st.booleans(),
    seed=st.integers(0, 10**6),
)
@modest
def test_long_series_are_averaged(lengths: list[int], channels: int, most: int, timed: bool, seed: int):
    batch = collect(ragged(lengths, channels, 0.0, seed))
    if timed:
        batch = with_times(batch, seed)
    before = batch.values.clone()
    short = pool(batch, most)
    assert short.counts().tolist() == [min(length, most) for length in lengths]
    assert short.values.shape[1] == min(max(lengths), most) and short.values.is_contiguous()
    assert (short.lengths is None) == (len({min(length, most) for length in lengths}) == 1)
    for number, length in enumerate(lengths):
        points = min(length, most)
        got = short.values[number, :points].numpy()
        assert np.allclose(got, averages(batch.values[number, :length].numpy(), most), rtol=1e-12, atol=1e-12)
        alone = SeriesBatch(batch.values[number : number + 1, :length].clone())
        assert np.array_equal(pool(alone, most).values[0].numpy(), got), "bitwise the same without the others"
        if length <= most:
            assert torch.equal(short.values[number, :points], batch.values[number, :length])
        if timed:
            times = averages(times_of(batch)[number, :length, None].numpy(), most)[:, 0]
            assert np.allclose(times_of(short)[number, :points].numpy(), times, rtol=1e-12, atol=1e-12)
    assert (short.times is not None) == timed
    assert np.array_equal(batch.values.numpy(), before.numpy(), equal_nan=True)


def test_a_line_stays_on_itself_and_a_constant_constant():
    times = torch.linspace(0, 10, 1003).double()[None]
    values = torch.stack([3 * times - 2, torch.full_like(times, 0.5)], dim=2)
    short = pool(SeriesBatch(values, None, times), 100)
    assert torch.allclose(short.values[0, :, 0], 3 * times_of(short)[0] - 2, rtol=1e-12)
    assert (short.values[0, :, 1] == 0.5).all()


def test_short_series_and_none_are_left_alone():
    batch = collect(np.ones((2, 1, 30)))
    assert pool(batch, None) is batch and pool(batch, 30) is batch and pool(batch, 29) is not batch
    padded = SeriesBatch(torch.ones(2, 30, 1).double(), torch.tensor([3, 5]))
    assert pool(padded, 10).values.shape == (2, 5, 1) and pool(padded, 10).counts().tolist() == [3, 5]


@pytest.mark.parametrize("most", [0, -1, 2.5, True, "10"])
def test_max_points_is_a_positive_number(most: object):
    with pytest.raises(ValueError, match="max_points must be a positive whole number, or None"):
        pool(collect(np.ones((2, 1, 3))), most)
