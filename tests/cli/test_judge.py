"""`siggpde evaluate`, `explain` and `info` on models that were fitted by the command line."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import siggpde
from helpers.cli_data import FAST, LONG, fitted, long_table, run, write


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted(tmp_path_factory.mktemp("models"))


def test_classes_are_judged(place: Path, tmp_path: Path):
    output = tmp_path / "figures.json"
    result = run("evaluate", place / "kinds", place / "test.csv", "--json", "--output", output)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert json.loads(output.read_text()) == facts
    rows = list(csv.DictReader(io.StringIO(run("predict", place / "kinds", place / "test.csv").stdout)))
    truth = ["[red]", "blue"] * 6
    right = [row["prediction"] == label for row, label in zip(rows, truth, strict=True)]
    nlpp = -np.mean([np.log(float(row[f"p({label})"])) for row, label in zip(rows, truth, strict=True)])
    assert facts["n"] == 12 and facts["accuracy"] == pytest.approx(np.mean(right)) and facts["accuracy"] > 0.7
    assert facts["nlpp"] == pytest.approx(nlpp)
    assert np.sum(facts["confusion"]) == 12 and facts["classes"] == ["[red]", "blue"]
    assert {"balanced_accuracy", "brier", "ece"} <= set(facts)
    shown = run("evaluate", place / "kinds", place / "test.csv").stdout
    for words in ("[red]", "blue", "recall", f"{100 * facts['accuracy']:.2f} %", f"{facts['nlpp']:.4f}"):
        assert words in shown
    assert run("evaluate", place / "kinds", place / "test.csv", "--output", output).exit_code == 2


def test_numbers_are_judged(place: Path):
    facts = json.loads(run("evaluate", place / "sizes", place / "test.csv", "--json").stdout)
    assert facts["task"] == "regression" and facts["n"] == 12 and facts["rmse"] >= facts["mae"] > 0
    assert list(facts["coverage"]) == ["0.5", "0.9", "0.95"]
    shown = run("evaluate", place / "sizes", place / "test.csv").stdout
    for words in ("RMSE", "MAE", "NLPD", "50 %", "90 %", "95 %"):
        assert words in shown


def test_labels_that_the_model_has_never_seen(place: Path, tmp_path: Path):
    path = write(long_table(4, labels=("green", "blue")), tmp_path / "green.csv")
    result = run("evaluate", place / "kinds", path)
    assert result.exit_code == 1 and "green" in result.stderr
    assert run("predict", place / "kinds", path).exit_code == 0
    bare = write(long_table(4).drop("kind"), tmp_path / "bare.csv")
    result = run("evaluate", place / "kinds", bare)
    assert result.exit_code == 1 and "no column 'kind' for --target" in result.stderr


def test_words_that_look_like_numbers_are_still_the_words_of_the_fit(tmp_path: Path):
    train = write(long_table(30, labels=("1", "2", "x")), tmp_path / "train.csv")
    assert run("fit", train, "--output", tmp_path / "m", "--target", "kind", *LONG, *FAST).exit_code == 0
    test = write(long_table(9, labels=("1", "2")), tmp_path / "test.csv")
    result = run("evaluate", tmp_path / "m", test, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["classes"] == ["1", "2", "x"]


def test_what_predictions_rest_on(place: Path):
    facts = json.loads(run("explain", place / "kinds", place / "test.csv", "--top", "3", "--json").stdout)
    assert len(facts["words"]) == 3 and facts["series"] == 12
    assert {"x", "y"} <= {each["name"] for each in facts["channels"]}
    assert sum(each["share"] for each in facts["channels"]) == pytest.approx(1)
    shown = run("explain", place / "kinds", place / "test.csv", "--top", "3").stdout
    assert facts["words"][0]["name"] in shown and "Channels" in shown


@pytest.mark.parametrize("model", ["kinds", "sizes"])
def test_why_one_series_is_predicted_as_it_is(model: str, place: Path):
    result = run("explain", place / model, place / "test.csv", "--number", "5", "--json", "--top", "4")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["series"] == 5 and facts["id"] == "w5" and len(facts["contributions"]) == 4
    total = facts["constant"] + facts["rest"] + sum(each["value"] for each in facts["contributions"])
    assert total == pytest.approx(facts["latent"])
    row = json.loads(run("predict", place / model, place / "test.csv", "--json").stdout)[5]
    assert (facts["label"] if model == "kinds" else pytest.approx(facts["mean"])) == row["prediction"]
    shown = run("explain", place / model, place / "test.csv", "--number", "5").stdout
    assert "5 (w5)" in shown and facts["contributions"][0]["name"] in shown
    beyond = run("explain", place / model, place / "test.csv", "--number", "12")
    assert beyond.exit_code == 2 and "beyond the last series, 11" in beyond.stderr


def test_a_picture_of_what_predictions_rest_on(place: Path, tmp_path: Path):
    pytest.importorskip("matplotlib")
    for more in ([], ["--number", "0"]):
        picture = tmp_path / "words.png"
        result = run("explain", place / "kinds", place / "test.csv", "--plot", picture, "--force", *more)
        assert result.exit_code == 0, result.output
        assert picture.read_bytes().startswith(b"\x89PNG")
    assert run("explain", place / "kinds", place / "test.csv", "--plot", picture).exit_code == 2
    assert run("explain", place / "kinds", place / "test.csv", "--plot", tmp_path / "words.gif").exit_code == 2


def test_info_of_a_model(place: Path):
    facts = json.loads(run("info", place / "kinds", "--json").stdout)
    assert facts["series"] == 40 and facts["labels"] == {"[red]": 20, "blue": 20}
    assert facts["reading"]["series"] == "who" and facts["versions"]["siggpde"] == siggpde.__version__
    assert facts["members"][0]["nlpp"] > 0 and facts["settings"]["n_features"] == 20
    shown = run("info", place / "kinds").stdout
    for words in ("[red] (20), blue (20)", "--series who", "LeastSquares", siggpde.__version__):
        assert words in shown
    assert "target" in run("info", place / "sizes").stdout
    nowhere = run("info", place / "none")
    assert nowhere.exit_code == 1 and "there is no model folder" in nowhere.stderr


def test_many_classes_are_shown_by_their_mistakes(tmp_path: Path):
    names = tuple(f"a long name of a class, number {number}" for number in range(6))
    path = write(long_table(36, labels=names), tmp_path / "many.csv")
    assert run("fit", path, "--output", tmp_path / "m", "--target", "kind", *LONG, *FAST).exit_code == 0
    shown = run("evaluate", tmp_path / "m", path).stdout
    assert "Mistakes" in shown and "true" in shown and "recall" not in shown
