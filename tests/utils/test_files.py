"""`siggpde.utils.files`: atomic writes, locks, and reading of regular files only."""

import errno
import os
import re
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from helpers.refusals import assert_refused
from siggpde.utils import files
from siggpde.utils.files import PART_SUFFIX, DiskFullError, atomic_write, locked, make_folder, read_regular


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("before", [None, b"old"])
def test_the_file_changes_at_the_end_of_the_block(tmp_path: Path, before: bytes | None):
    path = tmp_path / "a.txt"
    if before is not None:
        path.write_bytes(before)
    with atomic_write(path) as file:
        file.write(b"new")
        assert (path.read_bytes() if path.exists() else None) == before
        (part,) = [name for name in names(tmp_path) if name != "a.txt"]
        assert re.fullmatch(rf"a\.txt{PART_SUFFIX}", part)
    assert path.read_bytes() == b"new" and names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("failing", ["block", "fsync", "replace"])
def test_a_failure_leaves_the_old_file_alone(tmp_path: Path, failing: str, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    if failing != "block":
        monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="disk full"), atomic_write(path) as file:
        fail() if failing == "block" else file.write(b"new")
    assert path.read_bytes() == b"old" and names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path, kind: str):
    path = tmp_path if kind == "folder" else tmp_path / "x.lock"
    waiting, events = threading.Event(), []

    def second() -> None:
        with locked(path, on_wait=waiting.set):
            events.append("second")

    thread = threading.Thread(target=second)
    with locked(path, on_wait=lambda: events.append("waited")):
        thread.start()
        assert waiting.wait(30)
        events.append("first")
    thread.join(30)
    assert events == ["first", "second"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_lock_on_what_was_removed_meanwhile_is_none(tmp_path: Path, kind: str):
    """The one who waits has opened what the holder then removes: another one could lock a new one of that name."""
    path = tmp_path / "x"
    path.mkdir() if kind == "folder" else path.touch()
    waiting, events = threading.Event(), []

    def second() -> None:
        try:
            with locked(path, on_wait=waiting.set), pytest.raises(RuntimeError), locked(path, on_wait=refuse):
                events.append("held twice")
            events.append("held")
        except FileNotFoundError:
            events.append("nothing to hold")

    def refuse() -> None:
        raise RuntimeError

    thread = threading.Thread(target=second)
    with locked(path):
        thread.start()
        assert waiting.wait(30)
        path.rmdir() if kind == "folder" else path.unlink()
    thread.join(30)
    assert events == (["nothing to hold"] if kind == "folder" else ["held"])


def test_a_lock_ends_with_its_process(tmp_path: Path):
    code = "import sys, time; from pathlib import Path; from siggpde.utils.files import locked"
    code += "\nwith locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    command = [sys.executable, *["-S"] * sys.flags.no_site, "-c", code, str(tmp_path / "x.lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        waited: list[int] = []

        def kill() -> None:
            waited.append(1)
            holder.kill()

        with locked(tmp_path / "x.lock", on_wait=kill):
            assert waited == [1]


@pytest.mark.parametrize("size", [None, 2_500_000])
def test_a_full_disk_is_named(tmp_path: Path, size: int | None):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
    needs = "cannot be written;" if size is None else r"needs 2\.50 MB, and"
    try:
        with (
            pytest.raises(
                OSError, match=rf"File too large: {tmp_path}/a {needs} its disk has .* MB left; make"
            ) as seen,
            atomic_write(tmp_path / "a", None if size is None else lambda: size) as file,
        ):
            file.write(bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert seen.value.errno == errno.EFBIG and names(tmp_path) == []


def test_without_locks_writing_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, "fcntl", None)
    make_folder(tmp_path / "a" / "b")
    with locked(tmp_path / "a"), atomic_write(tmp_path / "a" / "b" / "c") as file:
        file.write(b"1")
    assert read_regular(tmp_path / "a" / "b" / "c") == b"1"


def test_only_regular_files_are_read_and_no_more_than_asked_for(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"12345")
    assert read_regular(tmp_path / "a") == read_regular(tmp_path / "a", 5) == b"12345"
    assert read_regular(tmp_path / "a", 3) == b"1234"
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        assert_refused("not a regular file", read_regular, path, error=OSError)


def test_the_file_that_there_was_no_room_for_is_named_and_not_one_around_it(tmp_path: Path):
    inner = tmp_path / "inner"
    with (
        pytest.raises(DiskFullError, match=f"{inner} needs"),
        atomic_write(tmp_path / "outer"),
        atomic_write(inner, lambda: 3),
    ):
        raise OSError(errno.ENOSPC, "full")
    assert names(tmp_path) == []
