"""Tables of predictions, whole and block by block."""

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from helpers.refusals import assert_refused
from helpers.small_estimators import classifier, estimator, random_walks, regressor, rising
from siggpde import predict_stream
from siggpde.committee.novelty import NoveltyWarning
from siggpde.io import SeriesData, read, stream
from siggpde.io import predictions as streaming
from siggpde.io.predictions import BlockFolder, prediction_table

X, Y = rising(16)
IDS = np.array([f"w{number:02d}" for number in range(16)])


def damaged(X: np.ndarray) -> np.ndarray:
    bad = X.copy()
    bad[3, 0, 1], bad[7], bad[8, 0, 0] = np.inf, np.nan, -np.inf
    return bad


@pytest.fixture(scope="module", params=["classifier", "regressor"])
def model(request: pytest.FixtureRequest) -> Any:
    if request.param == "regressor":
        return regressor().fit(X, Y * 1.5)
    return classifier().fit(X, np.where(Y, "up", "down"))


@pytest.mark.parametrize("ragged", [False, True])
def test_bad_series_have_empty_rows_with_the_reason(model: Any, ragged: bool):
    bad = damaged(X)
    table = prediction_table(model, SeriesData(list(bad) if ragged else bad, ids=IDS), on_error="skip")
    assert table["id"].to_list() == IDS.tolist() and table.columns[-1] == "error"
    good = [number for number in range(16) if number not in (3, 7, 8)]
    expected = prediction_table(model, SeriesData(X[good], ids=IDS[good]))
    assert table[good].drop("error").equals(expected) and table[good]["error"].null_count() == 13
    for number, reason in ((3, "series w03 is infinite (inf) in channel 0"), (7, "series w07 is NaN everywhere")):
        assert table["error"][number].startswith(reason)
        assert set(table.drop("id", "error").row(number)) == {None}


def test_types_do_not_depend_on_what_failed_and_failures_are_named(model: Any):
    table = prediction_table(model, SeriesData(X), on_error="skip")
    assert table.drop("error").equals(prediction_table(model, SeriesData(X)))
    assert table["error"].dtype == pl.String and table["error"].null_count() == 16
    nothing = prediction_table(model, SeriesData(np.full_like(X, np.nan)), on_error="skip")
    assert nothing.schema == table.schema
    assert nothing["prediction"].null_count() == 16 and nothing["error"].null_count() == 0
    message, bad = r"series w03 is infinite \(inf\) in channel 0 at time point 1", SeriesData(damaged(X), ids=IDS)
    assert_refused(message, prediction_table, model, bad)
    assert_refused("'fail' or 'skip'; got 'ignore'", prediction_table, model, SeriesData(X), on_error="ignore")


def test_series_that_only_the_prediction_refuses_are_found():
    model = classifier(method="paper", n_features=20, max_iter=5).fit(X, Y)
    far = X.copy()
    far[5] *= 1e120
    table = prediction_table(model, SeriesData(far), on_error="skip")
    assert table["error"].is_not_null().arg_true().to_list() == [5]
    assert "series 5" in table["error"][5] and "too large" in table["error"][5]
    actual, kept = table[f"p({model.classes_[1]})"].drop_nulls().to_numpy(), np.delete(X, 5, axis=0)
    np.testing.assert_allclose(actual, model.predict_proba(kept)[:, 1], rtol=1e-12)


def test_streams_skip_too_and_go_on_only_as_they_began(model: Any, tmp_path: Path):
    many = np.tile(X, (80, 1, 1))
    many[1100, 0, 0] = np.inf
    np.save(tmp_path / "x.npy", many)
    output = tmp_path / "out.parquet"
    streams = (model, tmp_path / "x.npy", output)
    assert_refused("series 1100 is infinite", predict_stream, *streams, block=1024)
    message = "was made with another model, file or settings"
    assert_refused(message, predict_stream, *streams, block=1024, on_error="skip", resume=True)
    predict_stream(*streams, block=1024, on_error="skip", force=True)
    table = pl.read_parquet(output)
    assert table["error"].is_not_null().arg_true().to_list() == [1100] and len(table) == 1280
    assert table["prediction"].is_null().arg_true().to_list() == [1100]


N = 2500
BLOCK = 1024
# Of so many walks some are unlike the 40 series of the fits.
pytestmark = pytest.mark.filterwarnings("ignore::siggpde.committee.novelty.NoveltyWarning")


