"""`siggpde fit`: its options, files of options, groups, and two fits to one folder."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import siggpde
from helpers.cli_data import FAST, LONG, command, figures, loaded, long_table, refuse, run, succeed, weights, write
from siggpde_paper.compare import METHODS, ours


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(long_table(), tmp_path_factory.mktemp("data") / "turns.csv")


def fit(table, output, *more):
    return succeed("fit", table, "--output", output, *LONG, *FAST, *more)


def refuse_fit(code: int, words: str, table, output, *more) -> None:
    refuse(code, words, "fit", table, "--output", output, *LONG, *FAST, *more)


def test_a_fit_says_what_it_did_and_saves_the_model(table: Path, tmp_path: Path):
    result = fit(table, tmp_path / "model", "--target", "kind", "--seed", "3", "--max-points", "0", "--json")
    facts = json.loads(result.stdout)
    assert facts["task"] == "classification" and "\nclassification\n" in result.stderr
    assert (facts["series"], facts["lengths"], facts["labels"]) == (30, [8, 8], {"[red]": 15, "blue": 15})
    assert facts["channel_names"] == ["day", "x", "y"]
    assert len(facts["members"]) == 1 and facts["members"][0]["weight"] == 1
    assert facts["members"][0]["nlpp"] < 0.5 and facts["members"][0]["kernel"] and facts["contains"] == 30
    assert facts["output"] == str(tmp_path / "model") and facts["seconds"] > 0
    model = loaded(tmp_path / "model")
    assert type(model) is siggpde.SigGPClassifier
    assert (model.time_channel, model.random_state, model.max_points) == (0, 3, None)
    assert (model.checkpoint, model.resume, model.verbose) == (None, False, 0)
    reading = {**vars(model)["reading_"]}
    assert reading.pop("time_format")["unit"] == "days"
    assert reading == {"target": "kind", "series": "who", "time": "day", "channels": ["x", "y"]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_every_setting_of_the_paper_s_training(tmp_path: Path):
    """And a spectrogram, which the estimator makes alike."""
    sounds, y = np.random.default_rng(0).normal(size=(60, 1, 200)), np.arange(60) % 2
    np.savez(tmp_path / "sounds.npz", X=sounds, y=y)
    more = ["--method", "paper", "--max-iter", "4", "--n-features", "9", "--jobs", "1", "--batch-size", "7"]
    more += ["--learning-rate", "0.01", "--validation", "0.3", "--evaluate-every", "2"]
    more += ["--theta", "0.5,0.2,0.2", "--scale", "series"]
    fields = "rate=100,nfft=32,overlap=16,first_bin=1,last_bin=2,log=true,window=hann"
    succeed("fit", tmp_path / "sounds.npz", "--output", tmp_path / "model", *more, "--spectrogram", fields)
    model = loaded(tmp_path / "model")
    chosen = ("batch_size", "learning_rate", "validation", "evaluate_every", "theta")
    assert [getattr(model, name) for name in chosen] == [7, 0.01, 0.3, 2, [0.5, 0.2, 0.2]]
    assert model.transforms == siggpde.series.PathOptions(base_point=False, clock="points", scale="series")
    spectrogram = siggpde.series.Spectrogram(100, 32, 16, first_bin=1, last_bin=2, log=True, window="hann")
    assert vars(model.preparation_.spectrogram) == vars(spectrogram)
    mine = siggpde.SigGPClassifier(**model.get_params()).fit(sounds, y)
    assert np.array_equal(mine.predict_proba(sounds), model.predict_proba(sounds))


@pytest.mark.parametrize(
    ("target", "labels", "likelihood"),
    [("kind", ("a", "b", "c"), "RobustMax"), ("kind", ("a", "b"), "Bernoulli"), ("size", ("a", "b"), "Gaussian")],
)
def test_the_method_of_the_paper(target: str, labels: tuple[str, ...], likelihood: str, tmp_path: Path):
    path = write(long_table(60, labels=labels), tmp_path / "turns.csv")
    options = ["--target", target, "--method", "paper", "--max-iter", "20"]
    result = fit(path, tmp_path / "model", *options)
    for words in (f", {likelihood}", "paper", "One model, with validation scores", "no base point"):
        assert words in result.stdout
    model = loaded(tmp_path / "model")
    assert (model.method, model.n_features, model.max_iter) == ("paper", 20, 20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "turns.csv"]
    facts = figures("info", tmp_path / "model")
    assert facts["method"] == "paper" and facts["likelihood"] == likelihood
    assert facts["members"][0]["words"] == 20 and facts["members"][0]["nlpp"] is not None
    for judge in ("evaluate", "explain"):
        succeed(judge, tmp_path / "model", path)
    succeed("predict", tmp_path / "model", path, "--output", tmp_path / "new.csv")


def test_the_task_follows_from_targets_and_likelihood(table: Path, tmp_path: Path):
    result = fit(table, tmp_path / "model", "--target", "size", "--json")
    facts = json.loads(result.stdout)
    assert facts["task"] == "regression" and "\nregression\n" in result.stderr
    assert facts["target_mean"] == pytest.approx(1.65, abs=0.2)
    assert facts["likelihood"] == "Gaussian" and facts["members"][0]["nlpp"] < 2
    path = write(long_table(20, labels=tuple(range(20))), tmp_path / "counts.csv")
    for words in ("20 different values in 20 series", "--task regression"):
        refuse_fit(2, words, path, tmp_path / "counts", "--target", "kind")
    fit(path, tmp_path / "counts", "--target", "kind", "--task", "regression")
    path = write(long_table(30, labels=("0", "1", "3")), tmp_path / "counts.csv")
    for likelihood, task in (("auto", "classification"), ("poisson", "regression"), ("softmax", "classification")):
        method = [] if likelihood == "auto" else ["--method", "paper", "--max-iter", "3"]
        result = fit(path, tmp_path / likelihood, "--target", "kind", "--likelihood", likelihood, *method, "--json")
        assert json.loads(result.stdout)["task"] == task


def test_a_model_without_training_series_remembers_channels_by_name(table: Path, tmp_path: Path):
    options = ["--series", "who", "--target", "kind", "--ignore", "day", "--no-keep-series", "--json"]
    result = succeed("fit", table, "--output", tmp_path / "model", *FAST, *options)
    reading = loaded(tmp_path / "model").reading_
    assert reading["channels"] == ["x", "y"] and reading["facts"] == ["size"]  # which is constant within series
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
        (["--target", "kind", "--scale", "series"], 2, "--scale series is for --method paper"),
        (["--target", "kind", "--batch-size", "7"], 1, "batch_size=7 is for --method 'paper'"),
        (["--target", "kind", "--method", "paper", "--theta", "1;2"], 2, "--theta takes numbers with commas"),
        (["--target", "kind", "--learning-rate", "1,2"], 2, "--learning-rate takes a number, or auto; got '1,2'"),
        (["--target", "kind", "--method", "paper", "--validation", "1"], 1, "validation must be 'auto', a share"),
        (["--target", "kind", "--spectrogram", "loud"], 2, "--spectrogram takes fields such as"),
        (["--target", "kind", "--spectrogram", "pitch=3"], 1, "spectrogram has no field 'pitch'"),
        (["--target", "kind", "--method", "paper", "--members", "2"], 1, "--method 'paper' trains one model"),
        (["--target", "kind", "--method", "paper", "--likelihood", "least_squares"], 1, "takes 'auto', 'robustmax'"),
        (["--target", "kind", "--likelihood", "softmax"], 1, "take --method 'paper'"),
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
    refuse_fit(code, said, table, tmp_path / "model", *more)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_one_line_and_with_verbose_the_whole_story(table: Path, tmp_path: Path):
    wrong = ("fit", table, "--output", tmp_path / "m", *LONG, *FAST, "--target", "colour")
    quiet = run(*wrong)
    assert quiet.stderr.startswith("Error: ") and quiet.stderr.count("\n") == 1
    assert quiet.stdout == ""
    assert "Traceback" in run(*wrong, "--verbose").stderr


def test_bad_data_are_named(tmp_path: Path):
    """What else is said of them is in tests/io."""
    path, table = tmp_path / "bad.csv", long_table()
    path.write_text(long_table(4).write_csv() + "w9,1,much,2,blue,3\n")
    words = f"{path}: column 'x', line 34: expected a number; got 'much'"
    refuse_fit(1, words, path, tmp_path / "model", "--target", "kind")
    write(long_table(6, labels=("same",)), path)
    refuse_fit(1, "only one class", path, tmp_path / "model", "--target", "kind")
    unlabelled = table.with_columns(pl.when(pl.col("who") == "w3").then(None).otherwise(pl.col("kind")).alias("kind"))
    refuse_fit(1, "series 'w3' has no label", write(unlabelled, path), tmp_path / "other", "--target", "kind")
    gaps = table.with_columns(pl.when(pl.int_range(pl.len()) % 7 == 3).then(None).otherwise(pl.col("x")).alias("x"))
    result = fit(write(gaps, path), tmp_path / "model", "--target", "kind", "--mask", "--json")
    assert json.loads(result.stdout)["settings"]["mask"] is True


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("missing.csv", "there is no file missing.csv"),
        ("no/such/folder.npz", "the folder no/such does not exist either"),
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


def test_a_summary_shows_labels_as_they_are_and_a_model_is_not_replaced_unasked(table: Path, tmp_path: Path):
    model = tmp_path / "model"
    shown = fit(table, model, "--target", "kind").stdout
    for words in ("[red] (15), blue (15)", "least squares on ±1", "One model, with leave-one-out losses", "3 channels"):
        assert words in shown
    assert str(tmp_path)[:20] in shown
    before = weights(model)
    for words in (str(model), "--force"):
        refuse_fit(2, words, tmp_path / "not looked at.csv", model)
    assert weights(model) == before
    fit(table, model, "--target", "size", "--force")
    assert weights(model) != before


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_nothing_is_saved_over_what_is_no_model(force: list[str], table: Path, tmp_path: Path):
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    (folder / "letter.txt").write_text("dear")
    file.write_text("dear")
    for output in (folder, file):
        refuse_fit(2, str(output), table, output, "--target", "kind", *force)
    assert (folder / "letter.txt").read_text() == file.read_text() == "dear"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_train_and_test_in_one_file(tmp_path: Path):
    x = np.random.default_rng(0).normal(size=(40, 1, 6)).cumsum(axis=2)
    y = np.where(x[:, 0, -1] > x[:, 0, 0], "up", "down")
    np.savez(tmp_path / "walks.npz", X_train=x[:30], y_train=y[:30], X_test=x[30:], y_test=y[30:])
    assert figures("fit", tmp_path / "walks.npz", "--output", tmp_path / "model", *FAST)["series"] == 30
    for part, count in (("test", 10), ("train", 30)):
        assert figures("evaluate", tmp_path / "model", tmp_path / "walks.npz", "--part", part)["n"] == count


SETTINGS = [*LONG, "--target", "kind", *FAST[:-2], "--method", "paper", "--max-iter", "100"]


@contextmanager
def stopped_fit(data: Path, model: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A fit in a process of its own, which is made to stand still as soon as it has kept something."""
    kept = model.with_name(f"{model.name}.checkpoint") / "member-1.pt"
    arguments = command("fit", data, "--output", model, *SETTINGS)
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while not kept.exists() and process.poll() is None:
                time.sleep(0.005)
            process.send_signal(signal.SIGSTOP)
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(long_table(80), tmp_path_factory.mktemp("two") / "data.csv")


