"""The .arff files of the archives: ours, by scipy, against aeon's, and the flavours in which these files occur."""

from pathlib import Path

import numpy as np
import pytest
from aeon.datasets import load_from_arff_file

from helpers.io_data import AEON, same, save
from siggpde.io import read

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
    for name in ("GunPoint", "BasicMotions"):
        text, arff = (read(AEON / name / f"{name}_TRAIN.{suffix}") for suffix in ("ts", "arff"))
        same(text.X, arff.X)
        assert text.y is not None and arff.y is not None and text.y.tolist() == arff.y.tolist()


def test_arff_flavours(tmp_path: Path):
    data = read(save(tmp_path, ARFF + "1,?,a\n\n% more\n3, 4 ,b\n", "file.arff"))
    np.testing.assert_array_equal(data.X, [[[1, np.nan]], [[3, 4]]])
    assert data.y is not None and data.y.tolist() == ["a", "b"] and data.name == "mine"
    for quote in "'\"":
        rows = f"{quote}1,2\\n3,4{quote},a\n{quote}5,?\\n7,?{quote},b\n"
        data = read(save(tmp_path, RELATIONAL + rows, "file.arff"))
        same(data.X, np.array([[[1, 2], [3, 4]], [[5, np.nan], [7, np.nan]]]))
        assert data.y is not None and data.y.tolist() == ["a", "b"]


def test_arff_targets(tmp_path: Path):
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
