"""`siggpde predict` from .npy and .parquet to .parquet: block by block, with --resume."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from helpers.cli_data import FAST, fitted, long_table, run
from siggpde.io import predictions as streaming
from siggpde.io.predictions import BlockFolder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = fitted(tmp_path_factory.mktemp("models"))
    long_table(12, seed=1).write_parquet(folder / "test.parquet")
    return folder


def whole(folder: Path, model: str, *arguments: Any) -> pl.DataFrame:
    """Predictions by way of a .csv file, which is read as a whole."""
    output = folder / f"{model}-whole.csv"
    result = run("predict", folder / model, folder / "test.csv", "--output", output, "--force", *arguments)
    assert result.exit_code == 0, result.output
    return pl.read_csv(output)


@pytest.mark.parametrize("model", ["kinds", "sizes"])
def test_streamed_predictions_are_the_same(folder: Path, model: str, tmp_path: Path):
    output = tmp_path / "out.parquet"
    result = run("predict", folder / model, folder / "test.parquet", "--output", output, "--level", "0.5")
    assert result.exit_code == 0, result.output
    assert "12 predictions are in" in result.stderr
    assert pl.read_parquet(output).equals(whole(folder, model, "--level", "0.5"))
    again = run("predict", folder / model, folder / "test.parquet", "--output", output)
    assert again.exit_code == 2 and "--force overwrites it" in again.stderr
    assert run("predict", folder / model, folder / "test.parquet", "--output", output, "--force").exit_code == 0


def test_scattered_rows_are_read_as_a_whole(folder: Path, tmp_path: Path):
    long_table(12, seed=1).sort("day", maintain_order=True).write_parquet(tmp_path / "scattered.parquet")
    result = run("predict", folder / "kinds", tmp_path / "scattered.parquet", "--output", tmp_path / "out.parquet")
    assert result.exit_code == 0, result.output
    found = pl.read_parquet(tmp_path / "out.parquet").sort("id")
    assert found.equals(whole(folder, "kinds").sort("id"))
    (tmp_path / "out.parquet").unlink()
    refused = run(
        "predict", folder / "kinds", tmp_path / "scattered.parquet", "--output", tmp_path / "out.parquet", "--resume"
    )
    assert refused.exit_code == 2 and "do not stand together" in refused.stderr


def test_an_interruption_says_how_to_go_on(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    output = tmp_path / "out.parquet"

    def interrupt(*arguments: Any) -> pl.DataFrame:
        raise KeyboardInterrupt

    arguments = ("predict", folder / "kinds", folder / "test.parquet", "--output", output)
    with monkeypatch.context() as patch:
        patch.setattr(streaming, "prediction_table", interrupt)
        result = run(*arguments)
    assert result.exit_code == 130
    assert f"finished blocks are in {output}.parts. To go on: siggpde" in result.stderr
    assert result.stderr.rstrip().endswith("--resume")
    again = run(*arguments)
    assert again.exit_code == 2 and "--resume continues, --force starts anew" in again.stderr
    resumed = run(*arguments, "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert pl.read_parquet(output).equals(whole(folder, "kinds"))
    assert not BlockFolder.of(output).folder.exists()


@pytest.mark.parametrize("output", [(), ("--output", "out.csv"), ("--output", "out.parquet", "--json")])
def test_resume_is_for_parquet(folder: Path, tmp_path: Path, output: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = run("predict", folder / "kinds", folder / "test.parquet", *output, "--resume")
    assert result.exit_code == 2 and "--resume is for predictions that go to a .parquet file" in result.stderr


def test_what_cannot_be_streamed_is_written_to_parquet_too(folder: Path, tmp_path: Path):
    for data in (folder / "test.csv", folder / "test.parquet"):
        output = tmp_path / f"{data.suffix[1:]}.parquet"
        assert run("predict", folder / "kinds", data, "--output", output).exit_code == 0
        assert pl.read_parquet(output).equals(whole(folder, "kinds"))
    refused = run("predict", folder / "kinds", folder / "test.csv", "--output", tmp_path / "o.parquet", "--resume")
    assert refused.exit_code == 2 and "no .npy or .parquet file" in refused.stderr


def test_the_layout_is_checked(folder: Path, tmp_path: Path):
    np.save(tmp_path / "x.npy", np.zeros((3, 5, 4)))
    result = run("predict", folder / "kinds", tmp_path / "x.npy", "--output", tmp_path / "out.parquet")
    assert result.exit_code == 1 and "has 5 channels" in result.stderr
    np.save(tmp_path / "y.npy", np.zeros((3, 3, 4)))
    result = run("predict", folder / "kinds", tmp_path / "y.npy", "--output", tmp_path / "out.parquet")
    assert result.exit_code == 1 and "give the --time of the fit" in result.stderr


def test_from_array_to_table(tmp_path: Path):
    x = np.random.default_rng(0).normal(size=(1100, 6)).cumsum(axis=1).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", (x[:, -1] > x[:, 0]).astype(int))
    result = run("fit", tmp_path / "x.npy", "--target", tmp_path / "y.npy", "--output", tmp_path / "m", *FAST)
    assert result.exit_code == 0, result.output
    done = run("predict", tmp_path / "m", tmp_path / "x.npy", "--output", tmp_path / "out.parquet")
    assert done.exit_code == 0, done.output
    assert run("predict", tmp_path / "m", tmp_path / "x.npy", "--output", tmp_path / "out.csv").exit_code == 0
    streamed = pl.read_parquet(tmp_path / "out.parquet")
    assert streamed.columns == ["id", "prediction", "p(0)", "p(1)", "novelty"]
    assert streamed.equals(pl.read_csv(tmp_path / "out.csv"))
