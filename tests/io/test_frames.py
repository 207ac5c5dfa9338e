"""Tables of pandas: dates and durations of every unit, with zones and without; and the names as the docs write them."""

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

from siggpde.io import from_frame

NOON = 1577880000.0  # 2020-01-01 12:00:00 UTC


def times_of(column: Any) -> np.ndarray:
    frame = pd.DataFrame({"who": ["a"] * len(column), "when": column, "x": np.arange(float(len(column)))})
    data = from_frame(frame, series="who", time="when")
    assert isinstance(data.X, np.ndarray)
    return data.X[0, 0]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize(("zone", "shift"), [(None, 0), ("UTC", 0), ("Asia/Tokyo", -9 * 3600)])
def test_dates_of_every_unit_and_zone(unit: str, zone: str | None, shift: int):
    column = pd.Series(pd.date_range("2020-01-01 12:00:00", periods=3, freq="2s")).dt.as_unit(unit)  # type: ignore[arg-type]
    if zone is not None:
        column = column.dt.tz_localize(zone)
    assert f"[{unit}" in str(column.dtype)
    np.testing.assert_array_equal(times_of(column), NOON + shift + np.array([0.0, 2.0, 4.0]))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_of_every_unit(unit: str):
    column = pd.Series(pd.to_timedelta([0, 90, 3600], unit="s")).dt.as_unit(unit)  # type: ignore[arg-type]
    np.testing.assert_array_equal(times_of(column), [0.0, 90.0, 3600.0])


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_a_missing_date_is_named(unit: str):
    column = pd.Series(pd.to_datetime(["2020-01-01", None, "2020-01-03"])).dt.as_unit(unit)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="column 'when', row 1: expected a time; got None"):
        times_of(column)


def test_the_package_gives_its_readers_without_a_second_import(tmp_path: Any):
    np.save(tmp_path / "x.npy", np.zeros((2, 5)))
    code = f"import siggpde; print(siggpde.io.read({str(tmp_path / 'x.npy')!r}))"
    flags = ["-S"] * sys.flags.no_site
    done = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "SeriesData('x': 2 series, 1 channels, length 5)\n"
