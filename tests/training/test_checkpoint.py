"""Checkpoints: a fit that goes on ends bitwise where it would have ended, and goes on with nothing else."""

import copy
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.interruptions import Interruption, interrupt
from helpers.small_models import QUIET, labels, same_state, series, small_gp, targets
from siggpde.gp.checkpoint import write_whole
from siggpde.gp.likelihoods import Gaussian, Softmax
from siggpde.gp.model import SignatureGP
from siggpde.training import History, NaturalGradients, PaperSchedule, fit

NATURAL = NaturalGradients(max_iter=4, settle=1e-12, inner=2)
PAPER = PaperSchedule(iterations=5, batch=8, evaluate_every=2)
schedules = pytest.mark.parametrize("schedule", [NATURAL, PAPER], ids=["natural", "paper"])
X = series(60)
CASES: dict[str, Any] = {
    "plain": lambda: (small_gp(Gaussian(0.2), 7, theta=0.6), targets(X)),
    "energy": lambda: (small_gp(Softmax(3), 7, theta=0.6, order="energy"), labels(X, 3)),
    "rank": lambda: (small_gp(Gaussian(0.2), 15, theta=0.6, order="energy", rank=5), targets(X)),
    "diagonal": lambda: (small_gp(Softmax(3), 7, covariance="diagonal", dtype=torch.float32), labels(X, 3)),
    "more words than series": lambda: (small_gp(Gaussian(0.2), 63, theta=0.6, normalized=True), targets(X)),
}


def without_seconds(history: History) -> dict[str, Any]:
    facts = copy.deepcopy(history.to_dict())
    del facts["phase_seconds"], facts["step_seconds"]
    for record in facts["records"]:
        del record["seconds"]
    return facts


@schedules
@pytest.mark.parametrize("phase", ["q", "hyperparameters", "all"])
@pytest.mark.parametrize("case", CASES)
def test_a_resumed_fit_ends_bitwise_as_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schedule: Any, phase: str, case: str
):
    whole, y = CASES[case]()
    history = fit(whole, (X, y), schedule, seed=3, **QUIET)
    settings = {"seed": 3, "checkpoint": tmp_path / "state", "checkpoint_every": 0.0, **QUIET}
    broken, _ = CASES[case]()
    with monkeypatch.context() as patch:
        interrupt(patch, phase, 1)
        with pytest.raises(Interruption):
            fit(broken, (X, y), schedule, **settings)
    again, _ = CASES[case]()
    (tmp_path / "copy").write_bytes((tmp_path / "state").read_bytes())
    for model in (again, broken):  # a new process has a new model; a notebook has the one that was interrupted
        resumed = fit(model, (X, y), schedule, resume=True, **settings)
        assert same_state(model, whole)
        assert model.features.words == whole.features.words
        assert without_seconds(resumed) == without_seconds(history)
        assert resumed.phase_seconds.keys() == history.phase_seconds.keys()
        settings["checkpoint"] = tmp_path / "copy"


def test_a_process_that_is_killed_goes_on(tmp_path: Path):
    code = (
        "import sys; sys.path[:0] = ['tests', 'tests/training']\n"
        "import test_checkpoint as t\n"
        "model, y = t.CASES['energy']()\n"
        "t.fit(model, (t.X, y), t.PaperSchedule(iterations=100000, batch=8), checkpoint=sys.argv[1], "
        "checkpoint_every=0.02, progress=False)\n"
    )
    path = tmp_path / "state"
    flags = ["-S"] if sys.flags.no_site else []
    command = [sys.executable, *flags, "-c", code, str(path)]
    child = subprocess.Popen(command, cwd=Path(__file__).parents[2], env=os.environ | {"OMP_NUM_THREADS": "1"})
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.05)
    time.sleep(0.2)
    assert path.exists() and child.poll() is None, "it was killed in the middle of a fit"
    child.kill()
    child.wait()
    model, y = CASES["energy"]()
    schedule = PaperSchedule(iterations=100000, batch=8)
    history = fit(model, (X, y), schedule, checkpoint=path, resume=True, time_limit=0.0, **QUIET)
    assert set(history.stopped.values()) == {"time limit"}