@pytest.mark.skipif(os.name != "posix", reason="locks of files are of POSIX systems")
def test_a_second_fit_is_refused_while_the_first_runs_and_not_after_it_was_killed(data: Path, tmp_path: Path):
    model = tmp_path / "model"
    with stopped_fit(data, model) as first:
        before = {path.name: path.read_bytes() for path in (tmp_path / "model.checkpoint").iterdir()}
        for more in ([], ["--resume"], ["--force"]):
            # The data do not exist: the refusal comes before they are read.
            second = run("fit", tmp_path / "nothing.csv", "--output", model, *SETTINGS, *more)
            assert second.exit_code == 2
            assert f"another fit to {model} is running" in second.stderr and "another --output" in second.stderr
        assert {path.name: path.read_bytes() for path in (tmp_path / "model.checkpoint").iterdir()} == before
        first.kill()
        assert first.wait() == -signal.SIGKILL
    succeed("fit", data, "--output", model, *SETTINGS, "--resume")
    succeed("fit", data, "--output", tmp_path / "whole", *SETTINGS)
    assert weights(model) == weights(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "whole"]


@pytest.mark.skipif(os.name != "posix", reason="locks of files are of POSIX systems")
def test_of_fits_started_at_once_one_writes_the_model(data: Path, tmp_path: Path):
    arguments = command("fit", data, "--output", tmp_path / "model", *SETTINGS)
    fits = [subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=300)[1] for process in fits]
    codes = sorted(process.returncode for process in fits)
    assert codes == [0, 2], said
    assert sum("is running" in text or "holds a model already" in text for text in said) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert loaded(tmp_path / "model")


