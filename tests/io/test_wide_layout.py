"""Wide tables that mean more than their rows of numbers: channels, ids, indices of pandas, and tables that are long."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from siggpde.io import from_frame, read, stream

X = np.random.default_rng(0).normal(size=(12, 2, 6)).cumsum(axis=2)
POINTS = {f"t{i}": X[:, 0, i] for i in range(6)}
MONTHS = dict(zip(["jan", "feb", "mar", "apr", "may", "jun"], X[:, 0].T, strict=True))


def both(name: str) -> dict[str, np.ndarray]:
    return {name.format(c=c, i=i): X[:, k, i] for i in range(6) for k, c in enumerate("xy")}


@pytest.mark.parametrize("name", ["{c}_{i}", "{c}.{i}", "{c}{i}", "{i}_{c}", "acc_{c}_{i}", "{c}_0{i}"])
def test_columns_of_several_channels(name: str):
    data = from_frame(pl.DataFrame({**both(name), "kind": ["a", "b"] * 6}), target="kind")
    prefix = "acc_" if name.startswith("acc") else ""
    assert data.channel_names == (f"{prefix}x", f"{prefix}y")
    np.testing.assert_array_equal(data.X, X)
    same = from_frame(pl.DataFrame(both(name)), channels=list(data.channel_names))
    np.testing.assert_array_equal(same.X, X)


@pytest.mark.parametrize(
    "names", [list("abcdef"), ["2020-01-30", "2020-01-31", "2020-02-01", *"xyz"], ["0.1", *"bcdef"]]
)
def test_other_names_are_one_channel_in_their_order(names: list[str]):
    data = from_frame(pl.DataFrame(dict(zip(names, X[:, 0].T, strict=True))))
    np.testing.assert_array_equal(data.X, X[:, :1])


def test_numbered_columns_are_put_in_order():
    data = from_frame(pl.DataFrame(dict(reversed(POINTS.items()))))
    np.testing.assert_array_equal(data.X, X[:, :1])


@pytest.mark.parametrize("ids", [np.arange(12), np.arange(12) * 7 + 1000, np.arange(12.0), np.arange(12)[::-1] * 5])
@pytest.mark.parametrize("points", [POINTS, MONTHS])
def test_ids_are_no_points(ids: np.ndarray, points: dict[str, np.ndarray]):
    frame = pl.DataFrame({"id": ids, **points})
    with pytest.raises(ValueError, match=r"column 'id' looks like ids of the series.*ignore="):
        from_frame(frame)
    np.testing.assert_array_equal(from_frame(frame, ignore=["id"]).X, X[:, :1])
    data = from_frame(frame, id="id")
    np.testing.assert_array_equal(data.X, X[:, :1])
    assert data.ids is not None and data.ids.tolist() == ids.tolist()


def test_ids_of_text_keep_their_zeros(tmp_path: Path):
    frame = pl.DataFrame({"who": [f"{i:03d}" for i in range(12)], **POINTS})
    frame.write_csv(tmp_path / "a.csv")
    frame.write_parquet(tmp_path / "a.parquet")
    for path in (tmp_path / "a.csv", tmp_path / "a.parquet"):
        ids = read(path, id="who").ids
        assert ids is not None and ids.tolist()[:2] == ["000", "001"]
    blocks = list(stream(tmp_path / "a.parquet", id="who").blocks(5))
    assert [name for block in blocks for name in np.asarray(block.ids)] == [f"{i:03d}" for i in range(12)]


def test_streams_refuse_what_reading_refuses(tmp_path: Path):
    pl.DataFrame({"id": np.arange(12), **POINTS}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="column 'id' looks like ids"):
        stream(tmp_path / "a.parquet")
    pl.DataFrame(both("{c}_{i}")).write_parquet(tmp_path / "b.parquet")
    assert stream(tmp_path / "b.parquet").channel_names == ("x", "y")


@pytest.mark.parametrize("form", ["wide", "long"])
def test_an_index_written_by_pandas_is_left_out(tmp_path: Path, form: str):
    if form == "wide":
        pd.DataFrame(MONTHS).to_csv(tmp_path / "a.csv")
        np.testing.assert_array_equal(read(tmp_path / "a.csv").X, X[:, :1])
    else:
        pd.DataFrame({"who": np.repeat([4, 9], 6), "x": X[:2, 0].ravel()}).to_csv(tmp_path / "a.csv")
        data = read(tmp_path / "a.csv", series="who")
        assert data.channel_names == ("x",)
        np.testing.assert_array_equal(data.X, X[:2, :1])


@pytest.mark.parametrize("who", [np.repeat([3, 8, 5], 6), np.repeat(["ann", "bob", "cid"], 6)])
def test_rows_that_are_points(who: np.ndarray):
    frame = pl.DataFrame({"who": who, "day": np.tile(np.arange(6), 3), "x": X[:3, 0].ravel()})
    with pytest.raises(ValueError, match=r"rows look like points, .* Say series='who', time='day'; .* ignore="):
        from_frame(frame)
    assert len(from_frame(frame, ignore=["who"])) == 18


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {**both("{c}_{i}"), "z_0": X[:, 0, 0], "z_1": X[:, 0, 1]},
            {},
            "unequal numbers of points: x has 6, y has 6, z has 2",
        ),
        ({**POINTS, "age": X[:, 1, 0]}, {}, "columns such as 't0' to 't5', but column 'age' is none of them"),
        (POINTS, {"id": "who"}, "no column 'who' for id=; the 6 columns are"),
        ({"who": [1] * 12, **POINTS}, {"id": "who", "series": "who"}, "series= names the column of ids already"),
        ({"who": [None, *range(11)], **POINTS}, {"id": "who"}, "column 'who', row 0 has no value"),
    ],
)
def test_mistakes_are_explained(columns: dict, options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        from_frame(pl.DataFrame(columns), **options)


def test_a_row_without_values_is_a_series_of_a_missing_point():
    data = from_frame(pl.DataFrame({"a": [1, None], "b": [2, None]}, schema={"a": pl.Float64, "b": pl.Float64}))
    assert data.lengths.tolist() == [2, 1] and np.isnan(data.X[1]).all()
