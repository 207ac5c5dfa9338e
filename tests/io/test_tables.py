"""Tables, long and wide, from files and from memory, against pandas; groups, weights, and tables without series."""

import csv
import re
import tempfile
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siggpde.io
from helpers.io_data import LONG, NAN, WIDE, assert_equal, series_data
from helpers.processes import run
from helpers.refusals import assert_refused
from siggpde import SigGPClassifier
from siggpde.io import SeriesData, from_frame, groups_by_time, read, stream, write


def table(kind: str, columns: dict, folder: Path) -> dict:
    """The arguments that read a table in one of its forms: `read` of a file, or `from_frame`."""
    match kind:
        case "polars":
            return {"frame": pl.DataFrame(columns)}
        case "lazy":
            return {"frame": pl.LazyFrame(columns)}
        case "pandas":
            return {"frame": pd.DataFrame(columns)}
        case "nullable":
            return {"frame": pd.DataFrame(columns).convert_dtypes()}
        case "csv":
            pd.DataFrame(columns).to_csv(folder / "table.csv", index=False)
            return {"path": folder / "table.csv"}
        case "parquet":
            pd.DataFrame(columns).to_parquet(folder / "table.parquet", index=False)
            return {"path": folder / "table.parquet"}
    raise AssertionError(kind)


def load(source: dict, **options) -> SeriesData:
    """What is read of a table; frames are as before."""
    if "path" in source:
        return read(**source, **options)
    before = source["frame"].clone() if isinstance(source["frame"], pl.DataFrame) else source["frame"]
    before = before.copy() if isinstance(before, pd.DataFrame) else before
    data = from_frame(**source, **options)
    assert isinstance(before, pl.LazyFrame) or source["frame"].equals(before)
    return data


FORMS = ["polars", "lazy", "pandas", "nullable", "csv", "parquet"]


@pytest.mark.parametrize("form", FORMS)
def test_long_form(tmp_path: Path, form: str):
    data = load(table(form, LONG, tmp_path), series="who", time="day", target="kind")
    assert data.channel_names == ("day", "x", "y") and data.time_channel == 0
    assert data.ids is not None and data.ids.tolist() == ["ann", "bob"]
    assert data.y is not None and data.y.tolist() == ["A", "B"]
    np.testing.assert_array_equal(data.X[0], [[1, 2], [1.5, 2.5], [6, 7]])
    np.testing.assert_array_equal(data.X[1], [[1, 2, 3], [10, 20, NAN], [1, 2, 3]])
    assert data.name == ("table" if form in ("csv", "parquet") else "frame")
    data = load(table(form, LONG, tmp_path), series="who", channels=["y"], ignore=["day"])
    assert data.channel_names == ("y",) and data.time_channel is None and data.y is None
    np.testing.assert_array_equal(data.X[0], [[7, 6]])
    np.testing.assert_array_equal(data.X[1], [[1, 3, 2]])


@pytest.mark.parametrize("form", FORMS)
def test_wide_form(tmp_path: Path, form: str):
    data = load(table(form, WIDE, tmp_path), target="kind", channels=["x", "y"])
    assert data.channel_names == ("x", "y") and data.ids is None
    assert data.y is not None and data.y.dtype == bool and data.y.tolist() == [True, False, True]
    np.testing.assert_array_equal(data.X[0], [[1, 2, 3], [1.5, 4.5, 7.5]])
    np.testing.assert_array_equal(data.X[1], [[4, 5, 6], [NAN, 5.5, NAN]])
    np.testing.assert_array_equal(data.X[2], [[7, 8], [3.5, NAN]])
    columns = {"label": [3, 4], "note": ["good", "bad"], "a": [1, 5], "b": [None, 6], "c": [3.5, None]}
    data = load(table(form, columns, tmp_path), target="label")
    assert data.channel_names == ("channel 0",)
    assert data.y is not None and data.y.dtype.kind == "i" and data.y.tolist() == [3, 4]
    np.testing.assert_array_equal(data.X[0], [[1, NAN, 3.5]])
    np.testing.assert_array_equal(data.X[1], [[5, 6]])


@pytest.mark.parametrize("columns", [["x.0", "x.1", "x1.0", "x1.1"], ["x1", "x2"], ["x_1", "x_2", "x_y"], ["x0", "x1"]])
def test_names_of_points(columns: list[str]):
    frame = pl.DataFrame({name: [float(i)] for i, name in enumerate(columns)})
    np.testing.assert_array_equal(from_frame(frame, channels=["x"]).X, [[[0, 1]]])


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ([1, 2, 4], [1, 2, 4]),
        ([0.5, 0.25, 1e-9], [0.5, 0.25, 1e-9]),
        ([date(1970, 1, 2), date(1970, 1, 1), date(1969, 12, 31)], [86400, 0, -86400]),
        ([datetime(1970, 1, 1, 0, 0, i, 500_000) for i in range(3)], [0.5, 1.5, 2.5]),
        (["1970-01-01T00:00:01", "1970-01-01T00:01:00", "1970-01-02T00:00:00"], [1, 60, 86400]),
        (["1970-01-01 00:00:01Z", "1970-01-01 00:01:00Z", "1970-01-02 00:00:00Z"], [1, 60, 86400]),
        (["1970-01-01T01:00:00+01:00", "1970-01-01T01:00:01+01:00", "1970-01-01T01:00:02+01:00"], [0, 1, 2]),
        ([timedelta(milliseconds=i) for i in range(3)], [0.0, 0.001, 0.002]),
    ],
    ids=["integers", "floats", "dates", "datetimes", "texts", "UTC", "zones", "durations"],
)
@pytest.mark.parametrize("form", ["polars", "pandas", "parquet", "csv"])
def test_times(tmp_path: Path, times: list, seconds: list, form: str):
    source = table(form, {"s": [1, 1, 1], "t": times, "v": seconds}, tmp_path)
    if form == "csv" and isinstance(times[0], timedelta):  # which pandas writes in words
        assert_refused(r"neither numbers nor dates .* starts with '0 days", load, source, series="s", time="t")
        return
    data = load(source, series="s", time="t")
    np.testing.assert_array_equal(data.X[0], [np.sort(seconds)] * 2)


