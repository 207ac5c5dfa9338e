"""`siggpde predict --costs --reject-cost`."""

import io
from pathlib import Path

import numpy as np
import polars as pl

from helpers.cli_data import run


def predictions(*arguments: object) -> pl.DataFrame:
    result = run("predict", *arguments)
    assert result.exit_code == 0, result.output
    return pl.read_csv(io.StringIO(result.stdout))


def test_decisions_of_least_cost(models: Path, tmp_path: Path):
    costs = tmp_path / "costs.csv"
    costs.write_text("true,blue,[red]\n[red],50,0\nblue,0,1\n")  # a red one is not to be missed
    plain = predictions(models / "kinds", models / "test.csv")
    decided = predictions(models / "kinds", models / "test.csv", "--costs", costs)
    assert decided.drop("prediction").equals(plain.drop("prediction"))
    red = 50 * plain["p([red])"] > plain["p(blue)"]
    assert decided["prediction"].to_list() == np.where(red, "[red]", "blue").tolist()
    unsure = predictions(models / "kinds", models / "test.csv", "--costs", costs, "--reject-cost", "0.01")
    cost = np.minimum(50 * plain["p([red])"].to_numpy(), plain["p(blue)"].to_numpy())
    assert [answer == "don't know" for answer in unsure["prediction"]] == (cost > 0.01).tolist()
    assert (cost > 0.01).sum() > 0


def test_wrong_costs(models: Path, tmp_path: Path):
    costs = tmp_path / "costs.csv"
    for text, words in (
        ("true,blue,red\nblue,0,1\nred,1,0\n", "must have rows for the classes [red], blue"),
        ("true,blue,[red]\nblue,0,1\n[red],much,0\n", "numbers only"),
    ):
        costs.write_text(text)
        result = run("predict", models / "kinds", models / "test.csv", "--costs", costs)
        assert result.exit_code == 1 and words in " ".join(result.stderr.split())
    assert run("predict", models / "kinds", models / "test.csv", "--costs", tmp_path / "none.csv").exit_code == 2
    result = run("predict", models / "sizes", models / "test.csv", "--reject-cost", "1")
    assert result.exit_code == 2 and "predicts numbers" in " ".join(result.stderr.split())
