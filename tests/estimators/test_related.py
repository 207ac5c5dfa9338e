"""Related training series: models of copies are those of the series without copies, and settings say what happens."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.small_estimators import classifier, estimator, outputs, random_walks, regressor, reloaded, rising
from siggpde import SigGPClassifier
from siggpde.datasets import load_pendigits

KINDS = ("classifier", "regressor")
X, Y = rising(60)
NEW, TRUTH = rising(60, seed=1)
RANDOM = np.random.default_rng(0)


def windows(recordings: np.ndarray, width: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Windows of recordings, and of which of them each is."""
    starts = range(0, recordings.shape[2] - width + 1, step)
    owner = np.tile(np.arange(len(recordings)), len(starts))
    return np.concatenate([recordings[:, :, at : at + width] for at in starts]), owner


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("times", "noise"), [(2, 0.0), (5, 0.0), (5, 1e-3)])
def test_models_of_copies_are_those_of_the_series_alone(kind: str, times: int, noise: float):
    digits = load_pendigits()
    series, new = digits.X_train[:100], digits.X_test[:100]
    y = digits.y_train[:100]
    if kind == "regressor":
        y = series[:, 0].mean(1) + series[:, 1].std(1) + 3 * RANDOM.normal(size=100)
    copies = np.concatenate([series] + [series + noise * 30 * RANDOM.normal(size=series.shape)] * (times - 1))
    settings: dict[str, Any] = {"transforms": "auto", "members": 2, "n_features": 40}
    alone = estimator(kind, **settings).fit(series, y)
    count = 100 * times
    with pytest.warns(UserWarning, match=rf"{count} of {count} .* in 100 families: the {count - 100} copies are left"):
        fitted = estimator(kind, **settings).fit(copies, np.tile(y, times), sample_weight=np.ones(count))
    assert fitted.n_groups_ is None and fitted.n_series_ == count and fitted.is_fitted_to(copies, np.tile(y, times))
    assert fitted.committee_.left_out.rows.sort().values.tolist() == list(range(100))
    assert outputs(fitted, new) == pytest.approx(outputs(alone, new), abs=1e-9)


def test_what_is_left_of_copies_has_their_mean_weight_and_classes_are_counted_without_copies():
    rows = np.concatenate([np.arange(60), np.flatnonzero(Y == 0), np.flatnonzero(Y == 0), np.flatnonzero(Y == 1)])
    weight = RANDOM.uniform(0.5, 4.0, len(rows))
    mean = np.bincount(rows, weight) / np.bincount(rows)
    with pytest.warns(UserWarning, match="copies are left out"):
        fitted = classifier(class_weight="balanced").fit(X[rows], Y[rows], sample_weight=weight)
    alone = classifier(class_weight="balanced").fit(X, Y, sample_weight=mean)
    np.testing.assert_allclose(fitted.predict_proba(X), alone.predict_proba(X), rtol=0, atol=1e-9)
    unweighted = classifier(class_weight="balanced").fit(X, Y)
    assert np.abs(fitted.predict_proba(X) - unweighted.predict_proba(X)).max() > 1e-6


def test_copies_with_other_labels_or_facts_stay_and_are_groups():
    labels, owner = np.r_[Y, 1 - Y[:20], Y[20:]], np.tile(np.arange(60), 2)
    with pytest.warns(UserWarning, match="in 60 families: the 40 copies are left out and each family is left out as a"):
        fitted = classifier().fit(np.concatenate([X, X]), labels)
    assert fitted.n_groups_ == 60 and len(fitted.committee_.left_out.y) == 80
    copies: dict[str, Any] = {"X": np.concatenate([X, X]), "y": np.tile(Y, 2), "facts": {"hour": np.arange(120.0)}}
    with pytest.warns(UserWarning, match="in 60 families: each family is left out as a group"):
        fitted = classifier().fit(**copies)
    wanted, hours = classifier().fit(**copies, groups=owner), {"hour": np.zeros(60)}
    assert np.array_equal(fitted.predict_proba(NEW, facts=hours), wanted.predict_proba(NEW, facts=hours))


