"""`siggpde predict`: tables, blocks, series that cannot be predicted, decisions by cost."""

import io
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from helpers.cli_data import FAST, LONG, command, figures, loaded, long_table, refuse, run, series_of, succeed, write
from helpers.file_opens import count_opens
from helpers.pretend_device import DEVICE, pretend_device
from siggpde.io import predictions as streaming
from siggpde.io.predictions import BlockFolder
from siggpde.numerics import inputs


def test_classes_are_predicted_with_their_probabilities(models: Path):
    result = succeed("predict", models / "kinds", models / "test.csv")
    table = pl.read_csv(io.StringIO(result.stdout))
    assert table.columns == ["id", "prediction", "p([red])", "p(blue)", "novelty"]
    assert table["id"].to_list() == [f"w{number}" for number in range(12)]
    model = loaded(models / "kinds")
    expected = model.predict_proba(series_of(long_table(12, seed=1)))
    np.testing.assert_array_equal(table.select("p([red])", "p(blue)").to_numpy(), expected)
    likeliest = np.where(expected[:, 0] >= expected[:, 1], "[red]", "blue").tolist()
    assert table["prediction"].to_list() == likeliest and set(likeliest) == {"[red]", "blue"}


def test_numbers_are_predicted_with_intervals(models: Path):
    rows = figures("predict", models / "sizes", models / "test.csv", "--level", "0.5")
    assert list(rows[0]) == ["id", "prediction", "std", "lower", "upper", "novelty"]
    model = loaded(models / "sizes")
    X = series_of(long_table(12, seed=1))
    np.testing.assert_array_equal([[row["lower"], row["upper"]] for row in rows], model.predict_interval(X, 0.5))
    wider = figures("predict", models / "sizes", models / "test.csv")
    for wide, row in zip(wider, rows, strict=True):
        assert wide["lower"] < row["lower"] < row["upper"] < wide["upper"]


def test_files_need_no_labels_and_their_columns_may_come_in_any_order(models: Path, tmp_path: Path):
    table = long_table(12, seed=1)
    expected = run("predict", models / "kinds", models / "test.csv").stdout
    bare = table.select("y", "who", "x", "day").with_columns(extra=pl.lit(7.0))
    assert run("predict", models / "kinds", write(bare, tmp_path / "bare.csv")).stdout == expected
    emptied = table.with_columns(kind=pl.lit(None, dtype=pl.String))
    assert run("predict", models / "kinds", write(emptied, tmp_path / "emptied.csv")).stdout == expected
    renamed = write(table.rename({"who": "name"}), tmp_path / "renamed.csv")
    assert run("predict", models / "kinds", renamed, "--series", "name").stdout == expected
    table.write_parquet(tmp_path / "test.parquet")
    assert run("predict", models / "kinds", tmp_path / "test.parquet").stdout == expected
    shutil.copy(models / "test.csv", tmp_path / "test.data")
    assert run("predict", models / "kinds", tmp_path / "test.data", "--format", "csv").stdout == expected


def test_rows_that_are_series_need_no_target_either(tmp_path: Path):
    x = np.random.default_rng(0).normal(size=(30, 6)).cumsum(axis=1)
    table = pl.DataFrame({f"t{point}": x[:, point] for point in range(6)})
    labels = pl.Series("rises", (x[:, -1] > x[:, 0]).astype(int))
    path = write(table.with_columns(labels, pl.Series("note", ["n"] * 30)), tmp_path / "wide.csv")
    succeed("fit", path, "--output", tmp_path / "m", "--target", "rises", "--ignore", "note", *FAST)
    with_target = succeed("predict", tmp_path / "m", path)
    without = run("predict", tmp_path / "m", write(table, tmp_path / "bare.csv"))
    assert without.stdout == with_target.stdout
    assert without.stdout.startswith("id,prediction,p(0),p(1),novelty\n0,")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json"])
