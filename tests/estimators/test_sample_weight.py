"""`sample_weight`: what a series counts in a fit."""

from typing import Any

import numpy as np
import pytest
import torch

from helpers.small_estimators import classifier, estimator, outputs, regressor, rising

KINDS = ("classifier", "regressor")
pytestmark = pytest.mark.filterwarnings("ignore::siggpde.committee.novelty.NoveltyWarning")


@pytest.mark.parametrize("kind", KINDS)
def test_only_proportions_matter(kind: str):
    X, y = rising(24, noise=4.0)
    if kind == "regressor":
        y = y + np.random.default_rng(0).normal(size=24)
    alone = outputs(estimator(kind).fit(X, y), X)
    weights = 1.0 + np.arange(24) % 3
    weighted = outputs(estimator(kind).fit(X, y, sample_weight=weights), X)
    assert not np.allclose(weighted, alone, atol=1e-3)
    forms: list[Any] = [7 * weights, torch.from_numpy(weights.astype(int))]
    for form in forms:
        again = outputs(estimator(kind).fit(X, y, sample_weight=form), X)
        np.testing.assert_allclose(again, weighted, atol=1e-6)
    equal = outputs(estimator(kind).fit(X, y, sample_weight=3.0), X)
    np.testing.assert_allclose(equal, alone, atol=1e-5)


def test_integer_weights_are_close_to_repeated_series():
    """Copies are left out together, as groups; they are not exactly weights, for they are more series.

    With one view: of several, weights and copies may choose different ones.
    """

    def fitted(*arguments: Any, **options: Any) -> np.ndarray:
        return classifier(views=["linear"]).fit(*arguments, **options).predict_proba(new)[:, 1]

    X, y = rising(60, noise=3.0)
    new, _ = rising(60, seed=1, noise=3.0)
    counts = np.where(y == 1, 3, 1)
    rows = np.arange(60).repeat(counts)
    weighted, alone = fitted(X, y, sample_weight=counts), fitted(X, y)
    repeated = fitted(X[rows], y[rows], groups=rows)
    assert weighted.mean() > alone.mean() + 0.08
    assert np.abs(weighted - repeated).mean() < 0.35 * np.abs(alone - repeated).mean()


def test_weights_of_classes_and_of_series_multiply():
    X, y = rising(24, noise=4.0)
    weights = 1.0 + np.arange(24) % 3
    by_class = np.where(y == 1, 4.0, 1.0)
    both = classifier(class_weight={0: 1.0, 1: 4.0}).fit(X, y, sample_weight=weights).predict_proba(X)
    product = classifier().fit(X, y, sample_weight=weights * by_class).predict_proba(X)
    np.testing.assert_allclose(both, product, atol=1e-6)


def test_a_series_that_counts_for_much_is_followed():
    X, y = rising(30)
    numbers = np.where(np.arange(30) == 7, 5.0, 0.0) + 0.1 * y
    light = regressor().fit(X, numbers, sample_weight=np.where(np.arange(30) == 7, 0.01, 1.0))
    heavy = regressor().fit(X, numbers, sample_weight=np.where(np.arange(30) == 7, 100.0, 1.0))
    assert heavy.predict(X)[7] > light.predict(X)[7] + 1


@pytest.mark.parametrize("likelihood", ["softmax", "gaussian", "student_t", "poisson"])
def test_the_paper_s_method_follows_heavy_series(likelihood: str):
    """Whatever the likelihood; only proportions count, and the validation score that is kept is weighted."""
    kind = "classifier" if likelihood == "softmax" else "regressor"
    settings: Any = {"method": "paper", "likelihood": likelihood, "max_iter": 40}
    X, y = rising(60, noise=4.0)
    heavy = np.where(np.arange(60) % 4 < 2, 9.0, 1.0)  # heavy series contradict the light ones
    targets = np.where(heavy > 1, y, 1 - y)
    weighted = estimator(kind, **settings).fit(X, targets, sample_weight=heavy)
    again = estimator(kind, **settings).fit(X, targets, sample_weight=7 * heavy)
    alone = estimator(kind, **settings).fit(X, targets)
    np.testing.assert_allclose(outputs(again, X), outputs(weighted, X), atol=1e-6)

    def slope(fitted: Any) -> float:
        predicted = fitted.predict_proba(X)[:, 1] if kind == "classifier" else fitted.predict(X)
        return float(predicted[y == 1].mean() - predicted[y == 0].mean())

    assert slope(weighted) > slope(alone) + 0.05
    assert weighted.committee_.score != alone.committee_.score
    equal = estimator(kind, **settings).fit(X, targets, sample_weight=np.full(60, 3.0))
    np.testing.assert_allclose(outputs(equal, X), outputs(alone, X), atol=1e-8)
