"""Reports of all kinds of series and models: none of them fails."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.report_pages import FAST, Page, parsed, turning
from siggpde import SigGPClassifier, SigGPRegressor, load

pytestmark = pytest.mark.slow


def write(model: Any, X: Any, y: Any, path: Path, **more: Any) -> Page:
    page = parsed(model.report(X, y, path / "r.html", explained=1, **more))
    assert len(page.sections) == 8 and len(page.all("img")) >= 6 and len(page.html) < 5e6
    return page


def test_many_classes(tmp_path: Path):
    X, _ = turning(300)
    y = np.arange(300) % 50
    X = X + 0.2 * y[:, None, None]
    page = write(SigGPClassifier(**FAST).fit(X, y), X + 0.01, y, tmp_path)
    assert "50 classes" in page.text and "most frequent mistakes" in page.text
    X, _ = turning(280)
    y = np.arange(280) % 70
    assert "map of" not in write(SigGPClassifier(**FAST).fit(X, y), X + 0.01, y, tmp_path).html


def test_a_spectrogram_and_many_channels(tmp_path: Path):
    X, y = turning(40, channels=100)
    page = write(SigGPClassifier(**FAST).fit(X, y), X + 0.01, y, tmp_path)
    assert "3 of 100 channels" in page.text
    X = np.random.default_rng(0).normal(size=(24, 1, 400))
    y = np.arange(24) % 2
    settings = {"rate": 100, "nfft": 64, "overlap": 32, "first_bin": 1, "last_bin": 8}
    write(SigGPClassifier(**FAST, spectrogram=settings).fit(X, y), X + 0.01, y, tmp_path)


@pytest.mark.parametrize("shape", ["one channel", "two dimensions"])
def test_one_channel(shape: str, tmp_path: Path):
    X, y = turning(40, channels=1)
    X = X if shape == "one channel" else X[:, 0]
    write(SigGPClassifier(**FAST).fit(X, y), X + 0.01, y, tmp_path)


def test_unequal_lengths_gaps_masks_time_stamps_and_long_series(tmp_path: Path):
    X, y = turning(40)
    ragged = [one[:, : 6 + number % 7].copy() for number, one in enumerate(X)]
    ragged[3][0, 2:4] = np.nan
    ragged[5][1] = np.nan
    for mask in (False, True):
        page = write(SigGPClassifier(**FAST, mask=mask).fit(ragged, y), ragged[::-1], y[::-1], tmp_path)
        assert "6 to 12" in page.text and "Missing values" in page.text and "Lengths of the series" in page.text
    X, y = turning(30)
    stamps = np.sort(np.random.default_rng(0).random((30, 1, 12)), axis=2)
    timed = np.concatenate([stamps, X], axis=1)
    page = write(SigGPClassifier(**FAST, time_channel=0).fit(timed, y), timed + 0.001, y, tmp_path)
    assert "stamped" in page.text
    long = np.repeat(X, 20, axis=2)
    write(SigGPClassifier(**FAST, max_points=50).fit(long, y), long + 0.001, y, tmp_path)


def test_the_method_of_the_paper(tmp_path: Path):
    X, y = turning(40)
    for target in (y, X[:, 0].mean(axis=1)):
        kind = SigGPClassifier if target is y else SigGPRegressor
        made = kind(method="paper", n_features=10, max_iter=10).fit(X, target)
        assert "as published" in write(made, X + 0.01, target, tmp_path).text
        assert "say nothing about new ones" in write(made, X, target, tmp_path).text


def test_without_training_series_and_loaded(tmp_path: Path):
    X, y = turning(60)
    made = SigGPClassifier(**FAST, keep_series=False).fit(X, y)
    write(made, X, y, tmp_path)
    made.save(tmp_path / "model")
    before = write(made, X + 0.01, y, tmp_path)
    assert write(load(tmp_path / "model"), X + 0.01, y, tmp_path).text == before.text


@pytest.mark.parametrize("likelihood", ["softmax", "student_t", "poisson"])
def test_other_likelihoods(likelihood: str, tmp_path: Path):
    X, y = turning(40)
    target = y if likelihood == "softmax" else np.arange(40) % 5 + 0.0
    kind = SigGPClassifier if likelihood == "softmax" else SigGPRegressor
    made = kind(**{**FAST, "members": 1}, method="paper", likelihood=likelihood, max_iter=5).fit(X, target)
    write(made, X + 0.01, target, tmp_path)


def test_training_series_in_groups(tmp_path: Path):
    X, y = turning(60)
    groups = np.arange(60) // 6
    made = SigGPClassifier(**FAST).fit(X, y, groups=groups)
    page = write(made, X, y, tmp_path, groups=groups)
    assert "without its group" in page.text and "Group by group" in page.text
    X, target = turning(60)[0], turning(60)[0][:, 0].mean(axis=1)
    numbers = SigGPRegressor(**FAST).fit(X, target, groups=groups)
    assert "Group by group" in write(numbers, X, target, tmp_path, groups=groups).text


@pytest.mark.parametrize("count", [1, 2])
def test_few_series(count: int, tmp_path: Path):
    X, y = turning(40)
    made = SigGPClassifier(**FAST).fit(X, y)
    path = tmp_path / "r.html"
    parsed(made.report(X[:count] + 0.01, y[:count], path))
    parsed(made.report(X[:count] + 0.01, None, path))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_channel_without_values(tmp_path: Path):
    X, y = turning(40)
    made = SigGPClassifier(**FAST).fit(X, y)
    X[:, 1] = np.nan
    assert "no value at all" in parsed(made.report(X[:1], None, tmp_path / "r.html", explained=0)).text


def test_series_of_one_point_and_constant_ones(tmp_path: Path):
    X, y = turning(40)
    write(SigGPClassifier(**FAST).fit(X[:, :, :1], y), X[:, :, :1] + 0.01, y, tmp_path)
    X[:, 1] = 3.0
    write(SigGPClassifier(**FAST).fit(X, y), X + 0.01, y, tmp_path)
