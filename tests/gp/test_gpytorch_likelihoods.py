"""GPyTorch's likelihoods through the adapter."""

import math
import sys

import pytest
import torch

from helpers import likelihood_oracles as oracle
from siggpde.likelihoods import Bernoulli, Gaussian, StudentT, from_gpytorch


def test_without_gpytorch_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gpytorch.likelihoods", None)
    with pytest.raises(ImportError, match="pip install gpytorch"):
        from_gpytorch(None)


@pytest.fixture
def theirs():
    return pytest.importorskip("gpytorch.likelihoods", reason="GPyTorch is not installed")


def marginals(rows: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    mean, variance = torch.randn(2, rows, 1, generator=generator, dtype=torch.float64)
    variance = variance.square()
    variance[0] = 0
    return mean, variance


def test_gaussian_agrees_with_ours(theirs):
    original = theirs.GaussianLikelihood()
    original.initialize(noise=0.4)
    adapted, ours = from_gpytorch(original), Gaussian(noise=0.4)
    mean, variance = marginals()
    y = torch.linspace(-1, 1, 7).double()
    for one, other in zip(adapted.statistics(mean, variance, y), ours.statistics(mean, variance, y), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    for one, other in zip(adapted.predict(mean, variance), ours.predict(mean, variance), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
    density = ours.log_predictive(mean, variance, y)
    torch.testing.assert_close(adapted.log_predictive(mean, variance, y), density, rtol=1e-5, atol=1e-5)
    quantile = ours.quantile(mean, variance, 0.9)
    torch.testing.assert_close(adapted.quantile(mean, variance, 0.9), quantile, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["StudentTLikelihood", "LaplaceLikelihood", "BetaLikelihood", "GaussianLikelihood"])
def test_parameters_learn_and_expectations_are_right(theirs, kind):
    original = getattr(theirs, kind)()
    likelihood = from_gpytorch(original)
    mean, variance = marginals()
    y = likelihood.check_targets(torch.linspace(0.1, 0.9, 7).double())
    mean, variance = mean.requires_grad_(), variance.requires_grad_()
    value = likelihood.expected_log_prob(mean, variance, y)
    exact = oracle.expectation(lambda f: original.forward(f.T).log_prob(y).T, mean.detach(), variance.detach())
    torch.testing.assert_close(value.detach(), exact, rtol=0, atol=0.05)
    parameters = list(likelihood.parameters())
    gradients = torch.autograd.grad(value.sum(), [mean, variance, *parameters], retain_graph=True)
    assert parameters and all(bool(torch.isfinite(gradient).all()) for gradient in gradients)
    assert all(bool((gradient != 0).any()) for gradient in gradients)
    _, g, a = likelihood.statistics(mean, variance, y)
    torch.testing.assert_close((g, a), (gradients[0], -2 * gradients[1]))
    assert bool(torch.isfinite(likelihood.log_predictive(mean, variance, y)).all())
    assert kind in repr(likelihood)
    with pytest.raises(ValueError, match=f"{kind} cannot be saved as settings"):
        likelihood.settings()


def test_student_t_agrees_with_ours(theirs):
    original = theirs.StudentTLikelihood()
    likelihood = from_gpytorch(original)
    ours = StudentT(scale=math.sqrt(original.noise.item()), df=original.deg_free.item())
    mean, variance = marginals()
    y = torch.linspace(-1, 1, 7).double()
    expected = ours.expected_log_prob(mean, variance, y)
    torch.testing.assert_close(likelihood.expected_log_prob(mean, variance, y), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(NotImplementedError, match="no distribution function"):
        likelihood.quantile(mean, variance, 0.5)


def test_bernoulli_becomes_ours(theirs):
    likelihood = from_gpytorch(theirs.BernoulliLikelihood())
    assert isinstance(likelihood, Bernoulli) and likelihood.link == "probit"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda theirs: theirs.SoftmaxLikelihood(num_features=2, num_classes=3),
            r"siggpde.likelihoods.Softmax\(classes",
        ),
        (lambda theirs: theirs.FixedNoiseGaussianLikelihood(torch.ones(3)), "its noise belongs to given inputs"),
        (lambda theirs: theirs.MultitaskGaussianLikelihood(num_tasks=2), "only likelihoods of one latent function"),
        (lambda theirs: theirs.LaplaceLikelihood(batch_shape=torch.Size([4])), "for a batch of problems"),
        (lambda theirs: theirs, "takes a likelihood of GPyTorch, got module"),
    ],
)
def test_unsupported_ones_say_what_to_use(theirs, make, message):
    with pytest.raises(TypeError, match=message):
        from_gpytorch(make(theirs))


def test_targets_outside_the_support_are_refused(theirs):
    with pytest.raises(ValueError, match=r"target 1 is 1.5: BetaLikelihood gives it no probability"):
        from_gpytorch(theirs.BetaLikelihood()).check_targets([0.5, 1.5])