def test_times_with_zones_of_pandas_and_polars():
    stamps = pd.date_range("2020-07-01", periods=3, freq="h", tz="Europe/Berlin")
    frame = pd.DataFrame({"s": 1, "t": stamps, "v": 0.0})
    offset = frame.assign(t=stamps.tz_convert("UTC+02:00"))
    for one in (frame, offset, pl.DataFrame({"s": [1] * 3, "t": list(stamps), "v": [0.0] * 3})):
        data = from_frame(one, series="s", time="t")
        x = data.X[0]
        np.testing.assert_array_equal(x[0], np.datetime64("2020-06-30T22:00").astype(int) * 60 + 3600 * np.arange(3))
        assert data.time_format is not None and data.time_format.when(*x[0, 1:]) == "2020-07-01 01:00 to 02:00"


@pytest.mark.parametrize("form", ["polars", "pandas", "csv", "parquet", "npz", "write csv", "write parquet"])
@pytest.mark.parametrize(
    ("times", "words"),
    [
        (["2025-04-06 14:30", "2025-04-06 17:40"], "2025-04-06 14:30 to 17:40"),
        (["2025-04-06T14:30:00+02:00", "2025-04-06T17:40:00+02:00"], "2025-04-06 14:30 to 17:40"),
        ([date(2025, 4, 6), date(2025, 4, 9)], "2025-04-06 to 2025-04-09"),
        ([1743949800, 1743961200], "2025-04-06 14:30 to 17:40"),
        ([2.5, 4.25], "2 h 30 min to 4 h 15 min"),
    ],
)
def test_what_times_are_is_known_whatever_the_form(tmp_path: Path, form: str, times: list, words: str):
    columns = {"s": [1, 1], "t (h)": times, "v": [1.0, 2.0]}
    options = {"series": "s", "time": "t (h)"}
    if form in FORMS:
        data = load(table(form, columns, tmp_path), **options)
    else:
        suffix = form.removeprefix("write ")
        write(tmp_path / f"again.{suffix}", from_frame(pl.DataFrame(columns), **options))
        data = read(tmp_path / f"again.{suffix}", **({} if form == "npz" else options | {"series": "series"}))
    assert data.time_format is not None
    assert data.time_format.when(*data.X[0][0]) == words


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        *(([1, 2], "i"), ([1.5, -2.0], "f"), ([True, False], "b")),
        *((words, "U") for words in (["a b", "é"], ["True", "no"], ["1", "x"], ["007", "8"])),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_labels_of_every_kind(tmp_path: Path, labels: list, kind: str, form: str):
    frame = {"v": [1.0, 2.0], "label": labels}
    data = load(table(form, frame, tmp_path), target="label")
    assert data.y is not None and data.y.dtype.kind == kind and data.y.tolist() == labels
    frame = {"s": [5, 5, 9], "v": [1.0, 2.0, 3.0], "label": [labels[0], labels[0], labels[1]]}
    data = load(table(form, frame, tmp_path), series="s", target="label")
    assert data.y is not None and data.y.dtype.kind == kind and data.y.tolist() == labels


def test_labels_are_categories_or_in_some_rows_only():
    frame = pl.DataFrame({"v": [1, 2], "label": ["b", "a"]}, schema_overrides={"label": pl.Categorical})
    for one in (frame, pd.DataFrame({"v": [1, 2], "label": pd.Categorical(["b", "a"])})):
        data = from_frame(one, target="label")
        assert data.y is not None and data.y.tolist() == ["b", "a"]
    frame = pl.DataFrame({"s": [1, 1, 2, 2], "v": [1, 2, 3, 4], "label": ["a", None, None, "b"]})
    data = from_frame(frame, series="s", target="label")
    assert data.y is not None and data.y.tolist() == ["a", "b"]


@pytest.mark.parametrize("word", ["NA", "nan", "?", "null", "-", "", " "])
def test_words_for_gaps(tmp_path: Path, word: str):
    (tmp_path / "a.csv").write_text(f"s,v,w\n1,0.5,1\n1,{word},2\n1,1.5,3\n")
    np.testing.assert_array_equal(read(tmp_path / "a.csv", series="s").X, [[[0.5, NAN, 1.5], [1, 2, 3]]])
    (tmp_path / "a.csv").write_text(f"s,v,w\n1,{word},1\n1,{word},2\n")
    np.testing.assert_array_equal(read(tmp_path / "a.csv", series="s").X, [[[NAN, NAN], [1, 2]]])