def test_predictions_in_files(suffix: str, models: Path, tmp_path: Path):
    output = tmp_path / f"out{suffix}"
    result = succeed("predict", models / "kinds", models / "test.csv", "--output", output)
    assert result.stdout == "" and "12 predictions" in result.stderr
    reader = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".json": pl.read_json}[suffix]
    printed = pl.read_csv(io.StringIO(run("predict", models / "kinds", models / "test.csv").stdout))
    assert reader(output).equals(printed)
    output.write_text("mine")
    refuse(2, "--force", "predict", models / "kinds", models / "test.csv", "--output", output)
    assert output.read_text() == "mine"
    succeed("predict", models / "kinds", models / "test.csv", "--output", output, "--force")
    assert reader(output).equals(printed)
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--output", "{models}/out.txt"], 2, "--output must end in .csv, .parquet, .json"),
        (["--output", "{models}/no/out.csv"], 2, "does not exist"),
        (["--level", "1"], 2, "--level"),
        (["--channels", "x"], 1, "2 channels (day, x), but the model was fitted with 3 (day, x, y)"),
        (["--time", "hour"], 1, "no column 'hour' for --time"),
        (["--separator", ";"], 1, "has one column, 'who,day,x,y,kind,size'; is its separator ','?"),
        (["--device", "cuda:77"], 1, "--device 'cuda:77' cannot be used"),
        (["--device", "gpu"], 1, "--device 'gpu' cannot be used: torch has none of that name; take --device 'cpu'"),
        (["--jobs", "0"], 2, "--jobs must be a positive number, or -1 for one a core; got 0"),
        (["--nonsense"], 2, "--nonsense"),
    ],
)
def test_predictions_that_cannot_be_made(more: list[str], code: int, said: str, models: Path):
    more = [word.format(models=models) for word in more]
    result = run("predict", models / "kinds", models / "test.csv", *more)
    assert result.exit_code == code and said in result.stderr and result.stdout == "", result.output


@pytest.mark.parametrize("name", ["predict", "evaluate", "explain"])
def test_threads_are_those_of_the_fit_or_as_said(name: str, models: Path, monkeypatch: pytest.MonkeyPatch):
    seen = []
    count = inputs.thread_count
    monkeypatch.setattr(inputs, "thread_count", lambda n_jobs: seen.append(n_jobs) or count(n_jobs))
    for more, expected in (([], loaded(models / "kinds").n_jobs), (["--jobs", "2"], 2)):
        seen.clear()
        succeed(name, models / "kinds", models / "test.csv", *more)
        assert seen[0] == expected


@pytest.mark.parametrize("name", ["predict", "evaluate", "explain"])
def test_models_that_cannot_be_read(name: str, models: Path, tmp_path: Path):
    refuse(1, "there is no model folder", name, tmp_path / "none", models / "test.csv")
    damaged = tmp_path / "damaged"
    shutil.copytree(models / "kinds", damaged)
    (file,) = damaged.glob("weights-*")
    file.write_bytes(file.read_bytes()[:-1] + bytes([file.read_bytes()[-1] ^ 1]))
    result = run(name, damaged, models / "test.csv")
    assert result.exit_code == 1 and "SHA-256" in result.stderr and result.stderr.count("\n") == 1
    assert run("info", damaged).exit_code == 1
    refuse(2, "there is no file", name, models / "kinds", tmp_path / "none.csv")


