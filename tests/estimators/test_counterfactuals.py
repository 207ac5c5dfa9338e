"""Counterfactuals of estimators: what they claim is so, and they are found where the cause was planted."""

import json

import numpy as np
import pytest

from helpers.refusals import assert_refused
from helpers.small_estimators import classifier, regressor, reloaded, rising
from siggpde import SigGPClassifier, SigGPRegressor
from siggpde.datasets import load_dataset

START, END = 18, 27  # of the bump


def bumps(n: int = 60, seed: int = 0, length: int = 45):
    """Noise of three channels, and in every second series a bump in the channel in the middle."""
    random = np.random.default_rng(seed)
    X = 0.3 * random.normal(size=(n, 3, length))
    y = np.array(["flat", "bump"])[np.arange(n) % 2]
    X[1::2, 1, START:END] += 3 * np.hanning(END - START + 2)[1:-1]
    return X, y


@pytest.fixture(scope="module")
def fitted():
    return SigGPClassifier(views=["path", "windows"], members=2, channel_names=["x", "y", "z"]).fit(*bumps())


def check(model, actual, x):
    """Every claim, made anew."""
    assert np.array_equal(actual.original, x, equal_nan=True)
    predicted = model.predict(actual.series[None])[0]
    assert actual.valid == (predicted == actual.target)
    place = model.classes_.tolist().index(actual.target)
    assert model.predict_proba(actual.series[None])[0, place] == pytest.approx(actual.probability_after)
    assert model.predict_proba(x[None])[0, place] == pytest.approx(actual.probability_before)
    assert model.novelty(actual.series[None])[0] == pytest.approx(actual.p_value)
    changed = ~((actual.series == x) | np.isnan(x))
    values = x if model.time_channel is None else np.delete(x, model.time_channel, axis=0)
    assert changed.sum() / np.isfinite(values).sum() == pytest.approx(actual.share)


@pytest.mark.parametrize("number", [0, 1, 3])
def test_the_change_is_where_the_cause_was_planted(fitted, number: int, tmp_path):
    X, y = bumps(8, seed=1)
    actual = fitted.counterfactual(X[number])
    check(fitted, actual, X[number])
    assert actual.valid and actual.label == y[number] != actual.target and actual.p_value > 0.05
    assert "y" in actual.channels
    assert actual.start < END and actual.end >= START
    moved = np.abs(actual.series - X[number])
    assert moved[1, START - 2 : END + 2].sum() > 0.5 * moved.sum()
    changed = np.flatnonzero(moved.any(axis=0))
    assert (actual.start, actual.end) == (changed[0], changed[-1])
    assert actual.share < 0.5
    assert f"{actual.label} becomes {actual.target} if " in str(actual)
    assert actual.to_dict()["series"] == actual.series.tolist()
    again = reloaded(fitted, tmp_path / "model")
    assert again.counterfactual(X[None, number]) == actual != fitted.counterfactual(X[4])


def test_gaps_time_stamps_unequal_lengths_and_masks():
    random = np.random.default_rng(0)
    series, labels = [], []
    for number in range(50):
        times = np.sort(random.uniform(0, 10, random.integers(25, 40)))
        values = 0.2 * random.normal(size=(2, len(times)))
        values[0] += 2 * (number % 2) * np.exp(-((times - 5) ** 2))
        values[1, random.integers(0, len(times), 3)] = np.nan
        series.append(np.stack([times, *values]))
        labels.append(bool(number % 2))
    model = classifier(time_channel=0, mask=True, channel_names=["t", "a", "b"], n_features=100).fit(series, labels)
    for x in series[:2]:
        actual = model.counterfactual(x)
        check(model, actual, x)
        assert actual.valid and set(actual.channels) <= {"a", "b"}
        assert np.array_equal(actual.series[0], x[0])  # time stamps
        assert np.array_equal(np.isnan(actual.series), np.isnan(x))
        assert {actual.start, actual.end} <= set(x[0]) and actual.start < 7 and actual.end > 3
        padded = np.concatenate([x, np.full((3, 5), np.nan)], axis=1)
        assert np.array_equal(model.counterfactual(padded).series[:, : x.shape[1]], actual.series, equal_nan=True)


def test_long_series_are_changed_in_their_own_points_and_spectrograms_not():
    random, y = np.random.default_rng(0), np.arange(30) % 2
    long = (2.0 * y[:, None, None] - 1) * np.linspace(0, 2, 120) + 0.2 * random.normal(size=(30, 1, 120))
    model = classifier(max_points=20).fit(long, y)
    actual = model.counterfactual(long[0])
    check(model, actual, long[0])
    assert actual.valid and actual.series.shape == (1, 120)
    X = np.random.default_rng(0).normal(size=(12, 1, 200))
    model = classifier(spectrogram={"rate": 100, "nfft": 20, "overlap": 10}).fit(X, np.arange(12) % 2)
    assert_refused("spectrograms, which cannot be turned back", model.counterfactual, X[0])


