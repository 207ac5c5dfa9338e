"""A batch of series: slices, chunks, padding, batches joined to one, every layout users have, and what is no series."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.random_paths import modest
from helpers.refusals import assert_refused
from helpers.series_batches import same, times_of
from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.series import SeriesBatch, collect
from siggpde.series.batch import all_gather_series, collect_chunks, join, pad_to_longest


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


def test_last_points_are_repeated_and_times_joined():
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
    one = SeriesBatch(torch.ones(1, 3, 1).double(), None, torch.arange(3.0)[None].double())
    two = SeriesBatch(torch.ones(1, 2, 1).double(), None, torch.arange(2.0)[None].double(), first=1)
    both = join([one, two], range(2))
    assert both.lengths.tolist() == [3, 2]
    assert np.array_equal(both.times.numpy(), [[0, 1, 2], [0, 1, NAN]], equal_nan=True)


NAN, INF = float("nan"), float("inf")


def raw(n: int = 4, channels: int = 3, length: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, channels, length))


LAYOUTS = {
    "array": lambda x: x,
    "Fortran": np.asfortranarray,
    "list of arrays": list,
    "tuple of arrays": tuple,
    "nested lists": lambda x: x.tolist(),
    "list of nested lists": lambda x: [s.tolist() for s in x],
    "tensor": torch.from_numpy,
    "list of tensors": lambda x: list(torch.from_numpy(x)),
    "tensor with gradient": lambda x: torch.tensor(x, requires_grad=True),
    "masked": np.ma.masked_invalid,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_layout_gives_the_same_batch(layout: str, channels: int):
    x = raw(channels=channels)
    batch = collect(LAYOUTS[layout](x.copy()))
    assert batch.values.dtype == torch.float64 and batch.values.is_contiguous()
    assert batch.lengths is None and batch.times is None and len(batch) == 4 and batch.channels == channels
    assert np.array_equal(batch.values.numpy(), x.transpose(0, 2, 1))
    if channels == 1:
        assert same(collect(LAYOUTS[layout](x[:, 0].copy())), batch), "one channel needs no axis"


def test_every_real_type_becomes_float64():
    for dtype in ("f2", "f4", "f8", "i1", "i8", "u1", "u4", "bool", ">f4", "<i2"):
        x = (10 * np.abs(raw())).astype(dtype)
        batch = collect(x)
        assert batch.values.dtype == torch.float64
        assert np.array_equal(batch.values.numpy(), x.astype("f8").transpose(0, 2, 1)), dtype
        assert same(collect(list(x)), batch)
    for dtype in (torch.bfloat16, torch.float16, torch.int32, torch.bool):
        x = (torch.from_numpy(raw()) * 9).to(dtype)
        assert torch.equal(collect(x).values, x.double().transpose(1, 2)), dtype


def test_neither_files_nor_arrays_are_written(tmp_path: Path):
    x = raw().astype("f4")
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    batch = collect(mapped)
    batch.values[:] = 7
    assert np.array_equal(mapped, x)
    for dtype in ("f4", "f8"):
        for x in (raw().astype(dtype), raw(channels=1)[:, 0].astype(dtype), torch.from_numpy(raw().astype(dtype))):
            before = np.asarray(x).copy()
            collect(x).values[:] = 0
            assert np.array_equal(np.asarray(x), before)


def test_nan_at_the_ends_in_all_channels_is_padding_and_elsewhere_a_gap():
    x = raw(4, 2, 6)
    x[0, :, 4:] = NAN
    x[1, 0, 3:] = NAN
    x[2, :, [0, 2]] = NAN
    x[3, :, 1:] = NAN
    batch = collect(x)
    assert batch.lengths.tolist() == [4, 6, 6, 1] and batch.lengths.dtype == torch.int64
    assert batch.counts().tolist() == batch.lengths.tolist()
    assert batch.inside().sum(dim=1).tolist() == [4, 6, 6, 1]
    assert np.array_equal(batch.values.numpy(), x.transpose(0, 2, 1), equal_nan=True)
    ragged = [x[0, :, :4], x[1], x[2], x[3, :, :1]]
    assert same(collect(ragged), batch)
    assert same(collect([ragged[0], x[1], x[2], x[3]]), batch), "both kinds of padding together"
    cut = collect(x[[0, 3]])
    assert cut.values.shape == (2, 4, 2), "nothing is kept that is padding in all"
    assert collect(x[[0, 0]]).lengths is None


def test_masked_values_are_missing():
    x = raw(2, 1, 4)
    hidden = np.zeros(x.shape, bool)
    hidden[0, 0, 1] = hidden[1, 0, 3] = True
    batch = collect(np.ma.masked_array(x, hidden))
    assert batch.lengths.tolist() == [4, 3]
    assert batch.values[..., 0].isnan().nonzero().tolist() == [[0, 1], [1, 3]]
    whole = np.ma.masked_array(np.arange(8).reshape(2, 1, 4), hidden)
    assert collect(whole).values.isnan().sum() == 2


@given(st.data(), st.integers(1, 3), st.integers(1, 60), st.floats(0, 0.6), st.integers(0, 99))
@modest
def test_chunks_join_to_the_whole_batch(data: st.DataObject, channels: int, most: int, gaps: float, seed: int):
    lengths = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=8))
    random = np.random.default_rng(seed)
    x = [random.normal(size=(channels, length)) for length in lengths]
    for series in x:
        series[:, 1:][random.random((channels, series.shape[1] - 1)) < gaps] = NAN
    whole = collect(x)
    padded = np.full((len(x), channels, max(lengths)), NAN)
    for row, series in zip(padded, x, strict=True):
        row[:, : series.shape[1]] = series
    for given_as in (x, padded):
        parts = list(collect_chunks(given_as, max_values=most))
        assert [part.first for part in parts] == np.cumsum([0, *map(len, parts)])[:-1].tolist()
        assert all(len(part) == 1 or part.values.numel() <= most for part in parts)
        assert same(join(parts, whole), whole)
    assert same(collect(padded), whole)


def with_value(value: float) -> np.ndarray:
    x = raw(3, 2, 5)
    x[2, 1, 3] = value
    return x


ERRORS: list[tuple[Any, str]] = [
    (np.zeros(5), r"must have shape .*got \(5,\); Reshape your data: for one series .* write X\[None, None\]"),
    (np.zeros((2, 2, 2, 2)), r"got \(2, 2, 2, 2\)"),
    (3.0, r"got \(\); pass one array"),
    (np.zeros((0, 2, 5)), r"X has no series: .*\(0, 2, 5\)"),
    (np.zeros((3, 0, 5)), "X has no channels"),
    (np.zeros((3, 2, 0)), "X has no time points"),
    (np.zeros((3, 0)), "X has no time points"),
    (np.zeros((0, 4)), "X has no series"),
    ([], "X is empty"),
    ((), "X is empty"),
    ([1.0, 2.0], r"series 0 of X must have shape .*got \(\); a single series goes into a list"),
    ([np.zeros((2, 4)), np.zeros((2, 0))], r"series 1 of X must have .*got \(2, 0\)"),
    ([np.zeros(4), np.zeros((0, 4))], r"series 1 of X must have .*got \(0, 4\)"),
    ([np.zeros((2, 4)), np.zeros((1, 2, 4))], r"series 1 of X must have shape .*got \(1, 2, 4\)"),
    ([np.zeros((2, 4)), np.zeros((5, 2))], "series 1 of X has 5 channels and 2 time .* series 0 has 2.*transpose"),
    ([np.zeros((2, 4)), np.zeros(4)], "series 1 of X has 1 channels"),
    ([[[1.0, 2.0], [3.0]]], "series 0 of X is not an array of numbers.*equally many time points"),
    (np.array([["a", None]], dtype=object), "X must hold real numbers, got ndarray of dtype object; .*list"),
    (np.array([["1", "2"]]), "X must hold real numbers, got ndarray of dtype <U1; convert"),
    ([["a", "b"]], "series 0 of X must hold real numbers"),
    (np.zeros((2, 3), complex), "dtype complex128; pass the real and the imaginary part"),
    (torch.zeros(2, 3, dtype=torch.complex64), "complex64; pass the real"),
    (np.zeros((2, 3), "datetime64[s]"), "convert time stamps to numbers"),
    (None, "X must hold real numbers, got NoneType"),
    ((x for x in [1]), "got generator of dtype object"),
    (torch.zeros(2, 3).to_sparse(), "sparse tensor; convert it with .to_dense"),
    (with_value(INF), r"series 2 of X is infinite \(inf\) in channel 1 at time point 3; put NaN"),
    (list(with_value(-INF)), r"series 2 of X is infinite \(-inf\) in channel 1 at time point 3"),
    (np.where([[[0]], [[1]], [[0]]], NAN, raw(3)[:, :1]), "series 1 of X is NaN everywhere"),
    ([[1.0], [2.0], [NAN, NAN]], "series 2 of X is NaN everywhere"),
]


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize(("x", "message"), ERRORS, ids=[message[:40] for _, message in ERRORS])
def test_errors_name_the_series_and_the_fix(x: Any, message: str):
    assert_refused(message, collect, x)
    assert_refused(message.replace("X ", "train ").replace("of X", "of train"), collect, x, "train")


def test_errors_of_later_chunks_count_from_the_first():
    x = with_value(INF)
    for given_as in (x, list(x)):
        assert_refused("series 2 of X is infinite", list, collect_chunks(given_as, max_values=10))
    x[2] = NAN
    assert_refused("series 2 of X is NaN everywhere", list, collect_chunks(x, max_values=1))


def test_arrays_of_objects_are_read_where_they_hold_numbers():
    ragged = np.empty(2, dtype=object)
    ragged[:] = [np.zeros(3), np.ones(2)]
    assert collect(ragged).counts().tolist() == [3, 2]
    gap = collect([[1.0, 2.0, 3.0], [1.0, None, 2.0]])
    assert gap.values[1, :, 0].isnan().tolist() == [False, True, False]
    assert collect(np.array([[1, 2.5]], dtype=object)).values.flatten().tolist() == [1.0, 2.5]
    assert_refused(r"sparse.*toarray", collect, scipy.sparse.eye(3), error=TypeError)
    assert_refused("must be a string or a number", collect, np.array([[{"a": 1}, 2.0]], dtype=object), error=TypeError)
