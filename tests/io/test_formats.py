"""`siggpde.io.formats`: the list of options is that of the functions that take them; a table is opened once."""

import inspect
import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from helpers.file_opens import count_opens
from siggpde.io import read, stream
from siggpde.io.formats import FORMATS, READ_OPTIONS, STREAM_OPTIONS, WRITE_FORMATS


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


def test_opens_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n")
    opens = count_opens(path, monkeypatch)
    pl.read_csv(path)
    pl.read_csv(str(path), n_rows=0)
    for function in (open, io.open, Path.open):
        function(path).close()
    path.read_text()
    assert len(opens) == 6
