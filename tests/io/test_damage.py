"""Damaged and hostile files: every one is read, or refused by a message with its name; none fills the memory."""

import io
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from helpers.io_data import save
from helpers.mutations import damaged_files, originals, trouble_with, written
from helpers.processes import run
from helpers.refusals import assert_refused
from siggpde.io import read, stream

X = np.arange(24.0).reshape(3, 2, 4)

WORKER = """
import resource, sys
from pathlib import Path
from helpers.mutations import damaged_files, trouble_with
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
for path, options in damaged_files(Path(sys.argv[1]), 500, int(sys.argv[2])):
    print("reading", path.name, flush=True)
    trouble = trouble_with(path, options)
    if trouble is not None:
        print("trouble", trouble, flush=True)
print("done")
"""


def header(shape: str, kind: str = "<f8") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in members.items():
            target.writestr(name, content)
    return buffer.getvalue()


npy = partial(written, np.save)


def test_whole_files_are_read_and_damaged_ones_read_or_refused(tmp_path: Path):
    trouble = [trouble_with(path, options) for path, options in damaged_files(tmp_path, 96, seed=5)]
    assert [said for said in trouble if said is not None] == []
    for number, (suffix, content, options) in enumerate(originals()):
        read(save(tmp_path, content, f"{number}.{suffix}"), **options)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_three_thousand_damaged_files(tmp_path: Path, seed: int):
    lines = run(WORKER, str(tmp_path), str(seed)).splitlines()
    assert lines[-1] == "done"
    assert [line for line in lines if line.startswith("trouble")] == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header("(3, 1, 999999999999,)"), "says 23999999999976 bytes .* but there are 0"),
        (header("(3, 1, -4,)"), r"header says shape \(3, 1, -4\)"),
        (header("(3,", "<f8"), "header cannot be read"),
        (header("(3, 1)", "no"), "header cannot be read"),
        (header("(((((" * 20), "header cannot be read"),
        (header("(1, 1)", "|V0"), "header says shape"),
        (b"\x93NUMPY\x03\x00" + header("(1,)")[8:], r"version \(3, 0\)"),
        (npy(np.array([["ab"]])).replace(b"a\x00\x00\x00", b"\xff\xff\xff\xff"), "its text is not Unicode"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_headers_are_not_trusted(tmp_path: Path, content: bytes, message: str, packed: bool):
    path = save(tmp_path, archive(**{"X.npy": content}) if packed else content, "a.npz" if packed else "a.npy")
    assert_refused(rf"not a whole .np[yz] file .*{message}", read, path)


def test_a_member_that_is_no_array_is_named(tmp_path: Path):
    path = save(tmp_path, archive(**{"X.npy": npy(X), "y": b"not an array"}), "a.npz")
    assert_refused(r"a\.npz is not a whole \.npz file \(y: ", read, path)
    notes = save(tmp_path, archive(**{"X.npy": npy(X), "readme.txt": b"words"}), "b.npz")
    np.testing.assert_array_equal(read(notes).X, X)
    flipped = save(tmp_path, archive(**{"X.npy": npy(X), "groups.nqy": npy(np.arange(3))}), "c.npz")
    assert_refused(r"no use for the member 'groups\.nqy'; is it 'groups'", read, flipped)


@pytest.mark.parametrize(
    ("member", "values", "message"),
    [
        ("channel_names", np.array("xy"), "channel_names must be a list of names"),
        ("time_channel", np.array([0, 1]), "time_channel must be a whole number"),
        ("y", np.zeros(3, dtype="M8[s]"), "y must hold numbers or strings; got datetime64"),
    ],
)
def test_members_of_the_wrong_kind(tmp_path: Path, member: str, values: np.ndarray, message: str):
    path = save(tmp_path, archive(**{"X.npy": npy(X), f"{member}.npy": npy(values)}), "a.npz")
    assert_refused(message, read, path)


def test_files_that_expand_a_thousandfold_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SIGGPDE_MAX_GB", "0.01")
    bomb = npy(np.zeros((2, 1, 10**6)))
    path = save(tmp_path, archive(**{"X.npy": bomb}), "a.npz")
    assert_refused(r"a\.npz: X: 0.0 MB in the file expand to .* set .* SIGGPDE_MAX_GB=1", read, path)
    unused = save(tmp_path, archive(**{"X.npy": npy(X), "other.npy": bomb}), "b.npz")
    np.testing.assert_array_equal(read(unused, ignore=["other"]).X, X)
    parts = {"X_train.npy": npy(X), "y_train.npy": npy(np.arange(3)), "X_test.npy": bomb, "y_test.npy": npy(X[0, 0])}
    np.testing.assert_array_equal(read(save(tmp_path, archive(**parts), "c.npz"), part="train").X, X)
    monkeypatch.setenv("SIGGPDE_MAX_GB", "1")
    assert np.shape(read(path).X) == (2, 1, 10**6)
    monkeypatch.setenv("SIGGPDE_MAX_GB", "much")
    assert_refused("SIGGPDE_MAX_GB must be a number of GB, such as 8; got 'much'", read, path)
    monkeypatch.delenv("SIGGPDE_MAX_GB")
    pl.DataFrame({"s": np.zeros(10**6, dtype=int), "x": np.zeros(10**6)}).write_parquet(tmp_path / "a.parquet")
    assert np.shape(read(tmp_path / "a.parquet", series="s").X) == (1, 1, 10**6)
    monkeypatch.setenv("SIGGPDE_MAX_GB", "0.01")
    assert_refused(r"a\.parquet: 0.0 MB in the file expand to", read, tmp_path / "a.parquet", series="s")


def test_damaged_pages_of_a_stream_are_reported(tmp_path: Path):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"a": range(1000), "b": range(1000)}).write_parquet(path, compression="uncompressed", statistics=False)
    whole = path.read_bytes()
    refused = 0
    for place in range(4, 200, 7):
        path.write_bytes(whole[:place] + b"\xff\xff" + whole[place + 2 :])
        try:
            list(stream(path).blocks(100))
        except ValueError as error:
            refused += "a.parquet is not a whole .parquet file" in str(error)
    assert refused > 1


