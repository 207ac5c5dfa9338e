"""No command overwrites what it reads, or a file of a model, not even with --force."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.cli_data import FAST, LONG, long_table, refuse, run, write
from helpers.refusals import assert_refused
from siggpde.io.predictions import predict_stream


@pytest.fixture
def place(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model `m`, in which there are results of an earlier command, and copies of its test series under
    the names of outputs; commands run in it."""
    shutil.copytree(models / "kinds", tmp_path / "m")
    for name in ("d.csv", "d.json", "d.html", "d.png", "m/old.json", "m/old.html", "m/old.csv", "m/old.png"):
        shutil.copy(models / "test.csv", tmp_path / name)
    for link, target in (("link.json", "d.json"), ("link.html", "m/old.html")):
        (tmp_path / link).symlink_to(target)
    os.link(tmp_path / "d.csv", tmp_path / "hard.csv")
    (tmp_path / "s.json").write_text("1\n" * 12)
    (tmp_path / "s.csv").write_text("1\n" * 12)
    np.save(tmp_path / "s.npy", np.zeros((12, 3, 8)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


CSV = ["--format", "csv"]
COLUMNS = [*LONG, "--target", "kind"]
FIT = [*COLUMNS, *FAST]
READ, INSIDE = "is read by this command", "is in the model folder"


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (READ, ["predict", "m", "d.csv", "--output", "d.csv"]),
        (READ, ["predict", "m", "d.csv", "--output", "hard.csv"]),
        (READ, ["predict", "m", "d.csv", "--costs", "s.csv", "--output", "s.csv"]),
        (READ, ["predict", "m", "s.npy", "--target", "s.csv", "--output", "s.csv"]),
        (READ, ["predict", "m", "d.json", *CSV, "--output", "link.json"]),
        (INSIDE, ["predict", "m", "d.csv", "--output", "m/model.json"]),
        (INSIDE, ["predict", "m", "d.csv", "--output", "m/old.csv"]),
        (READ, ["evaluate", "m", "d.json", *CSV, "--output", "d.json"]),
        (READ, ["evaluate", "m", "d.html", *CSV, "--report", "d.html"]),
        (INSIDE, ["evaluate", "m", "d.csv", "--output", "m/model.json"]),
        (INSIDE, ["evaluate", "m", "d.csv", "--report", "link.html"]),
        (READ, ["explain", "m", "d.png", *CSV, "--plot", "d.png"]),
        (INSIDE, ["explain", "m", "d.csv", "--plot", "m/old.png"]),
        (READ, ["report", "m", "d.html", *CSV, "--output", "d.html"]),
        (INSIDE, ["report", "m", "d.csv", "--output", "m/old.html"]),
        (READ, ["compare", "d.json", *CSV, *COLUMNS, "--output", "d.json"]),
        (READ, ["compare", "d.csv", *COLUMNS, "--test", "d.json", "--output", "link.json"]),
        (INSIDE, ["compare", "d.csv", *COLUMNS, "--output", "m/model.json"]),
        (READ, ["fit", "d.html", *CSV, *FIT, "--output", "new", "--report", "d.html"]),
        (INSIDE, ["fit", "d.csv", *FIT, "--output", "new", "--report", "m/old.html"]),
        ("is inside the folder of --output", ["fit", "m/old.csv", *FIT, "--output", "m"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_force_overwrites_no_input_and_no_file_of_a_model(said: str, line: list[Any], place: Path):
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    refuse(2, said, *line, "--force")
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def test_demo_and_reproduce_overwrite_no_file_of_a_model(place: Path):
    shutil.copy("m/old.html", "m/report.html")
    refuse(2, INSIDE, "demo", "--output", "m", "--force")
    shutil.copy("m/model.json", "m/results.json")
    refuse(2, INSIDE, "reproduce", "complexity", "--quick", "--output", "m")
    Path("s.json").rename("results.json")
    refuse(2, READ, "reproduce", "complexity", "--config", "results.json", "--output", ".")


def test_blocks_are_not_written_over_the_file_that_is_read(place: Path):
    folder = place / "out.parquet.parts"
    folder.mkdir()
    source = folder / "block-000000.parquet"
    long_table(12, seed=1).write_parquet(source)
    before = source.read_bytes()
    arguments = ("predict", "m", source, "--output", "out.parquet", "--force")
    refuse(2, "blocks of out.parquet are written to its folder", *arguments)
    os.link("s.npy", "copy.parquet")
    assert_refused("is read", predict_stream, "m", "s.npy", "copy.parquet", force=True, error=FileExistsError)
    assert source.read_bytes() == before


def test_what_is_new_is_written_anywhere_but_into_a_model_folder(place: Path):
    before = sorted(Path("m").iterdir())
    refuse(2, INSIDE, "predict", "m", "d.csv", "--output", "m/new.csv")
    refuse(2, INSIDE, "predict", "m", "s.npy", "--output", "m/new.parquet")
    assert sorted(Path("m").iterdir()) == before
    assert run("predict", "m", "d.csv", "--output", "old.csv").exit_code == 0
    write(long_table(12), place / "old.csv")
    assert run("predict", "m", "d.csv", "--output", "old.csv", "--force").exit_code == 0
