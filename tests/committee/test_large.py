"""Landmarks of many series, and one pass over all: the same sums with any number of threads and ranks."""

import threading
from pathlib import Path

import pytest
import torch

from helpers import rank_jobs
from helpers.refusals import assert_refused
from helpers.small_view_committees import Extremes, small_views
from helpers.view_data import random_walks, standardised
from siggpde.committee.large import LargeFit, choose_landmarks, parallel_map
from siggpde.committee.recipes import Recipe
from siggpde.committee.regression import Targets
from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.numerics.core import limited
from siggpde.series import SeriesBatch
from siggpde.utils.progress import Progress
from siggpde.views import TransformerView
from siggpde.views.base import Standard


@pytest.fixture(autouse=True)
def as_many_threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_threads_change_no_bit():
    batch = standardised(SeriesBatch(random_walks(2300, 20, 1)))
    targets = Targets((batch.values[:, -1, 0] > batch.values[:, 0, 0]).long(), 2)
    blocks, rows = [], {}
    for view in small_views()[:-1]:
        block, landmark_rows = view.fit(batch[:50])
        blocks, rows = [*blocks, block], rows | landmark_rows
    recipes = [Recipe("sum", (("x1", 2.0), ("L", 1.0), ("P", 1.0))), Recipe("square", (("base", 1.0), ("R1", 1.0)), 2)]
    fits = []
    for threads in (1, 2):
        seen = LargeFit(batch, targets, Standard.fit(batch), blocks, rows, Shard(ALONE, 2300), threads)
        fits.append(seen.fit(recipes, torch.arange(60, 200), Progress(False)))
    for (one, one_left_out), (two, two_left_out) in zip(*fits, strict=True):
        assert torch.equal(one.alpha, two.alpha) and torch.equal(one.root, two.root)
        assert torch.equal(one_left_out.mean, two_left_out.mean)


def test_transformers_of_users_are_called_by_one_thread():
    callers: set[int] = set()

    class Watched(Extremes):
        def transform(self, X):
            callers.add(threading.get_ident())
            return super().transform(X)

    torch.set_num_threads(2)
    rank_jobs.many_series(ALONE, kinds=("linear",), more_views=(TransformerView("extremes", Watched()),))
    assert callers == {threading.get_ident()}


def test_two_ranks_find_what_one_does(tmp_path: Path):
    wanted = rank_jobs.many_series(ALONE)
    actual = rank_jobs.run(2, "many_series", tmp_path)
    for facts in actual:
        assert isinstance(facts, dict), facts
        assert facts["members"] == wanted["members"] and facts["landmarks"] == 60
        assert torch.equal(facts["probabilities"], wanted["probabilities"])


@pytest.mark.slow
def test_two_ranks_find_what_one_does_with_the_defaults(tmp_path: Path):
    """More series than there can be landmarks, all views."""
    wanted = rank_jobs.default_classifier(ALONE)
    for facts in rank_jobs.run(2, "default_classifier", tmp_path, seconds=1200.0):
        assert isinstance(facts, dict), facts
        assert facts["members"] == wanted["members"]
        torch.testing.assert_close(facts["probabilities"], wanted["probabilities"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_are_in_order_and_an_error_ends_the_work(threads: int):
    assert list(parallel_map(str, range(20), threads)) == list(map(str, range(20)))
    asked: list[int] = []

    def failing(number: int) -> int:
        asked.append(number)
        if number == 3:
            raise ArithmeticError("three")
        return number

    actual = []
    assert_refused("three", actual.extend, parallel_map(failing, range(1000), threads), error=ArithmeticError)
    assert max(asked) <= 3 + threads


def test_chunks_have_the_threads_of_the_core_where_torch_has_one():
    def name(_: int) -> str:
        return threading.current_thread().name

    with limited(2, rows=10):
        assert torch.get_num_threads() == 1
        assert all(thread.startswith("chunk") for thread in parallel_map(name, range(4)))
        assert torch.get_num_threads() == 1
    with limited(1, rows=10):
        assert set(parallel_map(name, range(4))) == {threading.current_thread().name}


@pytest.mark.parametrize(("n", "count", "landmarks", "tuned"), [(5, 5, 5, 0), (3, 9, 3, 0), (700, 699, 467, 233)])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_series_is_at_most_one_of_both(n: int, count: int, landmarks: int, tuned: int, seed: int):
    actual = choose_landmarks(SeriesBatch(random_walks(n, 4, 1, 6)), count, seed, Shard(ALONE, n))
    assert (len(actual.landmarks), len(actual.tuned)) == (landmarks, tuned)
    both = torch.cat([actual.landmarks, actual.tuned])
    assert len(both.unique()) == landmarks + tuned
    assert int(both.min()) >= 0 and int(both.max()) < n


def test_landmarks_of_many_series():
    actual = choose_landmarks(SeriesBatch(random_walks(2000, 3, 1, 6)), 800, 0, Shard(ALONE, 2000))
    assert (len(actual.landmarks), len(actual.tuned)) == (800, 1200)
    x, turned = random_walks(1000, 4, 2, 6), torch.randperm(1000, generator=torch.Generator().manual_seed(3))
    one = choose_landmarks(SeriesBatch(x), 300, 0, Shard(ALONE, 1000))
    other = choose_landmarks(SeriesBatch(x[turned]), 300, 0, Shard(ALONE, 1000))
    assert torch.equal(one.landmarks, turned[other.landmarks])
    assert torch.equal(one.tuned, turned[other.tuned])
    # Not from one end of the order by which they were sorted.
    x = random_walks(300, 4, 1, 6)
    x[:, :, 0] += torch.linspace(0, 1000, 300).double()[:, None]
    actual = choose_landmarks(SeriesBatch(x), 100, 0, Shard(ALONE, 300))
    assert 100 < float(actual.landmarks.double().mean()) < 200
