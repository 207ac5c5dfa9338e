"""`siggpde explain` on models that were fitted by the command line."""

import base64
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from helpers.cli_data import FAST, LONG, figures, loaded, long_table, refuse, run, succeed, write
from helpers.dated_stays import AS_WORDS, dated_stays
from siggpde import load
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
        (title,) = (text.get_text() for text in axes[0].texts if text.get_text().startswith("series 5"))
        assert re.match(r"series 5 \(\w+\): ", title), title
    assert len(seen) == 3 and len({shape for shape, _, _ in seen}) == 1


@pytest.fixture(scope="module")
def stays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with dated stays, own.csv and shared.csv, and a model of each."""
    folder = tmp_path_factory.mktemp("stays")
    for name in ("own", "shared"):
        table = write(dated_stays(own_starts=name == "own"), folder / f"{name}.csv")
        succeed("fit", table, "--output", folder / name, *AS_WORDS, *FAST[:-2])
    return folder


@pytest.mark.parametrize(
    ("model", "more", "when"),
    [
        ("own", [], r"\d .*to .* after the start"),
        ("own", ["--time-as", "dates"], r"2025-\d\d-\d\d \d\d:\d\d to (2025-\d\d-\d\d )?\d\d:\d\d"),
        ("shared", [], r"2025-04-0\d \d\d:\d\d to (2025-04-0\d )?\d\d:\d\d"),
        ("shared", ["--time-as", "elapsed"], r"\d .*to .* after the start"),
    ],
)
def test_dates_stay_dates(stays: Path, tmp_path: Path, model: str, more: list[str], when: str):
    """Nothing of what is printed, drawn or written has the seconds since 1970 in which models see time."""
    arguments = (stays / model, stays / f"{model}.csv", "--number", "3", *more)
    values = figures("explain", *arguments, "--counterfactual")
    shown = run("explain", *arguments, "--counterfactual").stdout
    stretch = next(part for part in values["segments"]["main"] if part["start"] < part["end"])
    assert re.search(when, stretch["when"]) and datetime.fromisoformat(stretch["start"]).year == 2025
    assert datetime.fromisoformat(values["counterfactual"]["start"]) and re.search(when, values["sentence"])
    assert not re.search(r"(?<![\d.])174\d{7}\b|e\+09", shown + json.dumps(values) + run("info", stays / model).stdout)
    page = tmp_path / "page.html"
    succeed("report", stays / model, stays / f"{model}.csv", "--output", page, "--explained", "1", *more)
    html = page.read_text()
    text = html + "".join(base64.b64decode(one).decode() for one in re.findall(r"base64,([^\"]+)", html))
    assert not re.search(r"(?<![\d.])174\d{7}\b|1\.7\d*e\+?9", text) and re.search(when, text)
    assert ("time after the start (h)" in text) == ("after the start" in when)


def test_a_model_that_knows_numbers_only_tells_the_dates_of_the_data(stays: Path, tmp_path: Path):
    old = load(stays / "own")
    old.reading_ = {key: value for key, value in old.reading_.items() if key != "time_format"}
    old.save(tmp_path / "old")
    values = figures("explain", tmp_path / "old", stays / "own.csv", "--number", "3")
    assert "after the start" in values["segments"]["main"][0]["when"]
    old.reading_["time_format"] = {"unit": "years"}
    old.save(tmp_path / "wrong")
    refuse(1, "a time format has unit, dates", "explain", tmp_path / "wrong", stays / "own.csv")


def test_models_without_series(models: Path, tmp_path: Path):
    options = ["--target", "kind", *LONG, *FAST, "--no-keep-series"]
    succeed("fit", models / "train.csv", "--output", tmp_path / "m", *options)
    arguments = ("explain", tmp_path / "m", models / "test.csv", "--number", "5", "--counterfactual", "--json")
    values = json.loads(run(*arguments).stdout)
    change = values["counterfactual"]
    assert change["valid"] and change["target"] == values["runner_up"]
    alone = write(pl.read_csv(models / "test.csv").filter(pl.col("who") == "w0"), tmp_path / "one.csv")
    refuse(2, "add such series to DATA", "explain", tmp_path / "m", alone, "--number", "0", "--counterfactual")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of method="paper" of two seeds, `one` and `two`, and `copy`, which is `one` again."""
    folder = tmp_path_factory.mktemp("published")
    train = write(long_table(60), folder / "train.csv")
    for name, seed in (("one", 0), ("two", 1), ("copy", 0)):
        options = ["--target", "kind", "--method", "paper", "--max-iter", "20", "--seed", seed, "--n-features", "30"]
        succeed("fit", train, "--output", folder / name, *LONG, *options, "--jobs", "1")
    return folder


def test_words_as_the_paper_ranks_them(published: Path, models: Path, tmp_path: Path):
    reading = loaded(published / "one").paper_reading(10)
    values = figures("explain", published / "one", "--paper")
    assert [word["name"] for word in values["words"]] == [word.name for word in reading.words]
    assert values["words"][0]["size"] == reading.words[0].size and values["in_common"] == reading.in_common()
    alone = run("explain", published / "one", "--paper", "--top", "3")
    assert reading.words[2].name in alone.stdout and reading.words[3].name not in alone.stdout
    assert "one model does not tell" in alone.stderr
    pytest.importorskip("matplotlib")
    picture, both = tmp_path / "words.png", ["--another", published / "two", "--another", published / "copy"]
    result = succeed("explain", published / "one", "--paper", *both, "--plot", picture, "--json")
    values, other = json.loads(result.stdout), loaded(published / "two").paper_reading(29)
    assert picture.read_bytes().startswith(b"\x89PNG")
    place = [word.name for word in other.words].index(reading.words[0].name) + 1
    assert values["words"][0]["ranks"] == [1, place, 1]
    shared = {word.name for word in reading.words} & {word.name for word in other.words[:10]}
    assert set(values["in_common"]) == shared and 0 < len(shared) < 10
    assert f"3 models disagree: they have {len(shared)} of the first 10 words in common" in result.stderr
    same = run("explain", published / "one", "--paper", "--another", published / "copy")
    assert "disagree" not in same.stderr and same.exit_code == 0
    refuse(2, "DATA is missing", "explain", published / "one")
    refuse(2, "add it, or leave --another out", "explain", published / "one", "x.csv", "--another", published / "two")
    refuse(2, "leave out one of them", "explain", published / "one", "--paper", "--number", "1")
    refuse(1, "committee of views", "explain", models / "kinds", "--paper")
    narrow = ["--target", "kind", "--method", "paper", "--max-iter", "2", "--n-features", "9", "--channels", "x"]
    succeed("fit", published / "train.csv", "--output", tmp_path / "x", *LONG[:4], *narrow, "--jobs", "1")
    refuse(2, "a model of other channels", "explain", published / "one", "--paper", "--another", tmp_path / "x")
