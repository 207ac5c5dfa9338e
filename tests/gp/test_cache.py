"""Signatures in a folder that is kept: read again, continued after a crash, never trusted when damaged."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from helpers.refusals import assert_refused
from siggpde.gp.cache import RowFile, SignatureCache
from siggpde.numerics.words import words
from siggpde.series import SeriesBatch

N, COUNT, BLOCK = 23, 3, 4


def numbers(rows: slice) -> Tensor:
    return torch.arange(rows.start * COUNT, rows.stop * COUNT, dtype=torch.float32).view(-1, COUNT)


def row_file(folder: Path, key: str = "key") -> RowFile:
    return RowFile(folder, key, N, COUNT, torch.float32, BLOCK)


def check(folder: Path) -> list[int]:
    """The blocks that had to be computed; what comes out is right whatever was in the folder before."""
    calls: list[int] = []

    def compute(rows: slice) -> Tensor:
        calls.append(rows.start // BLOCK)
        return numbers(rows)

    result, read, computed = row_file(folder).filled(compute)
    assert torch.equal(result, numbers(slice(0, N)))
    assert read + computed == N
    return calls


def test_rows_are_computed_once(tmp_path: Path):
    folder = tmp_path / "made" / "when needed"
    assert check(folder) == [0, 1, 2, 3, 4, 5]
    assert check(folder) == []
    steps: list[None] = []
    for computed in (N, 0):
        _, *counts = row_file(folder, "other").filled(numbers, lambda: steps.append(None))
        assert counts == [N - computed, computed]
    assert len(steps) == 12, "every block is reported, computed or read"
    assert sorted(path.name for path in folder.iterdir()) == ["key.journal", "key.rows", "other.journal", "other.rows"]


damages = settings(max_examples=30, deadline=None)


@damages
@given(place=st.integers(0, N * COUNT * 4 - 1), bit=st.none() | st.integers(0, 7))
def test_what_was_changed_or_cut_off_is_computed_again(
    tmp_path_factory: pytest.TempPathFactory, place: int, bit: int | None
):
    """Where a bit is changed only its block is; where the file is cut all blocks from there on are."""
    rows = tmp_path_factory.mktemp("cache") / "key.rows"
    check(rows.parent)
    block = place // (BLOCK * COUNT * 4)
    if bit is None:
        os.truncate(rows, place)
    else:
        content = bytearray(rows.read_bytes())
        content[place] ^= 1 << bit
        rows.write_bytes(content)
    assert check(rows.parent) == (list(range(block, 6)) if bit is None else [block])
    assert check(rows.parent) == []


@damages
@given(size=st.integers(0, 400))
def test_a_journal_cut_anywhere_is_gone_on_with(tmp_path_factory: pytest.TempPathFactory, size: int):
    journal = tmp_path_factory.mktemp("cache") / "key.journal"
    check(journal.parent)
    os.truncate(journal, min(size, journal.stat().st_size))
    missing = check(journal.parent)
    assert missing == list(range(6 - len(missing), 6))
    for line in ('{"block": 7, "checksum": 1}', '{"block": -1, "checksum": 1}', '{"block": 1}', "[]"):
        assert check(journal.parent) == []
        with journal.open("a") as file:
            file.write(line + "\n")
    assert check(journal.parent) == [], "lines that say nothing are passed over"


@pytest.mark.parametrize("content", [None, b"", b"nonsense\n", b'{"format": 99}\n', b"\x00\xff"])
def test_without_rows_or_their_journal_all_starts_anew(
    tmp_path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
):
    check(tmp_path)
    if content is None:
        (tmp_path / "key.rows").unlink()
    else:
        (tmp_path / "key.journal").write_bytes(content)
    assert check(tmp_path) == [0, 1, 2, 3, 4, 5]
    assert ("is damaged" in caplog.text) == bool(content)


def test_a_failing_computation_leaves_what_was_reached_and_a_full_disk_nothing(tmp_path: Path):
    def failing(rows: slice) -> Tensor:
        if rows.start >= 2 * BLOCK:
            raise ArithmeticError("too large")
        return numbers(rows)

    assert_refused("too large", row_file(tmp_path).filled, failing, error=ArithmeticError)
    assert check(tmp_path) == [2, 3, 4, 5]
    large = RowFile(tmp_path, "large", 2**40, 2**20, torch.float64, 2**38)
    message = "GB free; make room there, or choose another cache_dir"
    assert_refused(message, large.filled, numbers, error=OSError)
    assert not (tmp_path / "large.rows").exists()


_FILLING = """
import os, signal, sys, torch
from pathlib import Path
from siggpde.series import SeriesBatch
from siggpde.gp.cache import RowFile