@schedules
def test_a_finished_checkpoint_is_the_result(tmp_path: Path, schedule: Any):
    model, y = CASES["energy"]()
    history = fit(model, (X, y), schedule, checkpoint=tmp_path / "a" / "state", **QUIET)
    other, _ = CASES["energy"]()
    again = fit(other, (X, y), schedule, checkpoint=tmp_path / "a" / "state", resume=True, **QUIET)
    assert same_state(model, other) and without_seconds(again) == without_seconds(history)


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path):
    path = tmp_path / "state"
    model, y = CASES["plain"]()
    short = NaturalGradients(max_iter=1, learn=False)
    fit(model, (X, y), short, checkpoint=path, **QUIET)

    def resume(model: SignatureGP, x: Tensor = X, y: Tensor = y, schedule: Any = short, **more: Any) -> None:
        with pytest.raises(ValueError, match="made with other series, targets or settings"):
            fit(model, (x, y), schedule, checkpoint=path, resume=True, **more, **QUIET)

    resume(small_gp(Gaussian(0.2), 7), x=X + 0.1)
    resume(small_gp(Gaussian(0.2), 7), y=y + 1)
    resume(small_gp(Gaussian(0.2), 7), schedule=NaturalGradients(max_iter=2, learn=False))
    resume(small_gp(Gaussian(0.2), 7), seed=1)
    resume(small_gp(Gaussian(0.2), 7), validation=0.3)
    for other in (
        small_gp(Gaussian(0.2), 8),
        small_gp(Gaussian(0.2), 7, normalized=True),
        small_gp(Gaussian(0.2), 7, depth=3),
        small_gp(Gaussian(0.2), 7, tol=1e-6),
        small_gp(Gaussian(0.2), 7, rank=3),
        small_gp(Gaussian(0.2), 7, covariance="diagonal"),
        small_gp(Gaussian(0.2), 7, dtype=torch.float32),
    ):
        resume(other)
    fit(CASES["plain"]()[0], (X, y), short, checkpoint=path, resume=True, **QUIET)
    with pytest.raises(ValueError, match="give checkpoint="):
        fit(model, (X, y), resume=True)


@pytest.mark.parametrize("content", ["cut", "empty", "other", "bit", "no hash", "format"])
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, content: str):
    path = tmp_path / "state"
    model, y = CASES["plain"]()
    short = NaturalGradients(max_iter=1, learn=False)
    fit(model, (X, y), short, checkpoint=path, **QUIET)
    data = path.read_bytes()
    if content == "format":
        write_whole(path, {"format": 99})
    elif content == "no hash":
        torch.save({"format": 3}, path)
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]
        bad = {"cut": data[:middle], "empty": b"", "other": b"not a checkpoint", "bit": flipped}
        path.write_bytes(bad[content])
    message = "format 99 is not the one" if content == "format" else "is not a readable checkpoint"
    with pytest.raises(ValueError, match=rf"state.*{message}.*start without resume"):
        fit(model, (X, y), short, checkpoint=path, resume=True, **QUIET)


def test_a_crash_while_saving_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "state"
    model, y = CASES["plain"]()
    short = NaturalGradients(max_iter=2, learn=False)
    fit(model, (X, y), short, checkpoint=path, **QUIET)
    before = path.read_bytes()

    def crash(state: Any, file: Any) -> None:
        file.write(b"half of a chec")
        raise OSError("no space left on device")

    monkeypatch.setattr(torch, "save", crash)
    with pytest.raises(OSError, match="no space"):
        fit(CASES["plain"]()[0], (X, y), short, checkpoint=path, **QUIET)
    assert path.read_bytes() == before
