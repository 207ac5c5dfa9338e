"""Arrays of numpy, files of labels, and what `read` says about files it cannot read."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from helpers.refusals import assert_refused
from siggpde.datasets import load_pendigits
from siggpde.datasets.loading import PACKAGE_DATA
from siggpde.io import read

X = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
Y = np.array(["a", "b", "a"])
PARTS = {"X_train": X, "y_train": Y, "X_test": X, "y_test": Y}


def npz(folder: Path, **members) -> Path:
    np.savez(folder / "a.npz", **members)
    return folder / "a.npz"


def npy(folder: Path, x=X) -> Path:
    np.save(folder / "a.npy", x)
    return folder / "a.npy"


@pytest.mark.parametrize("part", ["train", "test"])
def test_train_and_test(part: str):
    data, whole = read(PACKAGE_DATA / "PenDigits.npz", part=part), load_pendigits()
    assert isinstance(data.X, np.ndarray) and data.X.dtype == np.float64
    np.testing.assert_array_equal(data.X, whole.X_train if part == "train" else whole.X_test)
    assert data.y is not None
    assert data.y.tolist() == (whole.y_train if part == "train" else whole.y_test).tolist()
    assert data.channel_names == ("x", "y") and data.name == "PenDigits"


def test_archives_whole_and_in_parts(tmp_path: Path):
    data = read(npz(tmp_path, X=X, y=Y))
    np.testing.assert_array_equal(data.X, X)
    assert data.y is not None and data.y.tolist() == Y.tolist()
    assert data.channel_names == ("channel 0", "channel 1") and data.name == "a"
    (tmp_path / "a.npz").rename(tmp_path / "A.NPZ")
    assert len(read(tmp_path / "A.NPZ")) == 3
    data = read(npz(tmp_path, X=X, lengths=[4, 1, 2], channel_names=["u", "v"], z=[1, 2, 3]), target="z")
    assert [one.shape for one in data.X] == [(2, 4), (2, 1), (2, 2)]
    assert data.y is not None and data.y.tolist() == [1, 2, 3] and data.channel_names == ("u", "v")
    np.testing.assert_array_equal(read(npz(tmp_path, X=X, lengths=[2, 2, 2])).X, X[:, :, :2])
    x = X.copy()
    x[1, :, 2:] = np.nan
    path = npz(tmp_path, **(PARTS | {"X_train": x}))
    assert [one.shape for one in read(path, part="train").X] == [(2, 4), (2, 2), (2, 4)]
    assert np.shape(read(path, part="test").X) == (3, 2, 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8, np.bool_, ">f8"])
@pytest.mark.parametrize("mmap", [False, True])
def test_series_alone(tmp_path: Path, dtype, mmap: bool):
    x = X.astype(dtype)
    data = read(npy(tmp_path, x), mmap=mmap)
    assert isinstance(data.X, np.ndarray) and data.X.dtype == (dtype if mmap else np.float64)
    assert isinstance(data.X, np.memmap) == mmap
    assert data.X.flags.writeable != mmap
    np.testing.assert_array_equal(data.X, x)
    flat = read(npy(tmp_path, x[:, 0]), mmap=mmap)
    assert np.shape(flat.X) == (3, 1, 4) and isinstance(flat.X, np.memmap) == mmap
    assert flat.y is None


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("a b\né\nc\n", ["a b", "é", "c"]),
        ("1\n2\n3\n\n", [1, 2, 3]),
        ("0.5\r\n-1\r\n1e3\r\n", [0.5, -1, 1000]),
        ("True\nfalse\nTrue", [True, False, True]),
        ('"x, y"\n"z"\nw\n', ["x, y", "z", "w"]),
        ("01\n02\n03\n", ["01", "02", "03"]),
        ("1_0\n2\n3\n", ["1_0", "2", "3"]),
    ],
)
def test_files_of_labels(tmp_path: Path, text: str, labels: list):
    for suffix in ("csv", "txt"):
        (tmp_path / f"labels.{suffix}").write_text(text, encoding="utf-8", newline="")
        y = read(npy(tmp_path), target=f"labels.{suffix}").y  # next to the series
        assert y is not None and y.tolist() == labels and y.dtype == np.array(labels).dtype


@pytest.mark.parametrize(
    ("members", "options", "message"),
    [
        (PARTS, {}, "choose with part='train' or part='test' .it was left out"),
        (PARTS, {"part": "valid"}, "part='test' .got 'valid'"),
        ({"X_train": X}, {"part": "train"}, "lacks y_train, X_test, y_test"),
        ({"X": X}, {"part": "train"}, "not a train/test data set, so part='train' has no meaning"),
        ({"data": X}, {}, "neither X nor X_train, .* it holds data"),
        ({"X": X[0, 0]}, {}, r"X must have shape .* got \(4,\)"),
        ({"X": X[:0]}, {}, r"with at least one of each; got \(0, 2, 4\)"),
        ({"X": np.array([["a"]])}, {}, "X must hold numbers; got <U1"),
        ({"X": X, "y": Y[:2]}, {}, r"y must have shape \(3,\), one a series; got \(2,\)"),
        ({"X": X, "lengths": [1, 2]}, {}, "lengths must be 3 integers"),
        ({"X": X, "lengths": [1, 2, 5]}, {}, "length of series 2 is 5, but it must be 1 to 4"),
        ({"X": X, "lengths": [1, 0, 4]}, {}, "length of series 1 is 0"),
        ({"X": X, "channel_names": ["u"]}, {}, "2 different names"),
        ({"X": X, "y": np.array([{}, 1, "a"], dtype=object)}, {}, "y is an object array, which only pickle could"),
        ({"X": np.array([[1.0], [2.0, 3.0]], dtype=object)}, {}, "X is an object array"),
    ],
)
def test_malformed_archives(tmp_path: Path, members: dict, options: dict, message: str):
    with pytest.raises(ValueError, match=message) as caught:
        read(npz(tmp_path, **members), **options)
    assert str(tmp_path / "a.npz") in str(caught.value)


def test_labels_that_do_not_fit(tmp_path: Path):
    path = npy(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"labels 'no\.npy' not found; looked for no\.npy and .*no\.npy"):
        read(path, target="no.npy")
    for name, text, message in (
        ("two.txt", "1\n2\n", r"y must have shape \(3,\), one a series; got \(2,\)"),
        ("hole.txt", "1\n\n2\n", r"line 2 of .*hole\.txt is empty"),
        ("none.txt", "\n", r"none\.txt is empty"),
        ("a.json", "[1]", "labels are read from .npy, or from .csv or .txt"),
    ):
        (tmp_path / name).write_text(text)
        assert_refused(message, read, path, target=name)
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert_refused("object array", read, path, target="o.npy")
    np.save(tmp_path / "labels.npy", np.array([True, False, True]))
    for path in (npy(tmp_path), npz(tmp_path, X=X, y=Y)):
        y = read(path, target=str(tmp_path / "labels.npy")).y
        assert y is not None and y.tolist() == [True, False, True]


@pytest.mark.parametrize("mmap", [False, True])
def test_malformed_arrays(tmp_path: Path, mmap: bool):
    np.save(tmp_path / "a.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    assert_refused("object array, which only pickle", read, tmp_path / "a.npy", mmap=mmap)
    whole = npy(tmp_path).read_bytes()
    for end in (3, 50, 128, len(whole) - 1):
        (tmp_path / "a.npy").write_bytes(whole[:end])
        assert_refused(r"a\.npy is not a whole \.npy file", read, tmp_path / "a.npy", mmap=mmap)
    assert_refused(r"must have shape .* got \(24,\)", read, npy(tmp_path, X.ravel()), mmap=mmap)


@pytest.mark.parametrize("suffix", ["npz", "npy", "parquet", "ts", "arff", "csv"])
def test_rubbish_is_refused(tmp_path: Path, suffix: str):
    path = tmp_path / f"a.{suffix}"
    for content in (b"\x80\x04rubbish" * 20, b"PK\x03\x04" + bytes(50), b"PAR1", bytes(range(256))):
        path.write_bytes(content)
        assert_refused(re.escape(str(path)), read, path)


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_truncated_and_damaged_files_are_refused(tmp_path: Path, suffix: str):
    path = tmp_path / f"a.{suffix}"
    if suffix == "npz":
        np.savez_compressed(path, X=np.arange(1000.0).reshape(10, 100))
    else:
        pl.DataFrame({"a": range(100)}).write_parquet(path)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[200] ^= 0xFF
    damaged = [flipped] if suffix == "npz" else []  # whose compressed numbers have a checksum
    for content in [*damaged, *(whole[:end] for end in range(1, len(whole) - 1, max(1, len(whole) // 40)))]:
        path.write_bytes(content)
        assert_refused(rf"is not a whole \.{suffix} file", read, path)


def test_missing_empty_and_unknown_files(tmp_path: Path):
    assert_refused(r"there is no file .*a\.csv$", read, tmp_path / "a.csv", error=FileNotFoundError)
    assert_refused(r"the folder .*no does not exist either", read, tmp_path / "no" / "a.csv", error=FileNotFoundError)
    assert_refused(r"known are \.ts, \.arff, \.npz, \.npy, \.csv, \.parquet", read, tmp_path / "a.xlsx")
    assert_refused("format='xlsx' is not a known format", read, tmp_path / "a.csv", format="xlsx")
    (tmp_path / "folder.csv").mkdir()
    assert_refused(r"folder\.csv is a folder", read, tmp_path / "folder.csv", error=IsADirectoryError)
    for suffix in ("ts", "arff", "npz", "npy", "csv", "parquet"):
        (tmp_path / f"a.{suffix}").touch()
        assert_refused(rf"a\.{suffix} is empty", read, tmp_path / f"a.{suffix}")
    pl.DataFrame({"a": []}).write_parquet(tmp_path / "a.parquet")
    assert_refused("has no rows", read, tmp_path / "a.parquet")
    for text, message in (
        ("a,b\n", "has a header but no rows"),
        ("\n", "is empty"),
        ("a,b\n1,2\n1,2,3\n", "line 3: the row has 3 cells for 2 columns"),
        ("a,a\n1,2\n", "two columns are called 'a'"),
    ):
        (tmp_path / "a.csv").write_text(text)
        assert_refused(message, read, tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("suffix", "options", "message"),
    [
        ("ts", {"series": "id"}, r"series='id' has no meaning for \.ts files \(only for csv, parquet\)"),
        ("ts", {"target": "y"}, "target='y' has no meaning for .ts"),
        ("ts", {"groups": "a"}, r"groups='a' has no meaning for .ts files \(only for npz, npy, csv, parquet\)"),
        ("npz", {"mmap": True}, r"mmap=True has no meaning for \.npz files \(only for npy\)"),
        ("csv", {"part": "train"}, "part='train' has no meaning"),
        ("csv", {"reader": "aeon"}, "reader='aeon' has no meaning"),
        ("parquet", {"separator": ";"}, "separator=';' has no meaning"),
        ("ts", {"reader": "best"}, "reader must be 'auto', 'own' or 'aeon'; got 'best'"),
        ("arff", {"reader": "aeon", "target": "x"}, "aeon takes the last attribute as label"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, suffix: str, options: dict, message: str):
    (tmp_path / f"a.{suffix}").write_text("something")
    assert_refused(message, read, tmp_path / f"a.{suffix}", **options)
