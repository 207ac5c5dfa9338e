"""The sparse Gaussian process against dense formulas and against the exact posterior."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from helpers import small_models
from helpers.random_paths import generator
from helpers.refusals import assert_refused
from helpers.small_models import QUIET, disturb, exact_gp, labels, series, small_gp, targets, whole_gp
from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Bernoulli, Gaussian, Softmax
from siggpde.gp.model import SignatureGP
from siggpde.training import NaturalGradients, fit

OPTIMUM = NaturalGradients(learn=False)
both = pytest.mark.parametrize("covariance", ["full", "diagonal"])


def dense_marginals(model: SignatureGP, x: Tensor) -> tuple[Tensor, Tensor]:
    """By the formulas at the top of the module, written out."""
    seen = model.project(x)
    s, sigma = seen.features.detach().double(), small_models.dense_covariance(model.variational)
    mean = s @ model.variational.mean.detach().double().T
    prior = model.kernel(x, diag=True).detach()
    rows = [[prior[n] - s[n] @ s[n] + s[n] @ sigma[c] @ s[n] for c in range(len(sigma))] for n in range(len(s))]
    return mean, torch.tensor(rows)


@both
@pytest.mark.parametrize(
    "likelihood", [Gaussian(0.3), Bernoulli(), Softmax(3)], ids=["gaussian", "bernoulli", "softmax"]
)
def test_the_elbo_is_the_dense_formula(covariance: str, likelihood):
    """Minibatches average to it, and gradients are those of finite differences."""
    x = series(6)
    y = targets(x) if likelihood.is_gaussian else labels(x, likelihood.classes)
    model = disturb(small_gp(likelihood, 9, amplitude=1.4, theta=[0.7, 0.9], covariance=covariance, tol=1e-13))
    mean, variance = dense_marginals(model, x)
    sigma, m = small_models.dense_covariance(model.variational), model.variational.mean.detach()
    kl = 0.5 * sum(sigma[c].trace() + m[c] @ m[c] - 9 - torch.logdet(sigma[c]) for c in range(len(m)))
    wanted = likelihood.expected_log_prob(mean, variance, y).sum() - kl
    assert model.elbo(x, y).item() == pytest.approx(wanted.item(), rel=1e-10)
    parts = [model.elbo(x[rows], y[rows], total=6).item() for rows in torch.randperm(6).split(2)]
    whole = model.elbo(x, y).item()
    assert sum(parts) / 3 == pytest.approx(whole, rel=1e-12)
    assert model.elbo(list(x), y).item() == pytest.approx(whole, rel=1e-12)
    assert small_models.gradients_are_right(model, lambda: model.elbo(x, y), rtol=1e-5)
    got = model.predict_f(x)
    assert torch.allclose(got[0], mean, rtol=1e-10, atol=1e-12) and torch.allclose(got[1], variance, rtol=1e-9)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("n", [1, 8, 40])
def test_with_all_words_of_a_truncated_kernel_the_posterior_is_exact(normalized: bool, n: int):
    x, new = series(n), series(5, seed=7)
    y = targets(x)
    model = whole_gp(3, Gaussian(0.05), normalized=normalized, amplitude=1.5, theta=[0.8, 1.1])
    fit(model, (x, y), OPTIMUM, validation=0, **QUIET)
    mean, covariance, evidence = exact_gp(model, x, y, new)
    got, joint = model.predict_f(new, full_cov=True)
    assert torch.allclose(got[:, 0], mean, atol=1e-7)
    assert torch.allclose(joint[0], covariance, atol=1e-7)
    assert torch.allclose(model.predict_f(new)[1][:, 0], covariance.diagonal(), atol=1e-7)
    assert model.elbo(x, y).item() == pytest.approx(evidence, abs=1e-6)
    mean_y, variance_y = model.predict(new)
    assert torch.allclose(mean_y, mean, atol=1e-7)
    assert torch.allclose(variance_y, covariance.diagonal() + 0.05, atol=1e-7)


def test_the_elbo_grows_with_the_words_and_never_exceeds_the_evidence():
    x = series(25)
    y = targets(x)
    elbos, evidence = [], float("nan")
    for count in (1, 2, 3, 7, 11, 15, 31, 63):
        model = small_gp(Gaussian(0.05), count, theta=1.2)
        fit(model, (x, y), OPTIMUM, validation=0, **QUIET)
        elbos.append(model.elbo(x, y).item())
        evidence = exact_gp(model, x, y, x[:1])[2]
    assert all(earlier <= later + 1e-7 for earlier, later in pairwise(elbos)), elbos
    assert elbos[-1] <= evidence + 1e-7
    assert evidence - elbos[-1] < 0.05 * (evidence - elbos[0])
    for seed in range(5):
        assert disturb(small_gp(Gaussian(0.05), 15, theta=1.2), seed).elbo(x, y).item() < evidence


@both
def test_joint_covariances_have_the_marginal_variances_on_the_diagonal(covariance: str):
    x = series(9)
    for dtype, tol in ((torch.float64, 1e-8), (torch.float32, 1e-5)):
        model = disturb(small_gp(Softmax(3), 7, covariance=covariance, dtype=dtype))
        mean, variance = model.predict_f(x)
        joint_mean, joint = model.predict_f(x, full_cov=True)
        assert joint.shape == (3, 9, 9) and joint.dtype == dtype
        assert torch.equal(mean, joint_mean)
        assert torch.allclose(joint.diagonal(dim1=1, dim2=2).T, variance, rtol=tol, atol=tol)
        assert torch.linalg.eigvalsh(joint.double()).min() > -tol * float(variance.max())


def test_joint_samples_have_the_moments_of_the_posterior_and_follow_the_generator():
    x = torch.cat([series(4), series(1)])  # one series twice: the covariance is singular
    model = disturb(small_gp(Softmax(2), 7))
    mean, joint = model.predict_f(x, full_cov=True)
    state = torch.get_rng_state()
    samples = model.sample_f(x, generator(1), samples=20_000)
    assert torch.equal(state, torch.get_rng_state())
    assert samples.shape == (20_000, 5, 2)
    assert torch.equal(samples, model.sample_f(x, generator(1), samples=20_000))
    assert not torch.equal(samples[:1], model.sample_f(x, generator(2)))
    error = joint.diagonal(dim1=1, dim2=2).T.sqrt() / 20_000**0.5
    assert ((samples.mean(dim=0) - mean).abs() < 5 * error).all()
    for latent in range(2):
        size = float(joint[latent].diagonal().max())
        assert (samples[:, :, latent].T.cov() - joint[latent]).abs().max() < 6 * size * (2 / 20_000) ** 0.5
    assert torch.allclose(samples[:, 0], samples[:, 4], atol=1e-3)
    across = (samples[:, :, 0] - mean[:, 0]).T @ (samples[:, :, 1] - mean[:, 1]) / 20_000
    assert across.abs().max() < 6 * float(joint.max()) / 20_000**0.5, "latents are independent"


def test_chunks_change_nothing():
    x = [series(1, length=length, seed=length)[0] for length in (5, 1, 8, 3, 3, 12, 2)]
    model = disturb(small_gp(Bernoulli(), 15))
    mean, variance = model.predict_f(x)
    for chunk in (1, 2, 3, 7, 100):
        got = model.predict_f(x, chunk=chunk)
        assert torch.allclose(got[0], mean, rtol=1e-12) and torch.allclose(got[1], variance, rtol=1e-12)
        assert torch.allclose(model.predict(x, chunk=chunk), model.predict(x), rtol=1e-12)
    assert_refused("chunk must be at least 1", model.predict_f, x, chunk=0)
    bad = series(5)
    bad[3, 1, 0] = float("nan")
    assert_refused("in series 3, at time index 1, channel 0", model.predict_f, bad, chunk=2)


def test_one_series_one_class_and_no_series():
    x = series(3)
    model = disturb(small_gp(Softmax(3), 7))
    one_class = torch.zeros(3, dtype=torch.long)
    single = [model.elbo(x[i : i + 1], one_class[:1], total=3).item() for i in range(3)]
    assert model.elbo(x, one_class).item() == pytest.approx(sum(single) / 3, rel=1e-12)
    assert model.predict(x[:1]).shape == (1, 3) and model.sample_f(x[:1]).shape == (1, 1, 3)
    assert [part.shape for part in model.predict_f(x[:0])] == [(0, 3), (0, 3)]
    assert_refused("the batch is empty", model.elbo, x[:0], one_class[:0])
    assert_refused("3 series but 2 targets", model.elbo, x, one_class[:2])
    probabilities = model.predict(x)
    wanted = torch.stack([probabilities[i, c] for i, c in enumerate((0, 1, 2))]).log()
    assert torch.allclose(model.log_predictive(x, [0, 1, 2]), wanted, rtol=1e-9)


def test_float32_is_close_to_float64():
    x = series(30)
    y = labels(x, 3)
    models = [small_gp(Softmax(3), 15, dtype=dtype) for dtype in (torch.float64, torch.float32)]
    for model in models:
        fit(model, (x, y), OPTIMUM, validation=0, **QUIET)
    assert models[1].predict_f(x)[0].dtype == torch.float32
    assert torch.allclose(models[0].predict(x), models[1].predict(x).double(), atol=2e-3)
    assert models[1].elbo(x, y).item() == pytest.approx(models[0].elbo(x, y).item(), rel=1e-4)


def test_errors():
    features, likelihood = OrthogonalSignatureFeatures(2, 8), Gaussian()
    for message, kernel, options in (
        ("the kernel has 3 channels and the features 2", SignatureKernel(3), {}),
        (r"dtype must be torch.float32 or torch.float64", SignatureKernel(2), {"dtype": torch.float16}),
        ("words that the kernel leaves out", SignatureKernel(2, depth=2), {}),
    ):
        assert_refused(message, SignatureGP, kernel, features, likelihood, **options)
    model = small_gp(count=3)
    for function, options in ((model.predict_f, {"full_cov": True}), (model.sample_f, {})):
        assert_refused("5001 series has 5001² entries; the most is 5000", function, torch.zeros(5001, 2, 2), **options)
