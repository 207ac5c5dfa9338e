"""More data for a trained model: exact for regressions, near a joint fit for others, and whole or not at all."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.small_models import QUIET, labels, same_state, series, small_gp, targets
from siggpde.gp import natural_gradients as new_series
from siggpde.gp.likelihoods import Bernoulli, Gaussian, Poisson, Softmax, StudentT
from siggpde.gp.model import SignatureGP
from siggpde.gp.natural_gradients import update_posterior
from siggpde.training import Exact, NaturalGradients, fit

X = series(120)
A, B = slice(0, 80), slice(80, 120)
STEPS = NaturalGradients(learn=False, settle=1e-9)
CASES: dict[str, Any] = {
    "gaussian": (lambda: Gaussian(0.2), lambda: targets(X)),
    "softmax": (lambda: Softmax(3), lambda: labels(X, 3)),
    "bernoulli": (Bernoulli, lambda: labels(X, 2)),
    "student": (lambda: StudentT(0.3, 4.0), lambda: targets(X)),
    "poisson": (Poisson, lambda: (3 * targets(X).exp()).clamp(max=30).round()),
}
others = pytest.mark.parametrize("case", ["softmax", "bernoulli", "student", "poisson"])
covariances = pytest.mark.parametrize("covariance", ["full", "shared", "diagonal"])


def problem(case: str, covariance: Any = "full", dtype: torch.dtype = torch.float64) -> tuple[SignatureGP, Tensor]:
    likelihood, y = CASES[case]
    return small_gp(likelihood(), 7, theta=0.6, covariance=covariance, dtype=dtype), y()


def expected(model: SignatureGP, x: Tensor, y: Tensor) -> float:
    mean, variance = model.predict_f(x)
    with torch.no_grad():
        return float(model.likelihood.expected_log_prob(mean, variance, model.likelihood.check_targets(y)).sum())


@pytest.mark.parametrize("covariance", ["full", "shared"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_regression_is_that_of_old_and_new_series(covariance: Any, dtype: torch.dtype):
    model, y = problem("gaussian", covariance, dtype)
    joint = copy.deepcopy(model)
    fit(model, (X[A], y[A]), Exact(tune=False), **QUIET)
    update_posterior(model, X[B], y[B])
    fit(joint, (X, y), Exact(tune=False), **QUIET)
    close = 1e-10 if dtype == torch.float64 else 1e-4
    for one, other in zip(model.predict_f(X), joint.predict_f(X), strict=True):
        assert one.dtype == dtype and torch.allclose(one, other, rtol=close, atol=close)
    assert torch.allclose(model.variational.mean, joint.variational.mean, rtol=close, atol=10 * close)


@pytest.mark.parametrize("covariance", ["full", "shared"])
def test_the_order_and_the_number_of_portions_do_not_matter(covariance: Any):
    model, y = problem("gaussian", covariance)
    fit(model, (X[A], y[A]), Exact(), **QUIET)
    first, second, third = (copy.deepcopy(model) for _ in range(3))
    update_posterior(first, X[B], y[B])
    for rows in (slice(100, 120), slice(90, 100), slice(80, 81), slice(81, 90)):
        update_posterior(second, X[rows], y[rows])
    update_posterior(third, X[B].flip(0), y[B].flip(0))
    for other in (second, third):
        assert torch.allclose(first.variational.mean, other.variational.mean, atol=1e-8)
        assert torch.allclose(first.predict_f(X)[1], other.predict_f(X)[1], atol=1e-10)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch):
    for case in ("gaussian", "softmax"):
        model, y = problem(case)
        fit(model, (X[A], y[A]), STEPS, **QUIET)
        other = copy.deepcopy(model)
        update_posterior(model, X[B], y[B])
        with monkeypatch.context() as patch:
            patch.setattr(new_series, "_CHUNK", 7)
            update_posterior(other, X[B], y[B])
        assert torch.allclose(model.variational.mean, other.variational.mean, atol=1e-9)


@others
@covariances
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_new_series_are_learned_about_as_in_a_joint_fit(case: str, covariance: Any, dtype: torch.dtype):
    model, y = problem(case, covariance, dtype)
    joint = copy.deepcopy(model)
    fit(model, (X[A], y[A]), STEPS, **QUIET)
    fit(joint, (X, y), STEPS, **QUIET)
    before, old = expected(model, X[B], y[B]), model.elbo(X, y).item()
    apart = float((model.predict_f(X)[0] - joint.predict_f(X)[0]).norm())
    update_posterior(model, X[B], y[B])
    assert expected(model, X[B], y[B]) > before + 0.5, "the new series are likelier than before"
    if covariance == "diagonal":  # what a diagonal has forgotten of the old series, no update brings back
        return
    assert old < model.elbo(X, y).item() <= joint.elbo(X, y).item() + 1e-3
    left = float((model.predict_f(X)[0] - joint.predict_f(X)[0]).norm())
    assert left < 0.4 * apart


@pytest.mark.parametrize("case", ["gaussian", "softmax", "poisson"])
@covariances
def test_nothing_near_is_better(case: str, covariance: Any):
    """q(u) maximises E[log p] of the new series minus the divergence from q(u) before; moved, it is worse."""
    model, y = problem(case, covariance)
    fit(model, (X[A], y[A]), STEPS, **QUIET)
    old = copy.deepcopy(model.variational)
    update_posterior(model, X[B], y[B])

    def bound() -> float:
        return expected(model, X[B], y[B]) - divergence(model, old)

    best, q = bound(), model.variational
    with torch.no_grad():
        for part in (q.mean, q.root):
            kept = part.clone()
            for seed in range(4):
                change = torch.randn(part.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
                part.copy_(kept + 0.05 * (change.tril() if part.ndim == 3 else change) * old.root.abs().mean())
                assert bound() < best
            part.copy_(kept)


def divergence(model: SignatureGP, old: Any) -> float:
    """KL[q || q before], by torch."""

    def normal(q: Any) -> Any:
        root = q.root.detach() if q.full else torch.diag_embed(q.root.detach())
        sigma = (root.tril() @ root.tril().mT).expand(q.latents, -1, -1)
        return torch.distributions.MultivariateNormal(q.mean.detach(), sigma)

    return float(torch.distributions.kl_divergence(normal(model.variational), normal(old)).sum())


def test_a_portion_that_surprises_does_not_throw_it_off():
    """Counts a thousand times those of before: whole steps would overflow the exponential."""
    model, y = problem("poisson")
    fit(model, (X[A], y[A]), STEPS, **QUIET)
    before = expected(model, X[B], 3000 + y[B])
    update_posterior(model, X[B], 3000 + y[B])
    assert expected(model, X[B], 3000 + y[B]) > before
    assert torch.isfinite(model.predict_f(X)[0]).all()


def test_ragged_series_lists_and_nothing_at_all():
    model, y = problem("gaussian")
    fit(model, (X[A], y[A]), Exact(tune=False), **QUIET)
    other, same = copy.deepcopy(model), copy.deepcopy(model)
    counts = torch.arange(40) % 5 + 2
    padded = X[B].clone()
    for row, count in zip(padded, counts.tolist(), strict=True):
        row[count:] = float("nan")
    update_posterior(model, padded, y[B], lengths=counts)
    update_posterior(other, [x[:count] for x, count in zip(X[B], counts.tolist(), strict=True)], y[B].tolist())
    assert torch.allclose(model.variational.mean, other.variational.mean, atol=1e-5)
    assert padded[0].isnan().any()
    kept = copy.deepcopy(same)
    update_posterior(same, X[:0], y[:0])
    assert same_state(same, kept)


@pytest.mark.parametrize("case", ["gaussian", "softmax"])
@covariances
def test_a_failure_changes_nothing(case: str, covariance: Any, monkeypatch: pytest.MonkeyPatch):
    model, y = problem(case, covariance)
    fit(model, (X[A], y[A]), NaturalGradients(max_iter=5, learn=False), **QUIET)
    kept = copy.deepcopy(model)
    bad = X[B].clone()
    bad[7, 2, 1] = float("nan")
    labelled = case == "softmax"
    wrong = y[B].clone()
    wrong[3] = 5 if labelled else float("nan")
    for x, given, message in (
        (X[B], y[A], "40 series but 80 targets"),
        (bad, y[B], "in series 7, at time index 2, channel 1"),
        (X[B], wrong, "target 3 is 5" if labelled else "target 3 is nan"),
        (series(40, channels=3), y[B], "channels"),
    ):
        with pytest.raises(ValueError, match=message):
            update_posterior(model, x, given)
        assert same_state(model, kept)
    statistics = model.likelihood.statistics

    def broken(*arguments: Any) -> Any:
        value, g, a = statistics(*arguments)
        return value, g * float("nan"), a * float("nan")

    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    if case == "gaussian" and covariance != "diagonal":
        monkeypatch.setattr(model.likelihood, "statistics", broken)
        with pytest.raises(ArithmeticError, match="could not be updated"):
            update_posterior(model, X[B], y[B])
        assert same_state(model, kept)
    monkeypatch.setattr(model.likelihood, "statistics", stopped)
    with pytest.raises(KeyboardInterrupt):
        update_posterior(model, X[B], y[B])
    assert same_state(model, kept)
