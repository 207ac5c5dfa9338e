"""What is written comes back, and files are written whole or not at all."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.io_data import assert_equal, series_data
from helpers.refusals import assert_refused
from siggpde.datasets import find_dataset
from siggpde.io import SeriesData, read, write
from siggpde.io.formats import WRITE_FORMATS

FEW = settings(max_examples=40, deadline=None)


def small(**changes) -> SeriesData:
    given = {"X": np.arange(12.0).reshape(2, 2, 3), "y": np.array(["a", "b"]), "channel_names": ("u", "v")}
    return SeriesData(**(given | changes))


def there_and_back(data: SeriesData, suffix: str, **options) -> SeriesData:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"data{suffix}"
        write(path, data)
        assert [file.name for file in Path(folder).iterdir()] == [path.name]
        return read(path, **options)


@FEW
@given(data=series_data(), named=st.booleans())
def test_npz_and_parquet_keep_everything_and_csv_all_but_types_of_labels(data: SeriesData, named: bool):
    got = there_and_back(data, ".npz")
    assert_equal(got, data)
    assert got.name == data.name
    options = {"series": "series", "target": None if data.y is None else "target"}
    options["time"] = None if data.time_channel is None else "when"
    channels = {"channels": [name for name in data.channel_names if name != "when"]} if named else {}
    assert_equal(there_and_back(data, ".parquet", **options, **channels), data)
    words = {str(word).strip("+-").lower() for column in (data.y, data.ids) if column is not None for word in column}
    if "nan" in words:  # among numbers it is one that is missing, and refused
        return
    got = there_and_back(data, ".csv", **options)
    assert_equal(replace(got, y=None, ids=None), replace(data, y=None, ids=None, name=got.name))
    for key in ("y", "ids"):
        back, wanted = getattr(got, key), getattr(data, key)
        assert (back is None) == (wanted is None)
        if wanted is None:
            continue
        if wanted.dtype.kind == "U" and back.dtype.kind in "if":  # a word may look like a number or a bool
            back, wanted = (back.astype(str), wanted) if back.dtype.kind == "i" else (back, wanted.astype(np.float64))
        elif wanted.dtype.kind == "U" and back.dtype.kind == "b":
            wanted = np.char.lower(wanted) == "true"
        assert back.dtype.kind == wanted.dtype.kind
        np.testing.assert_array_equal(back, wanted)


@FEW
@given(data=st.sampled_from(["none", "word", "float"]).flatmap(lambda kind: series_data(kind, ids=False)))
def test_ts_keeps_series_stamps_and_labels(data: SeriesData):
    if data.y is not None and data.y.dtype.kind == "U" and any(word[0] in "#%@(" or ":" in word for word in data.y):
        with tempfile.TemporaryDirectory() as folder, pytest.raises(ValueError, match=r"cannot be written to a \.ts"):
            write(Path(folder) / "data.ts", data)
        return
    got = there_and_back(data, ".ts")
    assert_equal(got, data, names=False)
    assert got.name == "data"


@pytest.mark.parametrize("y", [np.array([3, 1]), np.array([True, False])])
def test_classes_of_ts_files_are_strings(tmp_path: Path, y: np.ndarray):
    write(tmp_path / "a.ts", small(y=y))
    back = read(tmp_path / "a.ts").y
    assert back is not None and back.tolist() == [str(label) for label in y.tolist()]


@pytest.mark.parametrize("label", ["two words", "a:b", "", " a", "#a", "@data", "a\nb"])
def test_labels_that_a_ts_file_cannot_hold(tmp_path: Path, label: str):
    with pytest.raises(ValueError, match=r"of series 1 cannot be written to a \.ts file"):
        write(tmp_path / "a.ts", small(y=np.array(["good", label])))
    assert list(tmp_path.iterdir()) == []


def test_series_without_ids_get_numbers_and_ids_keep_their_zeros(tmp_path: Path):
    write(tmp_path / "a.csv", small(), series="who", target="kind")
    assert (tmp_path / "a.csv").read_text().splitlines()[:2] == ["who,u,v,kind", "0,0.0,3.0,a"]
    data = read(tmp_path / "a.csv", series="who", target="kind")
    assert data.ids is not None and data.ids.tolist() == [0, 1]
    write(tmp_path / "b.csv", small(ids=np.array(["007", "010"]), y=np.array(["01", "02"])))
    data = read(tmp_path / "b.csv", series="series", target="target")
    assert data.ids is not None and data.ids.tolist() == ["007", "010"]
    assert data.y is not None and data.y.tolist() == ["01", "02"]


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet", ".ts"])
def test_files_are_replaced_by_force_and_by_a_whole_file_only(tmp_path: Path, suffix: str, monkeypatch):
    path = tmp_path / f"a{suffix}"
    path.write_text("precious")

    def full(*_):
        raise OSError(28, "No space left on device")

    assert_refused("force=True", write, path, small(), error=FileExistsError)
    monkeypatch.setattr(os, "fsync", full)
    assert_refused("No space left", write, path, small(), force=True, error=OSError)
    assert path.read_text() == "precious"
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    monkeypatch.undo()
    write(path, small(), force=True)
    assert len(read(path, **({"series": "series"} if suffix in (".csv", ".parquet") else {}))) == 2


def test_inputs_are_not_modified(tmp_path: Path):
    x = np.array([[[1.0, np.nan]]])
    x.flags.writeable = False
    for suffix in WRITE_FORMATS:
        write(tmp_path / f"a.{suffix}", SeriesData(x))


def test_format_may_be_said(tmp_path: Path):
    write(tmp_path / "table.data", small(), format="parquet")
    assert pl.read_parquet(tmp_path / "table.data").columns == ["series", "u", "v", "target"]
    assert len(read(tmp_path / "table.data", format="parquet", series="series")) == 2


@pytest.mark.parametrize(
    ("path", "data", "error", "message"),
    [
        ("a.xlsx", small(), ValueError, r"written as \.npz, \.csv, \.parquet, \.ts; got 'a\.xlsx'"),
        ("no/a.npz", small(), FileNotFoundError, "there is no folder"),
        ("a.npz", np.zeros((2, 2, 3)), ValueError, "expected SeriesData"),
        ("a.npz", SeriesData(np.zeros((0, 2, 3))), ValueError, "at least one series"),
        ("a.csv", SeriesData([np.zeros((2, 0)), np.zeros((2, 1))]), ValueError, "at least one point"),
        ("a.csv", small(channel_names=("u", "series")), ValueError, "called 'series'; give others with series="),
        ("a.csv", small(ids=np.array([1, 1])), ValueError, "ids must all be different"),
        ("a.npz", small(y=np.array([{}, []], dtype=object)), ValueError, "y holds objects that are not strings"),
        ("a.ts", small(X=np.zeros((2, 1, 3)), channel_names=("t",), time_channel=0), ValueError, "besides time"),
        ("a.ts", small(time_channel=0, X=np.zeros((2, 2, 3))), ValueError, "times of series 0 must be finite and grow"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, path: str, data, error, message: str):
    assert_refused(message, write, tmp_path / path, data, error=error)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"X": np.zeros((2, 3))}, r"X must have shape \(n_cases, n_channels, n_timepoints\) .* got \(2, 3\)"),
        ({"X": np.array([[["a"]]])}, "X must hold numbers"),
        ({"X": []}, "at least one series"),
        ({"X": [np.zeros((1, 2)), np.zeros(3)]}, r"X\[1\] must be an array of numbers"),
        ({"X": [np.zeros((1, 2)), np.zeros((2, 2))]}, r"X\[1\] has 2 channels, but X\[0\] has 1"),
        ({"X": np.zeros((2, 2, 3)), "y": np.zeros(3)}, r"y must have shape \(2,\), one a series; got \(3,\)"),
        ({"X": np.zeros((2, 2, 3)), "ids": np.zeros(3)}, r"ids must have shape \(2,\)"),
        ({"X": np.zeros((2, 2, 3)), "channel_names": ("a",)}, "must be 2 different names"),
        ({"X": np.zeros((2, 2, 3)), "channel_names": ("a", "a")}, "must be 2 different names"),
        ({"X": np.zeros((2, 2, 3)), "time_channel": 1}, "time_channel must be None or 0"),
    ],
)
def test_malformed_series_data(fields, message: str):
    assert_refused(message, SeriesData, **fields)


@pytest.mark.parametrize(
    ("name", "cases", "channels", "shortest", "longest"),
    [("BasicMotions", 40, 6, 100, 100), ("PLAID", 537, 1, 100, 1344), ("Tecator", 43, 1, 100, 100)],
)
def test_published_data(tmp_path: Path, name: str, cases: int, channels: int, shortest: int, longest: int):
    """Equally long classes, ragged classes, and targets."""
    try:
        path = find_dataset(name)
    except FileNotFoundError as error:
        pytest.skip(str(error).splitlines()[0])
    data = read(path, part="test")
    assert (len(data), data.n_channels) == (cases, channels)
    assert data.lengths.max() <= longest and data.lengths.min() >= shortest
    assert isinstance(data.X, np.ndarray) == (shortest == longest)
    assert not any(np.isnan(one).any() for one in data.X)
    for suffix, options in ((".npz", {}), (".ts", {}), (".parquet", {"series": "series", "target": "target"})):
        write(tmp_path / f"{name}{suffix}", data)
        got = read(tmp_path / f"{name}{suffix}", **options)
        assert_equal(got, data, names=suffix != ".ts", ids=False)
        assert got.name == name