def test_separators(tmp_path: Path):
    (tmp_path / "a.csv").write_text("a;b\n1;2\n")
    np.testing.assert_array_equal(read(tmp_path / "a.csv", separator=";").X, [[[1, 2]]])
    assert_refused("is its separator ';'", read, tmp_path / "a.csv", separator=",")


@pytest.mark.parametrize(
    ("first", "late", "number"),
    [("7", "0.5", 0.5), ("7", "1e300", 1e300), ("", "3", 3), ("true", "3", None), ("7", "NA", NAN)],
)
def test_cells_that_change_late(tmp_path: Path, first: str, late: str, number: float | None):
    (tmp_path / "a.csv").write_text("s,v\n" + f"1,{first}\n" * 3000 + f"1,{late}\n")
    if number is None:
        assert_refused("column 'v', line 2: expected a number; got 'true'", read, tmp_path / "a.csv", series="s")
    else:
        np.testing.assert_array_equal(read(tmp_path / "a.csv", series="s").X[0][0, -1], number)


@settings(max_examples=30, deadline=None)
@given(data=series_data())
def test_pandas_reads_what_we_write_and_the_other_way_round(data: SeriesData):
    options = {"series": "series", "target": None if data.y is None else "target"}
    options["time"] = None if data.time_channel is None else "when"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        write(path, data)
        frame = pd.read_parquet(path)
        assert list(frame.columns[1 : 1 + data.n_channels]) == list(data.channel_names)
        for index, (_, rows) in enumerate(frame.groupby("series", sort=False)):
            np.testing.assert_array_equal(rows[list(data.channel_names)].to_numpy().T, data.X[index])
        assert_equal(from_frame(frame, **options), data)
        frame.to_parquet(path)
        assert_equal(read(path, **options), data)


@settings(max_examples=30, deadline=None)
@given(data=series_data("float"), seed=st.integers(0, 9))
def test_order_of_rows_does_not_matter_with_times(data: SeriesData, seed: int):
    if data.time_channel is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "a.parquet", data)
        frame = pd.read_parquet(Path(folder) / "a.parquet").sample(frac=1, random_state=seed)
    got = from_frame(frame, series="series", target="target", time="when")
    assert got.ids is not None and data.ids is not None and got.y is not None and data.y is not None
    place = [got.ids.tolist().index(one) for one in data.ids.tolist()]
    for index, where in enumerate(place):
        np.testing.assert_array_equal(got.X[where], data.X[index])
        assert got.y[where] == data.y[index]


def test_pandas_is_not_imported_unless_given():
    code = "import sys, polars, siggpde.io as io; io.from_frame(polars.DataFrame({'a': [1]})); print(*sys.modules)"
    modules = run(code).split()
    assert "polars" in modules and "pandas" not in modules


def test_a_channel_that_may_be_the_time_is_pointed_out(caplog: pytest.LogCaptureFixture):
    frame = pl.DataFrame({"who": [1, 1, 2, 2], "day": [1, 2, 1, 5], "x": [1, 2, 3, 4]})
    with caplog.at_level("INFO", "siggpde"):
        from_frame(frame, series="who", time="day")
        assert caplog.text == ""
        from_frame(frame, series="who")
    assert "'day' grows in every series but is read as a channel; is it the time (time=, --time)?" in caplog.text
    caplog.clear()
    with caplog.at_level("INFO", "siggpde"):
        from_frame(frame.with_columns(day=pl.Series([2, 1, 1, 5])), series="who")
    assert caplog.text == ""


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
def test_other_names_are_one_channel_in_order(names: list[str]):
    columns = dict(zip(names, X[:, 0].T, strict=True))
    for chosen in (columns, dict(reversed(POINTS.items()))):  # but numbers are an order
        np.testing.assert_array_equal(from_frame(pl.DataFrame(chosen)).X, X[:, :1])


@pytest.mark.parametrize("ids", [np.arange(12), np.arange(12) * 7 + 1000, np.arange(12.0), np.arange(12)[::-1] * 5])
@pytest.mark.parametrize("points", [POINTS, MONTHS])
def test_ids_are_no_points(ids: np.ndarray, points: dict[str, np.ndarray]):
    frame = pl.DataFrame({"id": ids, **points})
    assert_refused(r"column 'id' looks like ids of the series.*ignore=", from_frame, frame)
    np.testing.assert_array_equal(from_frame(frame, ignore=["id"]).X, X[:, :1])
    data = from_frame(frame, id="id")
    np.testing.assert_array_equal(data.X, X[:, :1])
    assert data.ids is not None and data.ids.tolist() == ids.tolist()