def test_relatives_that_only_kernels_see_are_left_out_together():
    digits = load_pendigits()
    changed = [digits.X_train[:100] * RANDOM.uniform(0.9, 1.1, size=(100, 2, 1)) for _ in range(5)]
    settings: dict[str, Any] = {"transforms": "auto", "members": 2, "n_features": 40}
    with pytest.warns(UserWarning, match="most series look unlike all others once the 7 nearest are left out"):
        fitted = classifier(**settings).fit(np.concatenate(changed), np.tile(digits.y_train[:100], 5))
    alone = classifier(**settings).fit(changed[0], digits.y_train[:100])
    assert fitted.n_groups_ is None and fitted.committee_.left_out.groups is not None
    assert fitted.score(digits.X_test[:100], digits.y_test[:100]) > 0.85
    losses = [-one.log_likelihood(digits.X_test[:100], digits.y_test[:100]).mean() for one in (fitted, alone)]
    assert losses[0] < losses[1] + 0.1


def test_windows_of_recordings_are_groups():
    recordings, labels = random_walks(16, 2, 60), np.arange(16) % 2
    series, owner = windows(recordings + 4 * labels[:, None, None], 20, 5)
    with pytest.warns(UserWarning, match="overlapping in time"):
        fitted = classifier().fit(series, labels[owner])
    wanted = outputs(classifier().fit(series, labels[owner], groups=owner), series)
    assert fitted.n_groups_ == 16 and outputs(fitted, series) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_few_related_series_change_nothing(kind: str):
    series, y = np.concatenate([X, X[:15]]), np.concatenate([Y, Y[:15]])
    wanted = outputs(estimator(kind, related="ignore").fit(series, y), NEW)
    fitted = estimator(kind).fit(series, y)
    assert np.array_equal(outputs(fitted, NEW), wanted) and fitted.n_groups_ is None


def test_settings_and_groups_that_are_given():
    series, y, who = np.concatenate([X, X]), np.tile(Y, 2), np.tile(np.arange(60), 2)
    grouped = outputs(classifier(related="ignore").fit(series, y, groups=who), NEW)
    assert np.array_equal(outputs(classifier().fit(series, y, groups=who), NEW), grouped)
    assert np.array_equal(outputs(classifier(related="error").fit(series, y, groups=who), NEW), grouped)
    assert classifier(related="error").fit(X, Y).n_groups_ is None
    with pytest.raises(ValueError, match=r"120 equal.*such as series 0 and series 60: give groups"):
        classifier(related="error").fit(series, y)
    with pytest.raises(ValueError, match="of different groups, such as series 0 and series 60"):
        classifier(related="error").fit(series, y, groups=np.arange(120) // 60)
    with pytest.raises(ValueError, match="related must be one of 'group', 'ignore', 'error', got 'drop'"):
        regressor(related="drop").fit(X, Y)


def test_copies_of_one_series_for_each_class_are_no_groups():
    with pytest.warns(UserWarning, match="too much of the data to be left out as groups"):
        fitted = classifier().fit(np.repeat(random_walks(2, length=40), 20, axis=0), np.repeat([0, 1], 20))
    assert fitted.n_groups_ is None


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_saved_and_updated_models_stay_grouped(tmp_path: Path):
    fitted = SigGPClassifier(n_features=20, members=1).fit(np.concatenate([X, X]), np.r_[Y, 1 - Y[:5], Y[5:]])
    loaded = reloaded(fitted, tmp_path / "model")
    assert loaded.related == "group" and loaded.n_groups_ == 60
    assert np.array_equal(loaded.predict_proba(NEW), fitted.predict_proba(NEW))
    assert (loaded.partial_fit(NEW[:20], TRUTH[:20]).predict(NEW) == TRUTH).mean() > 0.9
