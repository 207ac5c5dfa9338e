"""`predict_set`, conformal `predict_interval` and decisions by cost, as users call them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.refusals import assert_refused
from helpers.small_estimators import classifier, random_walks, regressor, reloaded, rising
from siggpde.committee.novelty import NoveltyWarning

NAMES = np.array(["flat", "up", "very steep"])


@pytest.fixture(scope="module")
def fitted() -> Any:
    X, y = rising(60, 3, noise=2.0)
    return classifier().fit(X, NAMES[y])


def test_sets_of_classes(fitted: Any, tmp_path: Path):
    X, y = rising(300, 3, seed=1, noise=2.0)
    sets = fitted.predict_set(X)
    assert sets.shape == (300, 3) and sets.dtype == bool
    assert sets[np.arange(300), y].mean() > 0.8  # 90 %, less 2.5 standard errors of 60 series to compare with
    assert 1 <= sets.sum(axis=1).mean() < 3
    assert sets[np.arange(300), fitted.predict_proba(X).argmax(axis=1)].all()
    assert not fitted.predict_set(X, 0.3, allow_empty=True).any(axis=1).all()
    X, _ = rising(40, 3, seed=1, noise=2.0)
    again = reloaded(fitted, tmp_path / "model")
    for settings in ({}, {"allow_empty": True}, {"by_class": True, "level": 0.7}):
        assert np.array_equal(again.predict_set(X, **settings), fitted.predict_set(X, **settings))
    X, y = rising(40, 3, noise=2.0)
    model = classifier().fit(X, y).partial_fit(*rising(20, 3, seed=4, noise=2.0))
    new, truth = rising(200, 3, seed=1, noise=2.0)
    assert model.predict_set(new)[np.arange(200), truth].mean() > 0.8


def test_sets_of_novel_series_are_those_of_the_probabilities_shown(fitted: Any):
    X, _ = rising(40, 3, seed=1, noise=2.0)
    far = 1000 * X
    with pytest.warns(NoveltyWarning):
        sets = fitted.predict_set(far)
    with pytest.warns(NoveltyWarning):
        chances = fitted.predict_proba(far)
    assert chances.max() < 1 / 3 + 0.01
    assert sets[np.arange(40), chances.argmax(axis=1)].all() and (sets.sum(axis=1) >= 2).all()


def test_intervals_of_numbers(tmp_path: Path):
    X = random_walks(120)
    y = 1000 + 50 * X[:, 0, -1] + 20 * np.random.default_rng(0).standard_t(3, size=120)
    model = regressor().fit(X[:60], y[:60])
    ends = model.predict_interval(X[60:], 0.8, method="conformal")
    assert ends.shape == (60, 2) and (ends[:, 0] < ends[:, 1]).all()
    assert 0.65 < ((ends[:, 0] <= y[60:]) & (y[60:] <= ends[:, 1])).mean() < 0.95
    np.testing.assert_allclose(model.predict_interval(X, 0.8), model.predict_quantiles(X, [0.1, 0.9]), rtol=1e-9)
    again = reloaded(model, tmp_path / "model")
    np.testing.assert_allclose(again.predict_interval(X[60:], 0.8, method="conformal"), ends, rtol=1e-9)


def test_wrong_levels_and_methods(fitted: Any):
    X, _ = rising(3, 3)
    for level in (0, 1, 90, "high", float("nan")):
        assert_refused("level must be between 0 and 1", fitted.predict_set, X, level)
    numbers = regressor().fit(X, [1.0, 2.0, 4.0])
    assert_refused("'bayes' or 'conformal', got 'frequentist'", numbers.predict_interval, X, method="frequentist")
    with pytest.raises(ValueError, match="likelihood='auto'"):
        regressor(method="paper").fit(X, [1.0, 2.0, 4.0]).predict_interval(X, method="conformal")
    X, y = rising(12)
    model = classifier(method="paper").fit(X, y)
    assert_refused("likelihood='auto'", model.predict_set, X)


def test_decisions_cost_least_on_average(fitted: Any):
    X, _ = rising(200, 3, seed=1, noise=2.0)
    p, labels = fitted.predict_proba(X), fitted.classes_
    costs = np.array([[0.0, 1.0, 5.0], [2.0, 0.0, 1.0], [30.0, 1.0, -1.0]])
    decided = fitted.predict(X, costs=costs)
    for chances, label in zip(p, decided, strict=True):
        expected = [sum(chances[t] * costs[t, d] for t in range(3)) for d in range(3)]
        assert expected[labels.tolist().index(label)] == pytest.approx(min(expected), abs=1e-12)
    assert (decided != fitted.predict(X)).any()
    assert np.array_equal(fitted.predict(X, costs=1 - np.eye(3)), fitted.predict(X))


def test_dont_know(fitted: Any):
    X, y = rising(200, 3, seed=1, noise=2.0)
    answers, sure = fitted.predict(X, reject_cost=0.1), fitted.predict_proba(X).max(axis=1) >= 0.9
    assert 0 < sure.sum() < 200 and np.array_equal(answers != "don't know", sure)
    assert np.array_equal(answers[sure], fitted.predict(X)[sure])
    assert (answers == NAMES[y])[sure].mean() > (fitted.predict(X) == NAMES[y]).mean() + 0.05
    for labels in (y, y.astype(bool)):
        other = classifier().fit(X[:40], labels[:40]).predict(X, reject_cost=0.1)
        known = np.array([answer is not None for answer in other])
        assert other.dtype == object and 0 < known.sum() < 200 and type(other[known][0]) in (int, bool)
    always = fitted.predict(X, reject_cost=2.0)
    assert np.array_equal(always, fitted.predict(X)) and (fitted.predict(X, reject_cost=-1) == "don't know").all()


def test_wrong_costs(fitted: Any):
    X, y = rising(6, 3)
    for costs, words in (
        (np.zeros((2, 3)), r"shape \(3, 3\), a row for each true class"),
        ([[0, 1, np.inf], [0, 0, 0], [0, 0, 0]], "deciding very steep where flat is true is inf"),
        ("cheap", "matrix of numbers"),
    ):
        assert_refused(words, fitted.predict, X, costs=costs)
    assert_refused("reject_cost must be a number", fitted.predict, X, reject_cost="much")
    taken = classifier().fit(X, np.array(["don't know", "yes", "no"])[y])
    assert_refused("rename it", taken.predict, X, reject_cost=0.5)
