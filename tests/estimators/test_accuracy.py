"""Whole fits on real data reach what the manual says, with room for other machines' rounding."""

from typing import Any

import numpy as np
import pytest

from siggpde import SigGPClassifier, SigGPRegressor
from siggpde.cli.demo import train_demo
from siggpde.datasets import Dataset, load_dataset, load_pendigits

pytestmark = pytest.mark.filterwarnings("ignore::siggpde.committee.novelty.NoveltyWarning")  # one in 1000 is right


def data_set(name: str) -> Dataset:
    try:
        return load_dataset(name, download=False)
    except FileNotFoundError:
        pytest.skip(f"{name} is not in SIGGPDE_DATA or the cache")


@pytest.mark.slow
def test_pendigits_is_better_than_the_paper_says():
    facts, classifier = train_demo(load_pendigits())
    assert facts["accuracy"] > 0.9915  # the paper: 0.9773
    assert facts["nlpp"] < 0.0350  # the paper: 0.085
    assert len(classifier.committee_.members) == 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "accuracy", "nlpp"),
    [
        ("BasicMotions", 1.0, 0.010),
        ("Epilepsy", 0.978, 0.045),
        ("UWaveGestureLibrary", 0.9465, 0.20),
        ("GunPoint", 0.993, 0.02),
        ("FingerMovements", 0.66, 0.60),
        ("SelfRegulationSCP1", 0.91, 0.235),
        ("CharacterTrajectoriesHalf", 0.99, 0.030),
        ("AsphaltObstacles", 0.89, 0.26),
        ("PLAID", 0.90, 0.27),
        ("SpokenArabicDigits", 0.993, 0.016),
        ("Crop", 0.758, 0.72),
    ],
)
def test_defaults_are_accurate_and_calibrated(name: str, accuracy: float, nlpp: float):
    data = data_set(name)
    classifier = SigGPClassifier(n_jobs=-1).fit(data.X_train, data.y_train)
    chances = classifier.predict_proba(data.X_test)
    right = classifier.classes_[chances.argmax(axis=1)] == data.y_test
    of_truth = chances[np.arange(len(chances)), np.searchsorted(classifier.classes_, data.y_test)]
    assert right.mean() >= accuracy
    assert -np.log(of_truth).mean() <= nlpp
    assert abs(chances.max(axis=1).mean() - right.mean()) < 0.08  # as sure as right, on average


@pytest.mark.slow
def test_fat_is_read_off_spectra_with_intervals_that_hold():
    data: Any = data_set("Tecator")
    regressor = SigGPRegressor(n_jobs=-1).fit(data.X_train, data.y_train)
    assert np.sqrt(np.mean((regressor.predict(data.X_test) - data.y_test) ** 2)) < 2.0
    low, high = regressor.predict_interval(data.X_test, 0.9).T
    assert 0.8 < np.mean((low <= data.y_test) & (data.y_test <= high)) <= 1.0
