"""Metrics of numbers agree with scikit-learn or with sums by hand, and refuse what makes no sense."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn import metrics as oracle

from siggpde.metrics import regression_metrics


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 50))
def test_numbers_agree_with_scikit_learn_and_with_sums(seed, n):
    random = np.random.default_rng(seed)
    y, mean, std = random.normal(size=n), random.normal(size=n), random.uniform(0.1, 2, size=n)
    density = norm.logpdf(y, mean, std)
    ends = {level: norm.interval(level, mean, std) for level in (0.5, 0.9, 0.95)}
    computed = regression_metrics(y, mean, std, density, ends)
    assert computed.n == n
    errors = [a - b for a, b in zip(y, mean, strict=True)]
    assert computed.rmse == pytest.approx((sum(error**2 for error in errors) / n) ** 0.5)
    assert computed.mae == pytest.approx(sum(abs(error) for error in errors) / n)
    assert computed.r2 == pytest.approx(oracle.r2_score(y, mean))
    assert computed.nlpd == pytest.approx(-density.sum() / n)
    assert computed.mean_std == pytest.approx(std.mean())
    for level in (0.5, 0.9, 0.95):
        inside = [abs(a - b) <= norm.ppf((1 + level) / 2) * s for a, b, s in zip(y, mean, std, strict=True)]
        assert computed.coverage[level] == pytest.approx(sum(inside) / n)
        assert computed.width[level] == pytest.approx(2 * norm.ppf((1 + level) / 2) * std.mean())


def test_coverage_of_right_distributions_and_what_is_not_defined():
    random = np.random.default_rng(1)
    std = random.uniform(0.5, 2, size=20000)
    y = std * random.normal(size=20000)
    ends = {level: norm.interval(level, 0 * std, std) for level in (0.5, 0.9, 0.95)}
    computed = regression_metrics(y, 0 * std, std, norm.logpdf(y, 0, std), ends)
    assert computed.coverage == pytest.approx({0.5: 0.5, 0.9: 0.9, 0.95: 0.95}, abs=0.015)
    computed = regression_metrics([2.0, 2.0], [1.0, 2.0], [1.0, math.inf], [-1.0, -2.0], {0.9: ([1, 1], [2, 1.5])})
    assert math.isnan(computed.r2)
    assert computed.to_dict()["r2"] is None
    assert computed.to_dict()["coverage"] == {"0.9": 0.5}
    assert regression_metrics([1.0], [1.0], [1.0], [-math.inf]).nlpd == math.inf
    assert regression_metrics([1.0], [1.0], [1.0], [0.0]).coverage == {}


GOOD = {"y": [1.0, 2.0], "mean": [1.0, 2.0], "std": [1.0, 1.0], "log_density": [-1.0, -1.0]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": []}, "y is empty"),
        ({"y": [1.0, math.nan]}, "y of series 1 is nan"),
        ({"y": [1.0, math.inf]}, "y of series 1 is inf; it must be finite"),
        ({"y": [[1.0, 2.0]]}, r"y must have shape \(n,\)"),
        ({"y": ["a", "b"]}, "y must be an array of numbers"),
        ({"mean": [1.0]}, r"mean must have shape \(2,\)"),
        ({"mean": [1.0, -math.inf]}, "mean of series 1 is -inf"),
        ({"std": [-1.0, 1.0]}, "std of series 0 is -1.0.*cannot be negative"),
        ({"log_density": [1.0, math.inf]}, "log_density of series 1 is inf"),
        ({"log_density": [math.nan, 1.0]}, "log_density of series 0 is nan"),
        ({"quantiles_by_level": {90: ([0, 0], [1, 1])}}, "between 0 and 1, such as 0.9, got 90"),
        ({"quantiles_by_level": {0.9: [1.0, 2.0, 3.0]}}, "pair of arrays"),
        ({"quantiles_by_level": {0.9: ([0, 0], [1])}}, "upper ends at 0.9 must have shape"),
        ({"quantiles_by_level": {0.9: ([0, 2], [1, 1])}}, "series 1 is 2.0; it is above the upper one"),
        ({"quantiles_by_level": {0.9: ([0, math.nan], [1, 1])}}, "lower ends at 0.9 of series 1 is nan"),
    ],
)
def test_bad_regressions_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        regression_metrics(**{**GOOD, **change})
