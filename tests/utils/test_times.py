"""Moments and stretches of time in words, and what is known of time stamps that are numbers."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.refusals import assert_refused
from siggpde.utils.times import SECONDS, TimeFormat, chosen_format, duration, time_format

NOON = datetime(2025, 4, 6, 12, tzinfo=UTC).timestamp()
DATES = TimeFormat("s", dates=True, start=NOON)
ELAPSED = DATES._replace(elapsed=True)
HOUR, DAY = SECONDS["h"], SECONDS["days"]


@pytest.mark.parametrize(
    ("clock", "start", "end", "words"),
    [
        (DATES, NOON + 2.5 * HOUR, NOON + 5 * HOUR + 2400, "2025-04-06 14:30 to 17:40"),
        (DATES, NOON, NOON, "at 2025-04-06 12:00"),
        (DATES, NOON, NOON + DAY, "2025-04-06 12:00 to 2025-04-07 12:00"),
        (DATES, NOON, NOON + 15, "2025-04-06 12:00:00 to 12:00:15"),
        (DATES, NOON - HOUR * 12, NOON + HOUR * 36, "2025-04-06 to 2025-04-08"),
        (DATES, NOON, NOON + 100 * DAY, "2025-04-06 to 2025-07-15"),
        (DATES._replace(zone="Europe/Berlin"), NOON, NOON + HOUR, "2025-04-06 14:00 to 15:00"),
        (DATES._replace(zone="-03:30"), NOON, NOON + HOUR, "2025-04-06 08:30 to 09:30"),
        (DATES._replace(zone="Mars/Base"), NOON, NOON + HOUR, "2025-04-06 12:00 to 13:00"),
        (DATES._replace(unit="ms"), 1e3 * NOON, 1e3 * (NOON + HOUR), "2025-04-06 12:00 to 13:00"),
        (ELAPSED, NOON + 3 * HOUR + 600, NOON + 3 * HOUR + 600, "3 h 10 min after the start"),
        (ELAPSED, NOON, NOON + HOUR, "0 to 1 h after the start"),
        (ELAPSED, NOON + 25 * HOUR, NOON + 4.5 * DAY + 95, "1 day 1 h to 4 days 12 h after the start"),
        (ELAPSED, NOON + 0.25, NOON + 0.75, "0.25 s to 0.75 s after the start"),
        (TimeFormat("min"), 90, 125, "1 h 30 min to 2 h 5 min"),
        (TimeFormat("days"), 2.5, 2.5, "at 2 days 12 h"),
        (TimeFormat(), 0.5, 12345, "0.5 to 12345"),
        (TimeFormat(elapsed=True, start=1e6), 1e6 + 2, 1e6 + 3.5, "2 to 3.5 after the start"),
    ],
)
def test_when(clock: TimeFormat, start: float, end: float, words: str):
    assert clock.when(start, end) == words


@given(st.integers(0, 10**7))
def test_durations_of_whole_seconds_are_exact(seconds: int):
    total = 0.0
    for count, unit in zip(*[iter(duration(seconds).split())] * 2, strict=True) if seconds else ():
        total += float(count) * SECONDS["days" if unit == "day" else unit]
    assert total == seconds


@given(st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)), st.sampled_from([None, "+05:30", "America/New_York"]))
def test_dates_for_programs_are_read_back(moment: datetime, zone: str | None):
    seconds = (moment - datetime(1970, 1, 1)) / timedelta(seconds=1)
    read = datetime.fromisoformat(TimeFormat("s", dates=True, zone=zone).iso(seconds))
    assert (read.tzinfo is None) == (zone is None)
    assert abs((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() - seconds) < 1e-5


def test_what_is_told_follows_from_the_starts_of_the_series():
    """A common calendar where series start together, durations where every series starts for itself."""
    length, starts = 30 * HOUR, NOON + 400 * DAY * np.random.default_rng(0).random(50)
    for first, elapsed in ((starts, True), (NOON + 0.01 * (starts - NOON), True), (NOON + 0 * starts, False)):
        assert time_format(first, first + length, dates=True).elapsed is elapsed
    assert time_format(starts, starts + length)[:2] == ("s", True)  # by their size
    assert time_format(1e3 * starts, 1e3 * (starts + length))[:2] == ("ms", True)
    names = {"time (h)": "h", "minute": "min", "t_s": "s", "day": "days", "ts_ms": "ms", "t": None, "speeds": None}
    for name, unit in names.items():
        assert time_format([0.0], [9.0], name)[:2] == (unit, False)
    assert not time_format([-1e12], [1e12], dates=True).dates  # no calendar has these


def test_what_is_told_can_be_chosen():
    first, last = np.zeros(2), np.ones(2)
    hours = TimeFormat("h")
    assert chosen_format(None, first, last, "auto") is None and chosen_format(hours, first, last, "auto") == hours
    assert chosen_format(ELAPSED, first, last, "dates") == DATES
    assert chosen_format(DATES, first, last, "elapsed") == ELAPSED
    assert chosen_format(None, first, last, "dates") == TimeFormat(dates=True)
    assert chosen_format(None, first, last, "elapsed") == TimeFormat(elapsed=True)
    assert_refused("these are numbers in h", chosen_format, hours, first, last, "dates")
    assert_refused("time_as must be 'auto', 'dates' or 'elapsed'; got 'iso'", chosen_format, None, first, last, "iso")
    for state in (
        {},
        [],
        DATES._asdict() | {"unit": "years"},
        DATES._asdict() | {"dates": 1},
        DATES._asdict() | {"x": 1},
    ):
        assert_refused("a time format has unit, dates, zone, elapsed, start", TimeFormat.of_state, state)
    assert TimeFormat.of_state(ELAPSED._asdict()) == ELAPSED