def test_ids_of_files_keep_their_zeros_and_streams_refuse_what_reading_refuses(tmp_path: Path):
    frame = pl.DataFrame({"who": [f"{i:03d}" for i in range(12)], **POINTS})
    frame.write_csv(tmp_path / "a.csv")
    frame.write_parquet(tmp_path / "a.parquet")
    for path in (tmp_path / "a.csv", tmp_path / "a.parquet"):
        ids = read(path, id="who").ids
        assert ids is not None and ids.tolist()[:2] == ["000", "001"]
    blocks = list(stream(tmp_path / "a.parquet", id="who").blocks(5))
    assert [name for block in blocks for name in np.asarray(block.ids)] == [f"{i:03d}" for i in range(12)]
    pl.DataFrame({"id": np.arange(12), **POINTS}).write_parquet(tmp_path / "a.parquet")
    assert_refused("column 'id' looks like ids", stream, tmp_path / "a.parquet")
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
    assert_refused(r"rows look like points, .* Say series='who', time='day'; .* ignore=", from_frame, frame)
    assert len(from_frame(frame, ignore=["who"])) == 18


def test_a_row_without_values_is_a_series_of_a_missing_point():
    data = from_frame(pl.DataFrame({"a": [1, None], "b": [2, None]}, schema={"a": pl.Float64, "b": pl.Float64}))
    assert data.lengths.tolist() == [2, 1] and np.isnan(data.X[1]).all()


GROUPED = pl.DataFrame(
    {
        "walk": [0, 0, 1, 1, 2, 2],
        "day": [1, 2, 1, 2, 1, 2],
        "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        "who": ["ann", "ann", "bob", None, "ann", "ann"],
        "counts": [1.0, 1.0, 2.0, 2.0, 0.5, None],
        "kind": ["a", "a", "b", "b", "a", "a"],
        "none": pl.Series([None] * 6, dtype=pl.String),
    }
)
TIMED = {"series": "who", "time": "day"}
DAYS = [datetime(2020, 1, 1 + i % 2) for i in range(5)]


def long(**changes) -> pl.DataFrame:
    return pl.DataFrame(LONG | changes, strict=False)


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (long(), {"series": "id"}, "no column 'id' for series=; the 5 columns are who, day, x, y, kind"),
        (long(), {"series": "who", "time": "t"}, "no column 't' for time="),
        (long(), {"series": "who", "target": "label"}, "no column 'label' for target="),
        (long(), {"series": "who", "channels": ["x", "z"]}, "no column 'z' for channels="),
        (long(), {"series": "who", "ignore": ["z"]}, "no column 'z' for ignore="),
        (long(), {"series": "who", "channels": "x"}, "channels must be a list of names; got 'x'"),
        (long(), {"series": "who", "channels": []}, "channels must name at least one column"),
        (long(), {"series": "who", "channels": ["x", "x"]}, "channels= names a column twice: x, x"),
        (long(), {"series": "who", "time": "day", "channels": ["day"]}, "column 'day' is both time= and channels="),
        (long(), {"series": "who", "channels": ["kind"]}, "column 'kind', row 0: expected a number; got 'A'"),
        (long(), {"time": "day"}, "time='day' is for tables with one row a point"),
        (long(day=[1, 1, 1, 2, 1]), TIMED, "2 rows of 5 .* same time .* 2 of 2 series: 'ann' at 1, 'bob' at 1. Say"),
        (long(day=DAYS), TIMED, "2 of 2 series: 'ann' at 2020-01-01 00:00:00, 'bob' at 2020-01-02 00:00:00. Say"),
        (long(), {"series": "who", "duplicates": "mean"}, "duplicates='mean' .* name the column of times with time="),
        (long(), {**TIMED, "duplicates": "none"}, "duplicates='none' .* known are error, first, last, mean"),
        (long(day=[1, 2, None, 3, 4]), TIMED, "column 'day', row 2: expected a time; got None"),
        (long(day=[1, 2, NAN, 3, 4]), TIMED, "row 2: expected a time; got nan"),
        (long(day=list("abcde")), {"series": "who", "time": "day"}, "neither numbers nor dates .* starts with 'a'"),
        (long(day=[True] * 5), {"series": "who", "time": "day"}, "column 'day' is Boolean; a time must be"),
        (long(kind=list("ABBBB")), {"series": "who", "target": "kind"}, "'ann' has several labels .*'A', 'B'; write"),
        (long(kind=["A", None, "A", None, None]), {**TIMED, "target": "kind"}, "'bob' has no label .*; fill it in"),
        (long(who=["a", None, "a", "b", "b"]), {"series": "who"}, "row 1 does not say which series .*; fill it in"),
        (long(x=["1", "2", "3", "four", "5"]), {"series": "who"}, "column 'x', row 3: expected a number; got 'four'"),
        (pl.DataFrame({"s": [1], "v": ["a"]}), {"series": "s"}, "no columns of numbers for .* the 2 columns are s, v"),
        (pl.DataFrame({"s": [1], "v": [[1]]}), {"series": "s", "channels": ["v"]}, r"'v' is List\(Int64\), not num"),
        (pl.DataFrame(WIDE), {"channels": ["z"]}, "no columns z_0, z_1, ... for channel 'z'"),
        (pl.DataFrame(WIDE).drop("x_1"), {"channels": ["x"]}, "channel 'x' has no column for point 1"),
        (pl.DataFrame(WIDE).drop("y_2"), {"channels": ["x", "y"]}, "'y' has 2 columns .y_0 to y_1., but 'x' has 3"),
        (pl.DataFrame({"x_0": [1], "x.0": [2]}), {"channels": ["x"]}, "'x_0' and 'x.0' are both point 0"),
        (pl.DataFrame({"x_2": [1], "x_3": [2]}), {"channels": ["x"]}, "no column for point 0"),
        (pl.DataFrame({"a": [1, 2], "k": ["u", None]}), {"target": "k"}, "column 'k', row 1 has no value"),
        (pl.DataFrame({"a": ["1", "x"], "b": [1, 2]}), {}, "column 'a', row 1: expected a number; got 'x'"),
        (pl.DataFrame({"a": ["1,5", "2,5"], "b": [1, 2]}), {}, "column 'a', row 0: expected a number; got '1,5'"),
        (pl.DataFrame({"a": []}), {}, "no rows"),
        ([[1, 2]], {}, "expected a DataFrame of polars or pandas; got list"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), {}, "two columns of one name"),
        (both("{c}_{i}") | {"z_0": X[:, 0, 0], "z_1": X[:, 0, 1]}, {}, "y has 6, z has 2.* channels=.* ignore="),
        (POINTS | {"age": X[:, 1, 0]}, {}, "columns such as 't0' to 't5', but column 'age' is none of them"),
        (POINTS, {"id": "who"}, "no column 'who' for id=; the 6 columns are"),
        (POINTS | {"who": [1] * 12}, {"id": "who", "series": "who"}, "series= names the column of ids already"),
        (POINTS | {"who": [None, *range(11)]}, {"id": "who"}, "column 'who', row 0 has no value"),
        (GROUPED, {"series": "walk", "groups": "nobody"}, "there is no column 'nobody' for groups="),
        (GROUPED, {"series": "walk", "groups": "kind", "target": "kind"}, "column 'kind' is both target= and groups="),
        (GROUPED, {"series": "walk", "groups": "day"}, "series 0 has several groups in column 'day': 1, 2"),
        (GROUPED, {"series": "walk", "groups": "x", "channels": ["x"]}, "column 'x' is both groups= and channels="),
        (GROUPED, {"series": "walk", "groups": "none"}, "series 0 has no group in column 'none'"),
        (GROUPED, {"series": "walk", "sample_weight": "none"}, "series 0 has no weight in column 'none'"),
    ],
)
def test_mistakes_are_explained(frame, options: dict, message: str):
    assert_refused(message, from_frame, pl.DataFrame(frame) if isinstance(frame, dict) else frame, **options)


