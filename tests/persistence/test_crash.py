"""No crash loses a model: whatever stops a save, and whenever, the old or the new model can be loaded."""

import builtins
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from helpers.model_folders import NEW, OLD, data_file, files, holds
from helpers.refusals import assert_refused
from siggpde.persistence import read_folder, write_folder

OPERATIONS = [(os, "replace"), (os, "fsync"), (os, "unlink"), (os, "open"), (os, "listdir"), (builtins, "open")]


class Stopped(BaseException):
    """Not an Exception: as a process that stops, nothing may catch it for good."""


@contextmanager
def stopping(folder: Path, at: int, kind: type[BaseException], whole: bool) -> Iterator[list[str]]:
    """Lets operation number `at` on files in `folder` fail, before or after (`whole`) it is done; after that, with
    Stopped, all. Other files are left alone: the versions in a manifest come from those of the installed packages."""
    done: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for module, name in OPERATIONS:
            real = getattr(module, name)

            def operation(file: Any, *arguments: Any, name: str = name, real: Any = real, **more: Any) -> Any:
                if not isinstance(file, int) and not Path(file).is_relative_to(folder):
                    return real(file, *arguments, **more)
                done.append(name)
                dead = len(done) - 1 > at and kind is Stopped
                if len(done) - 1 == at or dead:
                    if whole and not dead and name != "open":
                        real(file, *arguments, **more)
                    raise kind(f"{name} failed")
                return real(file, *arguments, **more)

            patch.setattr(module, name, operation)
        yield done


@pytest.mark.parametrize("whole", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", [OSError, Stopped])
@pytest.mark.parametrize("first", [False, True], ids=["replacing", "first"])
def test_whichever_operation_fails_a_model_is_there(
    tmp_path: Path, first: bool, kind: type[BaseException], whole: bool
):
    failed: set[str] = set()
    outcomes: list[str] = []
    for at in range(100):
        folder = tmp_path / str(at) / "m"
        if not first:
            write_folder(folder, *OLD)
        with stopping(tmp_path, at, kind, whole) as done, suppress(OSError, Stopped):
            write_folder(folder, *NEW, force=True)
        if at >= len(done):
            break
        failed.add(done[at])
        if first and not (folder / "model.json").exists():
            outcomes.append("none")
        else:
            outcomes.append(read_folder(folder)[1]["which"])
            assert holds(folder, NEW if outcomes[-1] == "new" else OLD)
        write_folder(folder, *NEW, force=True)  # the next save succeeds and leaves no litter
        assert holds(folder, NEW) and files(folder) == ["README.md", "model.json", data_file(folder).name]
    else:
        pytest.fail("the save never went through")
    before = "none" if first else "old"
    assert outcomes == sorted(outcomes, key=["none", "old", "new"].index)  # once new, always new
    assert outcomes.count(before) >= 5 and outcomes.count("new") >= 5
    assert failed >= {"replace", "fsync", "open", "listdir"} | (set() if first else {"unlink"})


def test_a_full_disk_leaves_the_old_model_and_no_litter(saved: Path):
    before = files(saved)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
    try:
        assert_refused("File too large", write_folder, saved, *NEW, force=True, error=OSError)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert holds(saved, OLD) and files(saved) == before


def test_litter_of_dead_writers_is_cleared(saved: Path):
    for name in ("weights-0123456789abcdef.safetensors", "weights-0123456789abcdef.safetensors.7-ab.part"):
        (saved / name).write_text("half")
    (saved / "model.json.7-ab.part").write_text("half")
    (saved / "film.mkv.part").write_text("not ours")
    assert holds(saved, OLD)
    write_folder(saved, *NEW, force=True)
    assert files(saved) == ["README.md", "film.mkv.part", "model.json", data_file(saved).name]


SAVE_FOR_EVER = """
import sys; sys.path.insert(0, "tests")
from helpers.model_folders import NEW, OLD
from siggpde.persistence import write_folder
print("ready", flush=True)
while True:
    for model in (NEW, OLD):
        write_folder(sys.argv[1], *model, force=True)
        print("saved", flush=True)
"""


def kill_while_saving(folder: Path, times: int) -> set[str]:
    """Kills a process that saves over and over; after every kill the folder must hold one of the two models."""
    choose, outcomes = random.Random(2), set()
    flags = ["-S"] if sys.flags.no_site else []
    for _ in range(times):
        command = [sys.executable, *flags, "-c", SAVE_FOR_EVER, str(folder)]
        there: Any = {"cwd": Path(__file__).parents[2], "env": os.environ | {"OMP_NUM_THREADS": "1"}}
        child = subprocess.Popen(command, stdout=subprocess.PIPE, **there)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        for _ in range(choose.randrange(4)):  # saves that go through, however fast the machine is
            assert child.stdout.readline() == b"saved\n"
        time.sleep(choose.uniform(0.0, 0.02))
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        child.stdout.close()
        which = read_folder(folder)[1]["which"]
        assert holds(folder, NEW if which == "new" else OLD)
        outcomes.add(f"{which}, {len(files(folder))} files")
    return outcomes


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_a_process_killed_while_saving_leaves_one_whole_model(saved: Path, times: int):
    outcomes = kill_while_saving(saved, times)
    if times > 1:
        assert {text[:3] for text in outcomes} == {"old", "new"}
        assert any("4 files" in text or "5 files" in text for text in outcomes)  # it was killed in the middle
    write_folder(saved, *NEW, force=True)
    assert holds(saved, NEW) and len(files(saved)) == 3
