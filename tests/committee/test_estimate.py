"""How long a fit will take, as it is said before it starts."""

import logging

import numpy as np
import pytest
import torch

from helpers.small_estimators import walks
from siggpde import SigGPClassifier
from siggpde.committee.estimate import WORTH_SAYING, about, announce, fit_work
from siggpde.committee.sizes import MAX_LANDMARKS
from siggpde.progress import Progress
from siggpde.series import SeriesBatch
from siggpde.views.defaults import default_views


def sizes(series: int, points: int = 50, channels: int = 2):
    """The default views of so many series, and landmarks, of which only the sizes matter."""
    landmarks = SeriesBatch(torch.zeros(min(series, MAX_LANDMARKS), points, channels, dtype=torch.float64))
    return default_views(landmarks, series), landmarks, series


def seconds(*given: int) -> float:
    return fit_work(*sizes(*given)).seconds()


def test_more_and_longer_series_take_longer():
    by_series = [seconds(n) for n in (20, 100, 500, 1500, 3000, 10_000, 20_000)]
    assert by_series == sorted(by_series) and by_series[0] < 1 and by_series[-1] > 60
    by_points = [seconds(200, points) for points in (10, 20, 50, 100, 300, 1000)]
    assert by_points == sorted(by_points) and by_points[0] < by_points[-1]


def test_threads_of_the_core_share_its_work_only():
    work = fit_work(*sizes(2000))
    assert work.core > 0 and work.torch > 0
    assert work.seconds() - work.seconds(2) == pytest.approx(work.core / 2)
    assert work.seconds(2) - work.seconds(2, 2) == pytest.approx(work.torch / 2)


def test_words_are_short_and_right_to_a_third():
    for exact in np.geomspace(5, 1e5, 500).tolist():
        number, unit = about(exact).split()[1:]
        assert len(number) <= 3
        assert float(number) * {"s": 1, "min": 60, "h": 3600}[unit] == pytest.approx(exact, rel=0.34)


def test_fewer_views_take_less_time_and_are_compared_in_fewer_members():
    views, landmarks, series = sizes(1000)
    linear = [view for view in views if view.kind == "linear"]
    assert fit_work(linear, landmarks, series).torch < fit_work(views, landmarks, series).torch / 5


@pytest.fixture(autouse=True)
def as_without_commands():
    """Commands that were called in this process before have set up the log, which then has the line instead."""
    log = logging.getLogger("siggpde")
    handlers, level = log.handlers, log.level
    log.handlers = []
    log.setLevel(logging.NOTSET)
    yield
    log.handlers = handlers
    log.setLevel(level)


def test_a_long_fit_is_announced_once_where_it_is_wanted(capfd):
    for shown in (None, False):
        with Progress(shown) as bar:
            announce(bar, *sizes(7494, 8))
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1
    views = len(sizes(7494, 8)[0])
    assert said[0].startswith("about ")
    assert said[0].endswith(f": 7494 series of 8 points, 1500 landmarks, {views} views")


def test_a_log_that_shows_it_has_it_instead(capfd, caplog):
    with caplog.at_level(logging.INFO, "siggpde"), Progress(None) as bar:
        announce(bar, *sizes(7494, 8))
    assert len(caplog.messages) == 1 and caplog.messages[0].startswith("about ")
    assert capfd.readouterr().err.count("about ") <= 1  # of the log's own handler at the most


def test_a_short_fit_says_nothing(capfd):
    assert seconds(24, 10) < WORTH_SAYING
    SigGPClassifier(verbose=1).fit(walks(), np.arange(24) % 2)
    assert "about" not in capfd.readouterr().err


@pytest.mark.slow
def test_a_fit_of_many_series_says_how_long_it_takes_and_another_is_silent(capfd):
    X, y = walks(1200, 1, 20), np.arange(1200) % 2
    assert seconds(1200, 20, 1) > WORTH_SAYING
    SigGPClassifier(verbose=1).fit(X, y)
    said = capfd.readouterr().err
    assert said.count("about ") == 1 and "1200 series of 20 points, 1200 landmarks" in said
    SigGPClassifier(verbose=0).fit(X, y)
    assert capfd.readouterr().err == ""
