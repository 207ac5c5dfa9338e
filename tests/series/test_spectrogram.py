"""Spectrograms against scipy's, series by series."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal

from helpers.random_paths import few
from helpers.refusals import assert_refused
from helpers.series_batches import times_of
from siggpde.series import SeriesBatch, Spectrogram, collect

NAN = float("nan")
WHALES = Spectrogram(rate=2000, nfft=256, overlap=128, first_bin=2, last_bin=29)


def sound(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).cumsum(axis=-1)


def test_the_whale_calls_of_the_paper_have_28_bins():
    batch = WHALES(collect((100 * sound(3, 1, 4000)).astype(np.int16)))
    assert batch.values.shape == (3, 30, 28) and batch.values.dtype == torch.float64 and batch.lengths is None
    assert WHALES.frequencies()[0] == 15.625 and WHALES.frequencies()[-1] == 226.5625


def test_standardised_series_and_decibels():
    x = [sound(1, length, seed=length) for length in (4000, 1000, 300)]
    plain, standard = WHALES(collect(x)), Spectrogram(2000, first_bin=2, last_bin=29, standardise=True)(collect(x))
    for number, count in enumerate(plain.counts().tolist()):
        wanted = plain.values[number, :count]
        wanted = (wanted - wanted.mean()) / wanted.std(correction=0)
        assert torch.allclose(standard.values[number, :count], wanted, atol=1e-9)
    for constant in (0.0, 0.1, -12345.678):
        still = collect(np.full((1, 1, 600), constant))
        assert (Spectrogram(standardise=True)(still).values == 0).all(), "rounding is not blown up"
        assert (Spectrogram(log=True, standardise=True)(still).values.abs() < 1e-9).all()
    faint, loud = (Spectrogram(standardise=True)(collect(unit * x[0])).values for unit in (1e-9, 1))
    assert torch.allclose(faint, loud), "small units are no silence"
    x = sound(2, 1, 1000)
    x[1] *= 1e-3
    plain, log = Spectrogram()(collect(x)).values, Spectrogram(log=True)(collect(x)).values
    floor = 1e-12 * plain.amax(dim=(1, 2), keepdim=True)
    assert torch.allclose(log, 10 * torch.maximum(plain, floor).log10(), atol=1e-9)
    silent = Spectrogram(log=True)(collect(np.zeros((1, 1, 600)))).values
    assert torch.allclose(silent, torch.tensor(-200.0).double())
    half = np.where(np.arange(600) < 300, 0.0, sound(600))[None]
    assert torch.isfinite(Spectrogram(log=True, standardise=True)(collect(half)).values).all()


def test_padding_is_never_read_and_gaps_are_missing_segments():
    batch = collect([sound(1, 700), sound(1, 300)])
    junk = SeriesBatch(torch.where(batch.inside()[:, :, None], batch.values, 1e300), batch.lengths)
    for transform in (Spectrogram(), Spectrogram(log=True, standardise=True)):
        wanted, got = transform(batch), transform(junk)
        assert np.array_equal(got.values.numpy(), wanted.values.numpy(), equal_nan=True)
    x = sound(1, 1, 1024)
    x[0, 0, 300] = NAN
    for transform in (Spectrogram(), Spectrogram(log=True, standardise=True)):
        missing = transform(collect(x)).values.isnan()[0]
        assert missing.all(dim=1).nonzero().tolist() == missing.any(dim=1).nonzero().tolist() == [[1], [2]]


@given(
    lengths=st.lists(st.integers(40, 200), min_size=1, max_size=4),
    channels=st.integers(1, 3),
    nfft=st.integers(2, 40),
    overlap=st.floats(0, 0.99),
    window=st.sampled_from(["hann", ("tukey", 0.25), "boxcar"]),
    band=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
@few
def test_ragged_series_of_several_channels(
    lengths: list[int], channels: int, nfft: int, overlap: float, window: Any, band: tuple[float, float]
):
    x = [sound(channels, length, seed=length) for length in lengths]
    shared = int(overlap * nfft)
    first, last = sorted(int(edge * (nfft // 2)) for edge in band)
    transform = Spectrogram(10.0, nfft, shared, first_bin=first, last_bin=last, window=window)
    raw = collect(x)
    before = raw.values.clone()
    batch = transform(raw)
    for number, series in enumerate(x):
        hertz, seconds, power = signal.spectrogram(series, 10.0, window, nperseg=nfft, noverlap=shared)
        assert transform.frequencies() == pytest.approx(hertz[first : last + 1])
        wanted = np.concatenate([power[channel, first : last + 1] for channel in range(channels)])
        steps = len(seconds)
        assert batch.counts()[number] == steps == transform.segments(series.shape[1])
        assert np.allclose(batch.values[number, :steps].numpy(), wanted.T, rtol=1e-9, atol=1e-11 * wanted.max() + 1e-20)
        assert np.allclose(times_of(batch)[number, :steps].numpy(), seconds)
    assert np.array_equal(raw.values.numpy(), before.numpy(), equal_nan=True)


@pytest.mark.parametrize(
    ("low", "high", "first", "last"),
    [(None, None, 0, 128), (50, 300, 7, 38), (15.625, 15.625, 2, 2), (990, None, 127, 128), (None, 8, 0, 1)],
)
def test_the_band_in_hertz_or_in_bins(low: float | None, high: float | None, first: int, last: int):
    chosen, by_number = Spectrogram(2000, low=low, high=high), Spectrogram(2000, first_bin=first, last_bin=last)
    assert chosen.frequencies() == by_number.frequencies() == [b * 2000 / 256 for b in range(first, last + 1)]
    batch = collect(sound(1, 600))
    assert torch.equal(chosen(batch).values, by_number(batch).values)
    assert Spectrogram(first_bin=first).frequencies() == Spectrogram().frequencies()[first:]
    assert Spectrogram(last_bin=last).frequencies() == Spectrogram().frequencies()[: last + 1]


def test_settings_are_plain_values_and_some_series_have_no_spectrogram():
    transform = Spectrogram(np.float32(2000), np.int64(64), np.int32(32), low=np.float64(3), window=("kaiser", 2.0))
    again = Spectrogram(**json.loads(json.dumps(transform.state())))
    assert again == transform and hash(again) == hash(transform)
    assert Spectrogram(rate=np.array(8000)).rate == 8000.0
    batch = collect([sound(300), sound(255), sound(400)])
    with pytest.raises(ValueError, match=r"series 11 has 255 samples, fewer than the 256 of one segment.*lower nfft"):
        Spectrogram()(SeriesBatch(batch.values, batch.lengths, first=10))
    with pytest.raises(ValueError, match="evenly sampled series, but these have time stamps"):
        Spectrogram()(SeriesBatch(torch.ones(1, 300, 1).double(), times=torch.arange(300.0)[None]))
    assert_refused("scipy knows no window 'bartok'", Spectrogram(window="bartok"), collect(sound(1, 300)))


def test_settings_that_make_no_sense():
    assert_refused("rate must be a positive number of samples a second, got 0.0", Spectrogram, rate=0)
    assert_refused("rate must be", Spectrogram, rate=NAN)
    assert_refused("nfft must be a whole number of samples, at least 2, got 1", Spectrogram, nfft=1)
    assert_refused("nfft must be a whole number", Spectrogram, nfft=25.6)
    assert_refused("overlap must be a whole number of samples, at least 0", Spectrogram, overlap=-1)
    assert_refused("overlap must be a whole number", Spectrogram, overlap=True)
    assert_refused("overlap must be less than nfft.*256 of 256", Spectrogram, overlap=256)
    assert_refused("0 <= first_bin <= last_bin <= 128, got -1 to 128", Spectrogram, first_bin=-1)
    assert_refused("got 0 to 129", Spectrogram, last_bin=129)
    assert_refused("got 5 to 4", Spectrogram, first_bin=5, last_bin=4)
    assert_refused("bins must be whole numbers", Spectrogram, first_bin=1.5)
    assert_refused("in Hz .low, high. or in bins .first_bin, last_bin., not in both", Spectrogram, low=0.1, first_bin=2)
    assert_refused("no bin lies between 0.6 and 0.5 Hz: .* 0.00390625 Hz apart, from 0 to 0.5 Hz", Spectrogram, low=0.6)
    assert_refused("no bin lies between", Spectrogram, low=0.001, high=0.002)
