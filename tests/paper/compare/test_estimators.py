"""Peers have the same scores as aeon's own classifiers, and honest probabilities by the best temperature of a grid."""

import math
from typing import Any

import numpy as np
import pytest

from siggpde_paper.compare import METHODS, Run, Split, judge, methods

RUN = Run(seed=0)


def waves(n: int = 30, length: int = 20, channels: int = 1, classes: int = 2, seed: int = 0) -> Any:
    """Noisy waves (n, channels, length) whose frequency is the class."""
    generator = np.random.default_rng(seed)
    y = np.arange(n) % classes
    times = np.linspace(0, 3, length) * (1 + y[:, None, None]) + generator.random((n, channels, 1))
    return np.sin(times) + 0.3 * generator.normal(size=(n, channels, length)), np.array(["a", "b", "c"])[y]


class Raw:
    """Series as they are, in place of a transform."""

    def fit_transform(self, X: np.ndarray) -> np.ndarray:
        return X.reshape(len(X), -1)

    transform = fit_transform


@pytest.mark.parametrize("head", [methods.RidgeHead, methods.TreesHead, methods.LogisticHead])
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_of_every_head(head: Any, classes: int):
    X, y = waves(60, classes=classes)
    model = methods.FeatureClassifier(methods.Features([(Raw(), None)]), head, seed=0).fit(X[:30], y[:30])
    chances = model.predict_proba(X[30:])
    assert chances.shape == (30, classes) and chances.sum(axis=1) == pytest.approx(1)
    assert chances.min() >= 1 / 32 / classes - 1e-12  # the lapse
    assert (model.classes_[chances.argmax(axis=1)] == y[30:]).mean() > 0.7


def test_a_class_with_one_series_is_learned_all_the_same():
    X, y = waves(21)
    y = np.array([*y[:20], "rare"])
    for head in (methods.RidgeHead, methods.TreesHead, methods.LogisticHead):
        model = methods.FeatureClassifier(methods.Features([(Raw(), None)]), head, seed=0).fit(X, y)
        assert model.predict_proba(X).shape == (21, 3)
    with pytest.raises(ValueError, match="only one class"):
        methods.FeatureClassifier(methods.Features([(Raw(), None)]), methods.RidgeHead, seed=0).fit(X, np.zeros(21))


def test_the_logistic_regression_does_not_depend_on_the_coordinates():
    """More columns than rows: the same probabilities after any rotation, and as with the columns themselves."""
    X, y = waves(40, length=60)
    codes = (y == "b").astype(int)
    table = X.reshape(40, -1)
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(60, 60)))[0]
    heads = [methods.LogisticHead(), methods.LogisticHead(), methods.LogisticHead()]
    heads[0].fit(table, codes, 0)
    heads[1].fit(table @ rotation, codes, 0)
    few, columns = np.linalg.qr(table.T)
    heads[2].fit(columns.T, codes, 0)  # as many columns as rows: no coordinates are made
    new = waves(10, length=60, seed=5)[0].reshape(10, -1)
    expected = np.exp(heads[0].scores(new))
    assert np.exp(heads[1].scores(new @ rotation)) == pytest.approx(expected, abs=1e-3)
    assert np.exp(heads[2].scores(new @ few)) == pytest.approx(expected, abs=1e-3)


def test_regressions_are_as_sure_as_they_may_be():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 1, 12))
    y = X[:, 0].sum(axis=1) + 0.5 * generator.normal(size=200)
    model = methods.FeatureRegressor(methods.Features([(Raw(), None)]), seed=0).fit(X[:100], y[:100])
    assert model.std_ == pytest.approx(0.5, rel=0.25)
    mean, std = model.predict(X[100:], return_std=True)
    errors = (y[100:] - mean) / std
    wanted = -0.5 * errors**2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    assert model.log_likelihood(X[100:], y[100:]) == pytest.approx(wanted)
    quantiles = model.predict_quantiles(X[100:], [0.05, 0.5, 0.95])
    assert quantiles[:, 1] == pytest.approx(mean) and quantiles[:, 2] - mean == pytest.approx(1.6449 * std, rel=1e-3)


