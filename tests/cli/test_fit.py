"""`siggpde fit`: models, what they remember, and calls that cannot work."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import siggpde
from helpers.cli_data import FAST, LONG, loaded, long_table, run, weights, write


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(long_table(), tmp_path_factory.mktemp("data") / "turns.csv")


def fit(table, output, *more):
    return run("fit", table, "--output", output, *LONG, *FAST, *more)


def test_a_fit_says_what_it_did_and_saves_the_model(table: Path, tmp_path: Path):
    result = fit(table, tmp_path / "model", "--target", "kind", "--seed", "3", "--max-points", "0", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["task"] == "classification" and "\nclassification\n" in result.stderr
    assert facts["series"] == 30 and facts["lengths"] == [8, 8]
    assert facts["labels"] == {"[red]": 15, "blue": 15}
    assert facts["channel_names"] == ["day", "x", "y"]
    assert len(facts["members"]) == 1 and facts["members"][0]["weight"] == 1
    assert facts["members"][0]["nlpp"] < 0.5 and facts["members"][0]["kernel"] and facts["contains"] == 30
    assert facts["output"] == str(tmp_path / "model") and facts["seconds"] > 0
    model = loaded(tmp_path / "model")
    assert type(model) is siggpde.SigGPClassifier
    assert (model.time_channel, model.random_state, model.max_points) == (0, 3, None)
    assert (model.checkpoint, model.resume, model.verbose) == (None, False, 0)
    assert vars(model)["reading_"] == {"target": "kind", "series": "who", "time": "day", "channels": ["x", "y"]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_the_summary_shows_labels_as_they_are(table: Path, tmp_path: Path):
    result = fit(table, tmp_path / "model", "--target", "kind")
    assert result.exit_code == 0, result.output
    for words in ("[red] (15), blue (15)", "LeastSquares", "One model, with leave-one-out losses", "3 channels"):
        assert words in result.stdout
    assert str(tmp_path)[:20] in result.stdout


@pytest.mark.parametrize(
    ("target", "labels", "likelihood"),
    [("kind", ("a", "b", "c"), "RobustMax"), ("kind", ("a", "b"), "Bernoulli"), ("size", ("a", "b"), "Gaussian")],
)
def test_the_method_of_the_paper(target: str, labels: tuple[str, ...], likelihood: str, tmp_path: Path):
    path = write(long_table(60, labels=labels), tmp_path / "turns.csv")
    options = ["--target", target, "--method", "paper", "--max-iter", "20"]
    result = fit(path, tmp_path / "model", *options)
    assert result.exit_code == 0, result.output
    for words in (f", {likelihood}", "paper", "One model, with validation scores", "no base point"):
        assert words in result.stdout
    model = loaded(tmp_path / "model")
    assert (model.method, model.n_features, model.max_iter) == ("paper", 20, 20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "turns.csv"]
    shown = run("info", tmp_path / "model", "--json")
    facts = json.loads(shown.stdout)
    assert facts["method"] == "paper" and facts["likelihood"] == likelihood
    assert facts["members"][0]["words"] == 20 and facts["members"][0]["nlpp"] is not None
    for command in ("evaluate", "explain"):
        assert run(command, tmp_path / "model", path).exit_code == 0
    assert run("predict", tmp_path / "model", path, "--output", tmp_path / "new.csv").exit_code == 0


def test_channels_are_remembered_by_name_though_none_were_given(table: Path, tmp_path: Path):
    result = run(
        "fit", table, "--output", tmp_path / "m", *FAST, "--series", "who", "--target", "kind", "--ignore", "day"
    )
    assert result.exit_code == 0, result.output
    assert loaded(tmp_path / "m").reading_["channels"] == ["x", "y", "size"]


def test_numbers_with_fractions_are_a_regression(table: Path, tmp_path: Path):
    result = fit(table, tmp_path / "model", "--target", "size", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["task"] == "regression" and "\nregression\n" in result.stderr
    assert facts["target_mean"] == pytest.approx(1.65, abs=0.2)
    assert facts["likelihood"] == "Gaussian" and facts["members"][0]["nlpp"] < 2


def test_a_model_without_training_series(table: Path, tmp_path: Path):
    result = fit(table, tmp_path / "model", "--target", "kind", "--no-keep-series", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["contains"] == 0 and not loaded(tmp_path / "model").keep_series
    assert "contains no training series" in (tmp_path / "model" / "README.md").read_text()
    assert "keep_series False" in run("info", tmp_path / "model").stdout


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--target", "colour"], 1, "no column 'colour' for --target; the 6 columns are who, day"),
        (["--target", "kind", "--likelihood", "poisson"], 2, "--likelihood poisson is not for a classification"),
        (["--target", "size", "--class-weight", "balanced"], 2, "--class-weight is for classes"),
        (["--target", "size", "--task", "classification"], 1, "continuous"),
        (["--target", "kind", "--task", "regression"], 1, "y must be numbers"),
        (["--target", "kind", "--members", "0"], 2, "--members"),
        (["--target", "kind", "--members", "2.5"], 2, "--members"),
        (["--target", "kind", "--time-limit", "0"], 2, "--time-limit"),
        (["--target", "kind", "--max-iter", "0"], 2, "--max-iter takes a whole number from 1, or auto; got '0'"),
        (["--target", "kind", "--method", "papers"], 2, "--method"),
        (["--target", "kind", "--method", "paper", "--members", "2"], 1, "method='paper' trains one model"),
        (["--target", "kind", "--method", "paper", "--likelihood", "least_squares"], 1, "takes 'auto', 'robustmax'"),
        (["--target", "kind", "--likelihood", "softmax"], 1, "take method='paper'"),
        (["--target", "kind", "--n-features", "1"], 2, "--n-features"),
        (["--target", "kind", "--device", "cuda"], 1, "--device 'cuda' cannot be used"),
        (["--target", "kind", "--jobs", "0"], 1, "n_jobs"),
        (["--target", "kind", "--part", "train"], 1, "--part 'train' has no meaning for .csv"),
        (["--target", "kind", "--ignore", "x,,y"], 2, "--ignore takes names"),
        (["--target", "kind", "--nonsense"], 2, "--nonsense"),
        ([], 2, "--target"),
    ],
)
def test_options_that_cannot_work(more: list[str], code: int, said: str, table: Path, tmp_path: Path):
    result = fit(table, tmp_path / "model", *more)
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_likelihood_for_numbers_makes_integers_numbers(tmp_path: Path):
    path = write(long_table(30, labels=("0", "1", "3")), tmp_path / "counts.csv")
    for likelihood, task in (("auto", "classification"), ("poisson", "regression"), ("softmax", "classification")):
        method = [] if likelihood == "auto" else ["--method", "paper", "--max-iter", "3"]
        result = fit(path, tmp_path / likelihood, "--target", "kind", "--likelihood", likelihood, *method, "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["task"] == task


def test_a_failure_is_one_line_and_with_verbose_the_whole_story(table: Path, tmp_path: Path):
    quiet = fit(table, tmp_path / "m", "--target", "colour")
    assert quiet.stderr.startswith("Error: ") and quiet.stderr.count("\n") == 1
    assert quiet.stdout == ""
    assert "Traceback" in fit(table, tmp_path / "m", "--target", "colour", "--verbose").stderr


def spoiled(table: pl.DataFrame, what: str) -> str:
    lines = table.write_csv().splitlines()
    if what == "ragged":
        lines[5] += ",1,2,3"
    if what == "word":
        lines[5] = lines[5].replace(lines[5].split(",")[2], "much")
    if what == "empty":
        lines = []
    if what == "header":
        lines = lines[:1]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("ragged", "not a readable .csv file"),
        ("word", "column 'x', row 4: expected a number; got 'much'"),
        ("empty", "empty"),
        ("header", "no rows"),
    ],
)
def test_bad_files(what: str, said: str, tmp_path: Path):
    path = tmp_path / "bad.csv"
    path.write_text(spoiled(long_table(4), what))
    result = fit(path, tmp_path / "model", "--target", "kind")
    assert result.exit_code == 1
    assert said in result.stderr and str(path) in result.stderr


def test_one_class_only(tmp_path: Path):
    path = write(long_table(6, labels=("same",)), tmp_path / "one.csv")
    result = fit(path, tmp_path / "model", "--target", "kind")
    assert result.exit_code == 1 and "only one class" in result.stderr


def test_gaps_are_fine_but_a_label_that_is_missing_is_not(tmp_path: Path):
    table = long_table()
    gaps = table.with_columns(pl.when(pl.int_range(pl.len()) % 7 == 3).then(None).otherwise(pl.col("x")).alias("x"))
    result = fit(write(gaps, tmp_path / "gaps.csv"), tmp_path / "model", "--target", "kind", "--mask", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["settings"]["mask"] is True
    unlabelled = table.with_columns(pl.when(pl.col("who") == "w3").then(None).otherwise(pl.col("kind")).alias("kind"))
    result = fit(write(unlabelled, tmp_path / "unlabelled.csv"), tmp_path / "other", "--target", "kind")
    assert result.exit_code == 1 and "series 'w3' has no label" in result.stderr


def test_many_different_integers_are_asked_about(tmp_path: Path):
    table = long_table(20, labels=tuple(range(20)))
    path = write(table, tmp_path / "counts.csv")
    result = fit(path, tmp_path / "model", "--target", "kind")
    assert result.exit_code == 2
    assert "20 different values in 20 series" in result.stderr and "--task regression" in result.stderr
    assert fit(path, tmp_path / "model", "--target", "kind", "--task", "regression").exit_code == 0


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("missing.csv", "there is no file missing.csv"),
        ("no/such/folder.npz", "nor a folder no/such"),
        ("no_such_data_set", "'no_such_data_set' is neither a file nor a known data set"),
        ("no such data set", "neither a file nor a known data set"),
        (".", "is a folder"),
    ],
)
def test_data_that_is_nowhere_is_a_wrong_call(data: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SIGGPDE_ARCHIVE", "http://127.0.0.1:9")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = run("fit", data, "--output", tmp_path / "model")
    assert result.exit_code == 2
    assert said in result.stderr.splitlines()[-1] and result.stderr.count("Error") == 1


def test_options_of_files_are_not_for_data_sets(tmp_path: Path):
    result = run("fit", "pendigits", "--target", "y", "--output", tmp_path / "model")
    assert result.exit_code == 2 and "--target has no meaning for a data set by name" in result.stderr


def test_a_model_is_not_replaced_unasked(table: Path, tmp_path: Path):
    model = tmp_path / "model"
    assert fit(table, model, "--target", "kind").exit_code == 0
    before = weights(model)
    refused = fit(tmp_path / "not looked at.csv", model)
    assert refused.exit_code == 2 and "--force replaces it" in refused.stderr
    assert weights(model) == before
    assert fit(table, model, "--target", "size", "--force").exit_code == 0
    assert weights(model) != before


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_nothing_is_saved_over_what_is_no_model(force: list[str], table: Path, tmp_path: Path):
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    (folder / "letter.txt").write_text("dear")
    file.write_text("dear")
    for output in (folder, file):
        result = fit(table, output, "--target", "kind", *force)
        assert result.exit_code == 2 and str(output) in result.stderr
    assert (folder / "letter.txt").read_text() == file.read_text() == "dear"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_train_and_test_in_one_file(tmp_path: Path):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(40, 1, 6)).cumsum(axis=2)
    y = np.where(x[:, 0, -1] > x[:, 0, 0], "up", "down")
    np.savez(tmp_path / "walks.npz", X_train=x[:30], y_train=y[:30], X_test=x[30:], y_test=y[30:])
    result = run("fit", tmp_path / "walks.npz", "--output", tmp_path / "model", *FAST, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["series"] == 30
    judged = run("evaluate", tmp_path / "model", tmp_path / "walks.npz", "--json")
    assert json.loads(judged.stdout)["n"] == 10
    judged = run("evaluate", tmp_path / "model", tmp_path / "walks.npz", "--json", "--part", "train")
    assert json.loads(judged.stdout)["n"] == 30