def compute(rows):
    if rows.start == 12:
        {at_block_three}
    return torch.arange(rows.start * 3, rows.stop * 3, dtype=torch.float32).view(-1, 3)

RowFile(Path(sys.argv[1]), "key", 23, 3, torch.float32, 4).filled(compute)
"""


def started(at_block_three: str, folder: Path) -> subprocess.Popen[str]:
    """A process that fills the file in the folder, and does something after three blocks."""
    code = _FILLING.format(at_block_three=at_block_three)
    command = [sys.executable, *["-S"] * sys.flags.no_site, "-c", code, str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_killed_writer_leaves_nothing_that_is_taken_for_whole(tmp_path: Path):
    writer = started("os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    writer.communicate(timeout=300)
    assert writer.returncode == -signal.SIGKILL
    assert (tmp_path / "key.rows").stat().st_size == N * COUNT * 4  # the size alone says nothing
    assert check(tmp_path) == [3, 4, 5]


def test_a_second_process_waits_for_the_first(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    first = started("print(flush=True); sys.stdin.readline()", tmp_path)
    assert first.stdin is not None and first.stdout is not None
    first.stdout.readline()  # now it holds the lock and has written three blocks
    missing: list[list[int]] = []
    caplog.set_level(logging.INFO)
    second = threading.Thread(target=lambda: missing.append(check(tmp_path)))
    second.start()
    while "waiting for it" not in caplog.text and second.is_alive():
        time.sleep(0.01)
    assert second.is_alive()
    first.communicate("go on\n", timeout=300)
    second.join(300)
    assert first.returncode == 0 and missing == [[]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("ragged", [False, True])
def test_a_cache_is_found_again(tmp_path: Path, dtype: torch.dtype, ragged: bool, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    x = torch.randn(9, 6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).cumsum(dim=1)
    lengths = torch.tensor([6, 5, 4, 3, 2, 6, 6, 6, 1]) if ragged else None
    theta = torch.tensor([0.1, -0.2]).double()
    plain = SignatureCache(SeriesBatch(x, lengths), words(2, 7), theta, dtype=dtype)
    for expected in ("0 read, 9 computed", "9 read, 0 computed"):
        kept = SignatureCache(SeriesBatch(x, lengths), words(2, 7), theta, dtype=dtype, folder=tmp_path)
        assert torch.equal(kept.values, plain.values) and kept.values.dtype == dtype
        assert expected in caplog.records[-1].getMessage()
    assert len(list(tmp_path.iterdir())) == 2


def test_every_difference_has_a_file_of_its_own(tmp_path: Path):
    x = torch.randn(5, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    theta, lengths = torch.zeros(2).double(), torch.tensor([4, 4, 4, 3, 4])
    nudged = x.clone()
    nudged[4, 3, 1] += 1e-12
    for arguments, dtype in (
        ((SeriesBatch(x), words(2, 7), theta), torch.float64),
        ((SeriesBatch(x), words(2, 7), theta), torch.float32),
        ((SeriesBatch(nudged), words(2, 7), theta), torch.float64),
        ((SeriesBatch(x, lengths), words(2, 7), theta), torch.float64),
        ((SeriesBatch(x), words(2, 6), theta), torch.float64),
        ((SeriesBatch(x), words(2, 7), theta + 0.1), torch.float64),
    ):
        kept = SignatureCache(*arguments, dtype=dtype, folder=tmp_path)
        assert torch.equal(kept.values, SignatureCache(*arguments, dtype=dtype).values)
    heads = [json.loads(path.read_text().splitlines()[0]) for path in tmp_path.glob("*.journal")]
    assert len({head["key"] for head in heads}) == len(heads) == 6
