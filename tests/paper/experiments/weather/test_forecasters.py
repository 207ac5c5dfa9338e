"""Forecasters: baselines are what they say; the classifier's band is that of its posterior, its words have names."""

import numpy as np
import pytest
import torch
from scipy.special import expit

from helpers.weather_station import nlpp, windows
from siggpde import SigGPClassifier
from siggpde.committee.view_committee import AveragedMembers, Judged
from siggpde_paper.experiments.weather_models import (
    before_rain,
    channel_shares,
    classifier_log_odds,
    climatology,
    log_odds_quantiles,
    logistic,
    word_importance,
)

NAMES = ["p", "rh"]
SETTINGS = {"views": ["linear", "path"], "members": 2, "n_features": 30}


@pytest.fixture(scope="module")
def fitted():
    x, wet, blocks = windows(150, 3)
    classifier = SigGPClassifier(random_state=0, channel_names=NAMES, **SETTINGS)
    return classifier.fit(x, wet, groups=blocks), x, wet


def test_climatology_is_the_share_of_rain():
    found = climatology(np.arange(8) < 2)
    np.testing.assert_allclose(expit(found.log_odds(np.zeros((3, 1, 5)))), 0.25)
    with pytest.raises(ValueError, match="0 of 4 training windows are wet"):
        climatology(np.zeros(4, dtype=bool))


def test_forecasters_beat_climatology(fitted):
    x, wet, blocks = windows(200, 0)
    new, truth, _ = windows(400, 1)
    plain = nlpp(climatology(wet).log_odds(new), truth)
    linear = logistic(x, wet, blocks, [0.001, 0.1, 10.0])
    assert linear.settings["C"] in (0.001, 0.1, 10.0)
    assert nlpp(linear.log_odds(new), truth) < plain - 0.1
    classifier, *_ = fitted
    assert classifier.n_groups_ == 8
    assert nlpp(classifier_log_odds(classifier, new), truth) < plain - 0.1


def test_log_odds_are_those_of_the_probabilities(fitted):
    classifier, x, _ = fitted
    np.testing.assert_allclose(expit(classifier_log_odds(classifier, x)), classifier.predict_proba(x)[:, 1])


def test_band_holds_the_prediction(fitted):
    classifier, x, _ = fitted
    quantiles = log_odds_quantiles(classifier, x, (0.05, 0.5, 0.95))
    assert quantiles.shape == (150, 3) and (np.diff(quantiles, axis=1) > 0).all()
    middle = classifier_log_odds(classifier, x)
    inside = (quantiles[:, 0] < middle) & (middle < quantiles[:, 2])
    assert inside.mean() > 0.95
    assert np.corrcoef(middle, quantiles[:, 1])[0, 1] > 0.99


def test_band_is_that_of_the_latents(fitted):
    """By Monte Carlo with latents -f and f, through the link."""
    classifier, x, _ = fitted
    x = x[:20]
    mean, spread = classifier.latent(x)
    np.testing.assert_allclose(mean[:, 0], -mean[:, 1])
    f = mean[:, 1] + spread[:, 1] * np.random.default_rng(0).normal(size=(4000, 20))
    batch, committee = classifier.preparation_(x), classifier.committee_
    assert isinstance(committee, AveragedMembers)
    judged, chances = committee.judged(batch), []
    for row in torch.from_numpy(f):
        means = torch.stack([-row, row], dim=1).expand_as(judged.means)
        known = Judged(means, torch.zeros_like(judged.variances), judged.scores)
        chances.append(committee.probabilities(batch, known)[:, 1])
    wanted = torch.logit(torch.stack(chances)).quantile(torch.tensor([0.05, 0.95]).double(), dim=0).T.numpy()
    found = log_odds_quantiles(classifier, x, (0.05, 0.95))
    assert np.abs(found - wanted).max() < 0.1 * (wanted[:, 1] - wanted[:, 0]).max()


def test_words_have_names_and_the_channels_all_of_the_importance(fitted):
    classifier, x, wet = fitted
    found = word_importance(classifier, x, wet, 5)
    assert len(found) == 5
    letters = {"time", *NAMES}
    for each in found:
        assert each["letters"] and set(each["letters"]) <= letters
        assert 0 < each["share"] < 1
    assert [each["importance"] for each in found] == sorted((each["importance"] for each in found), reverse=True)
    level = next(each for each in word_importance(classifier, x, wet, 200) if each["name"] == "rh–time")
    expected = before_rain(x[:, 1].mean(axis=1), wet)
    assert expected is not None and level["before_rain"] * expected > 0
    assert sum(channel_shares(classifier, x).values()) == pytest.approx(1)


def test_before_rain_of_a_constant():
    wet = np.array([True, False])
    assert before_rain(np.full(2, 0.1), wet) is None
    assert before_rain(np.array([0.0, 3.0]), wet) == -2.0
