"""The estimators keep the conventions of scikit-learn and of aeon."""

import pickle
import re
from typing import Any, cast

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from helpers.conformance import assert_aeon_finds_nothing_wrong, failed_checks, needs_aeon
from helpers.refusals import assert_refused
from helpers.small_estimators import classifier, estimator, outputs, random_walks, regressor, rising
from siggpde import SigGPClassifier, SigGPRegressor

KINDS = ("classifier", "regressor")

# scikit-learn takes a 2-D X for a table whose columns have a meaning each, and wants an error where predict or
# partial_fit gets another number of them. Here they are time points, and series may have any length.
LENGTHS = "series may be shorter or longer than those of fit"
# A weight of 0 asks for a series that is not there, which whoever has it can leave out. Nor is a weight of 2 the same
# as the series twice: each of the two is left out while the other stays, so that copies look like better predictions.
WEIGHTS = "weights are positive, and series with weights are not the same as copies"
MESSAGES = {
    LENGTHS: r"number\sof features",
    WEIGHTS: "weights are positive numbers|failed when fitted on one label after",
}
EXPECTED = {
    "SigGPClassifier": {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_classifiers_one_label_sample_weights": WEIGHTS,
        "check_n_features_in_after_fitting": LENGTHS,
        "check_estimators_partial_fit_n_features": LENGTHS,
        "check_classifiers_train": LENGTHS,
    },
    "SigGPRegressor": {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_n_features_in_after_fitting": LENGTHS,
        "check_estimators_partial_fit_n_features": LENGTHS,
    },
}


@needs_aeon
@pytest.mark.parametrize("kind", [SigGPClassifier, SigGPRegressor])
@pytest.mark.filterwarnings("ignore")
def test_aeon_finds_nothing_wrong(kind: Any):
    assert_aeon_finds_nothing_wrong(kind)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SigGPClassifier", "SigGPRegressor"])
def test_scikit_learn_finds_nothing_wrong_but_lengths_and_weights(name: str):
    failed = failed_checks(name, at_least=40, n_features=60, members=1, transforms={})
    assert {check: message for check, message in failed.items() if check not in EXPECTED[name]} == {}
    assert set(failed) == set(EXPECTED[name])
    assert all(re.search(MESSAGES[EXPECTED[name][check]], message) for check, message in failed.items())


@needs_aeon
def test_with_aeon_estimators_are_those_of_aeon():
    from aeon.classification import BaseClassifier  # noqa: PLC0415
    from aeon.regression import BaseRegressor  # noqa: PLC0415

    assert isinstance(classifier(), BaseClassifier) and isinstance(regressor(), BaseRegressor)
    assert cast(Any, classifier()).get_tag("capability:unequal_length")


@pytest.mark.parametrize("kind", KINDS)
def test_fitted_or_not(kind: str):
    X, y = rising()
    fresh = estimator(kind)
    with pytest.raises(NotFittedError):
        check_is_fitted(fresh)
    calls = [fresh.predict, lambda X: fresh.log_likelihood(X, y), lambda X: fresh.save("nowhere")]
    calls.append(fresh.predict_proba if kind == "classifier" else fresh.predict_interval)
    for call in calls:
        assert_refused("has not been fitted yet; call fit first", call, X, error=NotFittedError)
    assert fresh.fit(X, y) is fresh
    check_is_fitted(fresh)
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(fresh))


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_only_stored(kind: str):
    mine = estimator(kind, random_state=3, channel_names=["a"])
    parameters, copied = mine.get_params(), cast(Any, clone(mine))
    assert type(mine)(**parameters).get_params() == parameters == copied.get_params()
    assert mine.set_params(n_features=7) is mine and mine.n_features == 7
    assert_refused("Invalid parameter 'nonsense'", mine.set_params, nonsense=1)
    with pytest.raises(TypeError):
        type(mine)(nonsense=1)
    shown = repr(mine)
    assert shown.startswith(type(mine).__name__) and "n_features=7" in shown and "verbose" not in shown
    assert is_classifier(mine) == (kind == "classifier") and is_regressor(mine) == (kind == "regressor")
    wrong: dict[str, Any] = {"n_features": -1, "likelihood": object(), "transforms": 3, "checkpoint": 5}
    mine = estimator(kind, **wrong)
    assert all(getattr(mine, name) is value for name, value in wrong.items())


@pytest.mark.parametrize("kind", KINDS)
def test_pickle_and_fitting_again(kind: str):
    X, y = rising()
    fitted = estimator(kind).fit(X, y)
    assert np.array_equal(outputs(pickle.loads(pickle.dumps(fitted)), X), outputs(fitted, X))
    other = random_walks(10, channels=3, length=5)
    again = fitted.fit(other, np.arange(10) % 2)
    assert again.n_channels_ == 3 and again.length_range_ == (5, 5) and again.n_series_ == 10
    assert np.array_equal(outputs(again, other), outputs(estimator(kind).fit(other, np.arange(10) % 2), other))


def test_grid_search_cross_validation_and_pipelines():
    X, y = rising(36)
    search = GridSearchCV(classifier(), {"n_features": np.array([5, 20]), "members": [1, 2]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.8 and search.predict(X).shape == (36,)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert cross_val_score(classifier(), X, y, cv=3, scoring="neg_log_loss").mean() > -0.6
    assert cross_val_score(regressor(), X, X[:, 0, -1], cv=3).mean() > 0.8
    piped = make_pipeline(FunctionTransformer(np.negative), classifier()).fit(X, y)
    assert np.array_equal(piped.predict_proba(X), classifier().fit(-X, y).predict_proba(-X))
    assert piped.score(X, y) > 0.8
    X, y = rising(30)
    ragged = [series[:, : 6 + i % 7] for i, series in enumerate(X)]
    assert cross_val_score(classifier(), ragged, y, cv=3).mean() > 0.7


def test_scores():
    X, y = rising()
    fitted = classifier().fit(X, y)
    assert fitted.score(X, y) == (fitted.predict(X) == y).mean()
    number = X[:, 0, -1]
    mine = regressor().fit(X, number)
    residual = ((mine.predict(X) - number) ** 2).sum() / ((number - number.mean()) ** 2).sum()
    assert mine.score(X, number) == pytest.approx(1 - residual)
