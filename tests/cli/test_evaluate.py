"""`siggpde evaluate` on models that were fitted by the command line."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from helpers.cli_data import FAST, LONG, figures, long_table, refuse, run, succeed, write


def test_classes_are_judged(models: Path, tmp_path: Path):
    output = tmp_path / "figures.json"
    values = json.loads(succeed("evaluate", models / "kinds", models / "test.csv", "--json", "--output", output).stdout)
    assert json.loads(output.read_text()) == values
    rows = list(csv.DictReader(io.StringIO(run("predict", models / "kinds", models / "test.csv").stdout)))
    truth = ["[red]", "blue"] * 6
    right = [row["prediction"] == label for row, label in zip(rows, truth, strict=True)]
    nlpp = -np.mean([np.log(float(row[f"p({label})"])) for row, label in zip(rows, truth, strict=True)])
    assert values["n"] == 12 and values["accuracy"] == pytest.approx(np.mean(right)) and values["accuracy"] > 0.7
    assert values["nlpp"] == pytest.approx(nlpp)
    assert np.sum(values["confusion"]) == 12 and values["classes"] == ["[red]", "blue"]
    assert {"balanced_accuracy", "brier", "ece", "f1", "auc", "aurc"} <= set(values)
    assert list(values["risk"]) == ["0.5", "0.8", "0.9", "1"]
    assert values["risk"]["1"] == pytest.approx(1 - values["accuracy"])
    assert values["sets"]["coverage"] >= values["accuracy"] and 1 <= values["sets"]["size"] <= 2
    shown = run("evaluate", models / "kinds", models / "test.csv").stdout
    numbers = (f"{100 * values['accuracy']:.2f} %", f"{values['nlpp']:.4f}")
    for words in ("[red]", "blue", "recall", "AURC", "90 % sets", "surest", *numbers):
        assert words in shown
    assert run("evaluate", models / "kinds", models / "test.csv", "--output", output).exit_code == 2


def test_numbers_are_judged(models: Path):
    values = figures("evaluate", models / "sizes", models / "test.csv")
    assert values["task"] == "regression" and values["n"] == 12 and values["rmse"] >= values["mae"] > 0
    assert list(values["coverage"]) == ["0.5", "0.9", "0.95"]
    shown = run("evaluate", models / "sizes", models / "test.csv").stdout
    for words in ("RMSE", "MAE", "NLPD", "50 %", "90 %", "95 %"):
        assert words in shown


def test_labels_that_the_model_has_never_seen(models: Path, tmp_path: Path):
    path = write(long_table(4, labels=("green", "blue")), tmp_path / "green.csv")
    refuse(1, "green", "evaluate", models / "kinds", path)
    succeed("predict", models / "kinds", path)
    bare = write(long_table(4).drop("kind"), tmp_path / "bare.csv")
    refuse(1, "no column 'kind' for --target", "evaluate", models / "kinds", bare)


def test_classes_that_look_like_numbers_and_many_classes(tmp_path: Path):
    train = write(long_table(30, labels=("1", "2", "x")), tmp_path / "train.csv")
    succeed("fit", train, "--output", tmp_path / "m", "--target", "kind", *LONG, *FAST)
    test = write(long_table(9, labels=("1", "2")), tmp_path / "test.csv")
    assert figures("evaluate", tmp_path / "m", test)["classes"] == ["1", "2", "x"]
    names = tuple(f"a long name of a class, number {number}" for number in range(6))
    path = write(long_table(36, labels=names), tmp_path / "many.csv")
    succeed("fit", path, "--output", tmp_path / "n", "--target", "kind", *LONG, *FAST)
    shown = run("evaluate", tmp_path / "n", path).stdout
    assert "Mistakes" in shown and "true" in shown and "recall" not in shown
