"""Landmarks, and the series that decide noise and link beside them."""

import pytest
import torch

from helpers.view_data import walks
from siggpde.committee.landmarks import choose_landmarks
from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.series import SeriesBatch


@pytest.mark.parametrize(("n", "count", "landmarks", "tuned"), [(5, 5, 5, 0), (3, 9, 3, 0), (700, 699, 467, 233)])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_series_is_at_most_one_of_both(n: int, count: int, landmarks: int, tuned: int, seed: int):
    found = choose_landmarks(SeriesBatch(walks(n, 4, 1, 6)), count, seed, Shard(ALONE, n))
    assert (len(found.landmarks), len(found.tuned)) == (landmarks, tuned)
    both = torch.cat([found.landmarks, found.tuned])
    assert len(both.unique()) == landmarks + tuned
    assert int(both.min()) >= 0 and int(both.max()) < n


def test_as_many_landmarks_as_wanted_of_many():
    found = choose_landmarks(SeriesBatch(walks(2000, 3, 1, 6)), 800, 0, Shard(ALONE, 2000))
    assert (len(found.landmarks), len(found.tuned)) == (800, 1200)


def test_the_order_in_which_series_are_given_does_not_matter():
    x, turned = walks(1000, 4, 2, 6), torch.randperm(1000, generator=torch.Generator().manual_seed(3))
    one = choose_landmarks(SeriesBatch(x), 300, 0, Shard(ALONE, 1000))
    other = choose_landmarks(SeriesBatch(x[turned]), 300, 0, Shard(ALONE, 1000))
    assert torch.equal(one.landmarks, turned[other.landmarks])
    assert torch.equal(one.tuned, turned[other.tuned])


def test_landmarks_of_few_long_series_are_drawn_at_random():
    """Not from one end of the order by which they were sorted."""
    x = walks(300, 4, 1, 6)
    x[:, :, 0] += torch.linspace(0, 1000, 300).double()[:, None]
    found = choose_landmarks(SeriesBatch(x), 100, 0, Shard(ALONE, 300))
    assert 100 < float(found.landmarks.double().mean()) < 200
