"""Windows as a view: parts that are kept, names, and log spectra against the discrete Fourier transform."""

import cmath
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.random_paths import few
from helpers.view_data import batches, ragged, random_walks, standardised
from siggpde.series import SeriesBatch
from siggpde.views import WindowsView
from siggpde.views.kinds import KINDS, default_views
from siggpde.views.window_features import WindowFeatures, WindowScaler, WindowSettings
from siggpde.views.windows import log_spectrum, spectrum_bins

BATCH = standardised(SeriesBatch(random_walks(10, 40, 5)))  # of more than three channels groups are drawn


@pytest.mark.parametrize("wanted", [{"x1"}, {"x3"}, {"dx1", "zn3"}, {"cum1", "another"}])
def test_what_is_kept_is_as_before(wanted: set[str]):
    block, landmark_rows = WindowsView(WindowSettings(max_dilations=2)).fit(BATCH)
    new = standardised(SeriesBatch(random_walks(4, 40, 5, 1)))
    whole, kept = block.rows(new), block.keep(wanted)
    assert kept is not None and kept.width < block.width and wanted - {"another"} <= kept.centring.keys()
    actual = kept.rows(new)
    assert {name[:-1] for name in actual} == {name[:-1] for name in wanted if name in landmark_rows}
    for name, rows in actual.items():
        assert torch.equal(rows.gram, whole[name].gram) and torch.equal(rows.variance, whole[name].variance)
        assert torch.equal(kept.rows(BATCH)[name].gram, landmark_rows[name].gram)
    assert [len(names) for names in kept.names(list("abcde"))] == [part.values.shape[1] for part in kept.landmarks]
    assert kept.keep({"another"}) is None


def test_a_kernel_is_the_mean_over_its_views():
    settings = WindowSettings(lifts=("x",), max_dilations=3)
    block, landmark_rows = WindowsView(settings).fit(BATCH)
    features = WindowFeatures.fit(BATCH, settings)
    _, blocks = WindowScaler.fit_transform(features.blocks(BATCH), whole=True)
    parts = list(zip(blocks, block.units, strict=True))
    for name in ("x1", "x3"):
        mine = [unit * part.values.double() for part, unit in parts if part.name == name]
        assert len(mine) > 2
        gram = torch.stack([values @ values.T for values in mine]).mean(0)
        centred = gram - gram.mean(0) - gram.mean(1, keepdim=True) + gram.mean()
        torch.testing.assert_close(landmark_rows[name].gram, centred / centred.diagonal().mean(), rtol=0, atol=1e-9)
    assert block.width == sum(part.values.shape[1] for part, _ in parts)


def test_spectra_are_windows_of_the_log_spectrum():
    batch = batches()["long"]
    settings = WindowSettings(lifts=("x", "dx"), max_dilations=2)
    block, landmark_rows = WindowsView(settings, 32).fit(batch)
    plain, wanted = WindowsView(settings).fit(log_spectrum(batch, 32))
    assert block.kind == "spectrum" and plain.kind == "windows" and landmark_rows.keys() == {"spectrum1", "spectrum3"}
    for end in "13":
        both = torch.stack([wanted[f"{lift}{end}"].gram for lift in ("x", "dx")])
        actual = landmark_rows[f"spectrum{end}"].gram
        assert float(torch.corrcoef(torch.stack([actual.flatten(), both.mean(0).flatten()]))[0, 1]) > 0.99
    names = block.names(["height"])
    assert all(name.startswith("spectrum") and "height" in name for name in names[0])


def test_spectra_have_bins_and_ragged_series_those_of_their_lengths():
    def bins(lengths: list[int]) -> int | None:
        return spectrum_bins(SeriesBatch(torch.zeros(len(lengths), max(lengths), 1), torch.tensor(lengths)))

    assert bins([15]) is None and bins([16]) == 8 and bins([3, 50, 60]) == 25 and bins([1000]) == 128
    assert spectrum_bins(ragged()) is None
    lengths = torch.tensor([30, 1, 2, 7, 5, 30, 18])
    values = random_walks(7, 30, 2, 3)
    values[torch.arange(30) >= lengths[:, None]] = torch.nan
    actual = log_spectrum(SeriesBatch(values, lengths, first=4), 10)
    assert actual.first == 4
    for row, count in enumerate(lengths.tolist()):
        alone = log_spectrum(SeriesBatch(values[row : row + 1, :count].clone()), 10).values[0]
        torch.testing.assert_close(actual.values[row], alone, rtol=0, atol=1e-12)


