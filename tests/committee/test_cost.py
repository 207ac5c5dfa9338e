"""What a fit costs: as it is said before it starts, and what very many series can afford."""

import logging
import math
import re

import numpy as np
import pytest
import torch

from helpers import small_estimators
from helpers.small_view_committees import small_views
from helpers.view_data import random_walks, standardised
from siggpde import SigGPClassifier
from siggpde.committee import cost
from siggpde.committee.recipes import Recipe
from siggpde.committee.weights import affordable
from siggpde.series import SeriesBatch
from siggpde.utils.progress import Progress
from siggpde.views.kernels import KernelView
from siggpde.views.kinds import default_views

N, M = 10**6, 100
OWN = N * 2 * cost.PRODUCT * M**2  # seconds of the regression of a member
SECONDS = {"cheap": 1e-5, "usual": 2e-4, "dear": 6e-4, "much too dear": 5e-3}
RECIPES = [Recipe(name, ((name, 1.0),)) for name in SECONDS]
ALL = [*RECIPES, Recipe("cheap and dear", (("cheap", 1.0), ("dear", 1.0)))]


def chosen(weights: list[float], scores: list[float] | None = None, total: int = N, limit: float | None = None):
    scores = scores or [1.0, 0.8, 0.7, 0.6, 0.65]
    actual = affordable(ALL, scores, torch.tensor(weights, dtype=torch.float64), lambda: SECONDS, total, limit, M)
    assert float(actual.sum()) == pytest.approx(1.0)
    return {ALL[index].name: float(actual[index]) for index in actual.nonzero()[:, 0].tolist()}


def test_up_to_twenty_thousand_series_only_a_time_limit_leaves_members_out(caplog: pytest.LogCaptureFixture):
    weights = [0.0, 0.0, 0.0, 0.7, 0.3]
    everything = {"much too dear": 0.7, "cheap and dear": pytest.approx(0.3)}
    assert chosen(weights, total=cost.LARGE) == chosen(weights, total=M, limit=1e-9) == everything
    assert not caplog.records
    assert chosen(weights, total=cost.LARGE, limit=20.0) == {"cheap and dear": 1.0}
    assert "the budget of 20 s" in caplog.text
    assert cost.landmarks_for(cost.LARGE, 1500) == cost.landmarks_for(1500, 1500, limit=1e-9) == 1500
    assert cost.landmarks_for(cost.LARGE, 1500, limit=1e-9) == 300