@pytest.mark.parametrize("how", ["first", "last", "mean"])
@pytest.mark.parametrize("suffix", [None, "csv", "parquet"])
def test_rows_with_the_same_time_become_one_as_pandas_groups_them(tmp_path: Path, how: str, suffix: str | None):
    """Of every channel the value that is there: two rows with other channels each become one with both."""
    generator = np.random.default_rng(0)
    columns = {"who": np.repeat(np.arange(20), 12), "at": generator.integers(0, 6, 240)}
    values = generator.normal(size=(2, 240))
    values[generator.random(values.shape) < 0.4] = NAN
    frame = pd.DataFrame({**columns, "x": values[0], "y": values[1]})
    expected = frame.groupby(["who", "at"])[["x", "y"]].agg(how).reset_index()
    options = {"series": "who", "time": "at", "duplicates": how}
    if suffix is None:
        data = from_frame(frame, **options)
    else:
        path = tmp_path / f"rows.{suffix}"
        (frame.to_csv if suffix == "csv" else frame.to_parquet)(path, index=False)
        data = read(path, **options)
    if suffix == "parquet":
        blocks = list(stream(tmp_path / "rows.parquet", **options).blocks(7))
        assert_equal(SeriesData([x for block in blocks for x in block.X], name="rows"), replace(
            data, X=list(data.X), ids=None, channel_names=(), time_channel=None))  # fmt: skip
    for who, x in enumerate(data.X):
        wanted = np.asarray(expected[expected.who == who][["at", "x", "y"]]).T
        np.testing.assert_allclose(x, wanted, rtol=0, atol=1e-15)


@pytest.mark.parametrize("kind", ["nested", "multi-index"])
def test_frames_of_sktime_are_refused_with_the_call_that_reads_them(kind: str):
    """The call in the message is run, and gives the series of the frame, in their order."""
    x = np.random.default_rng(1).normal(size=(6, 2, 5))
    if kind == "nested":
        frame = pd.DataFrame({name: [pd.Series(one[channel]) for one in x] for channel, name in enumerate("ab")})
    else:
        index = pd.MultiIndex.from_product([range(6), range(5)], names=["instances", None])
        frame = pd.DataFrame(x.transpose(0, 2, 1).reshape(30, 2), columns=["a", "b"], index=index)
    for name, use in [("frame", from_frame), ("X", lambda frame: SigGPClassifier().fit(frame, [0, 1] * 3))]:
        with pytest.raises(ValueError, match=f"^{name} is a frame of pandas whose .* as sktime has them") as refusal:
            use(frame)
        call = re.search(r"Read it with (.*) and pass data.X, with time_channel=0", str(refusal.value))
        assert call is not None
        variables = {"siggpde": siggpde, "pandas": pd, name: frame}
        exec(call[1], variables)
        data = variables["data"]
        assert isinstance(data, SeriesData)
        np.testing.assert_array_equal(np.stack(list(data.X))[:, 1:], x)
        assert data.channel_names[1:] == ("a", "b")


