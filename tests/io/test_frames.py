"""Frames of pandas and CSV files: units, zones, separators, decimal commas, encodings; and the options of formats."""

import inspect
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from helpers.file_opens import count_opens
from helpers.io_data import save
from helpers.processes import run
from helpers.refusals import assert_refused
from siggpde.io import from_frame, read, stream
from siggpde.io.formats import FORMATS, READ_OPTIONS, STREAM_OPTIONS, WRITE_FORMATS

NOON = 1577880000.0  # 2020-01-01 12:00:00 UTC


def times_of(column: Any) -> np.ndarray:
    frame = pd.DataFrame({"who": ["a"] * len(column), "when": column, "x": np.arange(float(len(column)))})
    data = from_frame(frame, series="who", time="when")
    assert isinstance(data.X, np.ndarray)
    return data.X[0, 0]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize(("zone", "shift"), [(None, 0), ("UTC", 0), ("Asia/Tokyo", -9 * 3600)])
def test_dates_and_durations_of_every_unit_and_zone(unit: str, zone: str | None, shift: int):
    column = pd.Series(pd.date_range("2020-01-01 12:00:00", periods=3, freq="2s")).dt.as_unit(unit)  # type: ignore[arg-type]
    if zone is not None:
        column = column.dt.tz_localize(zone)
    assert f"[{unit}" in str(column.dtype)
    np.testing.assert_array_equal(times_of(column), NOON + shift + np.array([0.0, 2.0, 4.0]))
    column = pd.Series(pd.to_timedelta([0, 90, 3600], unit="s")).dt.as_unit(unit)  # type: ignore[arg-type]
    np.testing.assert_array_equal(times_of(column), [0.0, 90.0, 3600.0])


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_a_missing_date_is_named(unit: str):
    column = pd.Series(pd.to_datetime(["2020-01-01", None, "2020-01-03"])).dt.as_unit(unit)  # type: ignore[arg-type]
    assert_refused("column 'when', row 1: expected a time; got None", times_of, column)


def test_the_package_gives_its_readers_without_a_second_import(tmp_path: Any):
    np.save(tmp_path / "x.npy", np.zeros((2, 5)))
    code = f"import siggpde; print(siggpde.io.read({str(tmp_path / 'x.npy')!r}))"
    assert run(code) == "SeriesData('x': 2 series, 1 channels, length 5)\n"


TEXT = "größe,a_0,a_1\nüber,1.5,2\nklein,3.25,-4e2\n"
VALUES = [[[1.5, 2]], [[3.25, -400]]]


def german(text: str) -> str:
    return text.replace(",", ";").replace(".", ",")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
@pytest.mark.parametrize("form", ["english", "german", "tab", "bar"])
def test_encodings_and_separators(tmp_path: Path, encoding: str, form: str):
    forms = {"english": TEXT, "german": german(TEXT), "tab": TEXT.replace(",", "\t"), "bar": TEXT.replace(",", "|")}
    data = read(save(tmp_path, forms[form].encode(encoding), "a.csv"), target="größe")
    np.testing.assert_array_equal(data.X, VALUES)
    assert data.y is not None and data.y.tolist() == ["über", "klein"]


def test_what_was_found_out_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "siggpde"):
        read(save(tmp_path, german(TEXT).encode("latin-1"), "a.csv"), target="größe")
    assert "a.csv is not UTF-8; it is read as Latin-1 (Windows-1252)" in caplog.text
    assert "a.csv: ';' stands between cells, decimals have a comma" in caplog.text


def test_letters_that_are_not_utf8_may_come_late(tmp_path: Path):
    text = "kind,x_0,x_1\n" + "a,1,2\n" * 20_000 + "é,1,2\n"
    data = read(save(tmp_path, text.encode("latin-1"), "a.csv"), target="kind")
    assert data.y is not None and data.y[-1] == "é" and len(data) == 20_001


def test_targets_with_decimal_commas_and_names_that_are_numbers(tmp_path: Path):
    data = read(save(tmp_path, "x_0;x_1;size\n1,5;2;0,25\n3;4,5;7\n", "a.csv"), target="size")
    assert data.y is not None and data.y.tolist() == [0.25, 7.0]
    kinds = read(save(tmp_path, "x_0;x_1;kind\n1,5;2;1,a\n3;4,5;2,b\n", "a.csv"), target="kind")
    assert kinds.y is not None and kinds.y.tolist() == ["1,a", "2,b"]
    for header in ("0,1,2", "0.0,0.5,1.0"):
        np.testing.assert_array_equal(read(save(tmp_path, f"{header}\n5,6,8\n", "a.csv")).X, [[[5, 6, 8]]])
    with pytest.raises(ValueError, match="separator must be one mark, such as ';'; got '::'"):
        read(save(tmp_path, "a::b\n1::2\n", "a.csv"), separator="::")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x1f\x8b\x08\x00rest", "compressed by gzip; unpack it first"),
        (b"PK\x03\x04rest", "save the sheet as CSV"),
        (b'a,b\n"1,5",2\n', r"got '1,5' \(is its comma a decimal point\?\)"),
        (b"up,1.5,0.25,3\ndown,2.5,1,1\n", "first line has values such as '1.5' where the names of columns belong"),
        ("a,b\n1,2\n".encode("utf-16")[:-1], "looks like text in UTF-16, but is none"),
    ],
)
def test_what_is_no_csv_file(tmp_path: Path, content: bytes, message: str):
    assert_refused(rf"a\.csv.*{message}", read, save(tmp_path, content, "a.csv"))


@pytest.mark.parametrize(("function", "options"), [(read, READ_OPTIONS), (stream, STREAM_OPTIONS)])
def test_the_options_are_those_of_the_function(function: Any, options: dict[str, tuple[str, ...]]):
    keywords = {name for name, parameter in inspect.signature(function).parameters.items() if parameter.kind == 3}
    assert keywords == {option for names in options.values() for option in names} | {"format"}
    assert set(options) <= set(FORMATS) and set(WRITE_FORMATS) <= set(FORMATS)


@pytest.mark.parametrize("last", ["3", "word"], ids=["types of the first rows", "types of all rows"])
def test_a_csv_file_is_opened_once(last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.csv"
    path.write_text("id,x,note\n" + "1,2,3\n" * 2000 + f"1,2,{last}\n")
    opens = count_opens(path, monkeypatch)
    assert read(path, series="id", ignore=["note"]).n_channels == 1
    assert opens == [path]
