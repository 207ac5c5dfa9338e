"""Likelihoods against plain dense integration, and closed forms against theirs."""

import math

import pytest
import torch
from torch.distributions import Normal
from torch.distributions import Poisson as PoissonDistribution
from torch.distributions import StudentT as StudentTDistribution

from helpers import likelihood_oracles as oracle
from siggpde.gp.likelihoods import Bernoulli, Gaussian, Poisson, RobustMax, Softmax, StudentT
from siggpde.gp.likelihoods.classification import default_points


def marginals(rows: int, latents: int = 1, spread: float = 1.0, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(rows, latents, generator=generator, dtype=torch.float64)
    return mean, spread * torch.rand(rows, latents, generator=generator, dtype=torch.float64)


def log_probability(kind: str, y: torch.Tensor):
    """(likelihood, log p(y | f) written the plain way)."""
    column, sign = y[:, None].double(), 2.0 * y[:, None] - 1
    return {
        "gaussian": (Gaussian(0.3), lambda f: Normal(f, math.sqrt(0.3)).log_prob(column)),
        "student_t": (StudentT(0.8, df=3.0), lambda f: StudentTDistribution(3.0, f, 0.8).log_prob(column)),
        "poisson": (Poisson(0.5), lambda f: PoissonDistribution(torch.exp(f + 0.5)).log_prob(column)),
        "probit": (Bernoulli(), lambda f: torch.special.log_ndtr(sign * f)),
        "logit": (Bernoulli("logit"), lambda f: -torch.log1p(torch.exp(-sign * f))),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [("gaussian", 1e-10), ("student_t", 2e-3), ("poisson", 1e-10), ("probit", 1e-7), ("logit", 1e-7)],
)
def test_expectations_and_predictive_densities(kind, tolerance):
    mean, variance = marginals(24)
    likelihood, log_p = log_probability(kind, torch.arange(24) % 2)
    y = torch.arange(24) % 2
    value, g, a = likelihood.statistics(mean, variance, y)
    torch.testing.assert_close(value, oracle.expectation(log_p, mean, variance), rtol=0, atol=tolerance)
    z, weights = oracle.normal_grid()
    f = (mean + variance.sqrt() * z).requires_grad_()
    (first,) = torch.autograd.grad(log_p(f).sum(), f, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), f)
    loose = 0.05 if kind == "student_t" else 1e-4
    torch.testing.assert_close(g[:, 0], first.detach() @ weights, rtol=0, atol=loose)
    torch.testing.assert_close(a[:, 0], -second @ weights, rtol=0, atol=2 * loose)
    density = oracle.expectation(lambda f: log_p(f).exp(), mean, variance).log()
    torch.testing.assert_close(likelihood.log_predictive(mean, variance, y), density, rtol=0, atol=1e-7)


@pytest.mark.parametrize("y", [0, 7, 3000])
def test_poisson_density_where_the_integrand_is_narrow(y):
    mean, variance = marginals(5, spread=2.0)
    mean = mean + math.log(y + 1)
    _, log_p = log_probability("poisson", target := torch.full((5,), y))
    density = oracle.expectation(lambda f: log_p(f).exp(), mean - 0.5, variance).log()
    torch.testing.assert_close(Poisson(0.5).log_predictive(mean - 0.5, variance, target), density, rtol=0, atol=1e-6)


def test_student_density_of_outliers_has_the_tail_of_the_noise_and_few_degrees_of_freedom_no_variance():
    likelihood = StudentT(scale=0.1, df=4.0)
    y = torch.tensor([1e2, 1e4, 1e6]).double()
    mean = torch.zeros(3, 1).double()
    tail = StudentTDistribution(4.0, 0.0, 0.1).log_prob(y).double()
    torch.testing.assert_close(likelihood.log_predictive(mean, mean + 0.5, y), tail, rtol=0, atol=2e-3)
    assert StudentT(df=2.0).predict(mean, mean + 0.5)[1].tolist() == [math.inf] * 3
    assert not StudentT().log_df.requires_grad and StudentT(learn_df=True).log_df.requires_grad


@pytest.mark.parametrize(
    "likelihood", [Gaussian(0.2), StudentT(0.5, df=3.0), Poisson()], ids=lambda of: type(of).__name__
)
@pytest.mark.parametrize("p", [1e-3, 0.025, 0.5, 0.975])
def test_quantiles_have_their_probability_below(likelihood, p):
    mean, variance = marginals(6, spread=1.5)
    variance[0] = 0
    for row, quantile in enumerate(likelihood.quantile(mean, variance, p)):
        y = torch.arange(400) if likelihood.discrete else quantile + torch.sinh(torch.linspace(-7, 0, 801).double())
        m, v = (part[row : row + 1].expand(len(y), 1) for part in (mean, variance))
        density = likelihood.log_predictive(m, v, y).exp()
        if likelihood.discrete:
            assert quantile == int((density.cumsum(0) >= p).nonzero()[0])
        else:
            assert torch.trapezoid(density, y).item() == pytest.approx(p, abs=5e-5)


