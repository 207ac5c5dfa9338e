"""Tables, long and wide, from files and from memory, against pandas."""

import subprocess
import sys
import tempfile
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.io_data import LONG, NAN, WIDE, assert_equal, series_data
from siggpde.io import SeriesData, from_frame, read, write


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
    return read(**source, **options) if "path" in source else from_frame(**source, **options)


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


@pytest.mark.parametrize("form", FORMS)
def test_long_form_in_the_order_of_rows(tmp_path: Path, form: str):
    data = load(table(form, LONG, tmp_path), series="who", channels=["y"], ignore=["day"])
    assert data.channel_names == ("y",) and data.time_channel is None and data.y is None
    np.testing.assert_array_equal(data.X[0], [[7, 6]])
    np.testing.assert_array_equal(data.X[1], [[1, 3, 2]])


@pytest.mark.parametrize("form", FORMS)
def test_wide_form_of_several_channels(tmp_path: Path, form: str):
    data = load(table(form, WIDE, tmp_path), target="kind", channels=["x", "y"])
    assert data.channel_names == ("x", "y") and data.ids is None
    assert data.y is not None and data.y.dtype == bool and data.y.tolist() == [True, False, True]
    np.testing.assert_array_equal(data.X[0], [[1, 2, 3], [1.5, 4.5, 7.5]])
    np.testing.assert_array_equal(data.X[1], [[4, 5, 6], [NAN, 5.5, NAN]])
    np.testing.assert_array_equal(data.X[2], [[7, 8], [3.5, NAN]])


@pytest.mark.parametrize("form", FORMS)
def test_wide_form_of_one_channel(tmp_path: Path, form: str):
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
        with pytest.raises(ValueError, match=r"neither numbers nor dates .* starts with '0 days"):
            load(source, series="s", time="t")
        return
    data = load(source, series="s", time="t")
    np.testing.assert_array_equal(data.X[0], [np.sort(seconds)] * 2)


def test_times_with_zones_of_pandas_and_polars():
    stamps = pd.date_range("2020-07-01", periods=3, freq="h", tz="Europe/Berlin")
    frame = pd.DataFrame({"s": 1, "t": stamps, "v": 0.0})
    for one in (frame, pl.DataFrame({"s": [1] * 3, "t": list(stamps), "v": [0.0] * 3})):
        x = from_frame(one, series="s", time="t").X[0]
        np.testing.assert_array_equal(x[0], np.datetime64("2020-06-30T22:00").astype(int) * 60 + 3600 * np.arange(3))


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([1, 2], "i"),
        ([1.5, -2.0], "f"),
        ([True, False], "b"),
        (["a b", "é"], "U"),
        (["True", "no"], "U"),
        (["1", "x"], "U"),
        (["007", "8"], "U"),
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


def test_categories_are_labels():
    frame = pl.DataFrame({"v": [1, 2], "label": ["b", "a"]}, schema_overrides={"label": pl.Categorical})
    for one in (frame, pd.DataFrame({"v": [1, 2], "label": pd.Categorical(["b", "a"])})):
        data = from_frame(one, target="label")
        assert data.y is not None and data.y.tolist() == ["b", "a"]


def test_labels_may_stand_in_some_rows_only():
    frame = pl.DataFrame({"s": [1, 1, 2, 2], "v": [1, 2, 3, 4], "label": ["a", None, None, "b"]})
    data = from_frame(frame, series="s", target="label")
    assert data.y is not None and data.y.tolist() == ["a", "b"]


@pytest.mark.parametrize("word", ["NA", "nan", "?", "null", "-", "", " "])
def test_words_for_gaps(tmp_path: Path, word: str):
    (tmp_path / "a.csv").write_text(f"s,v,w\n1,0.5,1\n1,{word},2\n1,1.5,3\n")
    np.testing.assert_array_equal(read(tmp_path / "a.csv", series="s").X, [[[0.5, NAN, 1.5], [1, 2, 3]]])


def test_columns_without_a_value_are_gaps(tmp_path: Path):
    (tmp_path / "a.csv").write_text("s,v,w\n1,,1\n1,,2\n")
    np.testing.assert_array_equal(read(tmp_path / "a.csv", series="s").X, [[[NAN, NAN], [1, 2]]])


def test_separators(tmp_path: Path):
    (tmp_path / "a.csv").write_text("a;b\n1;2\n")
    np.testing.assert_array_equal(read(tmp_path / "a.csv", separator=";").X, [[[1, 2]]])
    with pytest.raises(ValueError, match="is its separator ';'"):
        read(tmp_path / "a.csv", separator=",")


def test_a_mark_of_the_encoding_is_no_part_of_a_name(tmp_path: Path):
    (tmp_path / "a.csv").write_text("s,v\n1,2\n", encoding="utf-8-sig")
    assert read(tmp_path / "a.csv", series="s").channel_names == ("v",)


@pytest.mark.parametrize(
    ("first", "late", "number"),
    [("7", "0.5", 0.5), ("7", "1e300", 1e300), ("", "3", 3), ("true", "3", None), ("7", "NA", NAN)],
)
def test_cells_that_change_late(tmp_path: Path, first: str, late: str, number: float | None):
    (tmp_path / "a.csv").write_text("s,v\n" + f"1,{first}\n" * 3000 + f"1,{late}\n")
    if number is None:
        with pytest.raises(ValueError, match="column 'v', row 0: expected a number; got 'true'"):
            read(tmp_path / "a.csv", series="s")
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


def test_frames_are_not_modified():
    for frame in (pl.DataFrame(LONG), pd.DataFrame(LONG)):
        before = frame.clone() if isinstance(frame, pl.DataFrame) else frame.copy()
        from_frame(frame, series="who", time="day", target="kind")
        assert frame.equals(before)


def test_pandas_is_not_imported_unless_given():
    code = "import sys, polars, siggpde.io as io; io.from_frame(polars.DataFrame({'a': [1]})); print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert "polars" in run.stdout.split(), run.stderr
    assert "pandas" not in run.stdout.split()


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
