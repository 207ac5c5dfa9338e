"""CSV files of spreadsheets and of other countries: separators, decimal commas and encodings are found out."""

import logging
from pathlib import Path

import numpy as np
import pytest

from helpers.io_data import save
from siggpde.io import read

TEXT = "größe,a_0,a_1\nüber,1.5,2\nklein,3.25,-4e2\n"
VALUES = [[[1.5, 2]], [[3.25, -400]]]


def german(text: str) -> str:
    return text.replace(",", ";").replace(".", ",")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
@pytest.mark.parametrize("form", ["english", "german", "tab", "bar"])
def test_encodings_and_separators(tmp_path: Path, encoding: str, form: str):
    text = {"english": TEXT, "german": german(TEXT), "tab": TEXT.replace(",", "\t"), "bar": TEXT.replace(",", "|")}[
        form
    ]
    data = read(save(tmp_path, text.encode(encoding), "a.csv"), target="größe")
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


def test_targets_with_decimal_commas_are_numbers(tmp_path: Path):
    data = read(save(tmp_path, "x_0;x_1;size\n1,5;2;0,25\n3;4,5;7\n", "a.csv"), target="size")
    assert data.y is not None and data.y.tolist() == [0.25, 7.0]
    kinds = read(save(tmp_path, "x_0;x_1;kind\n1,5;2;1,a\n3;4,5;2,b\n", "a.csv"), target="kind")
    assert kinds.y is not None and kinds.y.tolist() == ["1,a", "2,b"]


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
    with pytest.raises(ValueError, match=rf"a\.csv.*{message}"):
        read(save(tmp_path, content, "a.csv"))


def test_names_that_are_numbers_or_times(tmp_path: Path):
    for header in ("0,1,2", "0.0,0.5,1.0"):
        np.testing.assert_array_equal(read(save(tmp_path, f"{header}\n5,6,8\n", "a.csv")).X, [[[5, 6, 8]]])


def test_separators_are_one_mark(tmp_path: Path):
    with pytest.raises(ValueError, match="separator must be one mark, such as ';'; got '::'"):
        read(save(tmp_path, "a::b\n1::2\n", "a.csv"), separator="::")
