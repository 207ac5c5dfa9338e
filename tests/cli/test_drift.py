"""`siggpde drift`: two files of series, read alike, from one source or not."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from helpers.cli_data import LONG, figures, long_table, refuse, series_of, succeed, write
from siggpde import drift


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    return write(long_table(30), tmp_path / "reference.csv")


def test_the_result_is_that_of_python_and_the_table_says_it(reference: Path, tmp_path: Path):
    table = long_table(20, seed=1).with_columns(y=pl.col("y") + 3)
    values = figures("drift", reference, write(table, tmp_path / "new.csv"), *LONG, "--permutations", "200")
    old, new = series_of(long_table(30)), series_of(table)
    expected = drift(old, new, permutations=200, time_channel=0, channel_names=["day", "x", "y"])
    assert {name: values[name] for name in asdict(expected)} == asdict(expected)
    assert values["p_value"] == pytest.approx(1 / 201) and values["shifted"].startswith("level of y: +")
    same = write(long_table(30, seed=2).select("y", "day", "who", "x", "kind"), tmp_path / "same.csv")
    shown = succeed("drift", reference, same, *LONG, "--max-series", "20", "--seed", "3")
    assert values["verdict"].startswith(
        "the series come from another source: series of one source differ as much in 0.4"
    )
    for words in ("20 and 20", "p-value", "MMD²", "largest shift", "verdict", "no difference is seen"):
        assert words in shown.stdout
    values = figures("drift", reference, same, *LONG, "--max-series", "20", "--seed", "3")
    assert values["p_value"] > 0.05 and f"{values['p_value']:.4g}" in shown.stdout


def test_tables_with_one_row_a_series_leave_out_their_labels(tmp_path: Path):
    generator = np.random.default_rng(0)
    paths = []
    for name in ("old.csv", "new.csv"):
        x = generator.normal(size=(20, 6)).cumsum(axis=1)
        table = pl.DataFrame({f"t{point}": x[:, point] for point in range(6)})
        paths.append(write(table.with_columns(label=pl.Series(range(20))), tmp_path / name))
    assert figures("drift", *paths, "--target", "label")["p_value"] > 0.05


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--permutations", "0"], 2, "--permutations"),
        (["--max-series", "1"], 2, "--max-series"),
        (["--time", "hour"], 1, "no column 'hour' for --time"),
    ],
)
def test_wrong_calls(arguments: list[str], code: int, said: str, reference: Path):
    refuse(code, said, "drift", reference, reference, *LONG, *arguments)


def test_other_channels_are_refused(reference: Path, tmp_path: Path):
    np.save(tmp_path / "two.npy", np.zeros((4, 2, 5)))
    np.save(tmp_path / "three.npy", np.zeros((4, 3, 5)))
    refuse(1, "name those to compare with --channels", "drift", tmp_path / "two.npy", tmp_path / "three.npy")
    refuse(2, "there is no file", "drift", reference, tmp_path / "none.csv", *LONG)