T = {"t_0": [1, 2, 3], "t_1": [3, 4, 5]}
WIDE_OF_GROUPS = pl.DataFrame({"who": [7, 7, 8], "kind": ["a", "b", "a"], "counts": [1, 2, 3], **T})


@pytest.mark.parametrize("suffix", ["csv", "parquet", None])
def test_long_tables(tmp_path: Path, suffix: str | None):
    options = {"series": "walk", "time": "day", "target": "kind", "groups": "who", "ignore": ["none"]}
    options |= {"sample_weight": "counts"}
    if suffix is None:
        data = from_frame(GROUPED, **options)
    else:
        getattr(GROUPED, f"write_{suffix}")(tmp_path / f"walks.{suffix}")
        data = read(tmp_path / f"walks.{suffix}", **options)
    assert data.channel_names == ("day", "x")
    assert data.groups is not None and data.groups.tolist() == ["ann", "bob", "ann"]
    assert data.sample_weight is not None and data.sample_weight.tolist() == [1, 2, 0.5]
    assert "labels, 2 groups" in repr(data)


def test_wide_tables(tmp_path: Path):
    data = from_frame(WIDE_OF_GROUPS, target="kind", groups="who", sample_weight="counts")
    assert data.n_channels == 1 and data.lengths.tolist() == [2, 2, 2]
    assert data.groups is not None and data.groups.tolist() == [7, 7, 8]
    assert from_frame(WIDE_OF_GROUPS, target="kind", ignore=["who", "counts"]).groups is None
    # Without zeros in front, groups of a .csv would not be what they are called.
    with_zeros = WIDE_OF_GROUPS.with_columns(who=pl.Series(["007", "007", "008"]))
    assert from_frame(with_zeros, target="kind", groups="who", ignore=["counts"]).groups[0] == "007"  # pyright: ignore
    with_zeros.write_csv(tmp_path / "wide.csv")
    assert read(tmp_path / "wide.csv", groups="who", ignore=["kind", "counts"]).groups[0] == "007"  # pyright: ignore


def test_arrays(tmp_path: Path):
    x, who = np.arange(12.0).reshape(3, 1, 4), np.array(["ann", "bob", "ann"])
    np.savez(tmp_path / "some.npz", X=x, person=who, counts=np.array([1.0, 2, 3]))
    data = read(tmp_path / "some.npz", groups="person", sample_weight="counts")
    assert data.groups is not None and data.groups.tolist() == who.tolist()
    assert data.sample_weight is not None and data.sample_weight.tolist() == [1, 2, 3]
    assert read(tmp_path / "some.npz", ignore=["person", "counts"]).groups is None
    assert_refused("no use for the member 'counts'; is it 'groups'", read, tmp_path / "some.npz", groups="person")
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "who.txt").write_text("ann\nbob\nann\n")
    assert read(tmp_path / "x.npy", groups="who.txt").groups.tolist() == who.tolist()  # pyright: ignore
    nobody = {"groups": "nobody", "ignore": ["person", "counts"], "error": FileNotFoundError}
    assert_refused("groups 'nobody' not found", read, tmp_path / "some.npz", **nobody)
    np.savez(tmp_path / "wrong.npz", X=x, person=who[:2])
    message = r"groups must have shape \(3,\), one a series; got \(2,\)"
    assert_refused(message, read, tmp_path / "wrong.npz", groups="person")
    both = {"X_train": x, "X_test": x, "y_train": who, "y_test": who}
    np.savez(tmp_path / "parts.npz", person=np.array([0, 1, 1]), **both)
    assert read(tmp_path / "parts.npz", part="train", groups="person").groups.tolist() == [0, 1, 1]  # pyright: ignore
    np.savez(tmp_path / "parts.npz", lengths_trein=np.array([4, 4, 3]), writer_train=who, **both)  # others may be there
    assert_refused("member 'lengths_trein'; is it 'lengths_train'", read, tmp_path / "parts.npz", part="train")


@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet"])
def test_written_and_read(tmp_path: Path, suffix: str):
    groups, weights = np.array(["u", "v", "u"]), np.array([1.5, 2, 1])
    data = SeriesData(np.arange(12.0).reshape(3, 2, 2), groups=groups, sample_weight=weights)
    path = tmp_path / f"some.{suffix}"
    write(path, data)
    columns = {} if suffix == "npz" else {"series": "series", "groups": "group", "sample_weight": "weight"}
    again = read(path, **columns)
    assert np.array_equal(again.X, data.X) and again.channel_names == data.channel_names
    assert again.groups.tolist() == ["u", "v", "u"]  # pyright: ignore[reportOptionalMemberAccess]
    assert again.sample_weight.tolist() == [1.5, 2, 1]  # pyright: ignore[reportOptionalMemberAccess]
    assert_refused("two columns would be called 'series'", write, tmp_path / "twice.csv", data, groups="series")


