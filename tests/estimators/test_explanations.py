"""`importance` and `explain` of estimators whose committee is one of views."""

import numpy as np
import pytest

from siggpde import SigGPClassifier, SigGPRegressor

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 2, 20))
X[:20, 1] += 1.5
NAMES = ["noise", "level"]
Y = np.repeat(["up", "down"], 20)


@pytest.fixture(scope="module")
def classifier():
    return SigGPClassifier(channel_names=NAMES).fit(X, Y)


def test_a_classifier_names_what_its_predictions_rest_on(classifier):
    found = classifier.importance(X, top=7)
    assert len(found.words) == 7 and found.series == 40
    shares = {each.name: each.share for each in found.channels}
    assert sum(shares.values()) == pytest.approx(1) and shares["level"] > 1.5 * shares["noise"]
    assert sum(each.share for each in found.views) == pytest.approx(1)


def test_a_classifier_explains_its_predictions(classifier):
    found = classifier.explain(X, top=3, background=X)
    assert [each.label for each in found] == classifier.predict(X).tolist()
    for each in found:
        assert each.constant + each.rest + sum(term.value for term in each.contributions) == pytest.approx(each.latent)
        assert each.constant + sum(view.value for view in each.views) == pytest.approx(each.latent)
        alone = {name: sum(t.value for t in each.interactions if {name} == {*t.letters} - {"time"}) for name in NAMES}
        assert alone["level"] > abs(alone["noise"])


def test_a_regressor_explains_numbers_in_their_units():
    sizes = 100 + 50 * X[:, 1].mean(axis=1)
    regressor = SigGPRegressor(channel_names=NAMES).fit(X, sizes)
    predicted = regressor.predict(X)
    for each, number in zip(regressor.explain(X), predicted, strict=True):
        assert each.mean == pytest.approx(number)
        assert each.latent == pytest.approx(number) and each.views
        assert each.constant + sum(view.value for view in each.views) == pytest.approx(number)


def test_series_of_other_sizes_are_explained(classifier):
    """Ragged series and one with a gap, as far as they can be predicted."""
    series = [X[0][:, :12].copy(), X[30].copy()]
    series[0][0, 4] = np.nan
    assert [each.label for each in classifier.explain(series)] == classifier.predict(series).tolist()
