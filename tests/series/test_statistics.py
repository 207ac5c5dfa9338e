"""Facts of series against numpy, series by series."""

import math

import numpy as np
import pytest
import torch

from siggpde.series import Preparation, SeriesBatch
from siggpde.series.statistics import statistic_names, statistics_of


def slow(x: np.ndarray) -> list[float]:
    """Of one series (channels, points)."""
    actual = []
    for channel in x:
        seen = channel[np.isfinite(channel)]
        if not len(seen):
            actual += [math.nan, math.nan, math.nan]
            continue
        spread = float(seen.std())
        rough = float(np.abs(np.diff(seen)).mean()) / spread if spread > 0 and len(seen) > 1 else math.nan
        actual += [float(seen.mean()), spread, rough]
    return [*actual, float(x.shape[1]), math.nan, float(np.isnan(x).mean())]


def known_statistics(preparation: Preparation, series: list[np.ndarray]) -> torch.Tensor:
    statistics = preparation.fit_transform(series).statistics
    assert statistics is not None
    return statistics


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_statistics_are_those_of_every_series(gaps: float):
    random = np.random.default_rng(0)
    series = [random.normal(size=(2, length)) * 3 + 1 for length in (5, 9, 7, 2)]
    for one in series:
        hidden = random.random(one.shape) < gaps
        hidden[:, [0, -1]] = False
        one[hidden] = np.nan
    statistics = known_statistics(Preparation(max_points=4), series)
    np.testing.assert_allclose(statistics.numpy(), [slow(one) for one in series], rtol=1e-9, atol=1e-12)


def test_statistics_by_hand():
    series = [np.array([[1e6] * 4, [np.nan] * 4]), np.array([[1.0, 2.0, 3.0, 5.0]] * 2)]
    statistics = known_statistics(Preparation(), series)
    assert statistics[0, :3].tolist()[:2] == [1e6, 0.0] and bool(statistics[0, 2:6].isnan().all())
    assert float(statistics[0, -1]) == 0.5
    values = torch.zeros(2, 3, 1).double()
    times = torch.tensor([[0.0, 1.0, 4.0], [2.0, 3.0, 9.0]]).double()
    statistics = statistics_of(SeriesBatch(values, torch.tensor([3, 2]), times))
    assert statistics[:, -2].tolist() == [4.0, 1.0]
    names = statistic_names(["x", "y"])
    assert len(names) == statistics_of(SeriesBatch(torch.zeros(1, 3, 2).double())).shape[1]
    assert names[3] == "level of y" and names[-3] == "length"


def test_statistics_follow_their_series():
    batch = Preparation(time_channel=0).fit_transform(np.random.default_rng(0).random((5, 2, 6)).cumsum(2))
    assert batch.statistics is not None
    for part, rows in ((batch[torch.tensor([3, 1])], [3, 1]), (batch[1:3], [1, 2]), (batch.hold_last(), range(5))):
        assert part.statistics is not None and torch.equal(part.statistics, batch.statistics[list(rows)])


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_units_do_not_matter(unit: float):
    series = np.random.default_rng(0).normal(size=(3, 1, 9))
    plain, other = (known_statistics(Preparation(), list(data)) for data in (series, unit * series))
    torch.testing.assert_close(other[:, :2] / unit, plain[:, :2])
    torch.testing.assert_close(other[:, 2], plain[:, 2])