def test_a_config_file_is_under_the_command_line(table: Path, tmp_path: Path):
    config = tmp_path / "fit.toml"
    config.write_text(
        'series = "who"\ntime = "day"\nchannels = ["x", "y"]\nn-features = 30\nseed = 5\nmembers = 1\n'
        f'[fit]\ntarget = "kind"\noutput = {json.dumps(str(tmp_path / "model"))}\nmax_iter = 7\njson = true\njobs = 1\n'
    )
    result = succeed("fit", table, "--config", config, "--n-features", "20")
    settings = json.loads(result.stdout)["settings"]
    assert [settings[name] for name in ("n_features", "random_state", "max_iter", "n_jobs")] == [20, 5, 7, 1]
    assert (tmp_path / "model" / "model.json").is_file()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("features = 3\n[fit]\nmenbers = 1", ["features", "menbers", "n-features"]),
        ("n-features = true", ["n-features", "number"]),
        ("mask = 1", ["mask", "true or false"]),
        ("max-iter = 'many'", ["--max-iter", "whole number"]),
        ("task = 'guessing'", ["--task", "guessing"]),
        ("n-features = {a = 1}", ["n-features"]),
        ("fit = 1", ["table"]),
        ("as_json = true", ["as_json"]),
        ("config = 'other.toml'", ["config"]),
        ("nonsense", ["TOML"]),
    ],
)
def test_wrong_config_files_are_wrong_calls(text: str, said: list[str], table: Path, tmp_path: Path):
    config = tmp_path / "fit.toml"
    config.write_text(text)
    result = run("fit", table, "--output", tmp_path / "model", *LONG, *FAST, "--target", "kind", "--config", config)
    assert result.exit_code == 2
    flat = "".join(result.output.replace("│", "").split())
    assert all(word.replace(" ", "") in flat for word in said), result.output
    assert not (tmp_path / "model").exists()
    refuse_fit(2, "", table, tmp_path / "m", "--config", tmp_path / "none.toml")


