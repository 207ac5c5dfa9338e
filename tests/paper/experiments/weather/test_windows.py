"""Windows of weather: none crosses a gap, targets are the rain that fell, thinning keeps its ratio."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.weather_station import COLUMNS, write_station
from siggpde_paper.experiments.weather_models import Station, cut_windows, load_station, thin

LENGTH, AHEAD = 4, 2


def station_of(steps, drops, missing=(), segment=None):
    """A station with two channels, whose rows are `steps` minutes apart; `missing` are (row, column)."""
    minutes = np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)
    readings = np.stack([np.arange(len(minutes)), minutes, drops], axis=1).astype(float)
    for row, column in missing:
        readings[row, column] = np.nan
    return Station(
        readings, ("a (x)", "b (y)", "rain (mm)"), minutes, np.zeros(len(minutes)) if segment is None else segment
    )


def cut(station):
    return cut_windows(station, ["a", "b"], "rain", length=LENGTH, ahead=AHEAD)


@st.composite
def stations(draw):
    steps = draw(st.lists(st.sampled_from([10, 10, 10, 10, 10, 0, 20, 100, 5]), min_size=0, max_size=40))
    count = len(steps) + 1
    drops = draw(st.lists(st.integers(0, 12), min_size=count, max_size=count))
    places = st.tuples(st.integers(0, count - 1), st.integers(0, 2))
    missing = draw(st.lists(places, max_size=4))
    segment = np.cumsum([0, *draw(st.lists(st.sampled_from([0] * 9 + [1]), min_size=count - 1, max_size=count - 1))])
    return station_of(steps, np.array(drops) / 10, missing, segment)


@settings(max_examples=200, deadline=None)
@given(stations())
def test_windows_are_those_found_one_by_one(station):
    """Every stretch of the station is looked at by itself, and is a window or has a reason not to be one."""
    found = cut(station)
    kept, rain, crossing, missing = [], [], 0, 0
    for start in range(len(station.minutes) - LENGTH - AHEAD + 1):
        rows = slice(start, start + LENGTH + AHEAD)
        if (np.diff(station.minutes[rows]) != 10).any() or len(set(station.segment[rows])) > 1:
            crossing += 1
        elif np.isnan(station.readings[rows][:LENGTH, :2]).any() or np.isnan(station.readings[rows][LENGTH:, 2]).any():
            missing += 1
        else:
            kept.append(start)
            rain.append(station.readings[rows][LENGTH:, 2].sum())
    assert found.start.tolist() == kept
    assert (found.crossing, found.missing) == (crossing, missing)
    np.testing.assert_allclose(found.rain, rain, atol=1e-3)
    assert found.wet.tolist() == [round(10 * amount) > 10 for amount in rain]
    assert found.x.shape == (len(kept), 2, LENGTH)
    if kept:
        assert np.isfinite(found.x).all()
        assert (np.diff(found.x[:, 1], axis=1) == 10).all()
        np.testing.assert_array_equal(found.x[:, 1, -1], found.minutes)


def test_target_is_the_rain_of_the_time_ahead_alone():
    drops = np.zeros(10)
    drops[4:6] = 0.5, 0.5  # exactly 1.0 ahead of window 0: not more than that
    drops[9] = 1.1
    found = cut(station_of([10] * 9, drops))
    assert found.rain.tolist() == [1.0, 0.5, 0.0, 0.0, 1.1]
    assert found.wet.tolist() == [False, False, False, False, True]
    tenths = cut_windows(station_of([10] * 20, np.full(21, 0.1)), ["a"], "rain", length=4, ahead=10)
    assert not tenths.wet.any()  # ten times 0.1 is 1, whatever the sum of floats is


def test_windows_of_the_full_hour():
    found = cut(station_of([10] * 40, np.zeros(41)))
    hourly = found.every(60)
    assert hourly.minutes.tolist() == [60, 120, 180, 240, 300, 360]
    assert hourly.day.tolist() == [0] * 6
    np.testing.assert_array_equal(hourly.x[0], found.x[found.minutes == 60][0])


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 20), st.integers(60, 90), st.integers(1, 3), st.integers(0, 5))
def test_thinning(rainy, dry, ratio, seed):
    wet = np.zeros(rainy + dry, dtype=bool)
    wet[np.random.default_rng(seed).choice(len(wet), rainy, replace=False)] = True
    rows = thin(wet, ratio, seed)
    assert wet[rows].sum() == rainy and (~wet[rows]).sum() == ratio * rainy
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, thin(wet, ratio, seed))


def test_other_seeds_thin_otherwise():
    wet = np.arange(200) % 20 == 0
    assert thin(wet, 3, 0).tolist() != thin(wet, 3, 1).tolist()


@pytest.mark.parametrize("wet", [[False] * 5, [True] * 5, [True, True, False]])
def test_thinning_needs_enough(wet):
    with pytest.raises(ValueError, match="dry ones at the ratio 3"):
        thin(np.array(wet), 3, 0)


def test_sentinels_are_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGGPDE_DATA", str(tmp_path))
    data = write_station(tmp_path / "Here.npz", days=3, seed=0, sentinels=[(50, "p (mbar)"), (60, "rain (mm)")])
    station = load_station("Here")
    assert station.columns == COLUMNS
    assert np.isnan(station.readings).sum() == 2
    found = cut_windows(station, ["p", "T"], "rain")
    assert found.crossing == 0
    # Row 50 is in the channels of windows 15 to 50, row 60 in the hour after windows 19 to 24, which are among them.
    assert found.missing == 36
    assert not set(range(15, 51)) & set(found.start.tolist())
    np.testing.assert_array_equal(found.readings[0], data[0, :2].astype(np.float32))


def test_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGGPDE_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="SIGGPDE_DATA"):
        load_station("Nowhere")
    np.savez(tmp_path / "Other.npz", X_train=np.zeros(3))
    with pytest.raises(ValueError, match="no array 'data'"):
        load_station("Other")
    np.savez(tmp_path / "Odd.npz", data=np.zeros((3, 2)), columns=["a"], time_minutes=np.arange(3))
    with pytest.raises(ValueError, match="do not fit"):
        load_station("Odd")
    station = station_of([10] * 5, np.zeros(6))
    with pytest.raises(ValueError, match="no column 'snow'; its columns are a, b, rain"):
        cut_windows(station, ["snow"], "rain")
    with pytest.raises(ValueError, match="at least 1, got 0"):
        cut_windows(station, ["a"], "rain", length=0)
