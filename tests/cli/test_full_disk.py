"""A disk that is full while `siggpde fit` writes: what is said, and what is left."""

import resource
import subprocess
from pathlib import Path

import pytest

from helpers.cli_data import LONG, command, long_table, run, weights, write

SETTINGS = [*LONG, "--target", "kind", "--members", "1", "--n-features", "20", "--jobs", "1"]


LIMIT = 14_000


def no_large_files() -> None:
    """Files above 14,000 bytes cannot be written: EFBIG, as ENOSPC where the disk is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


@pytest.mark.parametrize("method", ["views", "paper"])
def test_the_path_and_the_space_are_named_and_the_fit_goes_on_with_more_space(method: str, tmp_path: Path):
    """The default fails when it saves the model, and the method of the paper at its checkpoint."""
    data, model = write(long_table(60), tmp_path / "data.csv"), tmp_path / "model"
    settings = [*SETTINGS, *([] if method == "views" else ["--method", "paper", "--max-iter", "20"])]
    arguments = ["fit", data, "--output", model, *settings]
    failed = subprocess.run(
        command(*arguments), capture_output=True, text=True, preexec_fn=no_large_files, check=False, timeout=300
    )
    assert failed.returncode == 1, failed.stderr
    last = failed.stderr.splitlines()[-1]
    where = "model/model.json" if method == "views" else "model.checkpoint/member-1.pt"
    assert last.startswith(f"Error: [Errno 27] File too large: {tmp_path / where}")
    assert " MB, and its disk has " in last and "make room there" in last
    assert not list(tmp_path.rglob("*.part")) and not (model / "model.json").exists()
    assert run(*arguments, "--resume").exit_code == 0
    whole = tmp_path / "whole"
    assert run("fit", data, "--output", whole, *settings).exit_code == 0
    assert weights(model) == weights(whole)
