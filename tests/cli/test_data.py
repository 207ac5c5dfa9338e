"""What is said about DATA: what was understood, and what is hardly meant so."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from helpers.cli_data import FAST, long_table, refuse, succeed, write
from siggpde.cli.data import check_values
from siggpde.io import SeriesData

LONG = ("--series", "who", "--time", "day", "--target", "kind", "--channels", "x,y")


def wide_table(count: int = 24, seed: int = 0) -> pl.DataFrame:
    """One row a series: ids with zeros, a label, and channels x and y."""
    long = long_table(count, seed)
    parts = long.partition_by("who", maintain_order=True)
    points = {f"{c}_{i}": [part[c][i] for part in parts] for c in "xy" for i in range(8)}
    names = [f"{number:03d}" for number in range(count)]
    return pl.DataFrame({"case": names, "kind": [part["kind"][0] for part in parts], **points})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wide")
    path = write(wide_table(), folder / "train.csv")
    result = succeed("fit", path, "--output", folder / "model", "--target", "kind", "--id", "case", *FAST)
    assert result.stderr.startswith("read 24 series, 2 channels x, y, 8 points, label kind\n")
    return folder / "model"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("output", [None, "out.csv", "out.parquet"])
def test_ids_of_a_wide_table_stand_beside_its_predictions(model: Path, tmp_path: Path, suffix: str, output: str | None):
    table = wide_table(6, seed=3).drop("kind")
    path = tmp_path / f"new.{suffix}"
    table.write_csv(path) if suffix == "csv" else table.write_parquet(path)
    result = succeed("predict", model, path, *(() if output is None else ("--output", tmp_path / output)))
    text = {"id": pl.String}
    if output == "out.parquet":
        table = pl.read_parquet(tmp_path / output)
    else:
        source = io.StringIO(result.stdout) if output is None else tmp_path / output
        table = pl.read_csv(source, schema_overrides=text)
    assert table["id"].to_list() == ["000", "001", "002", "003", "004", "005"]
    result = succeed("predict", model, write(wide_table(3).drop("case", "kind"), tmp_path / "new.csv"))
    assert pl.read_csv(io.StringIO(result.stdout))["id"].to_list() == [0, 1, 2]


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"y": None}, LONG, "channel y has no values to learn from; leave it out with --ignore"),
        ({"y": 1e300}, LONG, "channel y has the value 1e+300 in series w3 at point 2, too large to be squared"),
        ({"y": -1e200}, LONG, "channel y has the value -1e+200 in series w3 at point 2, too large"),
        ({}, ("--target", "kind"), "'day' grows while 'who' stays the same. Say --series 'who', --time 'day'"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(tmp_path: Path, changes: dict[str, Any], options: Any, message: str):
    table = long_table(20).drop("size")
    for name, value in changes.items():
        place = pl.lit(value is None) | ((pl.col("who") == "w3") & (pl.col("x").cum_count().over("who") == 3))
        table = table.with_columns(pl.when(place).then(pl.lit(value, dtype=pl.Float64)).otherwise(name).alias(name))
    refuse(1, message, "fit", write(table, tmp_path / "a.csv"), "--output", tmp_path / "m", *options, *FAST)


def test_warnings(caplog: pytest.LogCaptureFixture):
    values = np.random.default_rng(0).normal(size=(5, 2, 7))
    check_values(SeriesData(values), training=False)
    assert caplog.text == ""
    values[3, 1, 2] = -99999999
    check_values(SeriesData(values, ids=np.array(list("abcde")), channel_names=("u", "v")), training=False)
    assert "channel v has the value -1e+08 in series d at point 2, where half of its values are between" in caplog.text
    check_values(SeriesData(list(np.full((5, 1, 7), np.nan)), channel_names=("u",)), training=False)
    assert "channel u has no values" in caplog.text
    check_values(SeriesData(values[:, :1, :1]), training=False)
    assert "most series have one point only" in caplog.text