@pytest.mark.parametrize("rate", [1e-30, 1e4, 1e12])
def test_poisson_quantiles_of_extreme_rates(rate):
    mean = torch.full((1, 1), math.log(rate), dtype=torch.float64)
    quantile = Poisson().quantile(mean, torch.zeros_like(mean), 0.975).item()
    assert quantile == pytest.approx(rate + 1.96 * math.sqrt(rate), abs=1 + 0.01 * math.sqrt(rate) + 1e-12 * rate)


def test_poisson_moments():
    mean, variance = marginals(8)
    rate, spread = Poisson(0.3).predict(mean, variance)
    first = oracle.expectation(lambda f: torch.exp(f + 0.3), mean, variance)
    second = oracle.expectation(lambda f: torch.exp(2 * f + 0.6), mean, variance)
    torch.testing.assert_close(rate, first)
    torch.testing.assert_close(spread, first + second - first.square())


@pytest.mark.parametrize(("classes", "spread"), [(2, 0.3), (2, 3.0), (5, 0.3), (10, 0.3), (10, 3.0), (50, 0.3)])
def test_softmax_points_against_the_gumbel_integral(classes, spread):
    """Largest errors found over 2 to 20 seeds: 4e-3 at spread 0.3 and 2e-2 at 3; of predictions 2e-4 and 3e-3."""
    mean, variance = marginals(3, classes, spread, seed=classes)
    y = torch.arange(3) % classes
    log_sum, probabilities = oracle.softmax(2 * mean, variance)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(3).double())
    likelihood = Softmax(classes)
    value, g, _ = likelihood.statistics(2 * mean, variance, y)
    wide = spread > 1
    expected = 2 * mean.gather(1, y[:, None])[:, 0] - log_sum
    torch.testing.assert_close(value, expected, rtol=0, atol=0.04 if wide else 8e-3)
    onehot = torch.nn.functional.one_hot(y, classes)
    torch.testing.assert_close(g, onehot - probabilities, rtol=0, atol=0.02 if wide else 8e-3)
    computed = likelihood.predict(2 * mean, variance)
    torch.testing.assert_close(computed, probabilities, rtol=0, atol=6e-3 if wide else 5e-4)


@pytest.mark.parametrize(("deviation", "error", "of_64"), [(1.0, 0.003, 0.012), (2.0, 0.025, 0.04)])
def test_softmax_of_24_classes_has_points_enough(deviation, error, of_64):
    """Largest errors over 48 rows: 0.0025 and 0.023 with the default of 128 points, 0.014 and 0.043 with 64."""
    worst = {64: 0.0, 128: 0.0}
    assert [default_points(classes) for classes in (3, 16, 17, 24, 60, 1000)] == [64, 64, 128, 128, 256, 256]
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        mean = 2 * torch.randn(8, 24, generator=generator, dtype=torch.float64)
        variance = (deviation * torch.rand(8, 24, generator=generator, dtype=torch.float64)).square()
        y = torch.arange(8)
        expected = mean.gather(1, y[:, None])[:, 0] - oracle.softmax(mean, variance)[0]
        for points, before in worst.items():
            computed = Softmax(24, points).expected_log_prob(mean, variance, y)
            worst[points] = max(before, (computed - expected).abs().max().item())
    assert worst[128] < error
    assert worst[64] > of_64


def test_softmax_of_many_classes_in_chunks():
    """Far more than one chunk of rows, and more classes than points, against one row at a time."""
    likelihood = Softmax(classes=1000, points=32, predict_points=32)
    mean, variance = marginals(40, 1000)
    y = torch.arange(40)
    together = likelihood.statistics(mean, variance, y)
    for row in (0, 17, 39):
        part = slice(row, row + 1)
        alone = likelihood.statistics(mean[part], variance[part], y[part])
        for one, other in zip(alone, together, strict=True):
            torch.testing.assert_close(one, other[part])
    probabilities = likelihood.predict(mean, variance)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(40).double())


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_robustmax_against_dense_integration(classes):
    mean, variance = marginals(4, classes, spread=1.0)
    variance += 0.2
    likelihood = RobustMax(classes, eps=0.02)
    z, weights = oracle.normal_grid()
    s = variance.sqrt()
    wins = torch.empty_like(mean)
    for c in range(classes):
        others = [j for j in range(classes) if j != c]
        f = mean[:, c, None] + s[:, c, None] * z
        wins[:, c] = torch.stack([Normal(mean[:, j, None], s[:, j, None]).cdf(f) for j in others]).prod(0) @ weights
    torch.testing.assert_close(wins.sum(1), torch.ones(4).double())
    y = torch.arange(4) % classes
    p = wins.gather(1, y[:, None])[:, 0]
    expected = p * math.log(0.98) + (1 - p) * math.log(0.02 / (classes - 1))
    value = likelihood.expected_log_prob(mean, variance, y)
    torch.testing.assert_close(value, expected, rtol=0, atol=2e-3)
    exact = 0.98 * wins + 0.02 / (classes - 1) * (1 - wins)
    torch.testing.assert_close(likelihood.predict(mean, variance), exact, rtol=0, atol=1e-5)
