"""Facts beside the series on the command line, from a table of hospital stays to a report."""

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import siggpde
from helpers.cli_data import FAST, figures, refuse, succeed, write
from helpers.hospital_stays import Stays
from helpers.report_pages import parsed

STAYS = ("--series", "stay", "--time", "when", "--target", "outcome", "--groups", "patient")
FACTS = ("--facts", "sex,device")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With train.csv and test.csv, and the model `stays`, of which age decides."""
    folder = tmp_path_factory.mktemp("stays")
    Stays(60).write(folder / "train.csv")
    Stays(30, seed=1).write(folder / "test.csv")
    result = succeed("fit", folder / "train.csv", *STAYS, *FACTS, "--output", folder / "stays", *FAST)
    assert "age: the same at all points of a series, so read as facts beside it" in result.stderr
    return folder


def test_columns_that_are_constant_within_series_are_facts_unless_channels_are_named(folder: Path):
    model = siggpde.load(folder / "stays")
    assert model.channel_names_ == ("when", "pulse", "pressure")
    assert {fact.name: fact.levels is None for fact in model.facts_} == {"sex": False, "device": False, "age": True}
    channels = ("--channels", "pulse,pressure,age", "--force")
    succeed("fit", folder / "train.csv", *STAYS, *channels, "--output", folder / "named", *FAST)
    named = siggpde.load(folder / "named")
    assert named.channel_names_[1:] == ("pulse", "pressure", "age") and named.facts_ == ()
    # As models of before, which read such columns as channels; and that of the paper, whose one kernel takes no facts.
    assert figures("evaluate", folder / "named", folder / "test.csv")["n"] == 30
    paper = ["--method", "paper", "--max-iter", "2", "--n-features", "20", "--jobs", "1"]
    succeed("fit", folder / "train.csv", *STAYS[:-2], *paper, "--output", folder / "paper")
    assert siggpde.load(folder / "paper").channel_names_ == ("when", "pulse", "pressure", "age")
    refuse(1, "facts need --method 'views'", "fit", folder / "train.csv", *STAYS[:-2], *paper, *FACTS, "--output", "x")


def test_methods_are_compared_on_the_channels_that_a_fit_has(folder: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[int] = []

    def judged(method: Any, task: str, X: Any, *more: Any) -> dict[str, Any]:
        seen.append(len(X[0]))
        return {"name": method.name, "package": method.package, "failed": "not tried"}

    monkeypatch.setattr("siggpde_paper.compare.judge_on_splits", judged)
    line = ("compare", folder / "train.csv", *STAYS, "--methods", "constant", "--json")
    result = succeed(*line)
    assert "without the facts beside the series: age" in result.stderr
    succeed(*line, "--channels", "pulse,pressure,age")
    assert seen == [3, 4]  # time among them


def test_a_model_reads_its_facts_again_from_tables_and_blocks(folder: Path, tmp_path: Path):
    assert figures("evaluate", folder / "stays", folder / "test.csv")["accuracy"] > 0.8
    printed = succeed("predict", folder / "stays", folder / "test.csv").stdout
    Stays(30, seed=1).write(tmp_path / "test.csv")
    pl.read_csv(tmp_path / "test.csv", try_parse_dates=True).write_parquet(tmp_path / "test.parquet")
    succeed("predict", folder / "stays", tmp_path / "test.parquet", "--output", tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet").write_csv() == printed
    table = pl.read_csv(tmp_path / "test.csv")
    without = write(table.drop("device"), tmp_path / "without.csv")
    refuse(1, "no column 'device' for --facts", "predict", folder / "stays", without)
    changing = write(table.with_columns(sex=pl.int_range(pl.len()).cast(pl.String)), tmp_path / "changing.csv")
    refuse(1, "has several values in column 'sex'", "predict", folder / "stays", changing)


def test_explanations_tell_facts(folder: Path):
    assert figures("explain", folder / "stays", folder / "test.csv")["facts"][0]["name"] == "age"
    result = succeed("explain", folder / "stays", folder / "test.csv", "--number", "2")
    assert "Facts beside the series" in result.stdout and "age " in result.stdout
    assert "sex, device, age" in succeed("info", folder / "stays").stdout


def test_from_a_table_with_all_faults_to_a_report(tmp_path: Path):
    whole = Stays(60, duplicates=5, windows=6)
    broken, new = Stays(60, duplicates=5, broken=True), Stays(20, seed=3, duplicates=2)
    for name, stays in (("train", whole), ("broken", broken), ("new", new)):
        stays.write(tmp_path / f"{name}.csv")
    fit = ("--facts", "age,sex,device", "--output", tmp_path / "model", *FAST)
    line = len(broken.frame()) // 2 + 2
    refuse(1, f"line {line}: expected a number; got 'n. a. (cable)'", "fit", tmp_path / "broken.csv", *STAYS, *fit)
    refuse(1, "duplicates", "fit", tmp_path / "train.csv", *STAYS, *fit)
    succeed("fit", tmp_path / "train.csv", *STAYS, *fit, "--duplicates", "mean")
    page, more = tmp_path / "report.html", ("--groups", "patient", "--explained", "1")
    succeed("report", tmp_path / "model", tmp_path / "new.csv", "--output", page, *more)
    said = parsed(page).text
    shown = ("facts beside the series", "a person's age", "Beside the series: ", "after the start", "device", "outcome")
    for words in (*shown, r"sex [fm] \(", "median"):
        assert re.search(words, said), words
