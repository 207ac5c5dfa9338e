"""GPyTorch: the strategy gives the ELBO of SignatureGP, and its likelihoods work through the adapter."""

from __future__ import annotations

import math
import sys

import pytest
import torch

from helpers import likelihood_oracles as oracle
from siggpde import OrthogonalSignatureFeatures, SignatureGP, SignatureKernel
from siggpde.likelihoods import Bernoulli, Gaussian, StudentT, from_gpytorch

gpytorch = pytest.importorskip("gpytorch", reason="GPyTorch is not installed")
interop = pytest.importorskip("siggpde.gp.gpytorch", reason="GPyTorch is not installed")


def problem(n=24):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 6, 2, generator=generator, dtype=torch.float64).cumsum(dim=1) / 4
    return x, (x[:, -1, 0] - x[:, 0, 0] > 0).double()


def approximate_gp(strategy):
    class Model(gpytorch.models.ApproximateGP):
        def forward(self, x):
            raise NotImplementedError

    return Model(strategy)


def same_q(strategy, gp):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        mean = torch.randn(gp.variational.mean.shape, generator=generator, dtype=torch.float64)
        root = torch.randn(gp.variational.root.shape, generator=generator, dtype=torch.float64).tril() / 5
        root += torch.eye(root.shape[-1], dtype=torch.float64)
        for q in (strategy.variational, gp.variational):
            q.mean.copy_(mean)
            q.root.copy_(root)


@pytest.mark.parametrize("kind", ["GaussianLikelihood", "BernoulliLikelihood"])
def test_the_elbo_is_that_of_signature_gp_divided_by_the_number_of_series(kind):
    x, y = problem()
    theirs = getattr(gpytorch.likelihoods, kind)().double()
    strategy = interop.SignatureStrategy(SignatureKernel(2, theta=0.7), OrthogonalSignatureFeatures(2, 10))
    gp = SignatureGP(SignatureKernel(2, theta=0.7), OrthogonalSignatureFeatures(2, 10), from_gpytorch(theirs))
    same_q(strategy, gp)
    model = approximate_gp(strategy)
    objective = gpytorch.mlls.VariationalELBO(theirs, model, num_data=len(x))
    got = objective(model(x), y).item()
    labels = y.long() if kind == "BernoulliLikelihood" else y
    assert got * len(x) == pytest.approx(gp.elbo(x, labels).item(), rel=1e-4 if y is not labels else 1e-9)


def test_training_raises_the_elbo_and_learns_the_scales():
    x, y = problem(40)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = approximate_gp(interop.SignatureStrategy(SignatureKernel(2), OrthogonalSignatureFeatures(2, 10)))
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(x))
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.05)
    values = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimizer.step()
        values.append(-loss.item())
    assert values[-1] > values[0]
    assert not torch.equal(model.variational_strategy.kernel.log_theta, torch.zeros(2, dtype=torch.float64))
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_prior_and_a_wrong_shape():
    x, _ = problem()
    strategy = interop.SignatureStrategy(SignatureKernel(2), OrthogonalSignatureFeatures(2, 5))
    prior = approximate_gp(strategy)(x, prior=True)
    assert torch.allclose(prior.variance, SignatureKernel(2)(x, diag=True))
    with pytest.raises(ValueError, match="series whole"):
        strategy(x[0])


def test_without_gpytorch_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gpytorch.likelihoods", None)
    with pytest.raises(ImportError, match="pip install gpytorch"):
        from_gpytorch(None)


theirs = gpytorch.likelihoods


def marginals(rows: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    mean, variance = torch.randn(2, rows, 1, generator=generator, dtype=torch.float64)
    variance = variance.square()
    variance[0] = 0
    return mean, variance


def test_likelihoods_that_are_ours_too_agree_with_them():
    mean, variance = marginals()
    y = torch.linspace(-1, 1, 7).double()
    gaussian = theirs.GaussianLikelihood()
    gaussian.initialize(noise=0.4)
    adapted, ours = from_gpytorch(gaussian), Gaussian(noise=0.4)
    for name, last in (("statistics", y), ("log_predictive", y), ("quantile", 0.9)):
        actual, expected = (getattr(likelihood, name)(mean, variance, last) for likelihood in (adapted, ours))
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(adapted.predict(mean, variance), ours.predict(mean, variance), rtol=1e-6, atol=1e-6)
    student = theirs.StudentTLikelihood()
    adapted = from_gpytorch(student)
    ours = StudentT(scale=math.sqrt(student.noise.item()), df=student.deg_free.item())
    expected = ours.expected_log_prob(mean, variance, y)
    torch.testing.assert_close(adapted.expected_log_prob(mean, variance, y), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(NotImplementedError, match="no distribution function"):
        adapted.quantile(mean, variance, 0.5)
    bernoulli = from_gpytorch(theirs.BernoulliLikelihood())
    assert isinstance(bernoulli, Bernoulli) and bernoulli.link == "probit"


@pytest.mark.parametrize("kind", ["StudentTLikelihood", "LaplaceLikelihood", "BetaLikelihood", "GaussianLikelihood"])
def test_parameters_learn_and_expectations_are_right(kind):
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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: theirs.SoftmaxLikelihood(num_features=2, num_classes=3),
            r"siggpde.likelihoods.Softmax\(classes",
        ),
        (lambda: theirs.FixedNoiseGaussianLikelihood(torch.ones(3)), "its noise belongs to given inputs"),
        (lambda: theirs.MultitaskGaussianLikelihood(num_tasks=2), "only likelihoods of one latent function"),
        (lambda: theirs.LaplaceLikelihood(batch_shape=torch.Size([4])), "for a batch of problems"),
        (lambda: theirs, "takes a likelihood of GPyTorch, got module"),
    ],
)
def test_unsupported_ones_say_what_to_use(make, message):
    with pytest.raises(TypeError, match=message):
        from_gpytorch(make())


def test_targets_outside_the_support_are_refused():
    with pytest.raises(ValueError, match=r"target 1 is 1.5: BetaLikelihood gives it no probability"):
        from_gpytorch(theirs.BetaLikelihood()).check_targets([0.5, 1.5])
