"""Models and tables that do not belong together, files in the wrong place, and what is printed of names and labels."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from helpers.cli_data import FAST, LONG, long_table, refuse, run, succeed, write
from siggpde.cli.console import as_json, column_table, print_tables, summary_table


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of wide tables: `one` of columns t_0, t_1, ..., `two` of x_0, ..., y_0, ..., `plain` of 0.1, 0.2, ..."""
    folder = tmp_path_factory.mktemp("wide")
    series = np.random.default_rng(0).normal(size=(30, 12)).cumsum(axis=1)
    names = {
        "one": [f"t_{point}" for point in range(12)],
        "two": [f"{channel}_{point}" for channel in "xy" for point in range(6)],
        "plain": [f"{point / 10 + 0.1:.1f}" for point in range(12)],
    }
    for model, columns in names.items():
        table = pl.DataFrame(series, schema=columns).with_columns(kind=pl.Series(list("ab") * 15))
        file = write(table, folder / f"{model}.csv")
        succeed("fit", file, "--output", folder / model, "--target", "kind", *FAST)
    return folder


@pytest.mark.parametrize(
    ("model", "columns", "said"),
    [
        ("one", ["t_0", "t_1", "t_2", "t_3"], ""),
        ("one", ["age", "height", "weight"], "with the columns age, height, weight as points, but"),
        ("one", ["u_0", "u_1", "u_2", "u_3"], "the model was fitted with t_0, t_1"),
        ("plain", ["0.1", "0.2", "0.3"], ""),
        ("plain", ["0.2", "0.3", "0.4"], "but the model was fitted with 0.1, 0.2"),
        ("plain", ["u_0", "u_1", "u_2", "u_3"], "but the model was fitted with 0.1, 0.2"),
        ("two", ["x_0", "x_1", "y_0", "y_1"], ""),
        ("two", ["y_0", "y_1", "x_0", "x_1"], "has the channels y, x, but the model was fitted with x, y"),
        ("two", ["u_0", "u_1", "v_0", "v_1"], "has the channels u, v, but the model was fitted with x, y"),
    ],
)
def test_columns_that_are_not_those_of_the_fit_are_refused(
    model: str, columns: list[str], said: str, wide: Path, tmp_path: Path
):
    file = write(pl.DataFrame(np.ones((3, len(columns))).cumsum(axis=1), schema=columns), tmp_path / "new.csv")
    if said:
        refuse(1, said, "predict", wide / model, file)
        refuse(1, said, "predict", wide / model, tabled(file), "--output", tmp_path / "p.parquet")
    else:
        succeed("predict", wide / model, file)


def tabled(file: Path) -> Path:
    """The same table as a file that is read block by block."""
    pl.read_csv(file).write_parquet(file.with_suffix(".parquet"))
    return file.with_suffix(".parquet")


def test_other_channels_of_a_long_table_and_pipes_are_refused(models: Path, tmp_path: Path):
    table = write(long_table(6).rename({"x": "u", "y": "v"}), tmp_path / "t.csv")
    said = "has the channels u, v, but the model was fitted with x, y"
    refuse(1, said, "predict", models / "kinds", table, "--channels", "u,v")
    said = "/dev/null is a pipe or a device, which can be read only once; save it"
    refuse(1, said, "predict", models / "kinds", "/dev/null")


def test_members_of_archives_that_the_fit_had_are_not_refused(tmp_path: Path):
    x, y = np.random.default_rng(0).normal(size=(24, 1, 9)).cumsum(axis=2), np.array(list("ab") * 12)
    np.savez(tmp_path / "d.npz", X=x, kind=y, who=np.arange(24) // 2)
    fit = ["fit", tmp_path / "d.npz", "--output", tmp_path / "m", "--target", "kind", *FAST]
    refuse(1, "no use for the member 'who'; is it", *fit)
    succeed(*fit, "--groups", "who")
    succeed("predict", tmp_path / "m", tmp_path / "d.npz")
    succeed("evaluate", tmp_path / "m", tmp_path / "d.npz")


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("line", [["drift", "m", "d.csv"], ["drift", "d.csv", "m", *LONG], ["predict", "m", "m"]])
def test_a_model_in_the_place_of_series_is_named(
    line: list[Any], inside: bool, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shutil.copytree(models / "kinds", tmp_path / "m")
    shutil.copy(models / "test.csv", tmp_path / "d.csv")
    monkeypatch.chdir(tmp_path if inside else "/")
    line = [tmp_path / word if not inside and word in ("m", "d.csv") else word for word in line]
    refuse(2, "m is a model, but series are wanted", *line)


ESCAPE, SHOWN = "\x1b]0;x\x07\x9b1m\u202e", r"\x1b]0;x\x07\x9b1m\u202e"


def test_names_and_labels_are_printed_without_what_a_terminal_obeys(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    table = long_table(labels=(ESCAPE, "b")).rename({"x": ESCAPE})
    file = write(table, tmp_path / "t.csv")
    names = ["--series", "who", "--time", "day", "--channels", f"{ESCAPE},y", "--target", "kind"]
    fitted = succeed("fit", file, "--output", tmp_path / "m", *names, *FAST)
    assert SHOWN in fitted.stderr
    printed = [fitted, *(succeed(command, tmp_path / "m", file) for command in ("evaluate", "explain"))]
    printed.append(run("fit", file, "--output", tmp_path / "n", *LONG))
    for result in printed:
        assert not set(ESCAPE) & set(result.stdout + result.stderr) - set("]0;x1m")
    print_tables(summary_table(ESCAPE, [(ESCAPE, ESCAPE)]), column_table(ESCAPE, [ESCAPE], [[ESCAPE]]))
    assert not set("\x1b\x07\x9b\u202e") & set(capsys.readouterr().out + as_json({"a": ESCAPE}))
