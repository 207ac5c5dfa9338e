"""`siggpde compare` on small files, with peers and without."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.cli_data import LONG, figures, long_table, refuse, run, succeed, write
from siggpde_paper.compare import METHODS, ours
from siggpde_paper.compare.methods import Method

KINDS = ["--target", "kind", *LONG]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch):
    """Our method in its smallest form, for the sake of time."""
    monkeypatch.setitem(METHODS, "siggpde", ours(n_features=20, members=1, transforms={}))


@pytest.fixture
def without_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aeon", None)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write(long_table(30), tmp_path / "kinds.csv")


@pytest.mark.usefixtures("without_peers")
def test_folds_without_peers(table: Path, tmp_path: Path):
    output = tmp_path / "figures.json"
    result = succeed("compare", table, *KINDS, "--json", "--output", output)
    results = json.loads(result.stdout)
    assert json.loads(output.read_text()) == results
    assert [entry["name"] for entry in results["methods"]] == ["siggpde", "constant"]
    assert [entry["name"] for entry in results["not_installed"]] == ["minirocket", "mr-hydra", "quant", "multirocket"]
    assert "(pip install aeon): left out minirocket, mr-hydra, quant, multirocket" in result.stderr
    assert [split["test"] for split in results["splits"]] == [10, 10, 10] and results["task"] == "classification"
    siggpde, constant = results["methods"]
    assert siggpde["mean"]["accuracy"] > 0.7 >= constant["mean"]["accuracy"]
    values = [split["nlpp"] for split in siggpde["splits"]]
    assert siggpde["mean"]["nlpp"] == pytest.approx(np.mean(values))
    assert siggpde["standard_error"]["nlpp"] == pytest.approx(np.std(values, ddof=1) / 3**0.5)
    refuse(2, "", "compare", table, *KINDS, "--output", output)  # it exists
    splits = ["--folds", "2", "--repeats", "2", "--max-train", "8", "--max-test", "5"]
    shown = run("compare", table, *KINDS, *splits).stdout
    for words in ("siggpde", "constant", "accuracy", "NLPP", "Brier", "ECE", "fit s", "predict s", "±"):
        assert words in shown
    assert "learned from 8 series, judged on 5; means of 4 splits" in " ".join(shown.split())


@pytest.mark.usefixtures("without_peers")
def test_numbers_are_compared_on_a_file_of_their_own(table: Path, tmp_path: Path):
    test = write(long_table(12, seed=1), tmp_path / "test.csv")
    results = figures("compare", table, "--target", "size", *LONG, "--test", test)
    assert results["task"] == "regression" and results["splits"] == [{"train": 30, "test": 12, "seed": 0}]
    assert {"rmse", "mae", "nlpd", "coverage", "cpu_fit", "cpu_predict"} <= set(results["methods"][0]["mean"])
    shown = run("compare", table, "--target", "size", *LONG, "--test", test).stdout
    for words in ("RMSE", "MAE", "NLPD", "in 90 %", "judged on 12"):
        assert words in shown


@pytest.mark.slow
def test_a_peer_on_short_series(table: Path):
    pytest.importorskip("aeon", reason="MiniRocket is aeon's")
    results = figures("compare", table, *KINDS, "--methods", "siggpde,minirocket", "--folds", "2")
    assert [entry["name"] for entry in results["methods"]] == ["siggpde", "minirocket"] and not results["not_installed"]
    assert results["methods"][1]["mean"]["accuracy"] > 0.7


def test_a_peer_that_fails_leaves_the_others(table: Path, monkeypatch: pytest.MonkeyPatch):
    def fails(_: Any) -> Any:
        raise ValueError("kernels are longer than the series")

    monkeypatch.setitem(METHODS, "minirocket", Method("minirocket", "MiniRocket", fails, None, "numpy"))
    failed, constant = figures("compare", table, *KINDS, "--methods", "minirocket,constant")["methods"]
    assert failed["failed"] == "kernels are longer than the series" and "mean" in constant
    assert "failed" in run("compare", table, *KINDS, "--methods", "minirocket,constant").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--methods", "rocket"], "--methods: there is no method 'rocket'; the methods are siggpde, minirocket"),
        (["--folds", "3", "--test", "x.csv"], "--folds and --test exclude each other"),
        (["--target", "size", "--methods", "quant"], "quant is no method for a regression"),
        (["--test", "nowhere.csv"], "there is no file nowhere.csv"),
        (["--output", "figures.csv"], "--output must end in .json"),
    ],
)
def test_wrong_calls(table: Path, arguments: list[str], words: str):
    refuse(2, words, "compare", table, *KINDS, *arguments)


def test_wrong_data(table: Path, tmp_path: Path):
    bare = write(long_table(10).drop("kind", "size"), tmp_path / "bare.csv")
    refuse(2, "has no labels; name them with --target", "compare", bare, *LONG)
    thin = write(long_table(10).drop("y"), tmp_path / "thin.csv")
    refuse(1, "'y'", "compare", table, *KINDS, "--test", thin, "--methods", "constant")
    single = write(long_table(3, labels=("a", "b", "c")), tmp_path / "single.csv")
    refuse(1, "every class has one series only", "compare", single, *KINDS, "--methods", "constant")


def test_single_fits_are_logged_if_asked(table: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("siggpde.utils.progress._EVERY", float("inf"))  # no lines of progress, however busy we are
    wanted = ["compare", table, *KINDS, "--methods", "siggpde", "--folds", "2"]
    assert run(*wanted).stderr == "read 30 series, 2 channels x, y, time day, 8 points, label kind\n"
    assert "members compared" in run(*wanted, "--verbose").stderr