def test_terminals_without_colours_and_readers_that_go_away(models: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in run("info", models / "kinds").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    unwanted = run("info", models / "kinds").stdout
    assert not any(f"\x1b[{code}" in unwanted for code in range(30, 38))
    arguments = command("predict", models / "kinds", models / "test.csv")
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b"read 12 series, 2 channels x, y, time day, 8 points\n"
    assert process.returncode == 1


def test_predictions_on_another_device(models: Path, tmp_path: Path):
    for call in (
        ["predict", models / "kinds", models / "test.csv", "--json"],
        ["evaluate", models / "sizes", models / "test.csv", "--json"],
        ["explain", models / "kinds", models / "test.csv", "--json"],
    ):
        plain = json.loads(run(*call).stdout)
        with pretend_device() as copied:
            there = succeed(*call, "--device", DEVICE)
        assert copied  # numbers came back from there
        _agree(json.loads(there.stdout), plain)
    stored, output = tmp_path / "test.parquet", tmp_path / "out.parquet"
    pl.read_csv(models / "test.csv").write_parquet(stored)
    with pretend_device():
        succeed("predict", models / "sizes", stored, "--output", output, "--device", DEVICE)
    _agree(pl.read_parquet(output).to_dicts(), figures("predict", models / "sizes", models / "test.csv"))


def _agree(got: Any, wanted: Any) -> None:
    """The same words, and the same numbers but for rounding."""
    if isinstance(wanted, dict):
        assert got.keys() == wanted.keys()
        got, wanted = list(got.values()), list(wanted.values())
    if isinstance(wanted, list):
        for one, other in zip(got, wanted, strict=True):
            _agree(one, other)
    else:
        assert got == (pytest.approx(wanted, rel=1e-8, abs=1e-8) if isinstance(wanted, float) else wanted)


@pytest.mark.parametrize("name", ["predict", "evaluate"])
def test_a_csv_file_is_opened_once(name: str, models: Path, monkeypatch: pytest.MonkeyPatch):
    opens = count_opens(models / "test.csv", monkeypatch)
    succeed(name, models / "kinds", models / "test.csv")
    assert opens == [models / "test.csv"]


def with_bad_series() -> pl.DataFrame:
    """Twelve series; w4 has an infinite value, and w9 no value at all."""
    table = long_table(12, seed=1)
    infinite = (pl.col("who") == "w4") & (pl.col("x") == pl.col("x").first().over("who"))
    empty = pl.col("who") == "w9"
    return table.with_columns(
        x=pl.when(infinite).then(float("inf")).when(empty).then(None).otherwise("x"),
        y=pl.when(empty).then(None).otherwise("y"),
    )


def test_one_bad_series_stops_the_command_and_is_named_or_left_out(models: Path, tmp_path: Path):
    result = run("predict", models / "kinds", write(with_bad_series(), tmp_path / "a.csv"))
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("Error: series w4 is infinite (inf) in channel 1 at time point 0")
    path = write(with_bad_series().filter(pl.col("who") != "w4"), tmp_path / "b.csv")
    words = "series w9 has time stamps but not a single value"
    refuse(1, words, "fit", path, "--output", tmp_path / "m", *LONG, "--target", "kind")
    result = run("predict", models / "kinds", write(with_bad_series(), tmp_path / "a.csv"), "--on-error", "skip")
    table = pl.read_csv(io.StringIO(result.stdout))
    without = with_bad_series().filter(~pl.col("who").is_in(["w4", "w9"]))
    expected = run("predict", models / "kinds", write(without, tmp_path / "b.csv"))
    assert table.filter(pl.col("error").is_null()).drop("error").equals(pl.read_csv(io.StringIO(expected.stdout)))
    empty = write(with_bad_series().filter(pl.col("who") == "w9"), tmp_path / "empty.csv")
    refuse(1, "1 of 1 series could not be predicted", "predict", models / "kinds", empty, "--on-error", "skip")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "json"])
@pytest.mark.parametrize("model", ["kinds", "sizes"])
def test_skipped_series_have_a_row_with_the_reason(models: Path, tmp_path: Path, suffix: str, model: str):
    source, output = tmp_path / "a.parquet", tmp_path / f"out.{suffix}"
    with_bad_series().write_parquet(source)
    result = succeed("predict", models / model, source, "--on-error", "skip", "--output", output)
    assert f"10 predictions are in {output}\n2 of 12 series could not be predicted; the column error" in result.stderr
    readers = {"csv": pl.read_csv, "parquet": pl.read_parquet}
    table = pl.DataFrame(json.loads(output.read_text())) if suffix == "json" else readers[suffix](output)
    assert table["id"].to_list() == [f"w{number}" for number in range(12)]
    assert table["prediction"].is_null().arg_true().to_list() == [4, 9]
    assert table["error"].is_not_null().arg_true().to_list() == [4, 9]
    assert "series w9 has time stamps but not a single value" in table["error"][9]


def predictions(*arguments: object) -> pl.DataFrame:
    return pl.read_csv(io.StringIO(succeed("predict", *arguments).stdout))


def test_decisions_of_least_cost(models: Path, tmp_path: Path):
    costs = tmp_path / "costs.csv"
    costs.write_text("true,blue,[red]\n[red],50,0\nblue,0,1\n")  # a red one is not to be missed
    plain = predictions(models / "kinds", models / "test.csv")
    decided = predictions(models / "kinds", models / "test.csv", "--costs", costs)
    assert decided.drop("prediction").equals(plain.drop("prediction"))
    red = 50 * plain["p([red])"] > plain["p(blue)"]
    assert decided["prediction"].to_list() == np.where(red, "[red]", "blue").tolist()
    unsure = predictions(models / "kinds", models / "test.csv", "--costs", costs, "--reject-cost", "0.01")
    cost = np.minimum(50 * plain["p([red])"].to_numpy(), plain["p(blue)"].to_numpy())
    assert [answer == "don't know" for answer in unsure["prediction"]] == (cost > 0.01).tolist()
    assert (cost > 0.01).sum() > 0


