"""A made-up weather station, where pressure falls and humidity rises before it rains, and made-up windows."""

import numpy as np

COLUMNS = ("p (mbar)", "T (degC)", "Tdew (degC)", "rh (%)", "VPdef (mbar)", "wv (m/s)", "rain (mm)", "SWDR (W/m2)")
SENTINEL = -9999.0


def write_station(path, days, seed, *, first_day=18262, sentinels=(), gap_at=None):
    """Write the file and return its data; `gap_at` is a row before which an hour is missing."""
    generator = np.random.default_rng(seed)
    rows = days * 144
    data = generator.normal(size=(rows, len(COLUMNS))).cumsum(axis=0) * 0.1
    rain = COLUMNS.index("rain (mm)")
    data[:, rain] = 0.0
    for start in range(100, rows - 60, 150):  # six hours of warning, then two of rain
        data[start : start + 36, 0] -= np.linspace(0, 6, 36)
        data[start : start + 36, 3] += np.linspace(0, 6, 36)
        data[start + 36 : start + 48, rain] = generator.integers(2, 8, size=12) / 10
    for row, column in sentinels:
        data[row, COLUMNS.index(column)] = SENTINEL
    minutes = first_day * 1440 + 10 * np.arange(1, rows + 1)
    if gap_at is not None:
        minutes[gap_at:] += 60
    np.savez(path, data=data.astype(np.float32), columns=np.array(COLUMNS), time_minutes=minutes)
    return data


def windows(n, seed):
    """Two channels of twelve readings; rain follows where the first rises and the second is high."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, 2, 12)).cumsum(axis=2) + generator.normal(size=(n, 2, 1)) * 2
    wet = (x[:, 0, -1] - x[:, 0, 0]) + x[:, 1].mean(axis=1) + generator.normal(size=n) > 1
    return x, wet, np.arange(n) * 8 // n


def nlpp(log_odds, wet):
    return float(np.logaddexp(0, np.where(wet, -1, 1) * log_odds).mean())