def test_models_without_series_need_donors():
    X, y = rising(24)
    for settings in ({"keep_series": False, "views": ["windows"]}, {"method": "paper"}):
        model = classifier(**settings).fit(X, y)
        assert_refused(r"keeps no training series.*donors=X", model.counterfactual, X[0])
        other = 1 - model.predict(X[:1])[0]
        actual = model.counterfactual(X[0], donors=X[y == other])
        assert actual.target == other
        check(model, actual, X[0])


def test_what_cannot_be_turned_is_not_claimed(fitted):
    X, y = rising(24, noise=0.2)
    model = classifier().fit(X, y)
    like_the_first = X[model.predict(X) == model.predict(X[:1])[0]]
    actual = model.counterfactual(X[0], donors=like_the_first[1:4])
    check(model, actual, X[0])
    assert not actual.valid and "no change of a stretch was found that makes it" in str(actual)
    x = bumps(2, seed=1)[0][0]
    actual = fitted.counterfactual(x, donors=x[None])
    assert not actual.valid and actual.channels == () and np.array_equal(actual.series, x)
    assert str(actual) == "no change of a stretch was found that makes it bump, or nearer to it"


def test_numbers_reach_an_interval_or_a_limit_or_neither():
    X, y = rising(40, classes=5, noise=0.2)
    model = regressor().fit(X, 10.0 * y)
    now = model.predict(X[:1])[0]
    for target in (now + 8, (now + 5, now + 6)):
        actual = model.counterfactual(X[0], target)
        assert actual.valid and actual.label is None and actual.probability_after is None
        (then,) = model.predict(actual.series[None])
        assert then == pytest.approx(actual.mean_after) and actual.target[0] <= then <= actual.target[1]
        assert "becomes" in str(actual)
    assert_refused("give a target", model.counterfactual, X[0])
    X, _ = bumps(20)
    model = SigGPRegressor(views=["linear"], members=1).fit(X, X[:, 1].sum(axis=1))
    actual = model.counterfactual(X[0], 1e6, donors=X)
    assert not actual.valid and actual.to_dict()["target"] == [1e6, None]
    assert f"{actual.mean_before:.4g} before, {actual.mean_after:.4g} after" in str(actual)
    json.dumps(actual.to_dict(), allow_nan=False)
    assert "makes it at least 1e+06; the best" in str(actual)
    reached = model.counterfactual(X[1], float(model.predict(X[1:2])[0]) - 1)
    assert reached.valid and f"the target is at most {reached.target[1]:.4g}" in str(reached)


@pytest.mark.parametrize(
    ("x", "settings", "message"),
    [
        (np.zeros((2, 45)), {}, r"with the 3 channels of fit; got shape \(2, 45\)"),
        (np.zeros((2, 3, 45)), {}, r"one series.*got shape \(2, 3, 45\)"),
        (np.zeros((3, 45)), {"target": "hill"}, "one of the classes"),
        (bumps(2, seed=1)[0][0], {"target": "flat"}, "predicted as 'flat' already"),
        (np.zeros((3, 45)), {"plausible": 5}, "plausible must be a p-value"),
        (np.zeros((3, 45)), {"donors": np.zeros((2, 4, 45))}, "donors must be series.*4 channels"),
        (np.zeros((3, 45)), {"target": np.array(["flat", "bump"])}, "one of the classes"),
        ([["a"] * 45] * 3, {}, "x must hold real numbers"),
    ],
)
@pytest.mark.filterwarnings("ignore::siggpde.committee.novelty.NoveltyWarning")
def test_what_does_not_fit_is_refused(fitted, x, settings, message):
    assert_refused(message, fitted.counterfactual, x, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GunPoint", "BasicMotions"])
def test_real_series_change_less_than_by_their_nearest_unlike_neighbour(name: str):
    data = load_dataset(name)
    model = SigGPClassifier().fit(data.X_train, data.y_train)
    spread = np.asarray(data.X_train).std(axis=(0, 2))[:, None]
    ratios, shares, plausible = [], [], []
    for x in np.asarray(data.X_test, dtype=float)[::15]:
        actual = model.counterfactual(x)
        check(model, actual, x)
        assert actual.valid
        unlike = data.X_train[np.asarray(data.y_train) == actual.target]
        ratios.append(actual.size / (np.abs(unlike - x) / spread).mean(axis=(1, 2)).min())
        shares.append(actual.share)
        plausible.append(actual.p_value > 0.05)
    assert max(ratios) < 1 and np.median(ratios) < 0.5 and np.median(shares) < 0.6 and np.mean(plausible) >= 0.8


@pytest.mark.slow
def test_numbers_of_real_series():
    data = load_dataset("Covid3Month")
    model = SigGPRegressor().fit(data.X_train, data.y_train)
    x = np.asarray(data.X_test, dtype=float)[0]
    actual = model.counterfactual(x, float(np.quantile(np.asarray(data.y_train, dtype=float), 0.9)))
    assert actual.valid == (model.predict(actual.series[None])[0] >= actual.target[0])
