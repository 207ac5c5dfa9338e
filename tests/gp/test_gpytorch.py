"""The strategy inside GPyTorch gives the ELBO of SignatureGP, divided by the number of series."""

import pytest
import torch

from siggpde import OrthogonalSignatureFeatures, SignatureGP, SignatureKernel
from siggpde.likelihoods import from_gpytorch

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
