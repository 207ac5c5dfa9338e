"""A batch of series as a container: slices, chunks, padding, and batches joined to one."""

import numpy as np
import pytest
import torch

from helpers.series_batches import same, times_of
from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.paths import SeriesBatch
from siggpde.paths.batch import join
from siggpde.paths.sharding import all_gather_series, pad_to_longest

NAN = float("nan")


def batch_of(n: int = 5, ragged: bool = True, timed: bool = True) -> SeriesBatch:
    values = torch.randn(n, 4, 2, generator=torch.Generator().manual_seed(0)).double()
    lengths = torch.tensor([4, 2, 3, 1, 4])[:n] if ragged else None
    times = torch.arange(4.0).double() * torch.arange(1, n + 1)[:, None] if timed else None
    return SeriesBatch(values, lengths, times, first=10)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("timed", [False, True])
def test_rows_are_taken_of_values_lengths_and_times_alike(ragged: bool, timed: bool):
    batch = batch_of(ragged=ragged, timed=timed)
    rows = torch.tensor([3, 0])
    for taken in (batch[rows], all_gather_series(Shard(ALONE, 5), rows, batch)):
        assert torch.equal(taken.values, batch.values[rows])
        assert taken.counts().tolist() == batch.counts()[rows].tolist()
        assert taken.times is None if batch.times is None else torch.equal(taken.times, batch.times[rows])
    assert batch[1:3].first == 11 and batch[rows].first == 0
    assert same(pad_to_longest(batch, ALONE), batch)


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_chunks_follow_each_other_and_are_numbered_on(size: int):
    batch = batch_of()
    chunks = list(batch.split(size))
    assert [chunk.first for chunk in chunks] == list(range(10, 15, size))
    assert same(join(chunks, range(5)), batch) and all(len(chunk) <= size for chunk in chunks)
    assert [len(chunk) for chunk in batch[:0].split(size)] == [0]


def test_the_last_point_and_its_time_are_repeated():
    batch = batch_of()
    held = batch.hold_last()
    held_times, times = times_of(held), times_of(batch)
    for row, count in enumerate(batch.counts().tolist()):
        assert torch.equal(held.values[row, :count], batch.values[row, :count])
        assert (held.values[row, count:] == batch.values[row, count - 1]).all()
        assert (held_times[row, count:] == times[row, count - 1]).all()
    assert torch.equal(held.lengths, batch.lengths) and held.first == batch.first
    equal = batch_of(ragged=False)
    assert equal.hold_last() is equal


def test_times_are_joined_too():
    one = SeriesBatch(torch.ones(1, 3, 1).double(), None, torch.arange(3.0)[None].double())
    two = SeriesBatch(torch.ones(1, 2, 1).double(), None, torch.arange(2.0)[None].double(), first=1)
    both = join([one, two], range(2))
    assert both.lengths.tolist() == [3, 2]
    assert np.array_equal(both.times.numpy(), [[0, 1, 2], [0, 1, NAN]], equal_nan=True)
