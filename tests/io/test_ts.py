"""Text files of the archives, .ts and .arff: ours against aeon's, and the flavours in which they occur."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from aeon.datasets import load_from_arff_file, load_from_ts_file, save_to_ts_file
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.io_data import AEON, same, save, series_data
from helpers.refusals import assert_refused
from siggpde.datasets import load_dataset
from siggpde.io import SeriesData, read, write

WITHOUT_STAMPS = sorted(path for path in AEON.rglob("*.ts") if "TimeStamps" not in path.name)
HEAD = "@problemName Test\n@timeStamps false\n@univariate false\n@classLabel true a b\n@data\n"
STAMPED = HEAD.replace("@timeStamps false", "@timeStamps true")


@pytest.mark.parametrize("path", WITHOUT_STAMPS, ids=lambda path: path.stem)
def test_our_reader_and_aeons_agree(path: Path):
    x, y = load_from_ts_file(str(path))[:2]
    ours, theirs = read(path, reader="own"), read(path, reader="aeon")
    for data in (ours, theirs):
        assert isinstance(data.X, np.ndarray) == (len({len(one[0]) for one in x}) == 1)
        same(data.X, x)
        assert data.time_channel is None
    assert ours.y is not None and theirs.y is not None
    assert ours.y.dtype.kind == theirs.y.dtype.kind == y.dtype.kind
    lower = ours.y if y.dtype.kind == "f" else np.char.lower(ours.y)  # aeon writes labels in small letters
    assert lower.tolist() == theirs.y.tolist() == y.tolist()


@pytest.mark.parametrize("name", ["BasicMotions", "GunPoint", "Covid3Month"])
@pytest.mark.parametrize("part", ["TRAIN", "TEST"])
def test_text_files_hold_the_repacked_data(name: str, part: str):
    try:
        repacked = load_dataset(name, download=False)
    except FileNotFoundError as error:
        pytest.skip(str(error).splitlines()[0])
    data = read(AEON / name / f"{name}_{part}.ts")
    x, y = (repacked.X_train, repacked.y_train) if part == "TRAIN" else (repacked.X_test, repacked.y_test)
    np.testing.assert_array_equal(np.asarray(data.X, dtype=np.float32), x)
    assert data.y is not None and data.y.tolist() == y.tolist()


def test_time_stamps_become_channel_0():
    data = read(AEON / "UnitTest" / "UnitTestTimeStamps_TRAIN.ts")
    assert isinstance(data.X, np.ndarray) and data.X.shape == (4, 2, 4)
    assert data.time_channel == 0 and data.channel_names == ("time", "channel 0")
    start = np.datetime64("2007-01-01T00:00:00").astype(np.int64)
    np.testing.assert_array_equal(data.X[0], [start + 60 * np.arange(4), [241.97, 241.75, 241.64, 241.71]])
    x, y = load_from_ts_file(str(AEON / "UnitTest" / "UnitTestTimeStamps_TRAIN.ts"))[:2]
    np.testing.assert_array_equal(data.X[:, 1:], x)
    assert data.y is not None and data.y.tolist() == y.tolist()


@settings(max_examples=40, deadline=None)
@given(data=st.sampled_from(["word", "float"]).flatmap(lambda kind: series_data(kind, stamped=False, ids=False)))
def test_aeon_reads_what_we_write(data: SeriesData):
    assert data.y is not None
    if data.y.dtype.kind == "U":
        data = SeriesData(data.X, np.array([f"c{len(word)}" for word in data.y]), None, data.channel_names)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "a.ts", data)
        x, y = load_from_ts_file(f"{folder}/a.ts")[:2]
    same(x, data.X)
    assert data.y is not None and y.tolist() == data.y.tolist()


@settings(max_examples=40, deadline=None)
@given(
    data=st.sampled_from(["none", "word", "float"]).flatmap(lambda kind: series_data(kind, stamped=False, ids=False))
)
def test_we_read_what_aeon_writes(data: SeriesData):
    y, kind = data.y, None
    if y is not None and y.dtype.kind == "U":
        y, kind = np.array([f"C{len(word)}" for word in y]), "classification"
        if len(set(y)) < 2:  # aeon writes no data set of one class
            return
    elif y is not None:
        y, kind = np.arange(len(y)) + 1 / 3, "regression"  # aeon writes only what looks like a regression
    with tempfile.TemporaryDirectory() as folder:
        save_to_ts_file(data.X, y, label_type=kind, path=folder, problem_name="a")
        got = read(f"{folder}/a.ts")
    same(got.X, data.X)
    assert (got.y is None) == (y is None)
    if y is not None and got.y is not None:
        assert got.y.tolist() == y.tolist()


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "1,2:3,4:a\n5,6:7,8:b\n",
        HEAD.upper().replace("TEST", "Test").replace("A B", "a b") + "1,2:3,4:a\n\n5,6:7,8:b\n\n",
        "# about\n\n" + HEAD.replace("@univariate", "\n# more\n@univariate") + "# first\n1,2:3,4:a\n% then\n5,6:7,8:b",
        "\ufeff" + HEAD.replace("\n", "\r\n") + "1,2:3,4:a\r\n5,6:7,8:b\r\n",
        HEAD.replace("@data", "@dimensions 2\n@seriesLength 2\n@missing false\n@unheardOf x y\n@DATA")
        + " 1, 2: 3 ,4 : a\n5,6:7,8:b",
        HEAD.replace("@classLabel true a b", "@dimension 2") + "1,2:3,4:a\n5,6:7,8:b",
        HEAD.replace("true a b", "true  a\tb ").replace(" ", "   ") + "1.0,2e0:3,+4:a\n5,6:7,8:b",
    ],
    ids=["plain", "capitals", "comments", "windows", "more", "no label line", "spaces"],
)
def test_flavours(tmp_path: Path, text: str):
    data = read(save(tmp_path, text))
    np.testing.assert_array_equal(data.X, [[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
    assert data.y is not None and data.y.tolist() == ["a", "b"]
    assert data.name == "Test"


def test_descriptions_in_latin_1(tmp_path: Path):
    data = read(save(tmp_path, "# Universit\xe9\n".encode("latin-1") + (HEAD + "1:2:a\n").encode()))
    assert data.y is not None and data.y.tolist() == ["a"]


@pytest.mark.parametrize("ending", ["", ":"])
@pytest.mark.parametrize("line", ["@classLabel false", "@targetLabel false"])
def test_series_without_labels(tmp_path: Path, line: str, ending: str):
    data = read(save(tmp_path, f"@equalLength false\n{line}\n@data\n1,2:3,4{ending}\n5:7{ending}\n", "walk.ts"))
    assert data.y is None and data.name == "walk" and data.n_channels == 2
    same(data.X, [np.array([[1, 2], [3, 4]]), np.array([[5], [7]])])


def test_labels_and_a_word_about_them_or_none(tmp_path: Path):
    assert read(save(tmp_path, "@data\n1,2\n3,4\n")).y is None
    assert read(save(tmp_path, "@timeStamps true\n@data\n(1,2):(1,3)\n(2,4):(1,2)\n")).y is None
    for text in ("@data\n1,2:a\n3,4:b\n", "@timeStamps true\n@dimension 2\n@data\n(1,2):(1,3):a\n(1,4):(1,2):b\n"):
        data = read(save(tmp_path, text))
        assert data.y is not None and data.y.tolist() == ["a", "b"]


def test_gaps_targets_and_stamps_that_differ(tmp_path: Path):
    data = read(save(tmp_path, "@targetLabel true\n@data\n1,?,NaN:-2.5e1\nnan,4,5:?\n"))
    np.testing.assert_array_equal(data.X, [[[1, np.nan, np.nan]], [[np.nan, 4, 5]]])
    assert data.y is not None
    np.testing.assert_array_equal(data.y, [-25, np.nan])
    lines = "(3,1.5),(1,-2):(1,?),(2,1e3):a\n(2020-01-01,1),(2020-01-01 00:00:01.5+00:00,2):(1577836800,5):b\n"
    data = read(save(tmp_path, STAMPED + lines))
    nan = np.nan
    start = 1577836800.0
    first = np.array([[1, 2, 3], [-2, nan, 1.5], [nan, 1e3, nan]])
    same(data.X, [first, np.array([[start, start + 1.5], [1, 2], [5, nan]])])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@problemName x\n", "no @data line"),
        ("1,2,3\n", r"line 1: expected a line that starts with @ before @data; got '1,2,3'"),
        (HEAD, "no series after @data"),
        (HEAD + "1,2:3,4:a\n1,x:3,4:b\n", "line 7, channel 0, point 1: expected a number, . or NaN; got 'x'"),
        (HEAD + "1,2:3,4:a\n1,:3,4:b\n", "line 7, channel 0, point 1: expected a number"),
        (HEAD + "1,2:3,4:a\n1,2:3:b\n", "line 7: channel 1 has 1 points, but channel 0 has 2"),
        (HEAD + "1,2:3,4:a\n1,2:b\n", "line 7: 1 channels, but line 6 has 2"),
        (HEAD + "1,2:3,4:a\n1,2:3,4:c\n", r"line 7: label 'c' is not among those of @classLabel \(a, b\)"),
        (HEAD + "1,2:3,4:\n", "line 6: there is no label"),
        (HEAD + "1,2\n", "line 6: there is no label"),
        ("@equalLength true\n" + HEAD + "1,2:3,4:a\n1:3:b\n", "line 8: 1 points, but line 7 has 2"),
        (HEAD.replace("@timeStamps false", "@timeStamps maybe"), "@timeStamps must be true or false"),
        ("@targetLabel true\n@data\n1,2:3\n1,2:b\n", r"target of series 1 must be a number \(@targetLabel\); got 'b'"),
        (STAMPED + "(1,2),(1,3):a\n", "line 6: time 1 occurs twice in channel 0"),
        (STAMPED + "(1,2),(2,x):a\n", "line 6: expected a number, . or NaN; got 'x'"),
        (STAMPED + "(soon,2):a\n", "a time must be a number or a date such as .*; got 'soon'"),
        (STAMPED + "(inf,2):a\n", "a time must be finite"),
        (STAMPED + "(1,2),(2,3\n", r"expected a point \(time,value\) at '\(2,3'"),
        (STAMPED + "(1,2),(2,3)\n", "line 6: there is no label"),
        (STAMPED.replace("true a b", "false") + "(1,2),(2,3):b\n", "expected the end of the line; got ':b'"),
    ],
)
def test_malformed_ts_files(tmp_path: Path, text: str, message: str):
    with pytest.raises(ValueError, match=message) as caught:
        read(save(tmp_path, text))
    assert str(tmp_path / "file.ts") in str(caught.value)


def test_every_truncation_is_found(tmp_path: Path):
    """Cut anywhere but at the end of a line, a file with equally long labelled series is refused."""
    head = HEAD.replace("@data", "@equalLength true\n@data").replace("a b", "ab cd")
    text = head + "1.5,2.5:3.5,4.5:ab\n2,3:4,5:cd\n"
    for end in range(1, len(text) - 1):
        if text[end - 1] == "\n" or text[end] == "\n":
            continue
        assert_refused(r"file\.ts", read, save(tmp_path, text[:end]))


def test_aeon_need_not_be_there_and_what_it_cannot_read_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert_refused("aeon cannot read it", read, save(tmp_path, HEAD + "1,2:3,4:a\n1,x:3,4:b\n"), reader="aeon")
    monkeypatch.setitem(sys.modules, "aeon", None)
    monkeypatch.setitem(sys.modules, "aeon.datasets", None)
    path = AEON / "GunPoint" / "GunPoint_TRAIN.ts"
    assert len(read(path)) == 50
    assert_refused('needs aeon: pip install aeon, or choose reader="own"', read, path, reader="aeon", error=ImportError)


ARFF = "@relation mine\n@attribute t0 numeric\n@ATTRIBUTE t1 REAL\n@attribute target {a,b}\n@data\n"
RELATIONAL = (
    "% about\n@relation m\n@attribute bag relational\n@attribute t0 numeric\n@attribute t1 numeric\n@end bag\n"
    "@attribute 'class' {a,b}\n@data\n"
)


@pytest.mark.parametrize("path", sorted(AEON.rglob("*.arff")), ids=lambda path: path.stem)
def test_our_reader_and_aeons_agree_on_arff(path: Path):
    x, y = load_from_arff_file(str(path))
    for reader in ("own", "aeon"):
        data = read(path, reader=reader)
        same(data.X, x)
        assert data.y is not None and data.y.tolist() == y.tolist()


def test_arff_and_ts_of_one_data_set_are_the_same():
    for name, labels in (("GunPoint", "1 2"), ("BasicMotions", "Badminton Running Standing Walking")):
        text, arff = (read(AEON / name / f"{name}_TRAIN.{suffix}") for suffix in ("ts", "arff"))
        same(text.X, arff.X)
        assert text.y is not None and arff.y is not None and text.y.tolist() == arff.y.tolist()
        assert sorted(map(str, set(text.y.tolist()))) == labels.split() and text.name == name


def test_arff_flavours_and_targets(tmp_path: Path):
    data = read(save(tmp_path, ARFF + "1,?,a\n\n% more\n3, 4 ,b\n", "file.arff"))
    np.testing.assert_array_equal(data.X, [[[1, np.nan]], [[3, 4]]])
    assert data.y is not None and data.y.tolist() == ["a", "b"] and data.name == "mine"
    for quote in "'\"":
        rows = f"{quote}1,2\\n3,4{quote},a\n{quote}5,?\\n7,?{quote},b\n"
        data = read(save(tmp_path, RELATIONAL + rows, "file.arff"))
        same(data.X, np.array([[[1, 2], [3, 4]], [[5, np.nan], [7, np.nan]]]))
        assert data.y is not None and data.y.tolist() == ["a", "b"]
    head = "@relation r\n@attribute a numeric\n@attribute b numeric\n@attribute {} numeric\n@data\n1,2,3\n4,5,6\n"
    target = read(save(tmp_path, head.format("Target"), "file.arff"))
    assert target.y is not None and target.y.tolist() == [3, 6]
    assert read(save(tmp_path, head.format("c"), "file.arff")).y is None
    data = read(tmp_path / "file.arff", target="a")
    assert data.y is not None and data.y.tolist() == [1, 4]
    np.testing.assert_array_equal(data.X, [[[2, 3]], [[5, 6]]])


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("@relation r\n@attribute a numeric\n", {}, "cut off"),
        ("@relation r\n@data\n1\n", {}, "no attributes"),
        ("@relation r\n@attribute a\n@data\n1\n", {}, "header"),
        ("hello\n", {}, "cut off"),
        (ARFF, {}, "no series after @data"),
        (ARFF + "1,2\n", {}, "cut off"),
        (ARFF + "1,x,a\n", {}, "'x'"),
        (ARFF + "1,2,c\n", {}, "c value not in"),
        (ARFF + "{0 1}\n", {}, "{0 1}"),
        (ARFF + "1,2,a\n", {"target": "label"}, "no attribute 'label' for the labels; the file has t0, t1, target"),
        (ARFF + "1,2,a\n", {"target": "t0"}, "attribute 'target' is nominal, not numeric"),
        (RELATIONAL + "'1,2\\n3,4\n", {}, "'1"),
        (RELATIONAL + "'1,2\\n3',a\n", {}, "cut off"),
        (RELATIONAL + "'1,2\\n3,4',a\n'1,2',b\n", {}, r"X\[1\] has 1 channels, but X\[0\] has 2"),
        ("@relation r\n@attribute c {a,b}\n@data\na\n", {}, "no attributes besides the label"),
        ("@relation r\n@attribute c string\n@data\na\n", {}, "String attributes"),
    ],
)
def test_malformed_arff_files(tmp_path: Path, text: str, options, message: str):
    with pytest.raises(ValueError, match=message) as caught:
        read(save(tmp_path, text, "file.arff"), **options)
    assert str(tmp_path / "file.arff") in str(caught.value)