def test_wrong_costs(models: Path, tmp_path: Path):
    costs = tmp_path / "costs.csv"
    for text, words in (
        ("true,blue,red\nblue,0,1\nred,1,0\n", "must have rows for the classes [red], blue"),
        ("true,blue,[red]\nblue,0,1\n[red],much,0\n", "numbers only"),
    ):
        costs.write_text(text)
        refuse(1, words, "predict", models / "kinds", models / "test.csv", "--costs", costs)
    refuse(2, "none.csv", "predict", models / "kinds", models / "test.csv", "--costs", tmp_path / "none.csv")
    refuse(2, "predicts numbers", "predict", models / "sizes", models / "test.csv", "--reject-cost", "1")


@pytest.fixture(scope="module")
def folder(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models and their data, in a table that can be streamed too."""
    folder = tmp_path_factory.mktemp("models") / "all"
    shutil.copytree(models, folder)
    long_table(12, seed=1).write_parquet(folder / "test.parquet")
    return folder


def whole(folder: Path, model: str, *arguments: Any) -> pl.DataFrame:
    """Predictions by way of a .csv file, which is read as a whole."""
    return predictions(folder / model, folder / "test.csv", *arguments)


@pytest.mark.parametrize("model", ["kinds", "sizes"])
def test_streamed_predictions_are_the_same(folder: Path, model: str, tmp_path: Path):
    output = tmp_path / "out.parquet"
    result = succeed("predict", folder / model, folder / "test.parquet", "--output", output, "--level", "0.5")
    assert "12 predictions are in" in result.stderr
    assert pl.read_parquet(output).equals(whole(folder, model, "--level", "0.5"))
    refuse(2, "--force overwrites it", "predict", folder / model, folder / "test.parquet", "--output", output)
    succeed("predict", folder / model, folder / "test.parquet", "--output", output, "--force")


def test_scattered_rows_are_read_as_a_whole(folder: Path, tmp_path: Path):
    long_table(12, seed=1).sort("day", maintain_order=True).write_parquet(tmp_path / "scattered.parquet")
    succeed("predict", folder / "kinds", tmp_path / "scattered.parquet", "--output", tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet").sort("id").equals(whole(folder, "kinds").sort("id"))
    arguments = (tmp_path / "scattered.parquet", "--output", tmp_path / "new.parquet", "--resume")
    refuse(2, "do not stand together", "predict", folder / "kinds", *arguments)


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
    for words in ("--resume", "--force"):
        refuse(2, words, *arguments)
    succeed(*arguments, "--resume")
    assert pl.read_parquet(output).equals(whole(folder, "kinds"))
    assert not BlockFolder.of(output).folder.exists()


@pytest.mark.parametrize("output", [(), ("--output", "out.csv"), ("--output", "out.parquet", "--json")])
def test_resume_is_for_parquet(folder: Path, tmp_path: Path, output: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    words = "--resume is for predictions that go to a .parquet file"
    refuse(2, words, "predict", folder / "kinds", folder / "test.parquet", *output, "--resume")


def test_what_cannot_be_streamed_is_written_to_parquet_too(folder: Path, tmp_path: Path):
    for data in (folder / "test.csv", folder / "test.parquet"):
        output = tmp_path / f"{data.suffix[1:]}.parquet"
        succeed("predict", folder / "kinds", data, "--output", output)
        assert pl.read_parquet(output).equals(whole(folder, "kinds"))
    output = ("--output", tmp_path / "o.parquet")
    refuse(2, "no .npy or .parquet file", "predict", folder / "kinds", folder / "test.csv", *output, "--resume")
    for channels, words in ((5, "has 5 channels"), (3, "give the --time of the fit")):
        np.save(tmp_path / "x.npy", np.zeros((3, channels, 4)))
        refuse(1, words, "predict", folder / "kinds", tmp_path / "x.npy", *output)