def windows(starts: list[str]) -> SeriesData:
    seconds = np.array(starts, dtype="datetime64[s]").astype(float)
    times = seconds[:, None] + np.arange(3) * 600
    return SeriesData(np.stack([times, np.zeros_like(times)], axis=1), time_channel=0)


def test_spans_of_time():
    data = windows(["2024-01-07T23:50", "2024-01-08T00:00", "2024-01-08T11:59", "2024-01-08T12:00", "2024-01-14T23:00"])
    assert np.diff(groups_by_time(data, "1d")).tolist() == [1, 0, 0, 6]
    assert np.diff(groups_by_time(data, "12h")).tolist() == [1, 0, 1, 12]
    assert np.diff(groups_by_time(data, "1w")).tolist() == [1, 0, 0, 0]  # 8 January 2024 was a Monday
    assert np.diff(groups_by_time(data, "30 min")).tolist() == [1, 23, 1, 24 * 13 - 2]
    assert np.array_equal(groups_by_time(data, "86400"), groups_by_time(data, "1d"))
    assert np.array_equal(groups_by_time(data, "60s"), groups_by_time(data, "1min"))
    as_list = replace(data, X=list(data.X))
    assert np.array_equal(groups_by_time(as_list, "1d"), groups_by_time(data, "1d"))


@pytest.mark.parametrize("span", ["", "1y", "0d", "-1d", "day", "1d 2h", "nan", "inf"])
def test_spans_that_are_none(span: str):
    message = "a span of time is a number with one of the units s, min, h, d, w"
    assert_refused(message, groups_by_time, windows(["2024-01-07"]), span)
    assert_refused("stamps; name .* with time=", groups_by_time, SeriesData(np.zeros((2, 1, 3))), "1d")
    data = windows(["2024-01-07", "2024-01-08"])
    data.X[1, 0, 0] = np.nan  # pyright: ignore
    assert_refused("series 1 has no time at its first point", groups_by_time, data, "1d")


STAMPED = "".join(f"s{i // 10},2025-01-{i % 10 + 1:02d} 10:00:00,{i % 7 + 0.5},a\n" for i in range(60))
LONG_HEADER = "who,day,x,kind\n"


@pytest.mark.parametrize(
    ("text", "said", "options"),
    [
        (LONG_HEADER + "a,1,2,k\n\na,2\nb,1,2,k\n", r"line 4: the row has 2 cells .* 3, of column 'x', is miss", TIMED),
        ('who,day,x,kind\n"a\n\nz",1,2,k\na,2\n', "line 5: the row has 2 cells for 4", TIMED),
        ("x_0,x_1,x_2,kind\n1,2,3,k\n1,2,3\n", "line 3: the row has 3 cells .* 4, of column 'kind', is missing", {}),
        (LONG_HEADER + "a,1,2,k\na,2,3,k,9\n", "line 3: the row has 5 cells for 4 columns: '9' is in cell 5", TIMED),
        ('who,day,x,kind\n"a\nz",1,2,k\nb,1,q,k\n', "column 'x', line 4: expected a number; got 'q'", TIMED),
        ("x_0,x_1,kind\n1,2,k\n\n1,z,k\n", "column 'x_1', line 4: expected a number; got 'z'", {}),
        (LONG_HEADER + "a,1,2,k\n,2,3,k\n", "line 3 does not say which series", TIMED),
        (
            LONG_HEADER + "a,2024-01-01,2,k\nb,2024-13-01,2,k\n",
            "'day', line 3: .* '2024-13-01'; write .* '2024-0",
            TIMED,
        ),
        (LONG_HEADER + "a,soon,2,k\nb,2024-11-01,2,k\nb,2024-11-02,2,k\n", "'day', line 2: .* 'soon'; write", TIMED),
        (LONG_HEADER + "a,1,2,k\na,2,3,k\nb,soon,2,k\n", "line 4: expected a number, as .*; got 'soon'", TIMED),
        (LONG_HEADER + STAMPED, "rows look like points.* Say series='who', time='day'", {"target": "kind"}),
    ],
)
def test_the_line_and_the_cell_of_a_wrong_row_are_named(text: str, said: str, options: dict, tmp_path: Path):
    (tmp_path / "t.csv").write_text(text)
    assert_refused(f"(?s)t.csv.*{said}", read, tmp_path / "t.csv", **options)


@pytest.mark.parametrize("stamp", [datetime(2025, 1, 1), date(2025, 1, 1), "2025-01-01"])
def test_dated_points_are_no_series_even_if_a_date_is_there_twice(stamp: date | str):
    days = [0, 1, 1, 2, 3, 4] * 6
    stamps = [f"{stamp[:8]}{day + 1:02d}" if isinstance(stamp, str) else stamp + timedelta(days=day) for day in days]
    frame = pl.DataFrame({"who": np.repeat(np.arange(6), 6), "when": stamps, "x": np.arange(36) % 5 * 1.5})
    assert_refused("'when' grows while 'who' stays the same", from_frame, frame)
    assert len(from_frame(frame.with_columns(when=pl.col("when").first()))) == 36  # dates that stay the same


