"""Estimators learn what there is to learn, by every likelihood, and say how sure they may be."""

from typing import Any

import numpy as np
import pytest

from helpers.small_estimators import classifier, estimator, random_walks, regressor, rising
from siggpde.committee.update import Posterior

CLASSIFIERS = ("auto", "least_squares", "softmax", "bernoulli", "robustmax")
REGRESSORS = ("auto", "gaussian", "student_t", "poisson")


def method_of(likelihood: str) -> dict[str, Any]:
    """The method that has the likelihood, trained for long enough."""
    closed = likelihood in ("auto", "least_squares", "gaussian")
    return {} if closed else {"method": "paper", "max_iter": 600, "n_features": 30}


@pytest.mark.parametrize("likelihood", [*CLASSIFIERS[2:], *REGRESSORS[2:]])
def test_views_have_closed_forms_alone(likelihood: str):
    X, y = rising(24)
    kind = "classifier" if likelihood in CLASSIFIERS else "regressor"
    with pytest.raises(ValueError, match=f"likelihood='{likelihood}' .*method='paper'.*SignatureGP"):
        estimator(kind, likelihood=likelihood).fit(X, y)


def noisy(n: int, seed: int, spread: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Walks, and their last point with Gaussian noise."""
    series = random_walks(n, 1, 8, seed)
    return series, series[:, 0, -1] + spread * np.random.default_rng(seed + 1).normal(size=n)


@pytest.mark.parametrize("likelihood", CLASSIFIERS)
def test_likelihoods_of_classes(likelihood: str):
    X, y = rising(60)
    fitted = classifier(likelihood=likelihood, **method_of(likelihood)).fit(X, y)
    unseen, truth = rising(40, seed=1)
    chances = fitted.predict_proba(unseen)
    assert ((chances >= 0) & (chances <= 1)).all() and np.allclose(chances.sum(axis=1), 1)
    assert fitted.score(unseen, truth) > 0.85
    of_truth = np.log(chances[np.arange(40), truth])
    assert fitted.log_likelihood(unseen, truth) == pytest.approx(of_truth, abs=1e-6)
    before = fitted.log_likelihood(unseen, truth).mean()
    fitted.partial_fit(unseen, truth)
    assert fitted.log_likelihood(unseen, truth).mean() > before - 0.01


@pytest.mark.parametrize("likelihood", REGRESSORS)
def test_likelihoods_of_numbers(likelihood: str):
    X, y = noisy(60, 0)
    y = np.round(np.exp(y / 2)) if likelihood == "poisson" else y
    fitted = regressor(likelihood=likelihood, **method_of(likelihood)).fit(X, y)
    assert fitted.score(X, y) > 0.5
    mean, spread = fitted.predict(X, return_std=True)
    assert np.array_equal(mean, fitted.predict(X)) and (spread > 0).all()
    actual = fitted.predict_quantiles(X, [0.05, 0.5, 0.95])
    assert (np.diff(actual, axis=1) >= 0).all() and actual[:, 2].mean() > mean.mean() > actual[:, 0].mean()
    assert np.isfinite(fitted.partial_fit(X, y).log_likelihood(X, y)).all()


@pytest.mark.parametrize("members", [1, 3])
def test_intervals_hold_as_often_as_they_say(members: int):
    fits = [regressor(members=members).fit(*noisy(150, seed)) for seed in range(3)]
    fitted = fits[0]
    unseen, truth = noisy(400, 7)
    for level in (0.5, 0.9):
        inside = []
        for model in fits:
            low, high = model.predict_interval(unseen, level).T
            assert ((low < model.predict(unseen)) & (model.predict(unseen) < high)).all()
            inside.append(((low <= truth) & (truth <= high)).mean())
        assert np.mean(inside) == pytest.approx(level, abs=0.08)
    spreads = [model.predict(unseen, return_std=True)[1].mean() for model in fits]
    assert np.mean(spreads) == pytest.approx(0.5, rel=0.2)  # the noise that there is
    levels = np.array([0.01, 0.2, 0.5, 0.7, 0.99])
    actual = fitted.predict_quantiles(unseen, levels)
    assert actual.shape == (400, 5) and (np.diff(actual, axis=1) > 0).all()
    assert fitted.predict_interval(unseen, 0.98) == pytest.approx(actual[:, [0, 4]], abs=1e-9)


def test_quantiles_that_are_none():
    fitted = regressor().fit(*noisy(20, 0))
    wrong: list[Any] = [0.5, [], [0.0], [0.5, 1.0], [np.nan], "a"]
    for quantiles in wrong:
        with pytest.raises(ValueError, match="quantiles must be a list of numbers between 0 and 1, at least one, got"):
            fitted.predict_quantiles(random_walks(2, 1, 8), quantiles)
    for level in (0, 1, "a"):
        with pytest.raises(ValueError, match="level must be between 0 and 1, got"):
            fitted.predict_interval(random_walks(2, 1, 8), level)


@pytest.mark.parametrize("likelihood", CLASSIFIERS)
def test_class_weights_shift_predictions(likelihood: str):
    X, y = rising(90, noise=6.0)
    rare = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:8]])
    X, y = X[rare], y[rare]
    settings: dict[str, Any] = {"likelihood": likelihood, **method_of(likelihood)}
    plain = classifier(**settings).fit(X, y).predict_proba(X)[:, 1].mean()
    for weight in ("balanced", {1: 10.0}):
        shifted = classifier(**settings, class_weight=weight).fit(X, y).predict_proba(X)[:, 1].mean()
        assert shifted > plain + (0.02 if likelihood == "robustmax" else 0.05)
    even = classifier(**settings, class_weight={0: 1.0, 1: 1.0}).fit(X, y).predict_proba(X)[:, 1].mean()
    assert even == pytest.approx(plain, abs=1e-6)


@pytest.mark.parametrize("members", [1, 2, 4, "auto"])
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_members(kind: str, members: Any):
    X, y = rising(30)
    fitted = estimator(kind, members=members, transforms="auto", n_features=15).fit(X, y)
    committee = fitted.committee_
    assert 1 <= len(committee.members) <= (8 if members == "auto" else members)
    assert len(committee.members) == len(committee.weights)
    assert float(committee.weights.sum()) == pytest.approx(1, abs=1e-12) and committee.weights.dtype.itemsize == 8
    assert (np.round(fitted.predict(X)) == y).mean() > 0.8


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_little_time_still_gives_a_model(kind: str):
    X, y = rising(30)
    fitted = estimator(kind, transforms="auto", members=4, time_limit=1e-3).fit(X, y)
    assert len(fitted.committee_.blocks) == 1  # one view
    assert len(fitted.committee_.members) <= 4
    assert (np.round(fitted.predict(X)) == y).mean() > 0.7


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
@pytest.mark.filterwarnings("ignore::siggpde.committee.novelty.NoveltyWarning")
def test_partial_fit_is_what_all_the_series_would_give(kind: str):
    """The features and the noise are those of the first half; the posterior in them is exact."""
    X, y = rising(160, noise=4.0)
    targets = y if kind == "classifier" else X[:, 0, -1] + np.random.default_rng(0).normal(size=160)
    unseen, labels = rising(200, noise=4.0, seed=1)
    truth = labels if kind == "classifier" else unseen[:, 0, -1]
    parts = estimator(kind).fit(X[:40], targets[:40])
    few = parts.log_likelihood(unseen, truth).mean()
    for start in (40, 80, 120):
        assert parts.partial_fit(X[start : start + 40], targets[start : start + 40]) is parts
    at_once = estimator(kind).fit(X[:40], targets[:40]).partial_fit(X[40:], targets[40:])
    assert parts.n_series_ == at_once.n_series_ == 160
    call = "predict_proba" if kind == "classifier" else "predict"
    assert getattr(parts, call)(unseen) == pytest.approx(getattr(at_once, call)(unseen), abs=1e-6)
    assert parts.log_likelihood(unseen, truth).mean() > few
    whole = estimator(kind).fit(X, targets)
    assert np.abs(getattr(parts, call)(unseen) - getattr(whole, call)(unseen)).mean() < 0.3 * np.std(truth)
    assert "left_out" not in parts.summary_  # those of fit are of fewer series
    expected = {name: value for name, value in whole.summary_.items() if name != "left_out"}
    assert parts.summary_ == (expected if kind == "classifier" else pytest.approx(expected))
    X, y = rising(24)
    more = {"classes": [0, 1]} if kind == "classifier" else {}
    first = estimator(kind).partial_fit(X, y, **more)
    assert np.array_equal(first.predict(X), estimator(kind).fit(X, y).predict(X))


def test_new_series_count_what_those_of_their_class_did():
    X, y = rising(90, noise=6.0)
    rare = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:15]])
    X, y = X[rare], y[rare]
    fitted = {w: classifier(class_weight=w, views=["linear"]).fit(X, y) for w in (None, "balanced")}
    weights = fitted["balanced"].committee_.class_weights
    assert fitted[None].committee_.class_weights is None and weights is not None
    assert weights.tolist() == pytest.approx([len(y) / 90, len(y) / 30])
    heavier = classifier(class_weight={0: 2.0, 1: 6.0}, views=["linear"]).fit(X, y)
    lighter = classifier(class_weight={0: 1.0, 1: 3.0}, views=["linear"]).fit(X, y)
    new, labels = rising(40, noise=6.0, seed=1)
    actual = [model.partial_fit(new, labels).predict_proba(new) for model in (heavier, lighter)]
    np.testing.assert_allclose(*actual, rtol=1e-9)  # what counts is how classes compare
    shifted, plain = (fitted[w].partial_fit(new, labels).predict_proba(new)[:, 1].mean() for w in ("balanced", None))
    assert shifted > plain + 0.05


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_a_failed_partial_fit_changes_nothing(kind: str, monkeypatch: pytest.MonkeyPatch):
    X, y = rising(24, noise=6.0)
    fitted = estimator(kind, members=2, views=["linear", "path"]).fit(X, y)
    assert len(fitted.committee_.members) == 2
    before = fitted.log_likelihood(X, y)
    facts = dict(vars(fitted))
    real, calls = Posterior.add, []

    def second_fails(*arguments: Any, **more: Any) -> None:
        calls.append(1)
        real(*arguments, **more)
        if len(calls) == 2:
            raise MemoryError("no more")

    monkeypatch.setattr(Posterior, "add", second_fails)
    with pytest.raises(MemoryError):
        fitted.partial_fit(X[:, :, :7], y)
    assert np.array_equal(fitted.log_likelihood(X, y), before) and vars(fitted) == facts
