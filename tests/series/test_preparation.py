"""From series in any layout to a clean batch; gaps against numpy's interpolation, long series against averages."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.random_paths import modest
from helpers.refusals import assert_refused
from helpers.series_batches import same, times_of
from siggpde.datasets import load_pendigits
from siggpde.series import PathTransform, Preparation, SeriesBatch, Spectrogram, collect, fill_gaps, pool

NAN, INF = float("nan"), float("inf")


def timed(lengths: list[int], channels: int, gaps: float, seed: int) -> list[np.ndarray]:
    """Series whose channel 1 has time stamps, with gaps in the others."""
    random = np.random.default_rng(seed)
    result = []
    for length in lengths:
        values = random.normal(size=(channels, length))
        kept = values[0, 0], values[0, -1]
        values[random.random(values.shape) < gaps] = NAN
        values[0, 0], values[0, -1] = kept
        times = 1e5 + random.random(length).cumsum()
        result.append(np.insert(values, 1, times, axis=0))
    return result


SETTINGS = {
    "plain": {"max_points": None},
    "short": {"max_points": 5},
    "mask": {"mask": True, "max_points": 7},
    "time": {"time_channel": 1},
    "time from the end": {"time_channel": -2, "mask": True, "max_points": 4},
    "spectrogram": {"spectrogram": Spectrogram(nfft=4, overlap=2, log=True, standardise=True), "mask": True},
}


every_setting = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)


@every_setting
@given(
    lengths=st.lists(st.integers(4, 20), min_size=1, max_size=6),
    gaps=st.sampled_from([0.0, 0.2, 0.9]),
    seed=st.integers(0, 10**6),
    piece=st.sampled_from([1, 40, 10**6]),
)
@modest
def test_a_clean_batch_comes_out(settings: dict[str, Any], lengths: list[int], gaps: float, seed: int, piece: int):
    x = timed(lengths, 2, gaps, seed)
    copies = [series.copy() for series in x]
    prepare = Preparation(**settings).fit(x)
    whole = prepare(x)
    assert whole.values.dtype == torch.float64 and len(whole) == len(x)
    assert torch.isfinite(whole.values).all() and (whole.times is None or torch.isfinite(whole.times).all())
    assert whole.channels == len(prepare.names(["a", "b", "c"]))
    assert whole.values.shape[1] == int(whole.counts().max())
    for number, (count, series) in enumerate(zip(whole.counts().tolist(), x, strict=True)):
        rest = whole.values[number, count:]
        assert torch.equal(rest, whole.values[number, count - 1].expand_as(rest)), "the last point is repeated"
        alone = prepare([series])
        close = {"rtol": 1e-12, "atol": 1e-12} if prepare.spectrogram else {"rtol": 0, "atol": 0}
        assert alone.lengths is None
        assert torch.allclose(alone.values[0], whole.values[number, :count], **close)
        if whole.times is not None:
            assert torch.equal(times_of(alone)[0], times_of(whole)[number, :count])
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(x, copies, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("siggpde.series.preparation._CHUNK_VALUES", piece)
        parts = Preparation(**settings).fit(x)
        assert torch.allclose(parts.fill, prepare.fill, rtol=1e-9, atol=1e-9)
        assert parts.gap_share == prepare.gap_share
        again = prepare(x)
    assert torch.allclose(again.values, whole.values, rtol=1e-12, atol=1e-12)
    assert again.counts().tolist() == whole.counts().tolist()


@every_setting
def test_state_goes_through_json_and_back(settings: dict[str, Any]):
    x = timed([20, 7, 9], 2, 0.3, 1)
    prepare = Preparation(**settings)
    assert Preparation.from_state(json.loads(json.dumps(prepare.state()))).fill is None
    prepare.fit(x)
    again = Preparation.from_state(json.loads(json.dumps(prepare.state())))
    assert again.state() == prepare.state()
    assert same(again(x), prepare(x))
    assert again.names(["a", "b", "c"]) == prepare.names(["a", "b", "c"])


def test_every_step_in_its_order():
    x = timed([30, 12, 1], 3, 0.3, 5)
    prepare = Preparation(time_channel=1, mask=True, max_points=10).fit(x)
    raw = collect(x)
    split = SeriesBatch(raw.values[:, :, [0, 2, 3]], raw.lengths, raw.values[:, :, 1])
    wanted = pool(fill_gaps(split, prepare.fill, mask=True), 10)
    got = prepare(x)
    assert torch.equal(got.lengths, wanted.lengths) and got.lengths.tolist() == [10, 10, 1]
    for number, count in enumerate(got.lengths.tolist()):
        assert torch.equal(got.values[number, :count], wanted.values[number, :count])
        assert torch.equal(times_of(got)[number, :count], times_of(wanted)[number, :count])


def test_means_of_what_was_observed_fill_channels_that_were_not():
    x = np.array([[[1.0, 3.0, NAN], [NAN, NAN, NAN], [5.0, 5.0, 5.0]], [[NAN, 8.0, NAN], [NAN] * 3, [NAN] * 3]])
    prepare = Preparation(mask=True).fit(x)
    assert prepare.fill.tolist() == [4.0, 0.0, 5.0]
    assert prepare.raw_channels == 3
    # The second series ends after its second point, for nothing is observed after it.
    assert prepare.gap_share == (1 + 3 + 1 + 2 + 2) / 15
    batch = prepare(x)
    assert batch.values[1, :2].tolist() == [[8, 0, 5, 0, 0, 0], [8, 0, 5, 1, 0, 0]]
    assert Preparation().fit(np.ones((2, 3, 4))).gap_share == 0.0


def test_names_and_the_mask_of_channels_not_of_bins():
    x = np.random.default_rng(0).normal(size=(2, 2, 64))
    x[1, 1, 20] = NAN
    transform = Spectrogram(rate=1000, nfft=16, overlap=0, low=125, high=250)
    prepare = Preparation(mask=True, spectrogram=transform).fit(x)
    batch = prepare(x)
    assert prepare.names(["left", "right"]) == (
        "left 125 Hz", "left 187.5 Hz", "left 250 Hz", "right 125 Hz", "right 187.5 Hz", "right 250 Hz",
        "left observed", "right observed",
    )  # fmt: skip
    assert batch.values.shape == (2, 4, 8)
    assert batch.values[1, :, 6:].T.tolist() == [[1, 1, 1, 1], [1, 0, 1, 1]]
    raw = transform(collect(x)).values
    assert torch.equal(batch.values[0, :, :6], raw[0])
    assert torch.allclose(batch.values[1, 1, 3:6], (raw[1, 0, 3:] + raw[1, 2, 3:]) / 2)
    assert times_of(batch)[0].tolist() == [0.008, 0.024, 0.04, 0.056]
    assert Preparation().names(["x", "y"]) == ("x", "y")
    assert Preparation(time_channel=-1, mask=True).names(["x", "y", "t"]) == ("x", "y", "x observed", "y observed")


def test_small_still_and_long_series():
    for x in (np.ones((1, 1, 1)), np.full((3, 2, 4), 7.0), [[1.0], [2.0, 3.0]]):
        batch = Preparation().fit(x)(x)
        assert torch.equal(batch.values[0], collect(x).values[0, : batch.counts()[0]].expand_as(batch.values[0]))
    with_time = Preparation(time_channel=0).fit([[[5.0], [1.0]]])
    assert with_time([[[5.0], [1.0]]]).times.tolist() == [[5.0]]
    x = np.random.default_rng(0).normal(size=(1, 1, 1001))
    assert same(Preparation().fit(x)(x[:, :, :1000]), collect(x[:, :, :1000]))
    assert Preparation().fit(x)(x).values.shape == (1, 1000, 1)
    assert Preparation(max_points=None).fit(x)(x).values.shape == (1, 1001, 1)
    assert Preparation(max_points=np.int64(7)).fit(x)(x).values.shape == (1, 7, 1)


def test_paths_of_a_data_set():
    data = load_pendigits()
    batch = Preparation().fit(data.X_train)(data.X_test)
    paths, lengths = PathTransform().fit(batch.values, lengths=batch.lengths)(batch.values, lengths=batch.lengths)
    assert lengths is None and paths.isfinite().all() and len(paths) == 3498


def test_settings_that_make_no_sense():
    assert_refused("time_channel must be a whole number or None, got 0.0", Preparation, time_channel=0.0)
    assert_refused("time_channel must be a whole number", Preparation, time_channel=True)
    assert_refused("time_channel must be a whole number", Preparation, time_channel="t")
    assert_refused("max_points must be a positive whole number, or None.*got 0", Preparation, max_points=0)
    assert_refused("max_points must be a positive whole number, or None.*got 1000.0", Preparation, max_points=1e3)
    assert_refused("spectrogram must be a Spectrogram or None, got int", Preparation, spectrogram=256)
    assert_refused("evenly.*leave time_channel out", Preparation, spectrogram=Spectrogram(), time_channel=0)


def changed(series: int, channel: int, time: int | slice, value: float) -> np.ndarray:
    x = np.stack([np.arange(12.0).reshape(2, 6)] * 3)
    x[series, channel, time] = value
    return x


@pytest.mark.parametrize(
    ("settings", "x", "message"),
    [
        ({}, changed(2, 1, 3, INF), "series 2 of X is infinite .inf. in channel 1 at time point 3"),
        ({}, np.zeros((0, 2, 6)), "X has no series"),
        ({}, [], "X is empty"),
        ({"time_channel": 2}, changed(0, 0, 0, 0.0), "time_channel is 2, but X has 2 channels.*between -2 and 1"),
        ({"time_channel": -3}, changed(0, 0, 0, 0.0), "time_channel is -3"),
        ({"time_channel": 0}, np.ones((2, 1, 4)), "the only channel of X is the time channel"),
        ({"time_channel": 0}, changed(1, 0, 2, NAN), "series 1 has no finite time stamp at time point 2"),
        ({"time_channel": 0}, changed(1, 0, 5, NAN), "series 1 has no finite time stamp at time point 5"),
        ({"time_channel": 0}, changed(1, 0, 4, 2.0), "series 1 goes back in time at time point 4, from 3.0 to 2.0"),
        ({"time_channel": 0}, changed(2, 1, slice(None), NAN), "series 2 of X has time stamps but not a single value"),
        ({"spectrogram": Spectrogram(nfft=8, overlap=0)}, changed(0, 0, 0, 1.0), "series 0 has 6 samples, fewer"),
    ],
)  # fmt: skip
def test_errors_name_the_series(settings: dict[str, Any], x: Any, message: str):
    assert_refused(message, Preparation(**settings).fit, x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("siggpde.series.preparation._CHUNK_VALUES", 1)
        assert_refused(message, Preparation(**settings).fit, x)


def test_errors_of_use_leave_the_preparation_as_before():
    assert_refused("call fit first", Preparation(), np.ones((1, 1, 1)))
    prepare = Preparation().fit(np.ones((1, 2, 3)))
    assert_refused("of test have 3 channels, but those of fit had 2; hand in", prepare, np.ones((1, 3, 3)), "test")
    assert_refused("got 3 names for series of 2 channels", prepare.names, ["a", "b", "c"])
    assert_refused("time_channel is 3, but channel_names has 2", Preparation(time_channel=3).names, ["a", "b"])
    x = np.random.default_rng(0).normal(size=(4, 3, 5))
    prepare = Preparation().fit(x)
    state = prepare.state()
    assert_refused("infinite", prepare.fit, np.full((4, 2, 5), np.inf))
    assert prepare.state() == state
    assert_refused("have 2 channels, but those of fit had 3", prepare, x[:, :2])
    assert len(prepare(x)) == 4


@pytest.mark.parametrize(("settings", "empty"), [({}, 0), ({}, 2), ({"time_channel": 0}, 1), ({"time_channel": -1}, 1)])
def test_a_channel_without_values_is_warned_of(settings: dict, empty: int, caplog: pytest.LogCaptureFixture):
    x = np.tile(np.arange(5.0), (4, 3, 1))
    Preparation(**settings).fit(x)
    assert caplog.text == ""
    x[:, empty] = NAN
    Preparation(**settings).fit(x)
    assert f"channel {empty} of X has not a single value; nothing is learned from it" in caplog.text


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


@given(
    st.lists(st.integers(1, 15), min_size=1, max_size=6),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.1, 0.5, 0.95]),
    st.booleans(),
    st.integers(0, 10**6),
)
@modest
def test_gaps_are_filled_as_numpy_interpolates(lengths: list[int], channels: int, gaps: float, timed: bool, seed: int):
    batch = collect(ragged(lengths, channels, gaps, seed))
    if timed:
        batch = with_times(batch, seed)
    fill = [100.0 + channel for channel in range(channels)]
    before = batch.values.clone()
    filled = fill_gaps(batch, fill)
    assert filled.times is batch.times and filled.lengths is batch.lengths
    for number, length in enumerate(lengths):
        points = slice(number, number + 1), slice(length)
        times = times_of(batch)[points] if timed else torch.arange(length)[None]
        values, got = before[number, :length].numpy(), filled.values[number, :length].numpy()
        assert np.isfinite(got).all() and np.array_equal(got[~np.isnan(values)], values[~np.isnan(values)])
        if len(set(times[0].tolist())) == length:
            assert np.allclose(got, by_interp(values, times[0].numpy(), fill), rtol=1e-12, atol=1e-12)
        alone = SeriesBatch(batch.values[points], None, times if timed else None, number)
        assert np.array_equal(fill_gaps(alone, fill).values[0].numpy(), got), "bitwise the same without the others"
    assert np.array_equal(batch.values.numpy(), before.numpy(), equal_nan=True), "the input is as it was"


def test_gaps_and_constants_by_hand():
    values = torch.tensor([[[1.0], [NAN], [5.0], [NAN]]]).double()
    times = torch.tensor([[2.0, 2.0, 2.0, 3.0]]).double()
    assert fill_gaps(SeriesBatch(values, times=times), [0.0]).values.flatten().tolist() == [1, 1, 5, 5]
    x = np.full((1, 1, 50), 0.1)
    x[0, 0, 1:-1:3] = x[0, 0, 2:-1:3] = NAN
    assert set(fill_gaps(collect(x), [0.0]).values.flatten().tolist()) == {0.1}
    batch = collect([np.ones((2, 4)), np.ones((2, 3))])
    assert fill_gaps(batch, [0.0, 0.0]).values is batch.values


def test_padding_is_never_read():
    batch = collect(ragged([9, 4], 2, 0.3, 1))
    junk = SeriesBatch(torch.where(batch.inside()[:, :, None], batch.values, 1e300), batch.lengths)
    for both in ((batch, junk), (fill_gaps(batch, [0, 0]), fill_gaps(junk, [0, 0]))):
        wanted, got = (fill_gaps(x, [0.0, 0.0]) for x in both)
        assert torch.equal(got.values[got.inside()], wanted.values[got.inside()])
        wanted, got = pool(wanted, 3), pool(got, 3)
        assert torch.equal(got.values, wanted.values)


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


def test_fill_is_one_number_a_channel_and_max_points_positive():
    for fill in ([1.0], [1.0, NAN], [[1.0, 2.0]]):
        assert_refused("fill must be 2 finite numbers, one a channel", fill_gaps, collect(np.ones((1, 2, 3))), fill)
    for most in (0, -1, 2.5, True, "10"):
        assert_refused("max_points must be a positive whole number, or None", pool, collect(np.ones((2, 1, 3))), most)


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
        assert_refused(message, fill_gaps, SeriesBatch(values, None, times, first=10), [0.0])
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


@given(st.data(), st.integers(1, 3), st.integers(1, 20), st.booleans(), st.integers(0, 10**6))
@modest
def test_long_series_are_averaged(data: st.DataObject, channels: int, most: int, timed: bool, seed: int):
    lengths = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=6))
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


def test_pooled_lines_constants_and_short_series():
    times = torch.linspace(0, 10, 1003).double()[None]
    values = torch.stack([3 * times - 2, torch.full_like(times, 0.5)], dim=2)
    short = pool(SeriesBatch(values, None, times), 100)
    assert torch.allclose(short.values[0, :, 0], 3 * times_of(short)[0] - 2, rtol=1e-12)
    assert (short.values[0, :, 1] == 0.5).all()
    batch = collect(np.ones((2, 1, 30)))
    assert pool(batch, None) is batch and pool(batch, 30) is batch and pool(batch, 29) is not batch
    padded = SeriesBatch(torch.ones(2, 30, 1).double(), torch.tensor([3, 5]))
    assert pool(padded, 10).values.shape == (2, 5, 1) and pool(padded, 10).counts().tolist() == [3, 5]