START = datetime(2024, 1, 2, tzinfo=UTC)  # spans of two days from 1970 begin there


def grouped(count: int = 24, seed: int = 0) -> pl.DataFrame:
    """Four series a person, numbers for groups and weights, and dates: three series a day."""
    table = long_table(count, seed)
    number = pl.col("who").str.slice(1).cast(pl.Int64)
    hours = number * 8 + pl.col("day").rank("dense").over("who") / 10
    stamp = pl.lit(START) + hours * pl.duration(hours=1)
    return table.with_columns(person=number // 4, counts=1 + number % 2, stamp=stamp)


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
    result = succeed("fit", folder / "train.csv", "--output", model, *COLUMNS, *options, *FAST)
    assert "label kind, 6 groups, weights" in result.stderr and "24 in 6 groups" in result.stdout
    assert "leave-one-group-out losses" in result.stdout
    fitted = loaded(model)
    assert fitted.channel_names_ == ("day", "x", "y") and fitted.n_groups_ == 6
    sentence, card = "each of 6 groups was left out as a whole", (model / "README.md").read_text()
    assert sentence in card and "| Groups of series | 6 |" in card
    info = run("info", model)
    assert "--groups person" in info.stdout and "--sample-weight counts" in info.stdout
    # With the columns and without them.
    for name, table in (("with", grouped(8, seed=1)), ("without", grouped(8, seed=1).drop("person", "counts"))):
        for suffix in ("csv", "parquet"):
            path = tmp_path / f"{name}.{suffix}"
            getattr(table, f"write_{suffix}")(path)
            succeed("predict", model, path)
            succeed("predict", model, path, "--output", tmp_path / f"{name}-{suffix}.parquet")
            judged = succeed("evaluate", model, path)
            assert sentence in judged.stderr
    first, *others = (pl.read_parquet(path) for path in sorted(tmp_path.glob("with*-*.parquet")))
    assert all(first.equals(other) for other in others)


def test_without_groups_series_are_said_to_be_independent(models: Path):
    shown = run("evaluate", models / "kinds", models / "test.csv")
    assert "assume that the series are independent" in shown.stderr
    values = figures("evaluate", models / "kinds", models / "test.csv")
    assert values["groups"] is None and "independent" in values["left_out"]
    assert "assume that the series are independent" in (models / "kinds" / "README.md").read_text()


def test_spans_of_time(folder: Path, tmp_path: Path):
    columns = ["--series", "who", "--time", "stamp", "--target", "kind", "--channels", "x,y"]
    for span, count in (("1d", 8), ("12h", 16), ("48h", 4)):
        model = tmp_path / span
        result = succeed("fit", folder / "train.csv", "--output", model, *columns, "--groups-by-time", span, *FAST)
        assert f"{count} groups" in result.stderr and loaded(model).n_groups_ == count
    assert "--groups-by-time 48h" in run("info", tmp_path / "48h").stdout
    succeed("evaluate", tmp_path / "1d", folder / "test.csv")
    columns = ["--series", "who", "--target", "kind", "--channels", "x,y", "--groups-by-time", "1d"]
    refuse(2, "need time stamps", "fit", folder / "train.csv", "--output", tmp_path / "m", *columns)
    for option in ("--groups", "--target"):
        words = f"{option} has no meaning for a data set by name"
        refuse(2, words, "fit", "pendigits", "--output", tmp_path / "m", option, "writer")


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
    refuse(code, message, "fit", path, "--output", tmp_path / "m", *COLUMNS[:-2], *ignored, *options, *FAST)


@pytest.mark.filterwarnings("ignore::siggpde.committee.novelty.NoveltyWarning")
def test_compare_keeps_groups_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Series of one person are nearly the same, labels by person at random: without groups they seem predictable."""
    monkeypatch.setitem(METHODS, "siggpde", ours(n_features=20, members=1, transforms={}, related="ignore"))
    generator = np.random.default_rng(1)
    series = generator.normal(size=(10, 1, 12)).cumsum(axis=2).repeat(4, axis=0)
    x, y = series + 0.01 * generator.normal(size=series.shape), generator.permutation(np.arange(10) % 2).repeat(4)
    np.savez(tmp_path / "walks.npz", X=x, y=y, person=np.arange(10).repeat(4))
    results = {}
    for name, options in (("series", ["--ignore", "person"]), ("groups", ["--groups", "person"])):
        results[name] = figures("compare", tmp_path / "walks.npz", *options, "--methods", "siggpde,constant")
    accuracy = {name: values["methods"][0]["mean"]["accuracy"] for name, values in results.items()}
    assert accuracy["series"] > 0.95 and accuracy["groups"] < 0.8
    assert results["groups"]["groups"] == 10 and results["series"]["groups"] is None
    shown = run("compare", tmp_path / "walks.npz", "--groups", "person", "--methods", "constant").stdout
    assert "of other groups (10 in all)" in " ".join(shown.split())


def test_windows_of_recordings_are_announced_or_refused(tmp_path: Path):
    recordings = np.random.default_rng(0).normal(size=(12, 1, 60)).cumsum(axis=2)
    recordings[::2] += 5
    windows = np.concatenate([recordings[:, :, start : start + 20] for start in range(0, 41, 10)])
    table = tmp_path / "windows.npz"
    np.savez(table, X=windows, y=np.tile(["high", "low"], 30))
    made = succeed("fit", table, "--output", tmp_path / "model", *FAST)
    assert "60 of 60 training series are related (60 overlapping in time), in 12 families" in made.stderr
    assert "--groups is better" in made.stderr and loaded(tmp_path / "model").n_groups_ == 12
    silent = succeed("fit", table, "--output", tmp_path / "other", *FAST, "--related", "ignore")
    assert "related" not in silent.stderr and loaded(tmp_path / "other").n_groups_ is None
    refuse(1, "60 overlapping in time", "fit", table, "--output", tmp_path / "none", *FAST, "--related", "error")