def test_a_hundred_thousand_columns(tmp_path: Path):
    rows = [[f"t{i}" for i in range(10**5)], ["1"] * 10**5, [*["2"] * 99_999, ""]]
    data = read(save(tmp_path, "\n".join(map(",".join, rows)) + "\n", "wide.csv"))
    assert data.lengths.tolist() == [10**5, 99_999]
    assert [float(data.X[0][0, -1]), float(data.X[1][0, -1])] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        ("ts", "@timeStamps true\n@data\n(" + " " * 10**6),
        ("ts", "@timeStamps true\n@data\n(1,2" + " " * 10**6 + "x"),
        ("ts", "@timeStamps true\n@data\n" + "(1,2):" * 10**5 + "(1"),
        ("ts", "@timeStamps true\n@data\n(0001-01-01T00:00:00+14:00,2)"),
        ("ts", "@dimension ²\n@data\nx\n"),
        ("ts", f"@dimension {'9' * 5000}\n@data\nx\n"),
        ("arff", "@relation r\n@attribute a numeric\n@attribute c {u}\n@data\n1," + " " * 10**6 + "'u"),
        ("csv", f"x_{'9' * 5000},x_{'8' * 5000}\nu,1\n"),
        ("csv", "a" * 10**6 + ",b\nu,1\nv,\n" + "x" * 10**6),
        ("csv", '"' + "a,b\n1,2\n" * 10**5),
    ],
)
def test_lines_that_are_made_to_take_forever(tmp_path: Path, suffix: str, content: str):
    path = save(tmp_path, content, f"a.{suffix}")
    assert trouble_with(path, {}) is None
