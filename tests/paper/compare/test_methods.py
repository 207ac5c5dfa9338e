"""Figures against values by hand, the methods that do not look at the series, and the choice of methods."""

import math
import sys
from typing import Any

import numpy as np
import pytest

from helpers.refusals import assert_refused
from siggpde_paper.compare import METHODS, Method, Run, Split, choose_methods, judge, ours, spread
from siggpde_paper.compare.splits import cpu_seconds

HALVES = Split(np.arange(4), np.arange(4, 8))


class Stated:
    """A classifier whose probabilities are the first two points of a series; a regressor with a fixed width."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def fit(self, X: Any, y: Any) -> None:
        self.classes_ = np.unique(y)

    def predict_proba(self, X: Any) -> np.ndarray:
        return X[:, 0, :2]

    def predict(self, X: Any, return_std: bool = False) -> Any:
        return X[:, 0, 0], np.full(len(X), 2.0)

    def predict_quantiles(self, X: Any, quantiles: Any) -> np.ndarray:
        return X[:, 0, :1] + 4 * (np.asarray(quantiles)[None, :] - 0.5)

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        return np.full(len(X), -1.5) if np.asarray(y).dtype.kind == "f" else np.full(len(X), -700.0)


STATED = Method("stated", "stated", Stated, Stated)


def series(rows: list[list[float]]) -> np.ndarray:
    return np.array([[[0.5, 0.5]]] * 4 + [[row] for row in rows])


def test_figures_are_those_by_hand():
    X = series([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75], [0.75, 0.25]])
    y = np.array(["a", "b", "a", "b", "a", "a", "b", "b"])
    actual = judge(STATED, "classification", X, y, HALVES, Run())
    assert actual["accuracy"] == 0.75
    assert actual["nlpp"] == pytest.approx(-(3 * 0 + 2 * math.log(0.75) + math.log(0.5) + math.log(0.25)) / 4)
    assert actual["brier"] == pytest.approx((0.125 + 0.5 + 0.125 + 1.125) / 4)
    assert actual["ece"] == pytest.approx((3 * abs(0.75 - 2 / 3) + abs(0.5 - 1)) / 4)
    assert actual["cpu_fit"] >= 0 and actual["cpu_predict"] >= 0 and actual["cpu_calibration"] == 0
    X = series([[1.0, 0.0]] * 4)
    y = np.array(["a", "b"] * 4)
    assert judge(STATED, "classification", X, y, HALVES, Run())["nlpp"] == 700

    class Silent(Stated):
        log_likelihood = property()  # pyright: ignore[reportAssignmentType] - as if there were none

    silent = Method("silent", "silent", Silent, None)
    assert judge(silent, "classification", X, y, HALVES, Run())["nlpp"] == math.inf
    X = series([[1.0, 0], [2.0, 0], [3.0, 0], [4.0, 0]])
    y = np.array([0.0] * 4 + [1.0, 2.0, 6.0, 3.5])
    actual = judge(STATED, "regression", X, y, HALVES, Run())
    assert actual["rmse"] == pytest.approx(math.sqrt(9.25 / 4)) and actual["mae"] == pytest.approx(3.5 / 4)
    assert actual["nlpd"] == 1.5 and actual["coverage"] == 0.75


def test_what_one_knows_without_looking():
    y = np.array(["a", "a", "a", "b"] * 2)
    actual = judge(METHODS["constant"], "classification", series([[0, 0]] * 4), y, HALVES, Run())
    assert actual["accuracy"] == 0.75 and actual["nlpp"] == pytest.approx(-(3 * math.log(4 / 6) + math.log(2 / 6)) / 4)
    numbers = np.array([0.0, 1.0, 2.0, 3.0] * 2)
    actual = judge(METHODS["constant"], "regression", series([[0, 0]] * 4), numbers, HALVES, Run())
    assert actual["rmse"] == pytest.approx(math.sqrt(1.25))
    assert actual["nlpd"] == pytest.approx(0.5 * math.log(2 * math.pi * 1.25) + 0.5)


def test_methods_are_chosen_by_name_task_and_package_and_take_settings(monkeypatch: pytest.MonkeyPatch):
    method = ours("small", "small", n_features=7)
    model = method.make("classification", Run(seed=5, jobs=2, time_channel=0))
    assert (model.n_features, model.random_state, model.n_jobs, model.time_channel) == (7, 5, 2, 0)
    assert method.make("regression", Run()).n_features == 7
    monkeypatch.setitem(sys.modules, "aeon", None)  # as if it were not installed
    ready, missing = choose_methods(None, "classification")
    assert [method.name for method in ready] == ["siggpde", "constant"]
    assert [method.name for method in missing] == ["minirocket", "mr-hydra", "quant", "multirocket"]
    assert [method.name for method in choose_methods(None, "regression")[1]] == ["minirocket", "mr-hydra"]
    with pytest.raises(ValueError, match="no method 'rocket'; the methods are siggpde, minirocket"):
        choose_methods(["rocket"], "classification")
    assert_refused("quant is no method for a regression", choose_methods, ["quant"], "regression")
    assert_refused("quant is no method for a regression", METHODS["quant"].make, "regression", Run())


def test_means_have_standard_errors_and_the_clock_counts_computing():
    assert spread([2.0, 4.0]) == (3.0, 1.0)
    assert spread([2.0]) == (2.0, None) and spread([1.0, math.inf]) == (math.inf, None)
    started = cpu_seconds()
    sum(i * i for i in range(10**6))
    assert 0.001 < cpu_seconds() - started < 10
