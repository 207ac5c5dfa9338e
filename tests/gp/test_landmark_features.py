"""Landmark series as inducing variables."""

import pytest
import torch

from helpers.lifted_paths import paths
from siggpde import LandmarkFeatures, NewtonBasis, PaperSchedule, SignatureGP, SignatureKernel, SparseGP, fit
from siggpde.likelihoods import Gaussian

STATIC = ["linear", "rbf", "matern52"]


def kernel(static: str, normalized: bool = True) -> SignatureKernel:
    return SignatureKernel(2, static=static, theta=0.5, normalized=normalized)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("static", STATIC)
@pytest.mark.parametrize("normalized", [True, False])
def test_all_series_as_landmarks_give_the_kernel(static: str, normalized: bool):
    k, x = kernel(static, normalized), paths(0, 12, 6, 2)
    projection = LandmarkFeatures(x, jitter=0)(k, x)
    torch.testing.assert_close(projection.features @ projection.features.T, k(x), rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(projection.variance, k(x, diag=True))
    assert float(projection.tail.detach().max()) < 1e-6


def test_features_are_those_of_the_newton_basis():
    k, x, lengths = kernel("rbf"), paths(1, 20, 7, 2), torch.randint(2, 8, (20,), generator=torch.manual_seed(1))
    basis = NewtonBasis(k, 8).fit(x, lengths=lengths)
    features = LandmarkFeatures.choose(k, x, 8, lengths=lengths, jitter=0)
    wanted, got = basis(x, lengths=lengths), features(k, x, lengths=lengths)
    assert features.size == 8
    torch.testing.assert_close(got.features.detach(), wanted.features, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(got.tail.detach(), wanted.tail, rtol=1e-6, atol=1e-6)


def test_gradients_in_the_parameters_of_the_kernel():
    k, x = kernel("matern32"), paths(2, 5, 5, 2)
    features = LandmarkFeatures(paths(3, 3, 4, 2))
    names = [name for name, _ in k.named_parameters()]
    assert "log_static_amplitude" in names

    def tails(*values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(k, dict(zip(names, values, strict=True)), (x,), {"diag": True}) - (
            _features(k, names, values, features, x).square().sum(1)
        )

    assert torch.autograd.gradcheck(tails, [p.detach().clone().requires_grad_() for p in k.parameters()], atol=1e-5)


def _features(k: SignatureKernel, names: list[str], values, features: LandmarkFeatures, x: torch.Tensor):
    own = dict(zip(names, values, strict=True))
    gram = torch.func.functional_call(k, own, (features.values,))
    cross = torch.func.functional_call(k, own, (features.values, x))
    jitter = features.jitter * gram.diagonal().mean() * torch.eye(len(gram)).double()
    return torch.linalg.solve_triangular(torch.linalg.cholesky(gram + jitter), cross, upper=False).T


def test_a_gaussian_process_of_lifted_paths_learns():
    x = paths(4, 80, 10, 2).cumsum(1) * 0.3
    y = torch.sin(x[:, -1, 0] - x[:, 0, 0])
    k = SignatureKernel(2, static="rbf", static_amplitude=2.0, normalized=True)
    model = SparseGP(k, LandmarkFeatures.choose(k, x[:60], 40), Gaussian(noise=0.1))
    before = float(k.log_static_amplitude.detach())
    fit(model, (x[:60], y[:60]), PaperSchedule(iterations=300, evaluate_every=100, learning_rate=0.02))
    assert float(k.log_static_amplitude.detach()) != before
    mean, _ = model.predict_f(x[60:])
    assert float((mean[:, 0] - y[60:]).square().mean()) < 0.5 * float(y[60:].var())


def test_refusals_name_the_culprit():
    x = paths(5, 3, 4, 2)
    with pytest.raises(TypeError, match="take SparseGP"):
        SignatureGP(kernel("rbf"), LandmarkFeatures(x), Gaussian())  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="kernel has 3 channels"):
        SparseGP(SignatureKernel(3, static="rbf"), LandmarkFeatures(x), Gaussian())
    with pytest.raises(ValueError, match="no landmark"):
        LandmarkFeatures(x[:0])
    with pytest.raises(ValueError, match="jitter"):
        LandmarkFeatures(x, jitter=2.0)
    with pytest.raises(ArithmeticError, match="landmark 1 is a combination"):
        LandmarkFeatures(x[[0, 0]], jitter=0)(kernel("rbf"), x)
    with pytest.raises(ValueError, match="depends on the kernel"):
        LandmarkFeatures(x).inducing_covariance()
