"""`siggpde.files`: atomic writes, locks, and reading of regular files only."""

import os
import re
import threading
from pathlib import Path

import pytest

from siggpde import files
from siggpde.files import PART_SUFFIX, atomic_write, locked, make_folder, read_regular


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
        with pytest.raises(OSError, match="not a regular file"):
            read_regular(path)