@pytest.fixture(scope="module", params=["classifier", "regressor", "words"])
def fitted(request: pytest.FixtureRequest) -> Any:
    X, labels = rising(40, classes=3)
    if request.param == "regressor":
        return estimator("regressor", members=2).fit(X, labels + 0.1 * X[:, 0, -1])
    y = labels if request.param == "classifier" else np.array(["b", "a", "c"])[labels]
    return estimator("classifier", members=2).fit(X, y)


@pytest.fixture(scope="module")
def walker() -> Any:
    return estimator("classifier").fit(*rising(40))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    np.save(tmp_path / "new.npy", random_walks(N, 1, 12, seed=5).astype(np.float32))
    return tmp_path / "new.npy"


def expected(fitted: Any, source: Path) -> pl.DataFrame:
    """What the model says when it is asked for everything at once."""
    return prediction_table(fitted, read(source))


@pytest.mark.parametrize("block", [None, BLOCK, 2 * BLOCK])
def test_predictions_are_those_for_all_at_once(fitted: Any, source: Path, block: int | None):
    output = source.with_name("out.parquet")
    assert predict_stream(fitted, source, output, block=block, progress=False) == N
    table = pl.read_parquet(output)
    assert table.equals(expected(fitted, source)), "to the last bit"
    assert table.schema == expected(fitted, source).schema
    assert sorted(path.name for path in source.parent.iterdir()) == ["new.npy", "out.parquet"]


def test_series_of_unequal_lengths(fitted: Any, tmp_path: Path):
    """Long form: rows of a series may lie in two row groups, and their lengths differ from block to block."""
    lengths = np.random.default_rng(0).integers(2, 12, size=N)
    lengths[:BLOCK] = 6
    X = random_walks(N, 1, 12, seed=6)
    ids = [f"s{number}" for number in range(N)]
    x = np.concatenate([one[0, :length] for one, length in zip(X, lengths, strict=True)])
    table = pl.DataFrame({"who": np.repeat(ids, lengths), "x": x})
    table.write_parquet(tmp_path / "long.parquet", row_group_size=1000)
    predict_stream(fitted, stream(tmp_path / "long.parquet", series="who"), tmp_path / "out.parquet", block=BLOCK)
    whole = read(tmp_path / "long.parquet", series="who")
    assert pl.read_parquet(tmp_path / "out.parquet").equals(prediction_table(fitted, whole))


def test_a_saved_model_will_do(walker: Any, source: Path):
    walker.save(source.with_name("model"))
    output = str(source.with_name("out.parquet"))
    predict_stream(str(source.with_name("model")), str(source), output, resume=True)  # from nothing: it starts
    assert pl.read_parquet(source.with_name("out.parquet")).equals(expected(walker, source))


