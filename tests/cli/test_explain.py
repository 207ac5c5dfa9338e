"""`siggpde explain` on models that were fitted by the command line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from helpers.cli_data import FAST, LONG, figures, refuse, run, succeed, write
from siggpde.plots import plot_explanation


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch):
    """Names of features are long, and broken into lines where the terminal is narrow."""
    monkeypatch.setenv("COLUMNS", "200")


def test_what_predictions_rest_on(models: Path):
    values = figures("explain", models / "kinds", models / "test.csv", "--top", "3")
    assert len(values["words"]) == 3 and values["series"] == 12
    assert {"x", "y"} <= {term["name"] for term in values["channels"]}
    assert sum(term["share"] for term in values["channels"]) == pytest.approx(1)
    shown = run("explain", models / "kinds", models / "test.csv", "--top", "3").stdout
    assert values["words"][0]["name"] in shown and "channels" in shown and "Time regions" in shown
    assert [entry["label"] for entry in values["classes"]] and values["scales"][0]["name"] in shown
    region = values["classes"][-1]["regions"][0]
    assert 0.5 <= region["probability"] <= 1 and f"{region['effect']:+.2g} ± {region['std']:.2g}" in shown
    assert sum(term["share"] for term in values["views"]) == pytest.approx(1)
    assert values["views"][0]["name"] in shown and "views of the series" in shown


@pytest.mark.parametrize("model", ["kinds", "sizes"])
def test_why_one_series_is_predicted_as_it_is(model: str, models: Path):
    values = figures("explain", models / model, models / "test.csv", "--number", "5", "--top", "4")
    assert values["series"] == 5 and values["id"] == "w5" and len(values["contributions"]) == 4
    total = values["constant"] + values["rest"] + sum(term["value"] for term in values["contributions"])
    assert total == pytest.approx(values["latent"])
    assert values["constant"] + sum(term["value"] for term in values["views"]) == pytest.approx(values["latent"])
    row = figures("predict", models / model, models / "test.csv")[5]
    assert (values["label"] if model == "kinds" else pytest.approx(values["mean"])) == row["prediction"]
    shown = run("explain", models / model, models / "test.csv", "--number", "5").stdout
    assert "5 (w5)" in shown and values["contributions"][0]["name"] in shown
    there = values["segments"]
    total = np.array(there["values"]).sum(axis=(0, 1))
    assert total == pytest.approx(np.subtract(there["latents"], there["baseline"]), abs=1e-8)
    assert "When and where" in shown and there["main"][0]["does"] in shown
    assert values["views"][0]["name"] in shown and "the average series" in shown
    refuse(2, "beyond the last series, 11", "explain", models / model, models / "test.csv", "--number", "12")


def test_what_would_turn_a_prediction(models: Path):
    arguments = ("explain", models / "kinds", models / "test.csv", "--number", "5", "--counterfactual")
    values = figures(*arguments)
    change = values["counterfactual"]
    assert change["valid"] and (change["label"], change["target"]) == (values["label"], values["runner_up"])
    assert f"{change['label']} becomes {change['target']} if" in " ".join(run(*arguments).stdout.split())
    refuse(2, "--number", "explain", models / "kinds", models / "test.csv", "--counterfactual")
    refuse(2, "is for classes", "explain", models / "sizes", models / "test.csv", "--number", "5", "--counterfactual")


def test_pictures_of_predictions_and_of_series(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib")
    for more in ([], ["--number", "0"]):
        picture = tmp_path / "words.png"
        succeed("explain", models / "kinds", models / "test.csv", "--plot", picture, "--force", *more)
        assert picture.read_bytes().startswith(b"\x89PNG")
    assert run("explain", models / "kinds", models / "test.csv", "--plot", picture).exit_code == 2
    assert run("explain", models / "kinds", models / "test.csv", "--plot", tmp_path / "words.gif").exit_code == 2
    seen: list[Any] = []

    def spy(explained: Any, x: Any, axes: Any, **settings: Any) -> Any:
        seen.append((np.asarray(x).shape, settings["counterfactual"], plot_explanation(explained, x, axes, **settings)))

    monkeypatch.setattr("siggpde.plots.plot_explanation", spy)
    for model, more in (("kinds", []), ("kinds", ["--counterfactual"]), ("sizes", [])):
        picture = tmp_path / f"{model}{len(more)}.png"
        result = succeed("explain", models / model, models / "test.csv", "--plot", picture, "--number", "5", *more)
        assert picture.read_bytes().startswith(b"\x89PNG"), result.output
        _, changed, axes = seen[-1]
        assert (changed is None) == (not more)
        assert [ax.get_title(loc="left") for ax in axes] == ["x", "y"]
    assert len(seen) == 3 and len({shape for shape, _, _ in seen}) == 1


def test_models_without_series(models: Path, tmp_path: Path):
    options = ["--target", "kind", *LONG, *FAST, "--no-keep-series"]
    succeed("fit", models / "train.csv", "--output", tmp_path / "m", *options)
    arguments = ("explain", tmp_path / "m", models / "test.csv", "--number", "5", "--counterfactual", "--json")
    values = json.loads(run(*arguments).stdout)
    change = values["counterfactual"]
    assert change["valid"] and change["target"] == values["runner_up"]
    alone = write(pl.read_csv(models / "test.csv").filter(pl.col("who") == "w0"), tmp_path / "one.csv")
    refuse(2, "add such series to DATA", "explain", tmp_path / "m", alone, "--number", "0", "--counterfactual")
