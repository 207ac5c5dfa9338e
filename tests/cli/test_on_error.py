"""`siggpde predict --on-error`: a bad series stops the command, or only itself."""

import io
import json
from pathlib import Path

import polars as pl
import pytest

from helpers.cli_data import long_table, run, write


def with_bad_series() -> pl.DataFrame:
    """Twelve series; w4 has an infinite value, and w9 no value at all."""
    table = long_table(12, seed=1)
    infinite = (pl.col("who") == "w4") & (pl.col("x") == pl.col("x").first().over("who"))
    empty = pl.col("who") == "w9"
    return table.with_columns(
        x=pl.when(infinite).then(float("inf")).when(empty).then(None).otherwise("x"),
        y=pl.when(empty).then(None).otherwise("y"),
    )


def test_one_bad_series_stops_the_command_and_is_named(models: Path, tmp_path: Path):
    result = run("predict", models / "kinds", write(with_bad_series(), tmp_path / "a.csv"))
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("Error: series w4 is infinite (inf) in channel 1 at time point 0")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "json"])
@pytest.mark.parametrize("model", ["kinds", "sizes"])
def test_skipped_series_have_a_row_with_the_reason(models: Path, tmp_path: Path, suffix: str, model: str):
    source, output = tmp_path / "a.parquet", tmp_path / f"out.{suffix}"
    with_bad_series().write_parquet(source)
    result = run("predict", models / model, source, "--on-error", "skip", "--output", output)
    assert result.exit_code == 0, result.output
    assert f"10 predictions are in {output}\n2 of 12 series could not be predicted; the column error" in result.stderr
    readers = {"csv": pl.read_csv, "parquet": pl.read_parquet}
    table = pl.DataFrame(json.loads(output.read_text())) if suffix == "json" else readers[suffix](output)
    assert table["id"].to_list() == [f"w{number}" for number in range(12)]
    assert table["prediction"].is_null().arg_true().to_list() == [4, 9]
    assert table["error"].is_not_null().arg_true().to_list() == [4, 9]
    assert "series w9 has time stamps but not a single value" in table["error"][9]


def test_predictions_of_the_others_are_those_without_bad_series(models: Path, tmp_path: Path):
    result = run("predict", models / "kinds", write(with_bad_series(), tmp_path / "a.csv"), "--on-error", "skip")
    table = pl.read_csv(io.StringIO(result.stdout))
    without = with_bad_series().filter(~pl.col("who").is_in(["w4", "w9"]))
    expected = run("predict", models / "kinds", write(without, tmp_path / "b.csv"))
    assert table.filter(pl.col("error").is_null()).drop("error").equals(pl.read_csv(io.StringIO(expected.stdout)))


def test_no_prediction_at_all_is_a_failure(models: Path, tmp_path: Path):
    table = with_bad_series().filter(pl.col("who") == "w9")
    result = run("predict", models / "kinds", write(table, tmp_path / "a.csv"), "--on-error", "skip")
    assert result.exit_code == 1 and "1 of 1 series could not be predicted" in result.stderr


def test_a_fit_names_a_bad_series_by_its_id(tmp_path: Path):
    table = with_bad_series().filter(pl.col("who") != "w4")
    options = ["--series", "who", "--time", "day", "--target", "kind", "--channels", "x,y"]
    result = run("fit", write(table, tmp_path / "a.csv"), "--output", tmp_path / "m", *options)
    assert result.exit_code == 1 and "series w9 has time stamps but not a single value" in result.stderr
