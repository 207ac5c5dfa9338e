"""Absurd arguments, huge files, full disks and changed files end in a sentence, in bounded time and memory."""

import os
import subprocess
import tracemalloc
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import siggpde
from helpers.cli_data import command, run, start
from helpers.model_folders import data_file, reseal
from helpers.refusals import assert_refused
from helpers.small_estimators import classifier, reloaded, rising
from siggpde.estimators.drift import drift
from siggpde.io import predictions, read, stream
from siggpde.numerics.windows import WindowView
from siggpde.persistence import ModelFileError

X, Y = rising(24, noise=3.0)
WEIGHTS = [{3: 1e-300, 5: 1e300}.get(one, 1.0) for one in range(24)]


@pytest.mark.parametrize(
    ("said", "call"),
    [
        ("permutations must be at most", lambda: drift(X, X, permutations=10**12)),
        ("dilation must be a whole number from 1 to", lambda: WindowView(1, ((0,),), 9, 2, dilation=2**62)),
        ("max_windows must be a whole number from 1", lambda: WindowView(1, ((0,),), 9, 2, max_windows=2**40)),
        ("points, 1048576 apart, span more than", lambda: WindowView(1, ((0,),), 2**20, 2, dilation=2**20)),
        (r"is 1e-300 for series 3 and 1e\+300 for series 5", lambda: classifier().fit(X, Y, sample_weight=WEIGHTS)),
        (r"series 7 of X has 1e\+154 in channel 0, which is too large", lambda: classifier().fit(spiked(1e154), Y)),
    ],
    ids=range(6),
)
def test_absurd_arguments_are_named(said: str, call: Any):
    assert_refused(said, call)


def spiked(value: float) -> np.ndarray:
    values = X.copy()
    values[7, 0, 2] = value
    return values


@pytest.mark.parametrize("kind", ["M8[D]", "M8[ns]", "m8[s]"])
def test_labels_that_are_dates_are_saved(kind: str, tmp_path: Path):
    model = classifier().fit(X, np.where(Y[0] == Y, 18262, 19000).astype(kind))
    loaded: Any = reloaded(model, tmp_path / "m")
    assert loaded.classes_.dtype == np.dtype(kind)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_data_file_that_claims_gigabytes_is_refused_before_it_is_read(tmp_path: Path):
    classifier().fit(X, Y).save(tmp_path / "m")
    file = data_file(tmp_path / "m")
    os.truncate(file, 2**31)
    reseal(tmp_path / "m", files=[{"name": file.name, "bytes": 2**31, "sha256": file.stem.split("-")[1] + "0" * 48}])
    tracemalloc.start()
    assert_refused("its SHA-256 differs", siggpde.load, tmp_path / "m", error=ModelFileError)
    assert tracemalloc.get_traced_memory()[1] < 2**28
    tracemalloc.stop()


def test_a_line_of_a_million_cells_is_refused(tmp_path: Path):
    (tmp_path / "a.csv").write_text("\n" + "1.5,2," * 500_000 + "1\n1,2\n")
    assert_refused("line 2: it has 1000001 cells .* at most 200000 columns", read, tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("x,y,kind\n1,2,a\n" + "1.5,2," * 1_500_000 + "1\n3,4,b\n")
    tracemalloc.start()
    assert_refused(
        "line 3: it has 3000001 cells in 9000002 bytes, but a table", read, tmp_path / "b.csv", target="kind"
    )
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
@pytest.mark.parametrize("line", [["info", "--json"], ["info"], ["--help"], ["--version"]])
def test_a_full_disk_behind_a_stream_is_one_line(line: list[str]):
    with FULL.open("w") as full:
        ended = subprocess.run(command(*line), stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=300)
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.startswith("Error: ") and ended.stderr.count("\n") == 1 and "No space left" in ended.stderr


def test_blocks_that_were_changed_are_not_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    np.save(tmp_path / "x.npy", np.tile(X, (90, 1, 1)))
    model, written = classifier().fit(X, Y), predictions.BlockFolder.write

    def interrupted(self: Any, number: int, table: Any) -> None:
        written(self, number, table)
        if number == 1:
            raise KeyboardInterrupt

    call = {"model": model, "source": stream(tmp_path / "x.npy"), "output": tmp_path / "p.parquet", "block": 1024}
    monkeypatch.setattr(predictions.BlockFolder, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        predictions.predict_stream(**call)
    monkeypatch.undo()
    (block,) = (tmp_path / "p.parquet.parts").glob("block-000001-*")
    content = bytearray(block.read_bytes())
    content[len(content) // 2] ^= 1
    block.write_bytes(content)
    assert_refused("block-000001-.* its SHA-256 differs; delete it", predictions.predict_stream, **call, resume=True)
    block.unlink()
    assert predictions.predict_stream(**call, resume=True) == 2160
    assert not (tmp_path / "p.parquet.parts").exists()


def test_an_unknown_instruction_set_is_an_error():
    ended = start("info", SIGGPDE_ISA="avx1024")
    assert ended.returncode != 0 and "SIGGPDE_ISA is 'avx1024'; set it to one of baseline, avx2, avx512" in ended.stderr
    assert start("info", SIGGPDE_ISA="baseline").returncode == 0


def test_a_lack_of_memory_says_what_needed_how_much(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: Any) -> None:
        raise MemoryError

    model, new = classifier().fit(X, Y), np.zeros((3, *X.shape[1:]))
    of_torch = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
    for raised, said in ((MemoryError(), "landmarks$"), (RuntimeError(of_torch), "tried to allocate 9 bytes")):
        with monkeypatch.context() as patch:
            patch.setattr("siggpde.committee.committee.rows_of", Mock(side_effect=raised))
            shape = f"3 series of {X.shape[2]} points and {X.shape[1]} channels, .* GB, in a model with {len(X)} "
            assert_refused(f"{shape}.*{said}", model.predict, new, error=MemoryError)
        with monkeypatch.context() as patch:
            patch.setattr("siggpde.committee.fit.fit_exact", Mock(side_effect=raised))
            assert_refused(
                f"the fit takes 0.. GB of memory: {len(X)} series", classifier().fit, X, Y, error=MemoryError
            )
    with monkeypatch.context() as patch:
        patch.setattr("siggpde.committee.committee.rows_of", Mock(side_effect=RuntimeError("of another kind")))
        assert_refused("^of another kind$", model.predict, new, error=RuntimeError)
    monkeypatch.setattr("siggpde.numerics.backend.installation", fail)
    assert "Error: not enough memory: " in run("info").stderr
