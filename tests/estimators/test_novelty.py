"""What estimators say of series that are unlike the training series, whatever their method and likelihood."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.small_estimators import reloaded
from siggpde import SigGPClassifier, SigGPRegressor
from siggpde.committee.novelty import NoveltyWarning

KINDS: dict[str, dict[str, Any]] = {
    "views": {},
    "weights": {"keep_series": False},
    "paper": {"method": "paper", "max_iter": 20, "n_features": 20},
}
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 2, 20)).cumsum(2)
Y = np.where(np.arange(60) % 3 > 0, "up", "flat")
X[Y == "up", 0] += np.linspace(0, 12, 20)
NEW = RANDOM.normal(size=(8, 2, 20)).cumsum(2)
FAR = 20 * NEW + 200


@pytest.fixture(scope="module", params=KINDS)
def fitted(request: pytest.FixtureRequest) -> SigGPClassifier:
    return SigGPClassifier(**KINDS[request.param]).fit(X, Y)


def test_far_series_are_named_and_not_believed(fitted: SigGPClassifier):
    p, score, reason = fitted.novelty(FAR, return_score=True, return_reason=True)
    assert (p == pytest.approx(1 / 61)) and (score > 10).all() and len(reason) == 8
    with pytest.warns(NoveltyWarning, match="8 of 8 series are unlike all training series") as caught:
        chances = fitted.predict_proba(FAR)
    with pytest.warns(NoveltyWarning) as within:
        fitted.predict(FAR)  # which calls predict_proba
    assert caught[0].filename == within[0].filename == __file__
    np.testing.assert_allclose(chances, [[1 / 3, 2 / 3]] * 8, atol=1e-3)


def test_log_likelihoods_saved_models_and_classes(fitted: SigGPClassifier, tmp_path):
    series, labels = np.concatenate([NEW, FAR]), np.array(["up", "flat"] * 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoveltyWarning)
        chances = fitted.predict_proba(series)
    of_truth = chances[np.arange(16), np.searchsorted(fitted.classes_, labels)]
    np.testing.assert_allclose(fitted.log_likelihood(series, labels), np.log(of_truth), atol=1e-6)
    again = reloaded(fitted, tmp_path / "model")
    np.testing.assert_array_equal(again.novelty(NEW), fitted.novelty(NEW))
    by_class = fitted.novelty(NEW, by_class=True)
    assert by_class.shape == (8, 2) and np.isfinite(by_class).all()


def test_latents_and_their_spread():
    model = SigGPClassifier().fit(X, Y)
    mean, spread = model.latent(NEW)
    np.testing.assert_allclose(mean[:, 0], -mean[:, 1], atol=1e-9)
    assert (spread > 0).all() and spread.shape == mean.shape
    chances, spread_of_chances = model.predict_proba(NEW, return_std=True)
    assert spread_of_chances.shape == chances.shape
    assert ((spread_of_chances > 0) & (spread_of_chances < 0.5)).all()
    with pytest.raises(ValueError, match="return_std=True is for likelihood='auto'"):
        SigGPClassifier(**KINDS["paper"]).fit(X, Y).predict_proba(NEW, return_std=True)


def test_numbers_tend_to_those_of_the_training_series():
    targets = X[:, 0, -1] + 100
    model = SigGPRegressor().fit(X, targets)
    with pytest.warns(NoveltyWarning):
        mean, spread = model.predict(FAR, return_std=True)
    np.testing.assert_allclose(mean, targets.mean(), atol=0.05 * targets.std())
    assert (spread > 0.9 * targets.std()).all()
    assert model.latent(NEW)[0] == pytest.approx(model.predict(NEW))
    with pytest.raises(ValueError, match="by_class=True is for classifiers"):
        model.novelty(NEW, by_class=True)


def test_a_channel_without_values_is_far_from_series_that_all_have_some(fitted: SigGPClassifier, tmp_path: Path):
    lost = NEW.copy()
    lost[:, 0] = np.nan
    with pytest.warns(NoveltyWarning, match="8 of 8 series are unlike .* level of channel 0 is unusual in all"):
        chances, again = (one.predict_proba(lost) for one in (fitted, reloaded(fitted, tmp_path / "model")))
    assert chances == pytest.approx(np.tile([1 / 3, 2 / 3], (8, 1)), abs=1e-3) and np.array_equal(again, chances)


def test_a_channel_that_training_series_lack_may_be_missing():
    lacking, lost = X.copy(), NEW.copy()
    lacking[::2, 1], lost[:, 1] = np.nan, np.nan
    assert SigGPClassifier(**KINDS["views"]).fit(lacking, Y).predict_proba(lost).max(1).mean() > 0.7
