"""Two fits to the same --output: the second is refused before any work, and a dead one stands in nobody's way."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers.cli_data import LONG, command, loaded, long_table, run, weights, write

SETTINGS = [*LONG, "--target", "kind", "--members", "1", "--n-features", "20", "--jobs", "1"]
SETTINGS += ["--method", "paper", "--max-iter", "100"]


@contextmanager
def stopped_fit(data: Path, model: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A fit in a process of its own, which is made to stand still as soon as it has kept something."""
    kept = model.with_name(f"{model.name}.checkpoint") / "member-1.pt"
    arguments = command("fit", data, "--output", model, *SETTINGS)
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while not kept.exists() and process.poll() is None:
                time.sleep(0.005)
            process.send_signal(signal.SIGSTOP)
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(long_table(80), tmp_path_factory.mktemp("two") / "data.csv")


@pytest.mark.skipif(os.name != "posix", reason="locks of files are of POSIX systems")
def test_a_second_fit_is_refused_while_the_first_runs_and_not_after_it_was_killed(data: Path, tmp_path: Path):
    model = tmp_path / "model"
    with stopped_fit(data, model) as first:
        before = {path.name: path.read_bytes() for path in (tmp_path / "model.checkpoint").iterdir()}
        for more in ([], ["--resume"], ["--force"]):
            # The data do not exist: the refusal comes before they are read.
            second = run("fit", tmp_path / "nothing.csv", "--output", model, *SETTINGS, *more)
            assert second.exit_code == 2
            assert f"another fit to {model} is running" in second.stderr and "another --output" in second.stderr
        assert {path.name: path.read_bytes() for path in (tmp_path / "model.checkpoint").iterdir()} == before
        first.kill()
        assert first.wait() == -signal.SIGKILL
    resumed = run("fit", data, "--output", model, *SETTINGS, "--resume")
    assert resumed.exit_code == 0, resumed.output
    whole = run("fit", data, "--output", tmp_path / "whole", *SETTINGS)
    assert whole.exit_code == 0 and weights(model) == weights(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "whole"]


@pytest.mark.skipif(os.name != "posix", reason="locks of files are of POSIX systems")
def test_of_fits_started_at_once_one_writes_the_model(data: Path, tmp_path: Path):
    arguments = command("fit", data, "--output", tmp_path / "model", *SETTINGS)
    fits = [subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=300)[1] for process in fits]
    codes = sorted(process.returncode for process in fits)
    assert codes == [0, 2], said
    assert sum("is running" in text or "holds a model already" in text for text in said) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert loaded(tmp_path / "model")
