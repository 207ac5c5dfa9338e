"""Threads of a fit and of predictions."""

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator

from helpers.small_estimators import classifier, rising, walks
from siggpde import SigGPClassifier, SigGPRegressor
from siggpde.numerics.threads import usual_threads


class Watching(BaseEstimator):
    """A transformer that notes the threads of the core and of torch at every call."""

    def __init__(self) -> None:
        self.seen = set()

    def fit(self, X, y=None):
        self.seen.add((usual_threads(), torch.get_num_threads()))
        return self

    def transform(self, X):
        self.fit(X)
        return X.reshape(len(X), -1)


def test_few_series_are_fitted_and_predicted_without_the_pool_of_torch():
    X, y = rising()
    watching = Watching()
    model = classifier(views=[("own", watching)], n_jobs=3).fit(X, y)
    model.predict_proba(X)
    assert watching.seen == {(3, 1)}


@pytest.mark.parametrize("jobs", [2, -1])
def test_threads_change_no_bit_of_a_default_fit(jobs):
    X = walks(40, 2, 30)
    y = np.arange(40) % 3
    X[:, 0] += y[:, None]
    one, more = (SigGPClassifier(n_jobs=each).fit(X, y).predict_proba(X) for each in (1, jobs))
    np.testing.assert_array_equal(one, more)
    target = X.mean(axis=(1, 2))
    one, more = (SigGPRegressor(n_jobs=each).fit(X, target).predict(X, return_std=True) for each in (1, jobs))
    np.testing.assert_array_equal(one, more)