def interrupted(walker: Any, source: Path, blocks: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The output of a stream that ended by an error after so many blocks."""
    output, calls = source.with_name("out.parquet"), []

    def failing(*arguments: Any) -> pl.DataFrame:
        calls.append(arguments)
        if len(calls) > blocks:
            raise MemoryError("the lights went out")
        return prediction_table(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(streaming, "prediction_table", failing)
        assert_refused("lights", predict_stream, walker, source, output, block=BLOCK, error=MemoryError)
    assert not output.exists()
    assert len(list(BlockFolder.of(output).folder.glob("block-*.parquet"))) == blocks
    return output


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_an_interrupted_stream_goes_on(walker: Any, source: Path, blocks: int, monkeypatch: pytest.MonkeyPatch):
    output = interrupted(walker, source, blocks, monkeypatch)
    starts: list[int] = []

    def noted(fitted: Any, data: Any, *arguments: Any) -> pl.DataFrame:
        starts.append(int(data.ids[0]))
        return prediction_table(fitted, data, *arguments)

    (BlockFolder.of(output).folder / "notes.txt").write_text("mine")
    monkeypatch.setattr(streaming, "prediction_table", noted)
    assert predict_stream(walker, source, output, block=BLOCK, resume=True) == N
    assert starts == [BLOCK * number for number in range(blocks, 3)]
    assert pl.read_parquet(output).equals(expected(walker, source))
    assert [path.name for path in BlockFolder.of(output).folder.iterdir()] == ["notes.txt"]  # only its own are removed


@pytest.mark.parametrize("blocks", [0, 2])
def test_one_warning_counts_the_unlike_series_of_all_blocks(
    walker: Any, source: Path, blocks: int, monkeypatch: pytest.MonkeyPatch
):
    X = np.load(source)
    X[[7, BLOCK + 3, 2 * BLOCK + 1]] += 1e6
    np.save(source, X)
    output = interrupted(walker, source, blocks, monkeypatch)
    with pytest.warns(NoveltyWarning, match=r"first: series \d+; ") as caught:
        predict_stream(walker, source, output, block=BLOCK, resume=True)
    with pytest.warns(NoveltyWarning) as whole:
        walker.predict_proba(X)
    assert [str(warning.message) for warning in caught] == [str(warning.message) for warning in whole]
    assert int(str(caught[0].message).split()[0]) >= 3
    table = pl.read_parquet(output)
    assert "unlike" not in table.columns and table["novelty"][[7, BLOCK + 3]].to_list() == [1 / 41, 1 / 41]


@pytest.mark.parametrize("change", ["model", "file", "level", "block", "facts"])
def test_other_blocks_are_not_mixed_in(walker: Any, source: Path, change: str, monkeypatch: pytest.MonkeyPatch):
    output = interrupted(walker, source, 1, monkeypatch)
    settings: dict[str, Any] = {"block": BLOCK}
    if change == "model":
        walker = estimator("classifier").fit(*rising(40, seed=9))
    elif change == "file":
        np.save(source, random_walks(N + 1, 1, 12))
    elif change == "facts":
        (BlockFolder.of(output).folder / "facts.json").write_text("{")
    else:
        settings[change] = {"level": 0.5, "block": 2 * BLOCK}[change]
    message = "was made with another model, file or settings"
    assert_refused(message, predict_stream, walker, source, output, resume=True, **settings)
    message = "resume=True goes on, force=True starts anew"
    assert_refused(message, predict_stream, walker, source, output, error=FileExistsError, **settings)
    predict_stream(walker, source, output, force=True, **settings)
    assert pl.read_parquet(output).equals(expected(walker, source))


def test_what_is_left_is_logged_where_there_is_no_terminal(
    walker: Any, source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(streaming, "_LOG_EVERY", 0.0)
    with caplog.at_level(logging.INFO):
        predict_stream(walker, source, source.with_name("out.parquet"), block=BLOCK, progress=False)
    lines = [record.getMessage() for record in caplog.records if "predicted, about" in record.getMessage()]
    assert [line.split(" series")[0] for line in lines] == ["1024 of 2500", "2048 of 2500", "2500 of 2500"]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"output": "out.csv"}, ValueError, r"output must be a \.parquet file"),
        ({"block": 1000}, ValueError, "block must be a multiple of 1024, got 1000"),
        ({"block": 0}, ValueError, "block must be a multiple of 1024, got 0"),
        ({"source": "new.csv"}, ValueError, r"only \.npy and \.parquet"),
        ({"output": "new.parquet"}, FileExistsError, "force=True to replace it"),
    ],
)
def test_wrong_calls(walker: Any, source: Path, settings: dict[str, Any], error: type[Exception], message: str):
    (source.parent / "new.parquet").touch()
    (source.parent / "new.csv").write_text("x\n1\n")
    given = {"source": "new.npy", "output": "out.parquet"} | settings
    paths = [source.parent / given.pop(name) for name in ("source", "output")]
    assert_refused(message, predict_stream, walker, *paths, error=error, **given)
    assert not list(source.parent.glob("*.parts"))


_KILLED = """
import os, signal, sys
from siggpde.io import predictions as streaming
from siggpde.io.predictions import BlockFolder, predict_stream

write = BlockFolder.write
def killing(self, number, table):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, number, table)

BlockFolder.write = killing
predict_stream(sys.argv[1], sys.argv[2], sys.argv[3], block=1024)
"""


def test_a_killed_stream_goes_on(walker: Any, source: Path):
    folder, output = source.with_name("model"), source.with_name("out.parquet")
    walker.save(folder)
    command = [sys.executable, *["-S"] * sys.flags.no_site, "-c", _KILLED, str(folder), str(source), str(output)]
    assert subprocess.run(command, check=False, timeout=300, env=os.environ).returncode == -signal.SIGKILL
    assert not output.exists()
    settings = json.loads((BlockFolder.of(output).folder / "facts.json").read_text())
    assert settings["block"] == 1024
    predict_stream(folder, source, output, block=1024, resume=True)
    assert pl.read_parquet(output).equals(expected(walker, source))