def test_minirocket_on_few_short_series():
    pytest.importorskip("aeon", reason="MiniRocket is aeon's")
    X, y = waves(60, classes=3)
    ragged = [one[:, : 20 - number % 7] for number, one in enumerate(X)]
    split = Split(np.arange(30), np.arange(30, 60))
    for data in (X, ragged):
        actual = judge(METHODS["minirocket"], "classification", data, y, split, RUN)
        assert actual["accuracy"] > 0.6 and 0 < actual["nlpp"] < 1.1 and actual["cpu_calibration"] <= actual["cpu_fit"]
        again = judge(METHODS["minirocket"], "classification", data, y, split, RUN)
        assert again["nlpp"] == actual["nlpp"]
    numbers = X[:, 0].mean(axis=1)
    assert judge(METHODS["minirocket"], "regression", X, numbers, split, RUN)["rmse"] < numbers.std()
    X, y = waves(40, length=4)
    model = METHODS["minirocket"].make("classification", RUN).fit(X, y)
    assert model.length_ == 10 and model.predict_proba(X).shape == (40, 2)


@pytest.mark.slow
def test_peers_classify_as_the_classifiers_of_aeon():
    """The pipelines are written out here for the sake of out-of-fold scores; their scores are those of aeon."""
    pytest.importorskip("aeon", reason="the peers are aeon's")
    from aeon.classification.convolution_based import MiniRocketClassifier, MultiRocketHydraClassifier  # noqa: PLC0415 - optional
    from aeon.classification.interval_based import QUANTClassifier  # noqa: PLC0415

    X, y = waves(80, length=30, classes=3)
    theirs = {"minirocket": MiniRocketClassifier, "mr-hydra": MultiRocketHydraClassifier, "quant": QUANTClassifier}
    for name, kind in theirs.items():
        model = METHODS[name].make("classification", RUN).fit(X[:40], y[:40])
        expected = kind(random_state=0).fit(X[:40], y[:40]).predict(X[40:])
        assert (model.classes_[model.predict_proba(X[40:]).argmax(axis=1)] == expected).mean() >= 0.975, name


def noisy_scores(n: int, classes: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    y = generator.integers(classes, size=n)
    return 2.0 * np.eye(classes)[y] - 1 + noise * generator.normal(size=(n, classes)), y


@pytest.mark.parametrize(("n", "classes", "noise"), [(30, 2, 0.2), (200, 3, 1.0), (500, 10, 2.0), (40, 4, 6.0)])
@pytest.mark.parametrize("centre", [0.0, methods.RIDGE_CENTRE])
def test_the_temperature_is_the_best_of_a_fine_grid(n: int, classes: int, noise: float, centre: float):
    scores, y = noisy_scores(n, classes, noise)
    link = methods.fit_link(scores, y, methods.lapse_of(n), centre)
    grid = np.exp(np.linspace(math.log(1 / 32), math.log(128), 4001))
    best = []
    for temperature in grid:  # the formula once more, from the start
        powers = np.exp(temperature * (scores - scores.max(axis=1, keepdims=True)))
        chances = (1 - 1 / (n + 2)) * powers / powers.sum(axis=1, keepdims=True) + 1 / (n + 2) / classes
        prior = 0.5 * (math.log(temperature) - centre) ** 2
        best.append(prior - np.log(chances[np.arange(n), y]).sum())
    least = methods.temperature_loss(math.log(link.temperature), scores, y, methods.lapse_of(n), centre)
    assert least <= min(best) + 1e-9
    assert link.temperature == pytest.approx(grid[int(np.argmin(best))], rel=5e-3)


def test_temperatures_and_probabilities_of_links():
    more = methods.lapse_of(300), methods.RIDGE_CENTRE
    actual = [methods.fit_link(*noisy_scores(300, 3, noise), *more).temperature for noise in (0.3, 1, 3)]
    assert actual[0] > actual[1] > actual[2]
    link = methods.fit_link(np.zeros((5, 2)), np.array([0, 1, 0, 1, 0]), methods.lapse_of(5), methods.RIDGE_CENTRE)
    assert link.temperature == pytest.approx(4.0, rel=1e-3)
    chances = methods.Link(50.0, methods.lapse_of(8)).probabilities(np.array([[1e6, 0.0, -1e6], [0.0, 0.0, 0.0]]))
    assert chances.sum(axis=1) == pytest.approx(1) and chances.min() == pytest.approx(0.1 / 3)
    assert chances[1] == pytest.approx(1 / 3)