@pytest.mark.parametrize("word", ["NAN", "nan", "null", "NULL", "NA", "-", "?", "None", "n/a"])
@pytest.mark.parametrize("other", ["1", "b", "nan", "1.5"])
def test_words_are_ids_and_labels(word: str, other: str, tmp_path: Path):
    path = tmp_path / "t.csv"
    other = "n" if other == word else other
    path.write_text(f"{LONG_HEADER}{word},1,2,{word}\n{word},2,3,{word}\n{other},1,2,{other}\n")
    data = read(path, series="who", time="day")
    assert data.ids is not None and data.ids.tolist() == [word, other]
    if word.lower() == "nan" and other == "1.5":  # a target that is missing
        assert_refused("has no label", read, path, **TIMED, target="kind")
    else:
        labels = read(path, series="who", time="day", target="kind").y
        assert labels is not None and labels.tolist() == [word, other]


HELD = ["=cmd()", "@a", "+a", "-a", "'=a", "\t=a", "''+1"]


@pytest.mark.parametrize("cell", [*HELD, "-1", "+1", "-", "-1.5e3", 'a"b', '"', "a,b", "''", "'a"])
def test_cells_that_a_spreadsheet_would_run_are_written_as_text_and_read_as_they_were(cell: str, tmp_path: Path):
    path = tmp_path / "t.csv"
    series = np.arange(4.0).reshape(2, 1, 2)
    write(path, SeriesData(series, channel_names=(cell,), ids=np.array([cell, "b"]), y=np.array([cell, "b"])))
    with path.open(newline="") as file:
        header, first, *_ = csv.reader(file)
    assert {header[1], first[0], first[2]} == {f"'{cell}" if cell in HELD else cell}
    back = read(path, series="series", target="target")
    assert back.channel_names == (cell,) and back.ids is not None and back.y is not None
    assert back.ids.tolist() == back.y.tolist() == [cell, "b"]


def test_facts_have_one_value_a_series_and_gaps():
    rows = {"who": [1, 1, 2, 2, 3], "age": [63.0, None, None, None, 40.0], "sex": ["f", "f", "NA", "m", ""]}
    frame = pl.DataFrame({**rows, "site": ["7", "7", "8", None, "9"], "x": [1.0, 2.0, 3.0, 4.0, 5.0]})
    data = from_frame(frame, series="who", facts=["age", "sex", "site"])
    assert data.channel_names == ("x",) and data.facts is not None and "facts age, sex, site" in repr(data)
    np.testing.assert_array_equal(data.facts["age"], [63.0, np.nan, 40.0])
    np.testing.assert_array_equal(data.facts["site"], [7.0, 8.0, 9.0])
    assert (data[[2, 0]].facts or {})["age"].tolist() == [40.0, 63.0]
    wide = pl.DataFrame({"x_0": [1, 2], "x_1": [3, 4], "x_2": [3, 4], "sex": ["f", None], "age": [1, 2]})
    facts = from_frame(wide, facts=["sex", "age"]).facts
    assert facts is not None and facts["sex"].tolist() == ["f", None] and facts["age"].tolist() == [1.0, 2.0]
    for options, message in (
        ({"series": "who", "facts": ["x"]}, "series 1 has several values in column 'x': 1.0, 2.0"),
        ({"series": "who", "facts": ["length"]}, "no column 'length' for facts="),
        ({"series": "who", "facts": ["age"], "channels": ["age", "x"]}, "'age' is both facts= and channels="),
        ({"facts": ["x", "x"], "series": "who"}, "facts= names a column twice"),
    ):
        assert_refused(message, from_frame, frame, **options)


def test_facts_are_written_and_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    facts = {"age": np.array([63.0, np.nan]), "sex": np.array(["f", None], dtype=object)}
    facts["ward"] = np.array(["007", "=1+1"])
    data = SeriesData(np.ones((2, 1, 3)), facts=facts)
    for name in ("a.csv", "a.parquet", "a.npz"):
        write(tmp_path / name, data)
        options = {} if name == "a.npz" else {"series": "series", "facts": ["age", "sex", "ward"]}
        again = read(tmp_path / name, **options).facts
        assert again is not None and again["sex"].tolist() == ["f", None]
        assert again["ward"].tolist() == ["007", "=1+1"]
        np.testing.assert_array_equal(again["age"], facts["age"])
    assert list(read(tmp_path / "a.npz", ignore=["facts_sex"]).facts or ()) == ["age", "ward"] and not caplog.records
    write(tmp_path / "a.ts", data)
    assert "age, sex, ward are lost; .npz, .csv and .parquet keep them" in caplog.text


@pytest.mark.parametrize(("days", "said"), [((3, 4, 5), True), ((3, 4, 15), False)])
def test_dates_whose_months_may_be_days_are_announced(
    days: tuple[int, ...], said: bool, caplog: pytest.LogCaptureFixture
):
    rows = pl.DataFrame({"who": "abc", "day": [f"{day:02d}/04/2024" for day in days], "x": [1.0, 2.0, 4.0]})
    data = from_frame(rows, series="who", time="day")
    assert np.diff(np.asarray(data.X[0])[0]).tolist() == [86400.0 * step for step in np.diff(days)]
    assert ("dates of column 'day', such as 03/04/2024, are read as day, month, year" in caplog.text) == said
