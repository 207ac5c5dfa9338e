"""`importance` and `explain` of estimators whose committee is one of views."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.refusals import assert_refused
from helpers.small_estimators import reloaded
from siggpde import SigGPClassifier, SigGPRegressor

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 2, 20))
X[:20, 1] += 1.5
NAMES = ["noise", "level"]
Y = np.repeat(["up", "down"], 20)


@pytest.fixture(scope="module")
def classifier():
    return SigGPClassifier(channel_names=NAMES).fit(X, Y)


def test_a_classifier_explains_its_predictions(classifier):
    actual = classifier.explain(X, top=3, background=X, segments=0)
    assert [explanation.label for explanation in actual] == classifier.predict(X).tolist()
    for explanation in actual:
        terms = explanation.interactions
        alone = {name: sum(t.value for t in terms if {name} == {*t.letters} - {"time"}) for name in NAMES}
        assert alone["level"] > abs(alone["noise"])


def test_series_of_other_sizes_are_explained_by_any_seed(classifier):
    """Ragged series and one with a gap, as far as they can be predicted."""
    series = [X[0][:, :12].copy(), X[30].copy()]
    series[0][0, 4] = np.nan
    assert [explanation.label for explanation in classifier.explain(series)] == classifier.predict(series).tolist()
    seeds = (None, 0, np.random.RandomState(3))
    actual = [classifier.explain(X[:1], random_state=seed, permutations=4)[0].segments for seed in seeds]
    assert actual[0] == actual[1] and actual[0] != actual[2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top": 2.5}, "top must be an integer of at least 1, got 2.5"),
        ({"segments": 2.5}, "segments must be an integer of at least 0"),
        ({"permutations": 3}, "permutations must be an integer of at least 4"),
        ({"random_state": "now"}, "random_state must be None"),
        ({"background": X[:, :1]}, "background must be series as for predict.*1 channels"),
    ],
)
def test_settings_that_do_not_fit_are_refused(classifier, settings: dict[str, Any], message: str):
    assert_refused(message, classifier.explain, X[:1], **settings)
    for name in ("top", "regions"):
        assert_refused(f"{name} must be an integer of at least 1", classifier.importance, X, **{name: 2.5})
    assert_refused("X has 40 series but y has 3 targets", classifier.importance, X, y=Y[:3])


@pytest.mark.parametrize("keep_series", [True, False])
@pytest.mark.parametrize("kind", [SigGPClassifier, SigGPRegressor])
def test_models_of_every_kind_explain_themselves_and_so_do_saved_ones(kind: Any, keep_series: bool, tmp_path: Path):
    estimator = kind(channel_names=NAMES, keep_series=keep_series)
    classifies = isinstance(estimator, SigGPClassifier)
    estimator.fit(X, Y if classifies else np.round(10 + 5 * X[:, 1].mean(axis=1)))
    loaded = reloaded(estimator, tmp_path / "m")
    assert loaded.explain(X[::10], background=X) == estimator.explain(X[::10], background=X)
    actual = estimator.explain(X, background=X, segments=0)
    for explanation, predicted in zip(actual, estimator.predict(X), strict=True):
        assert (explanation.label == predicted) if classifies else (explanation.mean == pytest.approx(predicted))
        assert classifies or explanation.latent == pytest.approx(predicted)
        shown = sum(term.value for term in explanation.contributions)
        assert explanation.constant + shown + explanation.rest == pytest.approx(explanation.latent, rel=1e-8, abs=1e-8)
        of_views = explanation.constant + sum(view.value for view in explanation.views)
        assert of_views == pytest.approx(explanation.latent, rel=1e-8, abs=1e-8)
    importance = estimator.importance(X, top=7)
    assert loaded.importance(X, top=7) == importance and len(importance.words) == 7 and importance.series == 40
    assert sum(view.share for view in importance.views) == pytest.approx(1)
    shares = {channel.name: channel.share for channel in importance.channels}
    least = 1.5 if classifies and keep_series else 1.2
    assert sum(shares.values()) == pytest.approx(1) and shares["level"] > least * shares["noise"]


@pytest.mark.parametrize("views", ["linear", "path"])
@pytest.mark.parametrize("kind", [SigGPClassifier, SigGPRegressor])
def test_the_same_explanations_with_and_without_training_series(kind: Any, views: str):
    """Of one view there is one member of power 1: means and links are the same in both forms."""
    y = Y if kind is SigGPClassifier else 100 + 50 * X[:, 1].mean(axis=1)
    settings = {"views": [views], "members": 1, "transforms": {"append": "arc"}, "channel_names": NAMES}
    kept, without = (kind(**settings, keep_series=keep).fit(X, y) for keep in (True, False))
    assert {member.recipe.power for member in kept.committee_.members} == {1}
    for one, other in zip(kept.explain(X, segments=0), without.explain(X, segments=0), strict=True):
        size = sum(abs(term.value) for term in one.contributions)
        assert other.latent == pytest.approx(one.latent, abs=1e-8 * size)
        for form in ("contributions", "views", "interactions"):
            ours, theirs = ({term.name: term.value for term in getattr(each, form)} for each in (one, other))
            assert theirs == pytest.approx(ours, abs=1e-8 * size)
    ours, theirs = ({word.name: word.importance for word in model.importance(X)} for model in (kept, without))
    assert theirs == pytest.approx(ours, rel=1e-8)
