"""GPyTorch: the strategy gives the ELBO of SignatureGP, and its likelihoods work through the adapter."""

import math
import sys

import pytest
import torch

from helpers import likelihood_oracles as oracle
from helpers.refusals import assert_refused
from helpers.small_models import disturb, labels, series
from siggpde import OrthogonalSignatureFeatures, SignatureGP, SignatureKernel
from siggpde.likelihoods import Bernoulli, Gaussian, StudentT, from_gpytorch

gpytorch = pytest.importorskip("gpytorch", reason="GPyTorch is not installed")
interop = pytest.importorskip("siggpde.gp.gpytorch", reason="GPyTorch is not installed")


X = series(40)
Y = labels(X, 2).double()


def approximate_gp(strategy):
    class Model(gpytorch.models.ApproximateGP):
        def forward(self, x):
            raise NotImplementedError

    return Model(strategy)


@pytest.mark.parametrize("kind", ["GaussianLikelihood", "BernoulliLikelihood"])
def test_the_elbo_is_that_of_signature_gp_divided_by_the_number_of_series(kind):
    theirs = getattr(gpytorch.likelihoods, kind)().double()
    strategy = interop.SignatureStrategy(SignatureKernel(2, theta=0.7), OrthogonalSignatureFeatures(2, 10))
    gp = SignatureGP(SignatureKernel(2, theta=0.7), OrthogonalSignatureFeatures(2, 10), from_gpytorch(theirs))
    strategy.variational.load_state_dict(disturb(gp).variational.state_dict())
    model = approximate_gp(strategy)
    assert torch.allclose(model(X, prior=True).variance, gp.kernel(X, diag=True))
    assert_refused("series whole", strategy, X[0])
    objective = gpytorch.mlls.VariationalELBO(theirs, model, num_data=len(X))
    got = objective(model(X), Y).item()
    classifies = kind == "BernoulliLikelihood"
    expected = gp.elbo(X, Y.long() if classifies else Y).item()
    assert got * len(X) == pytest.approx(expected, rel=1e-4 if classifies else 1e-9)


def test_training_raises_the_elbo_and_learns_the_scales():
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = approximate_gp(interop.SignatureStrategy(SignatureKernel(2), OrthogonalSignatureFeatures(2, 10)))
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.05)
    values = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = -objective(model(X), Y)
        loss.backward()
        optimizer.step()
        values.append(-loss.item())
    assert values[-1] > values[0]
    assert not torch.equal(model.variational_strategy.kernel.log_theta, torch.zeros(2, dtype=torch.float64))
    assert all(parameter.grad is not None for parameter in model.parameters())


def marginals(rows: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    mean, variance = torch.randn(2, rows, 1, generator=generator, dtype=torch.float64)
    variance = variance.square()
    variance[0] = 0
    return mean, variance


def test_gaussian_student_and_bernoulli_agree_with_ours():
    original = gpytorch.likelihoods.GaussianLikelihood()
    original.initialize(noise=0.4)
    adapted, ours = from_gpytorch(original), Gaussian(noise=0.4)
    (mean, variance), y = marginals(), torch.linspace(-1, 1, 7).double()
    for one, other in (
        (adapted.statistics(mean, variance, y), ours.statistics(mean, variance, y)),
        (adapted.predict(mean, variance), ours.predict(mean, variance)),
        (adapted.log_predictive(mean, variance, y), ours.log_predictive(mean, variance, y)),
        (adapted.quantile(mean, variance, 0.9), ours.quantile(mean, variance, 0.9)),
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    predicted = adapted.predict(mean, variance), ours.predict(mean, variance)
    torch.testing.assert_close(*predicted, rtol=1e-6, atol=1e-6)
    original = gpytorch.likelihoods.StudentTLikelihood()
    adapted = from_gpytorch(original)
    ours = StudentT(scale=math.sqrt(original.noise.item()), df=original.deg_free.item())
    expected = ours.expected_log_prob(mean, variance, y)
    torch.testing.assert_close(adapted.expected_log_prob(mean, variance, y), expected, rtol=1e-5, atol=1e-5)
    assert_refused("no distribution function", adapted.quantile, mean, variance, 0.5, error=NotImplementedError)
    likelihood = from_gpytorch(gpytorch.likelihoods.BernoulliLikelihood())
    assert isinstance(likelihood, Bernoulli) and likelihood.link == "probit"


@pytest.mark.parametrize("kind", ["StudentTLikelihood", "LaplaceLikelihood", "BetaLikelihood", "GaussianLikelihood"])
def test_parameters_learn_and_expectations_are_right(kind):
    original = getattr(gpytorch.likelihoods, kind)()
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
    assert_refused(f"{kind} cannot be saved as settings", likelihood.settings)


def test_unsupported_ones_say_what_to_use(monkeypatch: pytest.MonkeyPatch):
    theirs = gpytorch.likelihoods
    for likelihood, message in (
        (theirs.SoftmaxLikelihood(num_features=2, num_classes=3), r"siggpde.likelihoods.Softmax\(classes"),
        (theirs.FixedNoiseGaussianLikelihood(torch.ones(3)), "its noise belongs to given inputs"),
        (theirs.MultitaskGaussianLikelihood(num_tasks=2), "only likelihoods of one latent function"),
        (theirs.LaplaceLikelihood(batch_shape=torch.Size([4])), "for a batch of problems"),
        (theirs, "takes a likelihood of GPyTorch, got module"),
    ):
        assert_refused(message, from_gpytorch, likelihood, error=TypeError)
    beta = from_gpytorch(theirs.BetaLikelihood())
    assert_refused("target 1 is 1.5: BetaLikelihood gives it no probability", beta.check_targets, [0.5, 1.5])
    monkeypatch.setitem(sys.modules, "gpytorch.likelihoods", None)
    assert_refused("pip install gpytorch", from_gpytorch, None, error=ImportError)
