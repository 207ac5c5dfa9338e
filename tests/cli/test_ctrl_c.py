"""Ctrl-C while a command reads or predicts, and panics of polars: one line on stderr, and the exit code."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from helpers.cli_data import command, start
from helpers.mutations import damaged_files
from siggpde.io import read

STOPPED = (130, -signal.SIGINT)  # -2: in an import, after which Python ends by the signal; to a shell that is 130 too


def stop_after(line: str, *arguments: Any) -> list[str]:
    """The lines of stderr of a command that gets Ctrl-C when one of them starts so."""
    with subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said: list[str] = []
        for text in process.stderr:
            said.append(text)
            if text.startswith(line):
                process.send_signal(signal.SIGINT)
        stdout = process.stdout.read() if process.stdout is not None else ""
    assert process.returncode in STOPPED, "".join(said)
    assert stdout == ""
    return [text.rstrip("\n") for text in said]


def many_series(path: Path, count: int) -> Path:
    """Series for the models of `helpers.cli_data`, in long form."""
    values = np.random.default_rng(0).normal(size=(2, count * 8))
    names = pl.Series("who", np.repeat(np.arange(count), 8))
    table = pl.DataFrame({"day": np.tile(np.arange(8), count), "x": values[0], "y": values[1]}).with_columns(names)
    table.with_columns(kind=pl.lit("blue")).write_csv(path)
    return path


def test_while_a_file_is_read(tmp_path: Path):
    path = tmp_path / "large.ts"
    path.write_text("@classLabel true a b\n@data\n" + ("1,2,3,4,5,6,7,8:a\n" * 1000 + "2,1,2,1,2,1,2,1:b\n") * 400)
    said = stop_after("reading", "fit", path, "--output", tmp_path / "model", "--verbose")
    assert said[-1] == "interrupted" and not any("Traceback" in line for line in said)
    assert [found.name for found in tmp_path.iterdir()] == ["large.ts"]


@pytest.mark.parametrize("what", ["predict", "evaluate"])
def test_while_series_are_predicted(models: Path, tmp_path: Path, what: str):
    said = stop_after("read ", what, models / "kinds", many_series(tmp_path / "new.csv", 20_000))
    assert said[-1] == "interrupted" and not any("Traceback" in line for line in said)


def panicking(folder: Path) -> Path:
    """A Parquet file over which polars panics, where there is one among damaged files; else one that it refuses."""
    refused = None
    for path, options in damaged_files(folder, 2000, seed=1):
        if path.suffix == ".parquet":
            content = path.read_bytes()
            try:
                read(path, **options)
            except ValueError as error:
                refused = content
                if type(error.__cause__).__name__ == "PanicException":
                    break
    assert refused is not None
    target = folder / "damaged.parquet"
    target.write_bytes(refused)
    return target


def test_a_panic_of_polars_ends_in_one_line(tmp_path: Path):
    path = panicking(tmp_path)
    options = ["--series", "who", "--time", "day", "--target", "kind"]
    done = start("fit", path, *options, "--output", tmp_path / "m")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: {path} is not a whole .parquet file (")
