"""Likelihoods: targets and arguments that are refused, and what the message says."""

import numpy as np
import pytest
import torch

from siggpde.gp.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, RobustMax, Softmax, StudentT
from siggpde.gp.quadrature import gauss_hermite, sobol_normal

row = torch.zeros(1, 1)


@pytest.mark.parametrize(
    ("likelihood", "given", "dtype"),
    [
        (Softmax(3), [0, 2, 1], torch.int64),
        (Softmax(3), np.array([0.0, 2.0]), torch.int64),
        (RobustMax(3), torch.tensor([2], dtype=torch.int8), torch.int64),
        (Bernoulli(), [True, False], torch.int64),
        (Poisson(), [0.0, 12.0], torch.int64),
        (Gaussian(), [1, 2], torch.float32),
        (StudentT(), np.array([0.5]), torch.float64),
    ],
)
def test_targets_are_converted(likelihood, given, dtype):
    checked = likelihood.check_targets(given)
    assert checked.dtype == dtype and checked.tolist() == [float(value) for value in given]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Softmax(3).check_targets([0, 1, 3]), "target 2 is 3: labels must be whole numbers from 0 to 2"),
        (lambda: RobustMax(3).check_targets([0, -1]), "target 1 is -1: labels .* number the classes from 0"),
        (lambda: Softmax(3).check_targets([0.5]), "target 0 is 0.5: labels must be whole"),
        (lambda: Bernoulli().check_targets([1, -1]), "target 1 is -1: labels must be whole numbers from 0 to 1"),
        (lambda: Bernoulli().check_targets([float("nan")]), "target 0 is nan: labels"),
        (lambda: Gaussian().check_targets([0.0, float("inf")]), "target 1 is inf: targets must be finite; drop"),
        (lambda: StudentT().check_targets([float("nan")]), "target 0 is nan"),
        (lambda: Poisson().check_targets([1, -2]), "target 1 is -2: counts must be whole numbers from 0"),
        (lambda: Poisson().check_targets([1.5]), "target 0 is 1.5: counts"),
        (lambda: Gaussian().check_targets([[1.0]]), r"targets must be \(B,\), one number a series, got shape \(1, 1\)"),
        (lambda: Softmax(3).check_targets(["a"]), "encode names as numbers"),
        (lambda: Gaussian().check_targets([1j]), "targets must be real"),
        (lambda: Softmax(1), "classes must be an integer of at least 2, got 1"),
        (lambda: Softmax(3, points=7), "must be even and at least 2, got 7"),
        (lambda: Softmax(30000), "Sobol points have from 1 to 21201 dimensions, got 30000"),
        (lambda: Softmax(3, class_weight=[1.0, 2.0]), "class_weight must be 3 positive numbers"),
        (lambda: Bernoulli(class_weight=[1.0, 0.0]), "class_weight must be 2 positive numbers"),
        (lambda: RobustMax(3, eps=1.0), "eps must be between 0 and 1, got 1.0"),
        (lambda: Gaussian(noise=0.0), "noise, a variance, must be positive and finite, got 0.0"),
        (lambda: StudentT(df=-1.0), "scale and df must be positive"),
        (lambda: Poisson(offset=float("nan")), "offset must be finite"),
        (lambda: Bernoulli(link="log"), "link must be 'probit' or 'logit', got 'log'"),
        (lambda: Gaussian().quantile(row, row, 1.0), "p must be between 0 and 1"),
        (lambda: StudentT().quantile(row, row, [0.1, 0.2]), r"p must be a number or \(1,\), got shape \(2,\)"),
        (lambda: Gaussian().predict(torch.zeros(3), torch.zeros(3)), r"mean and variance must both be \(B, 1\)"),
        (lambda: Softmax(3).predict(row, row), r"must both be \(B, 3\) .* got \(1, 1\) and \(1, 1\)"),
        (lambda: Gaussian().log_predictive(row, row, row), r"y must be \(1,\), one target a row"),
        (
            lambda: Likelihood.from_settings({"name": "cauchy"}),
            "no likelihood is named 'cauchy'; the names are bernoulli,",
        ),
    ],
)
def test_mistakes_are_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_classifiers_have_no_quantiles():
    with pytest.raises(NotImplementedError, match="Bernoulli has no quantiles; use `predict`"):
        Bernoulli().quantile(row, row, 0.5)


def test_gauss_hermite_is_exact_for_polynomials():
    nodes, weights = gauss_hermite(20)
    moments = [1.0, 0.0, 1.0, 0.0, 3.0, 0.0, 15.0, 0.0, 105.0]
    assert [(weights * nodes**k).sum().item() for k in range(9)] == pytest.approx(moments, abs=1e-12)


@pytest.mark.parametrize(("points", "dimensions"), [(64, 10), (64, 50), (512, 1000)])
def test_sobol_points_have_the_moments_of_the_normal(points, dimensions):
    z = sobol_normal(points, dimensions)
    moments = z.T @ z / points
    assert torch.equal(z, sobol_normal(points, dimensions)) and bool(torch.isfinite(z).all())
    torch.testing.assert_close(moments.diagonal(), torch.ones(dimensions).double())
    assert float(z.mean(0).abs().max()) < 1e-12
    if points >= 4 * dimensions:
        torch.testing.assert_close(moments, torch.eye(dimensions).double())
