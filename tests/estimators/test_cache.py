"""`cache_dir` of estimators and of the command line."""

import logging
from pathlib import Path

import numpy as np
import pytest

from helpers.cli_data import FAST, LONG, long_table, run, write
from helpers.small_estimators import estimator, outputs, rising


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_the_second_fit_reads_what_the_first_computed(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    X, labels = rising(30)
    y = labels if kind == "classifier" else labels + 0.5 * X[:, 0, -1]
    plain = outputs(estimator(kind, method="paper").fit(X, y), X)
    for expected in ("0 read, 30 computed", "30 read, 0 computed"):
        caplog.clear()
        found = outputs(estimator(kind, method="paper", cache_dir=tmp_path).fit(X, y), X)
        np.testing.assert_array_equal(found, plain)
        assert [expected in record.getMessage() for record in caplog.records].count(True) == 1


def test_views_keep_nothing_and_say_so(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    X, labels = rising(30)
    found = [
        outputs(estimator("classifier", cache_dir=folder).fit(X, labels), X) for folder in (tmp_path / "cache", None)
    ]
    np.testing.assert_array_equal(*found)
    assert caplog.messages.count("cache_dir is not used: method='views' keeps no signatures") == 1
    assert not (tmp_path / "cache").exists()


def test_other_series_are_not_mistaken(tmp_path: Path):
    X, labels = rising(30)
    estimator("classifier", method="paper", cache_dir=tmp_path).fit(X, labels)
    changed = outputs(estimator("classifier", method="paper", cache_dir=tmp_path).fit(X[::-1], labels), X)
    np.testing.assert_array_equal(changed, outputs(estimator("classifier", method="paper").fit(X[::-1], labels), X))


@pytest.mark.parametrize(("given", "message"), [(3, "the path of a folder or None, got 3"), ("file", "is a file")])
def test_what_is_no_folder_is_refused(given: object, message: str, tmp_path: Path):
    (tmp_path / "file").touch()
    X, labels = rising(8)
    with pytest.raises(ValueError, match=rf"cache_dir must be .*{message}"):
        estimator("classifier", cache_dir=tmp_path / given if isinstance(given, str) else given).fit(X, labels)


def test_the_command_line_keeps_signatures(tmp_path: Path):
    train = write(long_table(20), tmp_path / "train.csv")
    arguments = ("--target", "kind", *LONG, *FAST, "--method", "paper", "--cache-dir", tmp_path / "cache")
    for model, expected in (("first", "0 read, 20 computed"), ("second", "20 read, 0 computed")):
        result = run("fit", train, "--output", tmp_path / model, *arguments)
        assert result.exit_code == 0, result.output
        assert expected in result.stderr
