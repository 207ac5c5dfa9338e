"""`siggpde.io.streams`: blocks of a file are the series that `read` finds in it."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.refusals import assert_refused
from siggpde.io import NotStreamable, SeriesData, read, stream


def same(path: Path, size: int, **options: Any) -> None:
    """All blocks together are what `read` gives, to the last bit."""
    whole, source = read(path, **options), stream(path, **options)
    blocks = list(source.blocks(size))
    assert [len(block) for block in blocks[:-1]] == [size] * (len(blocks) - 1)
    assert len(source) == sum(map(len, blocks)) == len(whole)
    assert source.points == whole.lengths.max()
    for block in (source, *blocks):
        assert block.channel_names == whole.channel_names
        assert block.time_channel == whole.time_channel
    for one, other in zip((one for block in blocks for one in block.X), whole.X, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == np.float64
    ids = np.concatenate([np.asarray(block.ids) for block in blocks])
    np.testing.assert_array_equal(ids, np.arange(len(whole)) if whole.ids is None else whole.ids)


@pytest.mark.parametrize("shape", [(7, 5), (7, 2, 3), (1, 1, 1)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_arrays(tmp_path: Path, shape: tuple[int, ...], dtype: str):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=shape, scale=100).astype(dtype))
    for size in (1, 3, 7, 100):
        same(tmp_path / "x.npy", size)


def wide(n: int = 11) -> pl.DataFrame:
    """One row a series, some of them shorter; beside the points words, and numbers that are text."""
    x = np.random.default_rng(1).normal(size=(n, 4)).astype(np.float32)
    x[2, 3:], x[5, 2:], x[n - 1, 1] = np.nan, np.nan, np.nan
    table = pl.DataFrame({f"t_{point}": x[:, point] for point in range(4)}).fill_nan(None)
    return table.with_columns(
        pl.Series("t_4", [None if i < n // 2 else f"{i}.5" for i in range(n)], dtype=pl.String),
        pl.Series("note", ["", "good", "?"] * (n // 3) + ["bad"] * (n % 3)),
        pl.Series("no", np.arange(n)),
    )


@pytest.mark.parametrize("size", [1, 4, 11])
@pytest.mark.parametrize("options", [{"id": "no"}, {"ignore": ["no"]}, {"ignore": ["t_4", "no"]}, {"channels": "vu"}])
def test_rows_that_are_series(tmp_path: Path, size: int, options: dict[str, Any]):
    table = wide()
    if "channels" in options:
        table = pl.DataFrame({f"{c}_{i}": table[f"t_{i}"] for i in range(4) for c in ("u", "v")})
        options = {"channels": ["v", "u"]}
    table.write_parquet(tmp_path / "wide.parquet", row_group_size=3)
    same(tmp_path / "wide.parquet", size, **options)


def long(lengths: list[int], ids: list[Any]) -> pl.DataFrame:
    generator = np.random.default_rng(2)
    rows = sum(lengths)
    return pl.DataFrame(
        {
            "who": [name for name, length in zip(ids, lengths, strict=True) for _ in range(length)],
            "when": np.concatenate([generator.permutation(length) for length in lengths]).astype(float),
            "x": generator.normal(size=rows),
            "word": ["a"] * rows,
            "y": generator.integers(0, 9, size=rows),
        }
    )


LENGTHS, TIMES = st.lists(st.integers(1, 5), min_size=1, max_size=9), st.sampled_from([None, "when"])


@settings(max_examples=30, deadline=None)
@given(LENGTHS, st.integers(1, 9), st.integers(1, 7), st.integers(1, 7), st.booleans(), TIMES)
def test_rows_that_are_points(
    tmp_path_factory: Any, lengths: list[int], size: int, slab: int, group: int, words: bool, time: Any
):
    """Wherever row groups and slabs cut through a series."""
    path = tmp_path_factory.mktemp("long") / "long.parquet"
    ids = [f"w{9 - i}" if words else 100 - i for i in range(len(lengths))]
    long(lengths, ids).write_parquet(path, row_group_size=group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("siggpde.io.streams._SLAB", slab)
        same(path, size, series="who", time=time)
        same(path, size, series="who", time=time, channels=["y", "x"])


def test_dates_and_categories(tmp_path: Path):
    when = pl.datetime(2020, 1, 1) + pl.duration(hours=pl.col("when"))
    table = long([3, 2, 4], ["a", "b", "c"]).with_columns(when=when, who=pl.col("who").cast(pl.Categorical))
    table.write_parquet(tmp_path / "long.parquet")
    same(tmp_path / "long.parquet", 2, series="who", time="when")


@pytest.mark.parametrize("slab", [1, 3, 100])
def test_scattered_series_are_refused(tmp_path: Path, slab: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("siggpde.io.streams._SLAB", slab)
    long([2, 1, 2, 3], ["a", "b", "c", "b"]).write_parquet(tmp_path / "long.parquet")
    message, path = "series 'b' do not stand together; sort the file by 'who', or read", tmp_path / "long.parquet"
    assert_refused(message, stream, path, series="who", error=NotStreamable)


def test_blocks_are_of_a_size_that_fits_and_files_have_an_identity(tmp_path: Path):
    np.save(tmp_path / "x.npy", np.zeros((2, 3, 40), dtype=np.float32))
    assert stream(tmp_path / "x.npy").block_size() == 2**22 // 120 // 1024 * 1024
    (block,) = stream(tmp_path / "x.npy").blocks()
    assert isinstance(block, SeriesData) and block.y is None and block.name == "x"
    np.save(tmp_path / "long.npy", np.zeros((1, 10**6), dtype=np.int8))
    assert stream(tmp_path / "long.npy").block_size() == 1024
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((2, 3)))
    before = stream(path).identity
    assert stream(path).identity == before
    np.save(path, np.ones((3, 3)))
    assert stream(path).identity != before


def test_files_that_cannot_be_streamed(tmp_path: Path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    assert_refused(r"a \.csv file; only \.npy and \.parquet files", stream, tmp_path / "a.csv", error=NotStreamable)
    assert_refused("there is no file", stream, tmp_path / "b.npy", error=FileNotFoundError)
    (tmp_path / "c.parquet").write_bytes(b"PAR1 and nothing else")
    assert_refused(r"c\.parquet is not a whole \.parquet file", stream, tmp_path / "c.parquet")
    pl.DataFrame(schema={"x": pl.Float64}).write_parquet(tmp_path / "d.parquet")
    assert_refused("has no rows", stream, tmp_path / "d.parquet")
    texts = long([2], ["a"]).with_columns(pl.col("when").cast(pl.String))
    texts.write_parquet(tmp_path / "e.parquet")
    options = {"series": "who", "time": "when", "error": NotStreamable}
    assert_refused("column 'when' is text", stream, tmp_path / "e.parquet", **options)
    long([2, 2, 2], ["a", None, "b"]).write_parquet(tmp_path / "f.parquet")
    assert_refused(r"row 2 does not say which series", stream, tmp_path / "f.parquet", series="who")
    np.save(tmp_path / "x.npy", np.zeros((2, 3)))
    assert_refused(r"series='who' has no meaning for \.npy files", stream, tmp_path / "x.npy", series="who")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"series": "nobody"}, "there is no column 'nobody' for series="),
        ({"series": "who", "time": "never"}, "there is no column 'never' for time="),
        ({"series": "who", "channels": ["z"]}, "there is no column 'z' for channels="),
        ({"ignore": ["z"]}, "there is no column 'z' for ignore="),
        ({"time": "when"}, "tells series apart with series="),
        ({"channels": ["z"]}, "there are no columns z_0, z_1"),
        ({"series": "who", "channels": "xy"}, "channels must be a list of names"),
        ({"ignore": ["who", "when", "x", "y"]}, "there are no columns of numbers"),
    ],
)
def test_wrong_options(tmp_path: Path, options: dict[str, Any], message: str):
    long([2, 2], ["a", "b"]).write_parquet(tmp_path / "long.parquet")
    assert_refused(message, stream, tmp_path / "long.parquet", **options)
