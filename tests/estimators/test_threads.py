"""Fits and predictions do not depend on the threads or on the instruction set of the processor."""

import os
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator

from helpers.processes import run
from helpers.random_paths import numbers_from
from helpers.small_estimators import classifier, random_walks, rising
from siggpde import SigGPClassifier, SigGPRegressor
from siggpde.numerics.core import core, usual_threads


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
    X = random_walks(40, 2, 30)
    y = np.arange(40) % 3
    X[:, 0] += y[:, None]
    one, more = (SigGPClassifier(n_jobs=count).fit(X, y).predict_proba(X) for count in (1, jobs))
    np.testing.assert_array_equal(one, more)
    target = X.mean(axis=(1, 2))
    one, more = (SigGPRegressor(n_jobs=count).fit(X, target).predict(X, return_std=True) for count in (1, jobs))
    np.testing.assert_array_equal(one, more)


FORK = """
import os, sys, time
import numpy as np
from helpers.small_estimators import classifier, rising
X, Y = rising(1100)
fitted = classifier(n_jobs=2, method=sys.argv[1]).fit(X[:50], Y[:50])
expected = fitted.predict_proba(X)
child = os.fork()
if child == 0:
    found = fitted.predict_proba(X)
    os._exit(0 if np.allclose(found, expected, rtol=1e-9) else 3)
end = time.monotonic() + 300
while time.monotonic() < end:
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        print("exit", os.waitstatus_to_exitcode(status))
        break
    time.sleep(0.05)
else:
    os.kill(child, 9)
    print("the child hangs")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("method", ["views", "paper"])
def test_a_forked_process_predicts_though_its_parent_used_the_pool_of_torch(
    method: str, monkeypatch: pytest.MonkeyPatch
):
    """More than 1000 series and threads that sleep while they wait: there torch has as many threads as the core."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert run(FORK, method).strip() == "exit 0"


CODE = """
import json
import numpy as np
from siggpde import SigGPClassifier, SigGPRegressor
from siggpde.numerics.core import core

random = np.random.default_rng(0)
X = random.normal(size=(60, 2, 40)).cumsum(axis=2)
y = X[:, 0].max(axis=1) - X[:, 1].mean(axis=1)
labels = (y > np.median(y)).astype(int)
classifier = SigGPClassifier().fit(X[:40], labels[:40])
regressor = SigGPRegressor().fit(X[:40], y[:40])
mean, std = regressor.predict(X[40:], return_std=True)
weights = classifier.committee_.weights.tolist() + regressor.committee_.weights.tolist()
print(json.dumps([core.isa(), classifier.predict_proba(X[40:]).tolist(), mean.tolist(), std.tolist(), weights]))
"""


@cache
def results(isa: str) -> list[Any]:
    return numbers_from(CODE, SIGGPDE_ISA=isa)


@pytest.mark.skipif(core is None, reason="there is no core")
@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_estimators_are_the_same_to_the_last_bit(isa: str):
    name, *numbers = results(isa)
    if name != isa:
        pytest.skip(f"this processor has no {isa}")
    assert numbers == results("")[1:]
