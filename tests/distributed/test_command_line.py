"""The command line run by several processes: the same model, the same predictions, and processes that are killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from helpers.cli_data import LONG, command, loaded, long_table, run, write
from helpers.refusals import assert_refused
from siggpde.cli.processes import shard_bounds, shard_of
from siggpde.datasets import load_pendigits
from siggpde.distributed.ranks import Ranks
from siggpde.io import SeriesData

SETTINGS = ["--members", "1", "--n-features", "20", "--jobs", "1"]


class Part(Ranks):
    """One of several ranks, which never speak."""

    def __init__(self, rank: int, count: int) -> None:
        super().__init__()
        self.rank, self.count, self.alone, self.leads = rank, count, count == 1, rank == 0


def torchrun(count: int, *arguments: Any) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, *["-S"] * sys.flags.no_site, "-m", "torch.distributed.run", "--standalone"]
    program += [f"--nproc-per-node={count}", "--no-python", *command(*arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=900, env=environment)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("ragged", [False, True])
def test_parts_are_all_the_series(count: int, ragged: bool):
    X = [np.full((1, 3 + ragged * (n % 2)), float(n)) for n in range(7)]
    data = SeriesData(X if ragged else np.stack(X), y=np.arange(7), ids=np.arange(7) + 100)
    parts = [shard_of(data, Part(rank, count)) for rank in range(count)]
    assert [int(one[0, 0]) for part in parts for one in part.X] == list(range(7))
    assert [label for part in parts for label in np.asarray(part.y)] == list(range(7))
    assert [number for part in parts for number in np.asarray(part.ids)] == list(range(100, 107))


def test_ranks_need_series_and_some_commands_one_process(monkeypatch: pytest.MonkeyPatch):
    assert_refused("there are 2 series for 3 ranks, but each needs one", shard_bounds, 2, Part(0, 3))
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = run("info")
    assert result.exit_code == 2
    assert "info is for one process, but there are 2; leave out torchrun" in result.stderr


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_only_its_own_rows_are_read(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from siggpde.cli import processes  # noqa: PLC0415

    X, y = np.arange(40.0).reshape(10, 4), np.arange(10)
    path, seen = tmp_path / f"data.{kind}", []
    if kind == "npy":
        np.save(path, X)
        np.save(tmp_path / "y.npy", y)
        options = {"target": str(tmp_path / "y.npy")}
    else:
        pl.DataFrame(X, schema=["x_0", "x_1", "x_2", "x_3"]).with_columns(kind=y).write_parquet(path)
        options = {"target": "kind", "channels": ["x"]}
        whole = processes.from_frame
        monkeypatch.setattr(
            processes, "from_frame", lambda frame, **rest: seen.append(frame.height) or whole(frame, **rest)
        )
    part = processes.read_shard(path, kind, options, Part(1, 3))
    assert np.array(part.X).tolist() == X[3:6, None].tolist()
    assert part.y is not None and part.y.tolist() == [3, 4, 5]
    assert seen == ([3] if kind == "parquet" else [])


@pytest.mark.slow
def test_torchrun_makes_the_model_of_one_process(tmp_path: Path):
    write(long_table(40), tmp_path / "train.csv")
    new = write(long_table(13, seed=1), tmp_path / "new.csv")
    settings = ["fit", tmp_path / "train.csv", *LONG, "--target", "kind", *SETTINGS]
    assert run(*settings, "--output", tmp_path / "one").exit_code == 0
    done = torchrun(3, *settings, "--output", tmp_path / "three")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("siggpde fit") == 1  # rank 0 alone speaks
    one, three = loaded(tmp_path / "one"), loaded(tmp_path / "three")
    assert one.fingerprint_ == three.fingerprint_ and one.get_params() == three.get_params()
    assert run("predict", tmp_path / "one", new, "--output", tmp_path / "one.csv").exit_code == 0
    done = torchrun(2, "predict", tmp_path / "three", new, "--output", tmp_path / "three.csv")
    assert done.returncode == 0, done.stderr
    alone, together = (pl.read_csv(tmp_path / f"{name}.csv") for name in ("one", "three"))
    assert alone.columns == together.columns
    assert alone.select("id", "prediction").equals(together.select("id", "prediction"))
    np.testing.assert_allclose(together.drop("id", "prediction"), alone.drop("id", "prediction"), rtol=1e-8, atol=1e-8)
    wrong = torchrun(2, "fit", tmp_path / "none.csv", "--output", tmp_path / "x")
    assert wrong.returncode != 0 and "there is no file" in wrong.stderr


@pytest.mark.slow
def test_two_ranks_fit_pendigits_as_one_process_does(tmp_path: Path):
    """All defaults and more series than landmarks, whose roots are stored in float32."""
    settings = ["fit", "pendigits", "--jobs", "1", "--output"]
    assert run(*settings, tmp_path / "one").exit_code == 0
    done = torchrun(2, *settings, tmp_path / "two")
    assert done.returncode == 0, done.stderr
    series = load_pendigits().X_test[:500].astype(float)
    one, two = (loaded(tmp_path / name).predict_proba(series) for name in ("one", "two"))
    np.testing.assert_array_equal(two, one)


@pytest.mark.slow
def test_a_rank_that_is_killed_stops_the_others_and_any_number_go_on(tmp_path: Path):
    write(long_table(80), tmp_path / "data.csv")
    paper = [*SETTINGS, "--method", "paper", "--max-iter", "300"]
    settings = ["fit", tmp_path / "data.csv", *LONG, "--target", "kind", *paper]
    assert run(*settings, "--output", tmp_path / "whole").exit_code == 0
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            command(*settings, "--output", tmp_path / "part"),
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | meeting | {"RANK": str(rank)},
        )
        for rank in range(2)
    ]
    while not (tmp_path / "part.checkpoint" / "member-1.pt").exists() and ranks[0].poll() is None:
        time.sleep(0.01)
    ranks[1].send_signal(signal.SIGKILL)
    stdout, stderr = ranks[0].communicate(timeout=300)
    ranks[1].communicate(timeout=300)
    assert ranks[0].returncode == 1 and stdout == ""
    last = stderr.strip().splitlines()[-1]
    assert last.startswith("Error: rank 0 of 2 lost contact with the others: one of them died or stalled")
    assert last.endswith("where there is a checkpoint, resume from it")
    resumed = torchrun(3, *settings, "--output", tmp_path / "part", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert not (tmp_path / "part.checkpoint").exists()
    new = long_table(9, seed=2)
    parts = new.partition_by("who", maintain_order=True)
    series = np.stack([part.select("day", "x", "y").to_numpy().T for part in parts])
    whole, part = (loaded(tmp_path / name).predict_proba(series) for name in ("whole", "part"))
    np.testing.assert_allclose(part, whole, rtol=1e-8, atol=1e-10)
