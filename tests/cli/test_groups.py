"""Groups and weights of series on the command line: read, left out as wholes, and no channels of later files."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from helpers.cli_data import FAST, loaded, long_table, run, write
from siggpde_paper.compare import METHODS, ours

START = datetime(2024, 1, 2, tzinfo=UTC)  # spans of two days from 1970 begin there


def grouped(count: int = 24, seed: int = 0) -> pl.DataFrame:
    """Four series a person, numbers for groups and weights, and dates: three series a day."""
    table = long_table(count, seed)
    number = pl.col("who").str.slice(1).cast(pl.Int64)
    hours = number * 8 + pl.col("day").rank("dense").over("who") / 10
    return table.with_columns(
        person=number // 4, counts=1 + number % 2, stamp=pl.lit(START) + hours * pl.duration(hours=1)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("groups")
    write(grouped(), folder / "train.csv")
    write(grouped(8, seed=1), folder / "test.csv")
    return folder


COLUMNS = ["--series", "who", "--time", "day", "--target", "kind", "--ignore", "size,stamp"]


def test_groups_and_weights_are_no_channels_and_remembered(folder: Path, tmp_path: Path):
    model = tmp_path / "model"
    options = ["--groups", "person", "--sample-weight", "counts"]
    result = run("fit", folder / "train.csv", "--output", model, *COLUMNS, *options, *FAST)
    assert result.exit_code == 0, result.output
    assert "label kind, 6 groups, weights" in result.stderr and "24 in 6 groups" in result.stdout
    assert "leave-one-group-out losses" in result.stdout
    fitted = loaded(model)
    assert fitted.channel_names_ == ("day", "x", "y") and fitted.n_groups_ == 6
    sentence = "each of 6 groups was left out as a whole"
    assert (
        sentence in (model / "README.md").read_text()
        and "| Groups of series | 6 |" in (model / "README.md").read_text()
    )
    info = run("info", model)
    assert "--groups person" in info.stdout and "--sample-weight counts" in info.stdout
    # With the columns and without them.
    for name, table in (("with", grouped(8, seed=1)), ("without", grouped(8, seed=1).drop("person", "counts"))):
        for suffix in ("csv", "parquet"):
            path = tmp_path / f"{name}.{suffix}"
            getattr(table, f"write_{suffix}")(path)
            assert run("predict", model, path).exit_code == 0
            assert run("predict", model, path, "--output", tmp_path / f"{name}-{suffix}.parquet").exit_code == 0
            judged = run("evaluate", model, path)
            assert judged.exit_code == 0, judged.output
            assert sentence in judged.stderr
    first, *others = (pl.read_parquet(path) for path in sorted(tmp_path.glob("with*-*.parquet")))
    assert all(first.equals(other) for other in others)


def test_without_groups_series_are_said_to_be_independent(models: Path):
    shown = run("evaluate", models / "kinds", models / "test.csv")
    assert "assume that the series are independent" in shown.stderr
    figures = json.loads(run("evaluate", models / "kinds", models / "test.csv", "--json").stdout)
    assert figures["groups"] is None and "independent" in figures["left_out"]
    assert "assume that the series are independent" in (models / "kinds" / "README.md").read_text()


def test_spans_of_time(folder: Path, tmp_path: Path):
    columns = ["--series", "who", "--time", "stamp", "--target", "kind", "--channels", "x,y"]
    for span, count in (("1d", 8), ("12h", 16), ("48h", 4)):
        model = tmp_path / span
        result = run("fit", folder / "train.csv", "--output", model, *columns, "--groups-by-time", span, *FAST)
        assert result.exit_code == 0, result.output
        assert f"{count} groups" in result.stderr and loaded(model).n_groups_ == count
    assert "--groups-by-time 48h" in run("info", tmp_path / "48h").stdout
    assert run("evaluate", tmp_path / "1d", folder / "test.csv").exit_code == 0


def test_wide_tables_and_arrays(tmp_path: Path):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(12, 1, 6)).cumsum(axis=2)
    who = np.array(["ann", "bob", "cid"]).repeat(4)
    y = np.array(["u", "d"] * 6)
    np.savez(tmp_path / "train.npz", X=x, y=y, person=who)
    points = {f"t_{i}": x[:, 0, i] for i in range(6)}
    pl.DataFrame({"person": np.arange(3).repeat(4), "kind": y, **points}).write_csv(tmp_path / "train.csv")
    for name, options in (("train.npz", []), ("train.csv", ["--target", "kind"])):
        model = tmp_path / f"{name}-model"
        result = run("fit", tmp_path / name, "--output", model, *options, "--groups", "person", *FAST)
        assert result.exit_code == 0, result.output
        assert loaded(model).n_groups_ == 3 and loaded(model).n_channels_ == 1
        assert run("predict", model, tmp_path / name).exit_code == 0


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--groups", "nobody"], 1, "no column 'nobody' for --groups"),
        (["--groups", "person", "--groups-by-time", "1d"], 2, "--groups and --groups-by-time exclude each other"),
        (["--groups-by-time", "1y"], 2, "--groups-by-time: a span of time is a number with one of the units s, min"),
        (["--groups-by-time", "100d"], 1, "all series are of one group"),
        (["--sample-weight", "nothing"], 1, "sample_weight is zero for all series"),
    ],
)
def test_errors(folder: Path, tmp_path: Path, options: list[str], code: int, message: str):
    table = grouped().with_columns(nothing=pl.lit(0.0))
    path = write(table, tmp_path / "train.csv")
    ignored = ["--ignore", "size,stamp"] if "nothing" in options else ["--ignore", "size,stamp,nothing"]
    result = run("fit", path, "--output", tmp_path / "m", *COLUMNS[:-2], *ignored, *options, *FAST)
    assert result.exit_code == code and message in " ".join(result.stderr.split()), result.stderr


def test_spans_need_times(folder: Path, tmp_path: Path):
    columns = ["--series", "who", "--target", "kind", "--channels", "x,y"]
    result = run("fit", folder / "train.csv", "--output", tmp_path / "m", *columns, "--groups-by-time", "1d")
    assert result.exit_code == 2 and "need time stamps" in result.stderr
    result = run("fit", "pendigits", "--output", tmp_path / "m", "--groups", "writer")
    assert result.exit_code == 2 and "--groups has no meaning for a data set by name" in result.stderr


@pytest.mark.filterwarnings("ignore::siggpde.estimators.trusting.NoveltyWarning")
def test_compare_keeps_groups_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Series of one person are nearly the same, labels by person at random: without groups they seem predictable."""
    monkeypatch.setitem(METHODS, "siggpde", ours(n_features=20, members=1, transforms={}))
    generator = np.random.default_rng(1)
    walks = generator.normal(size=(10, 1, 12)).cumsum(axis=2).repeat(4, axis=0)
    x, y = walks + 0.01 * generator.normal(size=walks.shape), generator.permutation(np.arange(10) % 2).repeat(4)
    np.savez(tmp_path / "walks.npz", X=x, y=y, person=np.arange(10).repeat(4))
    found = {}
    for name, options in (("series", []), ("groups", ["--groups", "person"])):
        result = run("compare", tmp_path / "walks.npz", *options, "--methods", "siggpde,constant", "--json")
        assert result.exit_code == 0, result.output
        found[name] = json.loads(result.stdout)
    accuracy = {name: each["methods"][0]["mean"]["accuracy"] for name, each in found.items()}
    assert accuracy["series"] > 0.95 and accuracy["groups"] < 0.8
    assert found["groups"]["groups"] == 10 and found["series"]["groups"] is None
    shown = run("compare", tmp_path / "walks.npz", "--groups", "person", "--methods", "constant").stdout
    assert "of other groups (10 in all)" in " ".join(shown.split())