def test_windows_and_spectra_go_by_the_order_of_points_and_paths_by_time_stamps():
    plain = random_walks(10, 40, 2)
    steps = torch.rand(10, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.01
    even = standardised(SeriesBatch(plain, times=torch.arange(40.0).double().expand(10, 40)))
    uneven = standardised(SeriesBatch(plain, times=steps.cumsum(dim=1)))
    seen = set()
    for view in default_views(even, 10, KINDS, None, 50, 0):
        rows, others = view.fit(even)[1], view.fit(uneven)[1]
        blind = view.kind in ("windows", "spectrum")
        for name, block_rows in rows.items():
            assert torch.equal(block_rows.gram, others[name].gram) == blind, f"{view.kind} {name}"
        seen.add(view.kind)
    assert seen == set(KINDS)


def power_of(series: list[float]) -> list[float]:
    """|DFT|² / n of the series less its mean, times a Hann window if longer than 4 points, at k = 0 .. n / 2."""
    n = len(series)
    mean = sum(series) / n
    window = [0.5 - 0.5 * math.cos(2 * math.pi * i / (n - 1)) if n > 4 else 1.0 for i in range(n)]
    seen = [w * (x - mean) for w, x in zip(window, series, strict=True)]
    return [
        abs(sum(x * cmath.exp(-2j * math.pi * i * k / n) for i, x in enumerate(seen))) ** 2 / n
        for k in range(n // 2 + 1)
    ]


def averaged(power: list[float], bins: int) -> list[float]:
    """The mean over bins of equal width, frequencies that lie in two being shared."""
    width, out = len(power) / bins, []
    for b in range(bins):
        low, high = b * width, (b + 1) * width
        shares = [max(0.0, min(high, k + 1) - max(low, k)) for k in range(len(power))]
        out.append(sum(share * p for share, p in zip(shares, power, strict=True)) / width)
    return out


def slowly(series: Tensor, bins: int) -> Tensor:
    """(bins, channels) of one series (length, channels)."""
    columns = []
    for channel in series.T.tolist():
        actual = averaged(power_of(channel), bins)
        floor = max(max(actual) * math.exp(-35), torch.finfo(torch.float64).tiny)
        columns.append([math.log(max(value, floor)) for value in actual])
    return torch.tensor(columns).T.double()


@given(st.integers(1, 40), st.integers(1, 3), st.integers(1, 24), st.integers(0, 999))
@few
def test_it_is_the_transform_written_out(length: int, channels: int, bins: int, seed: int):
    values = random_walks(2, length, channels, seed)
    actual = log_spectrum(SeriesBatch(values), bins)
    assert actual.values.shape == (2, bins, channels) and actual.lengths is None and actual.times is None
    for one, series in zip(actual.values, values, strict=True):
        wanted = slowly(series, bins)
        close = wanted > wanted.max() - 25  # below, what is left is rounding of the largest
        torch.testing.assert_close(one[close], wanted[close], rtol=0, atol=1e-4)
        assert float(one.max() - one.min()) < 90


@pytest.mark.parametrize("cycles", [4, 8, 15, 28])
def test_a_tone_is_at_its_frequency(cycles: int):
    times = torch.arange(64).double()
    wave = torch.sin(2 * math.pi * cycles * times / 64 + 1.0)[None, :, None]
    actual = log_spectrum(SeriesBatch(wave), 33).values[0, :, 0]
    assert int(actual.argmax()) == cycles
    far = (torch.arange(33) - cycles).abs() > 3
    assert bool((actual[far] < actual[cycles] - 8).all())


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_constants_and_short_series_are_finite(length: int):
    for values in (torch.full((2, length, 1), 3.0).double(), random_walks(2, length, 1)):
        assert bool(torch.isfinite(log_spectrum(SeriesBatch(values), 16).values).all())


@pytest.mark.parametrize("factor", [1e-6, 3.0, 1e8])
def test_units_move_it_as_a_whole(factor: float):
    values = random_walks(3, 40, 2, 5)
    one, other = (log_spectrum(SeriesBatch(values * f + 7 * f), 12).values for f in (1.0, factor))
    torch.testing.assert_close(other - one, torch.full_like(one, 2 * math.log(factor)), rtol=0, atol=1e-6)
