"""Fits that are interrupted: Ctrl-C, and processes that are killed at any moment."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from helpers.cli_data import LONG, command, loaded, long_table, run, weights, write

SETTINGS = [*LONG, "--target", "kind", "--members", "1", "--n-features", "20", "--jobs", "1"]
PAPER = [*SETTINGS, "--method", "paper", "--max-iter", "100"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, a model fitted without interruption, and one whose fit was stopped by Ctrl-C."""
    folder = tmp_path_factory.mktemp("interrupted")
    write(long_table(80), folder / "data.csv")
    write(long_table(80, seed=9), folder / "other.csv")
    result = run("fit", folder / "data.csv", "--output", folder / "whole", *PAPER)
    assert result.exit_code == 0, result.output
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
    assert process.returncode == 130, stderr
    assert stdout == ""
    return stderr


@pytest.fixture
def part(folder: Path, stopped: str, tmp_path: Path) -> Path:
    """The model that is still to be, in a folder of its own with its checkpoint."""
    shutil.copytree(folder / "part.checkpoint", tmp_path / "part.checkpoint")
    return tmp_path / "part"


def test_an_interrupted_fit_says_how_to_go_on(folder: Path, stopped: str):
    last = stopped.splitlines()[-1]
    assert last.startswith(f"interrupted; the checkpoint is in {folder / 'part.checkpoint'}. To go on: siggpde fit ")
    assert last.endswith("--resume") and "Traceback" not in stopped
    assert not (folder / "part").exists()


def test_a_resumed_fit_ends_with_the_same_model(folder: Path, part: Path):
    result = run("fit", folder / "data.csv", "--output", part, *PAPER, "--resume")
    assert result.exit_code == 0, result.output
    assert weights(part) == weights(folder / "whole")
    assert list(part.parent.iterdir()) == [part]


def test_other_data_and_other_settings_do_not_go_on(folder: Path, part: Path):
    before = sorted(path.name for path in (part.parent / "part.checkpoint").iterdir())
    for data, more in (("other.csv", []), ("data.csv", ["--seed", "4"])):
        result = run("fit", folder / data, "--output", part, *PAPER, *more, "--resume")
        assert result.exit_code == 1 and "made with other series, targets or settings" in result.stderr
    assert sorted(path.name for path in (part.parent / "part.checkpoint").iterdir()) == before


def test_a_checkpoint_is_not_thrown_away_unasked(folder: Path, part: Path):
    result = run("fit", folder / "other.csv", "--output", part, *SETTINGS)
    assert result.exit_code == 2
    assert "--resume with that method continues it, --force starts anew" in result.stderr
    assert run("fit", folder / "other.csv", "--output", part, *SETTINGS, "--resume").exit_code == 2
    result = run("fit", folder / "other.csv", "--output", part, *SETTINGS, "--time-limit", "0.4", "--force")
    assert result.exit_code == 0, result.output
    assert list(part.parent.iterdir()) == [part]


def test_a_damaged_checkpoint_is_said_to_be_one(folder: Path, part: Path):
    (part.parent / "part.checkpoint" / "member-1.pt").write_bytes(b"nonsense")
    result = run("fit", folder / "data.csv", "--output", part, *PAPER, "--resume")
    assert result.exit_code == 1 and "not a readable checkpoint" in result.stderr


def test_resume_without_a_checkpoint_just_starts(folder: Path, tmp_path: Path):
    model = tmp_path / "model"
    result = run("fit", folder / "data.csv", "--output", model, *PAPER, "--resume")
    assert result.exit_code == 0, result.output
    assert "to resume from: the fit starts anew" in result.stderr
    assert weights(model) == weights(folder / "whole")
    assert list(tmp_path.iterdir()) == [model]


def test_views_say_that_there_is_nothing_to_go_on_from(folder: Path, tmp_path: Path):
    model = tmp_path / "model"
    result = run("fit", folder / "data.csv", "--output", model, *SETTINGS, "--time-limit", "0.4", "--resume")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("keeps no checkpoint to resume from") == 1
    assert list(tmp_path.iterdir()) == [model]


def killed(arguments: Sequence[str], delay: float) -> bool:
    """Starts a fit, waits until its data is read and so many seconds more, and kills it; False if it ended before."""
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        if first.startswith("there is no"):  # checkpoint: killed before there was one
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
@pytest.mark.filterwarnings("ignore::siggpde.estimators.trusting.NoveltyWarning")  # other walks are predicted
@pytest.mark.parametrize("method", ["views", "paper"])
def test_killed_at_fifty_moments_and_resumed(method: str, folder: Path, tmp_path: Path):
    settings = [*SETTINGS, "--members", "2"] if method == "views" else PAPER
    whole = tmp_path / "whole"
    assert run("fit", folder / "data.csv", "--output", whole, *settings).exit_code == 0
    began = time.perf_counter()
    assert run("fit", folder / "data.csv", "--output", whole, *settings, "--force").exit_code == 0
    took = time.perf_counter() - began
    model = tmp_path / "again" / "model"
    arguments = command("fit", folder / "data.csv", "--output", model, *settings, "--resume", "--force")
    generator = random.Random(7)
    kills = 0
    while kills < 50:
        kills += killed(arguments, generator.uniform(0, 1.2 * took))
        if (model / "model.json").exists():  # an attempt came to its end, or was killed after it saved
            assert weights(model) == weights(whole)
    result = run(*arguments[arguments.index("fit") :])
    assert result.exit_code == 0, result.output
    assert weights(model) == weights(whole)
    X = np.random.default_rng(0).normal(size=(5, 3, 8)).cumsum(axis=2)
    X[:, 0] = np.arange(8)
    np.testing.assert_array_equal(loaded(model).predict_proba(X), loaded(whole).predict_proba(X))
    assert contents(model.parent) == ["model", *(f"model/{name}" for name in contents(model))]
    assert len(contents(model)) == 3


# A fit whose files have their names a while after they were written.
SLOW = """
import os, runpy, time
replace = os.replace
os.replace = lambda *names: (time.sleep(0.1), replace(*names))
runpy.run_module("siggpde", run_name="__main__")
"""


@pytest.mark.slow
def test_killed_while_saving_over_a_model(folder: Path, tmp_path: Path):
    model = tmp_path / "model"
    known = set()
    for points in (5, 6):
        result = run("fit", folder / "data.csv", "--output", model, *SETTINGS, "--max-points", points, "--force")
        assert result.exit_code == 0, result.output
        known.add(weights(model))
    assert len(known) == 2
    generator = random.Random(3)
    kills, arguments = 0, []
    for number in range(8):
        points = (5, 6)[number % 2]
        arguments = ["fit", folder / "data.csv", "--output", model, *SETTINGS, "--max-points", points, "--force"]
        fit = [sys.executable, *["-S"] * sys.flags.no_site, "-c", SLOW, *map(str, arguments)]
        with subprocess.Popen(fit, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and not list(model.glob("*.part")):
                pass
            time.sleep(generator.uniform(0, 0.15))
            process.kill()
        kills += process.returncode == -signal.SIGKILL
        loaded(model)
        manifest = json.loads((model / "model.json").read_text())
        assert (model / manifest["files"][0]["name"]).read_bytes() in known
    assert kills >= 4
    assert run(*arguments).exit_code == 0
    assert len(contents(model)) == 3 and contents(tmp_path) == ["model", *(f"model/{n}" for n in contents(model))]
