"""Ctrl-C, at any time, and how interrupted fits and predictions continue."""

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from helpers.cli_data import UNTIMED, command, loaded, long_table, refuse, start, succeed, weights, write
from helpers.mutations import damaged_files
from siggpde.io import read

PAPER = [*UNTIMED, "--method", "paper", "--max-iter", "100"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, a model fitted without interruption, and one whose fit was stopped by Ctrl-C."""
    folder = tmp_path_factory.mktemp("interrupted")
    write(long_table(80), folder / "data.csv")
    write(long_table(80, seed=9), folder / "other.csv")
    succeed("fit", folder / "data.csv", "--output", folder / "whole", *PAPER)
    return folder


@pytest.fixture(scope="module")
def stopped(folder: Path) -> str:
    """What was said on stderr when Ctrl-C stopped the fit of folder / "part"."""
    arguments = command("fit", folder / "data.csv", "--output", folder / "part", *PAPER)
    checkpoint = folder / "part.checkpoint" / "member-1.pt"
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not checkpoint.exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 130 and stdout == "", stderr
    return stderr


@pytest.fixture
def part(folder: Path, stopped: str, tmp_path: Path) -> Path:
    """The model that is still to be, in a folder of its own with its checkpoint."""
    shutil.copytree(folder / "part.checkpoint", tmp_path / "part.checkpoint")
    return tmp_path / "part"


def test_an_interrupted_fit_says_how_to_go_on_and_ends_with_the_same_model(folder: Path, stopped: str, part: Path):
    last = stopped.splitlines()[-1]
    assert last.startswith(f"interrupted; the checkpoint is in {folder / 'part.checkpoint'}. To go on: siggpde fit ")
    assert last.endswith("--resume") and "Traceback" not in stopped
    assert not (folder / "part").exists()
    succeed("fit", folder / "data.csv", "--output", part, *PAPER, "--resume")
    assert weights(part) == weights(folder / "whole")
    assert list(part.parent.iterdir()) == [part]


def test_a_checkpoint_is_continued_by_the_same_fit_only_and_not_thrown_away_unasked(folder: Path, part: Path):
    before = sorted(path.name for path in (part.parent / "part.checkpoint").iterdir())
    for data, more in (("other.csv", []), ("data.csv", ["--seed", "4"])):
        words = "made with other series, targets or settings"
        refuse(1, words, "fit", folder / data, "--output", part, *PAPER, *more, "--resume")
    assert sorted(path.name for path in (part.parent / "part.checkpoint").iterdir()) == before
    (part.parent / "part.checkpoint" / "member-1.pt").write_bytes(b"nonsense")
    refuse(1, "not a readable checkpoint", "fit", folder / "data.csv", "--output", part, *PAPER, "--resume")
    words = "--resume with that method continues it, --force starts anew"
    refuse(2, words, "fit", folder / "other.csv", "--output", part, *UNTIMED)
    refuse(2, "", "fit", folder / "other.csv", "--output", part, *UNTIMED, "--resume")
    succeed("fit", folder / "other.csv", "--output", part, *UNTIMED, "--time-limit", "0.4", "--force")
    assert list(part.parent.iterdir()) == [part]


def test_resume_without_a_checkpoint_just_starts(folder: Path, tmp_path: Path):
    model = tmp_path / "model"
    result = succeed("fit", folder / "data.csv", "--output", model, *PAPER, "--resume")
    assert "to resume from: the fit starts anew" in result.stderr
    assert weights(model) == weights(folder / "whole")
    result = succeed("fit", folder / "data.csv", "--output", model, *UNTIMED, "--resume", "--force")  # views keep none
    assert result.stderr.count("keeps no checkpoint to resume from") == 1
    assert list(tmp_path.iterdir()) == [model]


def killed(arguments: Sequence[str], delay: float) -> bool:
    """Starts a fit, waits until its data is read and so many seconds more, and kills it; False if it ended before."""
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        if first.endswith("the fit starts anew\n"):  # there is no checkpoint, or not yet
            first = process.stderr.readline()
        assert first.startswith("read 80 series, 2 channels x, y, time day, 8 points, label kind")
        try:
            assert process.wait(timeout=delay) == 0, process.stderr.read()
        except subprocess.TimeoutExpired:
            process.kill()
            return True
    return False


def contents(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::siggpde.committee.novelty.NoveltyWarning")  # other walks are predicted
@pytest.mark.parametrize("method", ["views", "paper"])
def test_killed_at_fifty_moments_and_resumed(method: str, folder: Path, tmp_path: Path):
    settings = [*UNTIMED, "--members", "2"] if method == "views" else PAPER
    whole = tmp_path / "whole"
    succeed("fit", folder / "data.csv", "--output", whole, *settings)
    began = time.perf_counter()
    succeed("fit", folder / "data.csv", "--output", whole, *settings, "--force")
    took = time.perf_counter() - began
    model = tmp_path / "again" / "model"
    arguments = command("fit", folder / "data.csv", "--output", model, *settings, "--resume", "--force")
    generator = random.Random(7)
    kills = 0
    while kills < 50:
        kills += killed(arguments, generator.uniform(0, 1.2 * took))
        if (model / "model.json").exists():  # an attempt came to its end, or was killed after it saved
            assert weights(model) == weights(whole)
    succeed(*arguments[arguments.index("fit") :])
    assert weights(model) == weights(whole)
    X = np.random.default_rng(0).normal(size=(5, 3, 8)).cumsum(axis=2)
    X[:, 0] = np.arange(8)
    np.testing.assert_array_equal(loaded(model).predict_proba(X), loaded(whole).predict_proba(X))
    assert contents(model.parent) == ["model", *(f"model/{name}" for name in contents(model))]
    assert len(contents(model)) == 3


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
    assert process.returncode in STOPPED and stdout == "" and "Traceback" not in "".join(said), "".join(said)
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
    assert stop_after("reading", "fit", path, "--output", tmp_path / "model", "--verbose")[-1] == "interrupted"
    assert [path.name for path in tmp_path.iterdir()] == ["large.ts"]


@pytest.mark.parametrize("what", ["predict", "evaluate"])
def test_while_series_are_predicted(models: Path, tmp_path: Path, what: str):
    said = stop_after("read ", what, models / "kinds", many_series(tmp_path / "new.csv", 20_000))
    assert said[-1] == "interrupted"


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