def test_what_fits_is_kept_and_what_does_not_is_left_out_as_the_log_says(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        assert chosen([0.25, 0.75, 0.0, 0.0, 0.0]) == {"cheap": 0.25, "usual": 0.75}
    assert "of 1000000 series take about 212 s of one core, of 750" in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    caplog.clear()
    assert chosen([0.1, 0.3, 0.0, 0.6, 0.0]) == {"cheap": pytest.approx(0.25), "usual": pytest.approx(0.75)}
    (record,) = caplog.records
    said = record.getMessage()
    assert record.levelno == logging.WARNING
    assert "of 1000000 series" in said and "the budget of 750 s" in said
    assert "much too dear (loss 0.6000, 5001 s) left out for" in said
    assert "cheap (loss 1.0000, 11 s), usual (loss 0.8000, 201 s), about 212 s" in said


def test_members_are_chosen_within_the_budget_or_the_time_limit():
    """`cheap` and `dear` are within the budget together; their sum has no kernel more."""
    assert 1e-5 * N + 6e-4 * N + 3 * OWN < cost.BUDGET < 2 * 6e-4 * N
    assert set(chosen([0.2, 0.0, 0.5, 0.0, 0.3])) == {"cheap", "dear", "cheap and dear"}
    # `usual` and `dear` are too dear together. By the second `usual` is better, but `dear` weighs more than that.
    assert set(chosen([0.0, 0.4, 0.6, 0.0, 0.0])) == {"dear"}
    assert set(chosen([0.0, 0.6, 0.4, 0.0, 0.0])) == {"usual"}
    assert set(chosen([0.3, 0.35, 0.35, 0.0, 0.0])) == {"cheap", "usual"}
    assert chosen([0.0, 0.0, 0.0, 1.0, 0.0]) == {"cheap and dear": 1.0}
    assert chosen([0.0, 0.0, 0.0, 1.0, 0.0], [1.0, 0.5, 0.7, 0.3, 0.65]) == {"usual": 1.0}
    assert chosen([0.0, 0.2, 0.2, 0.6, 0.0], total=10**9) == {"cheap": 1.0}
    weights = [0.1, 0.3, 0.6, 0.0, 0.0]
    assert set(chosen(weights, limit=100.0)) == {"cheap"}
    assert set(chosen(weights, limit=10 * cost.BUDGET)) == {"cheap", "usual", "dear"}


@pytest.mark.parametrize("total", [cost.LARGE + 1, 10**5, 10**6, 10**8])
@pytest.mark.parametrize(("points", "channels"), [(46, 1), (300, 3), (5, 30)])
def test_landmarks_become_fewer_with_series_windows_and_seconds(total: int, points: int, channels: int):
    actual = cost.landmarks_for(total, 1500, points, channels)
    assert 300 <= actual <= 1500
    assert cost.landmarks_for(10 * total, 1500, points, channels) <= actual
    assert cost.landmarks_for(total, 1500, 2 * points, channels) <= actual
    assert cost.landmarks_for(total, 1500, points, channels, limit=10.0) <= actual
    assert cost.landmarks_for(total, 200, points, channels) == 200
    assert cost.landmarks_for(77, 1500) == 77


def test_costs_are_a_function_of_the_series_and_those_of_the_users_views_are_measured():
    batch = standardised(SeriesBatch(random_walks(24, 30, 2)))
    once, again = ([view.fit(batch)[0] for view in small_views()] for _ in range(2))
    actual = cost.row_seconds(once, batch, {"extremes": 3.0})
    assert actual == cost.row_seconds(again, batch, {"extremes": 3.0, "P": 9.0})
    assert actual["extremes"] == 3.0
    assert actual.keys() == {name for block in once for name in block.centring}
    assert all(seconds > 0 for seconds in actual.values())
    half = batch[:12]
    cheaper = cost.row_seconds([view.fit(half)[0] for view in small_views()], half, {"extremes": 3.0})
    assert all(cheaper[name] < actual[name] for name in actual if name != "extremes")


def sizes(series: int, points: int = 50, channels: int = 2):
    """The default views of so many series, and landmarks, of which only the sizes matter."""
    landmarks = SeriesBatch(torch.zeros(min(series, cost.MAX_LANDMARKS), points, channels, dtype=torch.float64))
    return default_views(landmarks, series), landmarks, series


def seconds(*given: int) -> float:
    return sum(cost.fit_seconds(*sizes(*given)))


def test_more_longer_series_and_more_views_take_longer_and_the_words_are_short():
    by_series = [seconds(n) for n in (20, 100, 500, 1500, 3000, 10_000, 20_000)]
    assert by_series == sorted(by_series) and by_series[0] < 1 and by_series[-1] > 60
    by_points = [seconds(200, points) for points in (10, 20, 50, 100, 300, 1000)]
    assert by_points == sorted(by_points) and by_points[0] < by_points[-1]
    views, landmarks, series = sizes(1000)
    linear = [view for view in views if view.kind == "linear"]
    assert sum(cost.fit_seconds(linear, landmarks, series)) < sum(cost.fit_seconds(views, landmarks, series)) / 4
    for exact in np.geomspace(5, 1e5, 500).tolist():
        number, unit = cost.duration(exact).split()[1:]
        assert len(number) <= 3
        assert float(number) * {"s": 1, "min": 60, "h": 3600}[unit] == pytest.approx(exact, rel=0.34)


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
    memory = []
    for views, landmarks, series in (sizes(7494, 8), sizes(7494, 800)):
        for shown in (None, False):
            with Progress(shown) as bar:
                cost.announce(bar, views, landmarks, series)
        (line,) = capfd.readouterr().err.splitlines()
        points = landmarks.values.shape[1]
        end = f": 7494 series of {points} points, 1500 landmarks, {len(views)} views"
        memory += [float(number) for number in re.findall(rf"^about .* and (.*) GB of memory{end}$", line)]
    assert 0.5 < memory[0] < memory[1] < 3
    views, landmarks, _ = sizes(7494, 800)
    cost.announce(Progress(None), views[: len(views) // 2], landmarks, 7494)
    (fewer,) = re.findall(r"and (.*) GB of memory", capfd.readouterr().err)
    assert float(fewer) < memory[1], "fewer views take less memory"


def test_a_log_that_shows_it_has_it_instead_and_a_short_fit_says_nothing(capfd, caplog):
    with caplog.at_level(logging.INFO, "siggpde"), Progress(None) as bar:
        cost.announce(bar, *sizes(7494, 8))
    assert len(caplog.messages) == 1 and caplog.messages[0].startswith("about ")
    assert capfd.readouterr().err.count("about ") <= 1  # of the log's own handler at the most
    assert seconds(24, 10) < cost.WORTH_SAYING
    SigGPClassifier(verbose=1).fit(small_estimators.random_walks(), np.arange(24) % 2)
    assert "about" not in capfd.readouterr().err


@pytest.mark.slow
def test_a_fit_of_many_series_says_how_long_it_takes_and_another_is_silent(capfd):
    X, y = small_estimators.random_walks(1200, 1, 20), np.arange(1200) % 2
    assert seconds(1200, 20, 1) > cost.WORTH_SAYING
    SigGPClassifier(verbose=1).fit(X, y)
    said = capfd.readouterr().err
    assert said.count("about ") == 1 and "1200 series of 20 points, 1200 landmarks" in said
    SigGPClassifier(verbose=0).fit(X, y)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("view", [KernelView("P"), KernelView("R", bandwidth=0.5, base_point=True, path_length=12.0)])
def test_seconds_of_a_kernel_are_those_of_its_cells(view: KernelView):
    landmarks = SeriesBatch(torch.zeros(40, 6, 2, dtype=torch.float64))
    segments = 5 + int(view.base_point)
    cuts = math.ceil(view.path_length / segments / 1.5)  # no piece is longer than 1.5
    speed = 1.2e9 if view.bandwidth is None else 0.4e9
    pieces = cuts * segments
    exact = 100 * 40 * pieces**2 / speed
    assert view.seconds(landmarks, 100) == pytest.approx(exact, rel=0.1)
