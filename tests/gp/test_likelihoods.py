"""Likelihoods: what all of them promise, what they refuse, and the list of their names without torch."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.processes import run
from helpers.refusals import assert_refused
from siggpde.gp import LikelihoodName, names_for
from siggpde.gp.likelihoods import (
    Bernoulli,
    Classification,
    Gaussian,
    Likelihood,
    Poisson,
    RobustMax,
    Softmax,
    StudentT,
)
from siggpde.gp.likelihoods.base import gauss_hermite, sobol_normal

MAKERS = {
    "gaussian": lambda: Gaussian(noise=0.3),
    "student_t": lambda: StudentT(scale=0.5, df=4.5, learn_df=True),
    "poisson": lambda: Poisson(offset=0.4),
    "probit": Bernoulli,
    "logit": lambda: Bernoulli(link="logit"),
    "softmax": lambda: Softmax(classes=4),
    "softmax_weighted": lambda: Softmax(classes=3, class_weight=[0.5, 1.0, 3.0]),
    "robustmax": lambda: RobustMax(classes=4, class_weight=(1.0, 2.0, 0.5, 1.5)),
}
CLASSIFIERS = ["probit", "logit", "softmax", "robustmax"]
# The predictive density is not that of training: of a weighted, or of another p(y | f).
APART = ["softmax_weighted", "robustmax"]
REGRESSORS = ["gaussian", "student_t", "poisson"]
every = pytest.mark.parametrize("kind", MAKERS)


def problem(likelihood, rows=6, dtype=torch.float64, seed=0, spread=1.0):
    """Marginals with one row of variance 0, and targets."""
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(rows, likelihood.latents, generator=generator, dtype=torch.float64)
    variance = spread * torch.rand(rows, likelihood.latents, generator=generator, dtype=torch.float64)
    variance[0] = 0
    if hasattr(likelihood, "classes"):
        y = torch.randint(likelihood.classes, (rows,), generator=generator)
    elif isinstance(likelihood, Poisson):
        y = torch.randint(6, (rows,), generator=generator)
    else:
        y = torch.randn(rows, generator=generator, dtype=torch.float64).to(dtype)
    return mean.to(dtype), variance.to(dtype), y


@every
def test_statistics_are_the_value_and_its_derivatives(kind):
    likelihood = MAKERS[kind]()
    mean, variance, y = problem(likelihood, rows=40, spread=0.5)
    value, g, a = likelihood.statistics(mean, variance, y)
    mean, variance = mean.requires_grad_(), variance.requires_grad_()
    expected = likelihood.expected_log_prob(mean, variance, y)
    slope, half = torch.autograd.grad(expected.sum(), [mean, variance])
    assert not value.requires_grad and not g.requires_grad and not a.requires_grad
    torch.testing.assert_close(value, expected.detach(), rtol=1e-12, atol=1e-12)
    # Price's theorem holds for the integrals, and for sums over nodes as well as these approximate them.
    torch.testing.assert_close(g, slope, rtol=0, atol=3e-3 if kind == "student_t" else 1e-6)
    tolerance = {"softmax": 0.02, "softmax_weighted": 0.06, "student_t": 0.1, "probit": 1e-5, "logit": 1e-5}
    torch.testing.assert_close(a, -2 * half, rtol=0, atol=tolerance.get(kind, 1e-6))
    if likelihood.log_concave:
        assert bool((a >= 0).all())
    mean, variance = (part[:4].detach().requires_grad_() for part in (mean, variance + 0.05))
    inputs = (mean, variance, *(p for p in likelihood.parameters() if p.requires_grad))
    assert torch.autograd.gradcheck(lambda m, v, *_: likelihood.expected_log_prob(m, v, y[:4]), inputs, atol=1e-6)


@every
def test_without_variance_they_are_log_p_and_its_derivatives(kind):
    """At variance 0 the expectation is log p(y | mean); its gradient in the variance is half the second derivative."""
    likelihood = MAKERS[kind]()
    mean, variance, y = problem(likelihood)
    if kind == "robustmax":
        mean[:, 0] += 5  # away from ties, where p jumps
    variance = torch.zeros_like(variance)
    value, g, a = likelihood.statistics(mean, variance, y)
    step = 1e-4
    for latent in range(likelihood.latents):
        move = step * torch.eye(likelihood.latents, dtype=torch.float64)[latent]
        up, down = (likelihood.expected_log_prob(mean + sign * move, variance, y) for sign in (1, -1))
        torch.testing.assert_close((up - down) / (2 * step), g[:, latent], rtol=0, atol=1e-5)
        torch.testing.assert_close(-(up + down - 2 * value) / step**2, a[:, latent], rtol=0, atol=1e-4)
    variance.requires_grad_()
    (half,) = torch.autograd.grad(likelihood.expected_log_prob(mean, variance, y).sum(), variance)
    torch.testing.assert_close(-2 * half, a, rtol=0, atol=2e-3)
    if kind not in APART:
        torch.testing.assert_close(likelihood.log_predictive(mean, variance.detach(), y), value, rtol=0, atol=1e-8)


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1.0, 1e3])
def test_everything_is_finite_and_keeps_its_dtype(kind, dtype, size):
    likelihood = MAKERS[kind]()
    mean, variance, y = problem(likelihood, rows=9, dtype=dtype)
    mean = size * mean.sign()
    mean, variance = mean.requires_grad_(), variance.requires_grad_()
    value = likelihood.expected_log_prob(mean, variance, y)
    gradients = torch.autograd.grad(value.sum(), [mean, variance])
    predicted = likelihood.predict(mean, variance)
    computed = [value, *gradients, *likelihood.statistics(mean, variance, y)]
    computed += [likelihood.log_predictive(mean, variance, y)]
    computed += predicted if isinstance(predicted, tuple) else [predicted]
    assert all(bool(torch.isfinite(tensor).all()) and tensor.dtype == dtype for tensor in computed)
    assert value.shape == (9,) and gradients[0].shape == mean.shape
    empty = mean[:0], variance[:0], y[:0]
    assert [part.shape for part in likelihood.statistics(*empty)] == [(0,), mean[:0].shape, mean[:0].shape]
    assert likelihood.log_predictive(*empty).shape == (0,)


@every
def test_the_two_dtypes_agree(kind):
    likelihood = MAKERS[kind]()
    wide = problem(likelihood, rows=20)
    narrow = problem(likelihood, rows=20, dtype=torch.float32)
    pairs = [
        *zip(likelihood.statistics(*narrow), likelihood.statistics(*wide), strict=True),
        (likelihood.log_predictive(*narrow), likelihood.log_predictive(*wide)),
    ]
    for single, double in pairs[1:] if kind == "robustmax" else pairs:
        # RobustMax jumps where variances vanish, and the floor of the two dtypes is not the same.
        rows = slice(1, None) if kind == "robustmax" else slice(None)
        torch.testing.assert_close(single.double()[rows], double[rows], rtol=1e-4, atol=1e-4)


@every
def test_settings_rebuild_the_likelihood(kind):
    likelihood = MAKERS[kind]()
    with torch.no_grad():
        for parameter in likelihood.parameters():
            parameter.add_(0.25)
    again = Likelihood.from_settings(json.loads(json.dumps(likelihood.settings())))
    inputs = problem(likelihood)
    assert type(again) is type(likelihood) and again.settings().keys() == likelihood.settings().keys()
    for one, other in zip(again.statistics(*inputs), likelihood.statistics(*inputs), strict=True):
        torch.testing.assert_close(one, other)
    assert list(again.state_dict()) == [name for name, _ in likelihood.named_parameters()]
    assert type(likelihood).__name__ in repr(likelihood)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_probabilities_sum_to_one_and_agree_with_the_density(kind):
    likelihood = MAKERS[kind]()
    mean, variance, y = problem(likelihood, rows=30, spread=4.0)
    probabilities = likelihood.predict(mean, variance)
    assert probabilities.shape == (30, likelihood.classes) and bool((probabilities >= 0).all())
    torch.testing.assert_close(probabilities.sum(1), torch.ones(30).double())
    density = likelihood.log_predictive(mean, variance, y)
    torch.testing.assert_close(probabilities.gather(1, y[:, None])[:, 0].log(), density)
    refused, name = partial(assert_refused, error=NotImplementedError), type(likelihood).__name__
    refused(f"{name} has no distribution function; use `predict`", likelihood.cdf, mean, variance, y)
    refused(f"{name} has no quantiles; use `predict`", likelihood.quantile, mean, variance, 0.5)


@pytest.mark.parametrize(
    ("name", "arguments"), [("softmax", {"classes": 3}), ("robustmax", {"classes": 3}), ("bernoulli", {})]
)
def test_class_weights_multiply_training_and_leave_predictions(name, arguments):
    plain = Likelihood.from_settings({"name": name, **arguments})
    mean, variance, y = problem(plain, rows=12)
    weights = torch.tensor([0.5, 2.0, 3.0])[: plain.classes]
    weighted = Likelihood.from_settings({"name": name, **arguments, "class_weight": weights.tolist()})
    factor = weights[y].double()
    for one, other in zip(plain.statistics(mean, variance, y), weighted.statistics(mean, variance, y), strict=True):
        torch.testing.assert_close(other, one * (factor if one.ndim == 1 else factor[:, None]))
    expected = plain.expected_log_prob(mean, variance, y)
    torch.testing.assert_close(weighted.expected_log_prob(mean, variance, y), expected * factor)
    assert torch.equal(weighted.predict(mean, variance), plain.predict(mean, variance))
    assert torch.equal(weighted.log_predictive(mean, variance, y), plain.log_predictive(mean, variance, y))


@given(st.sampled_from(sorted(MAKERS)), st.integers(0, 2**20), st.floats(-12, 3), st.floats(-3, 2))
@settings(max_examples=40, deadline=None)
def test_jensen_holds_and_concave_ones_have_no_negative_a(kind, seed, log_spread, log_size):
    """E[log p] <= log E[p], at any spread; the quadratures of the two sides may differ a little."""
    likelihood = MAKERS[kind]()
    mean, variance, y = problem(likelihood, rows=3, seed=seed, spread=10**log_spread)
    mean = mean * 10**log_size
    value, g, a = likelihood.statistics(mean, variance, y)
    if kind not in APART:
        slack = 0.05 * (1 + value.abs()) * (1 + variance.sqrt().amax(1))
        assert bool((value <= likelihood.log_predictive(mean, variance, y) + slack).all())
    assert bool(torch.isfinite(torch.cat([value, g.flatten(), a.flatten()])).all())
    if likelihood.log_concave:
        assert bool((a >= 0).all())


@pytest.mark.parametrize("kind", REGRESSORS)
def test_the_distribution_function_adds_up_the_density_and_quantiles_invert_it(kind):
    likelihood = MAKERS[kind]()
    mean, variance, y = problem(likelihood, rows=20)
    y, step = y.double(), 1.0 if likelihood.discrete else 1e-4
    rise = likelihood.cdf(mean, variance, y) - likelihood.cdf(mean, variance, y - step)
    density = likelihood.log_predictive(mean, variance, y if likelihood.discrete else y - step / 2).exp()
    torch.testing.assert_close(rise / step, density, rtol=1e-5, atol=1e-9)
    far = torch.full_like(y, 1e9)
    assert float(likelihood.cdf(mean, variance, -far).amax()) < 1e-6
    assert float(likelihood.cdf(mean, variance, far).amin()) > 1 - 1e-6
    for p in (1e-3, 0.01, 0.5, 0.95):
        at = likelihood.quantile(mean, variance, p)
        below = likelihood.cdf(mean, variance, at)
        levels = torch.full((20,), p).double()
        torch.testing.assert_close(likelihood.quantile(mean, variance, levels), at, rtol=0, atol=1e-6)
        if likelihood.discrete:
            assert bool((below >= p - 1e-12).all()) and bool((likelihood.cdf(mean, variance, at - 1) < p).all())
            torch.testing.assert_close(likelihood.cdf(mean, variance, at + 0.7), below)
        else:
            torch.testing.assert_close(below, torch.full_like(at, p), rtol=1e-9, atol=1e-9)


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
        (lambda: Likelihood.from_settings({"name": "cauchy"}), "is named 'cauchy'; the names are bernoulli,"),
    ],
)
def test_mistakes_are_explained(call, message):
    assert_refused(message, call)


def test_gauss_hermite_is_exact_for_polynomials():
    z, weights = gauss_hermite(20)
    moments = [1.0, 0.0, 1.0, 0.0, 3.0, 0.0, 15.0, 0.0, 105.0]
    assert [(weights * z**k).sum().item() for k in range(9)] == pytest.approx(moments, abs=1e-12)


@pytest.mark.parametrize(("points", "dimensions"), [(64, 10), (64, 50), (512, 1000)])
def test_sobol_points_have_the_moments_of_the_normal(points, dimensions):
    before = torch.get_rng_state()
    z = sobol_normal(points, dimensions)
    assert torch.equal(before, torch.get_rng_state())
    moments = z.T @ z / points
    assert torch.equal(z, sobol_normal(points, dimensions)) and bool(torch.isfinite(z).all())
    assert not torch.equal(Softmax(classes=5, seed=1)._train_points, Softmax(classes=5)._train_points)
    torch.testing.assert_close(moments.diagonal(), torch.ones(dimensions).double())
    assert float(z.mean(0).abs().max()) < 1e-12
    if points >= 4 * dimensions:
        torch.testing.assert_close(moments, torch.eye(dimensions).double())


def test_names_tasks_and_closed_forms_are_those_of_the_classes():
    classes = Likelihood._named.items()
    registered = {name: kind for name, kind in classes if kind.__module__.startswith("siggpde.")}
    assert {name.value for name in LikelihoodName} == {"auto", "least_squares", *registered}
    for name, kind in registered.items():
        assert LikelihoodName(name).closed_form == kind.is_gaussian
        classifies = issubclass(kind, Classification)
        assert (name in names_for("classification"), name in names_for("regression")) == (classifies, not classifies)


def test_the_names_are_known_without_torch():
    code = "import sys, siggpde.gp; print('torch' in sys.modules)"
    assert run(code).strip() == "False"
