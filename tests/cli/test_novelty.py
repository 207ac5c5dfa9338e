"""What the commands say of series that are unlike all training series, and of series that were fitted to."""

import io
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from helpers.cli_data import LONG, figures, long_table, run, series_of, start, succeed, write
from siggpde import load

FIXTURES = Path(__file__).parents[1] / "fixtures"
UNLIKE = "2 of 12 series are unlike all training series (first: series w3; level of x is unusual in all of them)"


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the test series, two of which are far from where all training series are."""
    folder = tmp_path_factory.mktemp("strange")
    far = pl.when(pl.col("who").is_in(["w3", "w7"])).then(pl.col("x") + 1e4).otherwise(pl.col("x"))
    table = long_table(12, seed=1).with_columns(x=far)
    table.write_parquet(folder / "strange.parquet")
    write(table, folder / "strange.csv")
    return folder


@pytest.mark.parametrize("name", ["kinds", "sizes"])
def test_predictions_have_a_p_value_and_one_line_for_all_that_are_unlike(name: str, models: Path, strange: Path):
    result = succeed("predict", models / name, strange / "strange.csv")
    table = pl.read_csv(io.StringIO(result.stdout))
    assert table.columns[-1] == "novelty" and "unlike" not in table.columns
    least = 1 / 41
    assert table["novelty"].to_numpy()[[3, 7]] == pytest.approx(least)
    others = table["novelty"].to_numpy()[[0, 1, 2, 4, 5, 6, 8, 9, 10, 11]]
    assert (others <= 1).all() and (others > least).mean() > 0.5
    assert result.stderr.count("unlike all training series") == 1 and UNLIKE in result.stderr
    # The p-values of Python are joined to the training series: nearly the same.
    joined = load(models / name).novelty(series_of(pl.read_csv(strange / "strange.csv")))
    np.testing.assert_allclose(table["novelty"].to_numpy(), joined, atol=0.1)


def test_streams_have_a_p_value_and_series_that_cannot_be_predicted_none(models: Path, strange: Path, tmp_path: Path):
    printed = pl.read_csv(io.StringIO(run("predict", models / "sizes", strange / "strange.csv").stdout))
    result = succeed("predict", models / "sizes", strange / "strange.parquet", "--output", tmp_path / "out.parquet")
    assert result.stderr.count("unlike") == 1 and UNLIKE in result.stderr, result.output
    assert pl.read_parquet(tmp_path / "out.parquet").equals(printed)
    lost = pl.when(pl.col("who") == "w0").then(None).otherwise(pl.col("x"))
    table = pl.read_csv(strange / "strange.csv").with_columns(x=lost, y=pl.when(pl.col("who") != "w0").then("y"))
    result = run("predict", models / "kinds", write(table, tmp_path / "lost.csv"), "--on-error", "skip")
    predicted = pl.read_csv(io.StringIO(result.stdout))
    assert predicted.columns[-2:] == ["novelty", "error"]
    assert predicted["novelty"].is_null().to_list() == [True, *[False] * 11]
    assert UNLIKE in result.stderr


@pytest.mark.parametrize("name", ["kinds", "sizes"])
def test_evaluate_says_how_many_and_names_the_series_of_the_fit(name: str, models: Path, strange: Path, tmp_path: Path):
    result = succeed("evaluate", models / name, strange / "strange.csv")
    assert result.stderr.count("unlike") == 1 and UNLIKE in result.stderr
    assert [line.split("│")[2].strip() for line in result.stdout.splitlines() if "unlike all" in line] == ["2"]
    values = figures("evaluate", models / name, strange / "strange.csv")
    assert values["unlike"] == 2 and values["fitted_to_these"] is False
    for command in ("predict", "evaluate"):
        assert "unlike" not in run(command, models / name, models / "test.csv").stderr
    result = run("evaluate", models / name, models / "train.csv", "--json")
    assert json.loads(result.stdout)["fitted_to_these"] is True
    assert "train.csv holds the training series: the figures tell nothing" in result.stderr
    table = pl.read_csv(models / "train.csv").with_columns(x=pl.col("x") + (pl.col("who") == "w5") * 1e-9)
    changed = run("evaluate", models / name, write(table, tmp_path / "changed.csv"), "--json")
    assert json.loads(changed.stdout)["fitted_to_these"] is False and "fitted to" not in changed.stderr


def test_warnings_of_python_are_lines(models: Path, strange: Path, tmp_path: Path):
    """As a user starts it: no warning with a line of our code, from any command that predicts."""
    done = start("evaluate", models / "sizes", strange / "strange.csv")
    assert done.returncode == 0, done.stderr
    assert "NoveltyWarning" not in done.stderr and "Warning:" not in done.stderr
    assert done.stderr.count("unlike all training series") == 1
    train = write(long_table(30), tmp_path / "train.csv")
    options = ("--methods", "siggpde", "--target", "size", *LONG)
    compared = start("compare", train, "--test", strange / "strange.csv", *options)
    assert compared.returncode == 0, compared.stderr
    assert "unlike all training series" in compared.stderr and "NoveltyWarning" not in compared.stderr


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_models_of_earlier_versions_have_none(kind: str, tmp_path: Path):
    model = FIXTURES / "model-format-2" / kind
    X = np.load(FIXTURES / "model-format-2" / f"{kind}.npz")["X"]
    columns = {"who": np.repeat(np.arange(len(X)), X.shape[2])}
    names = load(model).channel_names_
    columns |= {name: X[:, channel].ravel() for channel, name in enumerate(names)}
    time = load(model).time_channel
    table = pl.DataFrame(columns)
    table = table if time is None else table.filter(pl.col(names[time]).is_not_nan())
    table.write_parquet(tmp_path / "x.parquet")
    options = ["--series", "who", *([] if time is None else ["--time", names[time]])]
    for output in ((), ("--output", tmp_path / "out.parquet")):
        result = succeed("predict", model, tmp_path / "x.parquet", *options, *output)
        assert result.stderr.count("there is no column novelty; fit the model again to have it") == 1
        table = pl.read_parquet(tmp_path / "out.parquet") if output else pl.read_csv(io.StringIO(result.stdout))
        assert len(table) == len(X) and "novelty" not in table.columns
    with pytest.raises(ValueError, match=r"cannot tell how new a series is; .* fit the model again to have it"):
        load(model).novelty(X)
