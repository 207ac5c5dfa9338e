"""Predictions of series some of which cannot be predicted."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import siggpde
from helpers.small_estimators import classifier, regressor, rising
from siggpde.io import SeriesData
from siggpde.prediction_tables import prediction_table

X, Y = rising(16)
IDS = np.array([f"w{number:02d}" for number in range(16)])


def damaged(X: np.ndarray) -> np.ndarray:
    bad = X.copy()
    bad[3, 0, 1], bad[7], bad[8, 0, 0] = np.inf, np.nan, -np.inf
    return bad


@pytest.fixture(scope="module", params=["classifier", "regressor"])
def model(request: pytest.FixtureRequest) -> Any:
    return (
        classifier().fit(X, np.where(Y, "up", "down")) if request.param == "classifier" else regressor().fit(X, Y * 1.5)
    )


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


def test_without_bad_series_there_is_an_empty_column_of_errors(model: Any):
    table = prediction_table(model, SeriesData(X), on_error="skip")
    assert table.drop("error").equals(prediction_table(model, SeriesData(X)))
    assert table["error"].dtype == pl.String and table["error"].null_count() == 16


def test_types_do_not_depend_on_what_failed(model: Any):
    nothing = prediction_table(model, SeriesData(np.full_like(X, np.nan)), on_error="skip")
    assert nothing.schema == prediction_table(model, SeriesData(X), on_error="skip").schema
    assert nothing["prediction"].null_count() == 16 and nothing["error"].null_count() == 0


def test_failing_names_the_series_by_its_id(model: Any):
    with pytest.raises(ValueError, match=r"series w03 is infinite \(inf\) in channel 0 at time point 1"):
        prediction_table(model, SeriesData(damaged(X), ids=IDS))
    with pytest.raises(ValueError, match="on_error must be 'fail' or 'skip'; got 'ignore'"):
        prediction_table(model, SeriesData(X), on_error="ignore")  # type: ignore[arg-type]


def test_series_that_only_the_prediction_refuses_are_found():
    model = classifier(method="paper", n_features=20, max_iter=5).fit(X, Y)
    far = X.copy()
    far[5] *= 1e120
    table = prediction_table(model, SeriesData(far), on_error="skip")
    assert table["error"].is_not_null().arg_true().to_list() == [5]
    assert "series 5" in table["error"][5] and "too large" in table["error"][5]
    np.testing.assert_allclose(
        table[f"p({model.classes_[1]})"].drop_nulls().to_numpy(),
        model.predict_proba(np.delete(X, 5, axis=0))[:, 1],
        rtol=1e-12,
    )


def test_streams_skip_too_and_go_on_only_as_they_began(model: Any, tmp_path: Path):
    many = np.tile(X, (80, 1, 1))
    many[1100, 0, 0] = np.inf
    np.save(tmp_path / "x.npy", many)
    output = tmp_path / "out.parquet"
    with pytest.raises(ValueError, match="series 1100 is infinite"):
        siggpde.predict_stream(model, tmp_path / "x.npy", output, block=1024)
    with pytest.raises(ValueError, match="was made with another model, file or settings"):
        siggpde.predict_stream(model, tmp_path / "x.npy", output, block=1024, on_error="skip", resume=True)
    siggpde.predict_stream(model, tmp_path / "x.npy", output, block=1024, on_error="skip", force=True)
    table = pl.read_parquet(output)
    assert table["error"].is_not_null().arg_true().to_list() == [1100] and len(table) == 1280
    assert table["prediction"].is_null().arg_true().to_list() == [1100]
