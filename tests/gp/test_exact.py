"""The exact schedule: the posterior of dense regression, noise by leave-one-out, and going on bitwise."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.refusals import assert_refused
from helpers.small_models import QUIET, exact_gp, labels, same_state, series, small_gp, targets, whole_gp
from siggpde.gp.exact import NOISES, best_noise, left_out
from siggpde.gp.likelihoods import Gaussian, Softmax
from siggpde.gp.model import SignatureGP
from siggpde.training import Exact, NaturalGradients, PaperSchedule, fit

X, NEW = series(40), series(9, seed=7)
FIXED = Exact(tune=False)


def log_left_out(model: SignatureGP, x: Tensor, y: Tensor) -> Tensor:
    """log p(y_n | all other series)."""
    q, likelihood = model.variational, model.likelihood
    assert isinstance(likelihood, Gaussian)
    with torch.no_grad():
        return likelihood.log_predictive(*left_out(likelihood, q.root[0], q.mean, model.project(x), y), y)


@pytest.mark.parametrize("depth", [2, 5], ids=["fewer words than series", "more words than series"])
@pytest.mark.parametrize("covariance", ["shared", "full"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_posterior_is_that_of_dense_regression(depth: int, covariance: Any, dtype: torch.dtype):
    model = small_gp(
        Gaussian(0.05), 2 ** (depth + 1) - 1, depth=depth, theta=0.7, amplitude=2.0, covariance=covariance, dtype=dtype
    )
    y = targets(X)
    history = fit(model, (X, y), FIXED, **QUIET)
    close = {"atol": 1e-7} if dtype == torch.float64 else {"atol": 2e-3}
    for place in (X, NEW):
        mean, variance = model.predict_f(place)
        wanted_mean, wanted, _ = exact_gp(model, X, y, place)
        if depth == 2 or place is X:  # directions of fewer series hold all of these series, not all of others
            assert torch.allclose(mean[:, 0].double(), wanted_mean, **close)
            assert torch.allclose(variance[:, 0].double(), wanted.diagonal(), **close)
    assert history.stopped == {"exact": "exact"} and history.schedule == "Exact"
    assert model.kernel.amplitude.item() == pytest.approx(2.0)


def test_the_bound_is_the_evidence_and_its_optimum():
    model = whole_gp(2, Gaussian(0.05), theta=0.7)
    history = fit(model, (X, targets(X)), FIXED, **QUIET)
    assert history.elbo == pytest.approx(exact_gp(model, X, targets(X), NEW)[2] / 40, rel=1e-9)
    other = whole_gp(2, Gaussian(0.05), theta=0.7)
    fit(other, (X, targets(X)), NaturalGradients(learn=False, settle=1e-10), **QUIET)
    assert torch.allclose(model.variational.mean, other.variational.mean, atol=1e-9)


@pytest.mark.parametrize("depth", [2, 5])
@pytest.mark.parametrize("noise", [0.3, 1e-3])
def test_left_out_is_refitted_without(depth: int, noise: float):
    x, y = X[:20], targets(X)[:20]
    model = whole_gp(depth, Gaussian(noise), theta=0.7)
    fit(model, (x, y), FIXED, **QUIET)
    computed = log_left_out(model, x, y)
    for i in range(20):
        rest = torch.arange(20) != i
        mean, variance, _ = exact_gp(model, x[rest], y[rest], x[i : i + 1])
        wanted = model.likelihood.log_predictive(mean[:, None], variance, y[i : i + 1])
        assert computed[i].item() == pytest.approx(wanted.item(), rel=1e-5, abs=1e-6)
    if depth == 2:
        alone = whole_gp(depth, Gaussian(noise), theta=0.7)
        fit(alone, (x[1:], y[1:]), FIXED, **QUIET)
        assert computed[0].item() == pytest.approx(alone.log_predictive(x[:1], y[:1]).item(), rel=1e-8)


def test_left_out_of_some_series_and_of_a_narrow_dtype():
    y = targets(X)
    wide, narrow = (small_gp(Gaussian(0.05), 15, theta=0.7, dtype=t) for t in (torch.float64, torch.float32))
    for model in (wide, narrow):
        fit(model, (X, y), FIXED, **QUIET)
    all_of_them = log_left_out(wide, X, y)
    assert torch.allclose(log_left_out(wide, X[3:9], y[3:9]), all_of_them[3:9], atol=1e-10)
    assert torch.allclose(log_left_out(narrow, X, y), all_of_them, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_hardly_any_noise_leaves_something_to_leave_out(dtype: torch.dtype):
    """Every series decides its own prediction almost wholly; the difference to 1 is lost in float32."""
    y = targets(X)
    model = small_gp(Gaussian(1e-9), 63, theta=0.7, normalized=True, depth=5, dtype=dtype)
    history = fit(model, (X, y), FIXED, **QUIET)
    assert torch.isfinite(log_left_out(model, X, y)).all()
    nlpp = history.records[-1].nlpp
    assert nlpp is not None and math.isfinite(nlpp)
    if dtype == torch.float32:
        exact = small_gp(Gaussian(1e-9), 63, theta=0.7, normalized=True, depth=5)
        assert nlpp == pytest.approx(fit(exact, (X, y), FIXED, **QUIET).records[-1].nlpp, rel=0.2)


def test_a_time_limit_or_a_validation_part_change_nothing():
    x = series(60)
    models = [small_gp(Gaussian(), 15, theta=0.7, covariance="shared") for _ in range(3)]
    for model, more in zip(models, ({}, {"time_limit": 0.0}, {"validation": 0.5}), strict=True):
        fit(model, (x, targets(x)), Exact(), **more, **QUIET)
    assert same_state(models[0], models[1]) and same_state(models[0], models[2])


@pytest.mark.parametrize(
    ("likelihood", "covariance", "schedule", "message"),
    [
        (Softmax(3), "full", Exact(), r"is for the Gaussian likelihood, not Softmax; take NaturalGradients"),
        (Gaussian(), "diagonal", Exact(), r"Exact\(\) has no covariance='diagonal'; take 'shared' or 'full'"),
        (
            Softmax(3),
            "shared",
            PaperSchedule(),
            "the paper's schedule has no covariance='shared'; take 'full' or 'diag",
        ),
    ],
)
def test_what_is_refused(likelihood: Any, covariance: Any, schedule: Any, message: str):
    y = targets(X) if likelihood.is_gaussian else labels(X, 3)
    assert_refused(message, fit, small_gp(likelihood, 7, covariance=covariance), (X, y), schedule, **QUIET)
    assert_refused("max_tuned must be positive, got 0", Exact, max_tuned=0)


def test_targets_that_are_all_the_same():
    model = small_gp(Gaussian(), 7, theta=0.7, covariance="shared")
    fit(model, (X, torch.zeros(40).double()), Exact(), **QUIET)
    mean, variance = model.predict(NEW)
    assert mean.abs().max() < 1e-6 and torch.isfinite(variance).all() and bool((variance > 0).all())
    fit(model, (X, torch.full((40,), 5.0).double()), Exact(), **QUIET)
    assert torch.allclose(model.predict(NEW)[0], torch.full((9,), 5.0).double(), atol=0.05)


def left_out_score(features: Tensor, y: Tensor, noise: float) -> float:
    """What tuning wants the least of, at a noise relative to the features, by refitting without each of the rows."""
    n, y = len(y), y[:, None].double()
    gram = features @ features.T + noise * torch.eye(n).double()
    amplitude = float((y * torch.linalg.solve(gram, y)).mean())
    predicted, variance = torch.empty_like(y), torch.empty(n).double()
    for i in range(n):
        rest = torch.arange(n) != i
        solved = torch.linalg.solve(gram[rest][:, rest], torch.cat([y[rest], gram[rest, i : i + 1]], dim=1))
        predicted[i] = gram[i, rest] @ solved[:, :-1]
        variance[i] = amplitude * (gram[i, i] - gram[i, rest] @ solved[:, -1])
    return -float(torch.distributions.Normal(predicted[:, 0], variance.sqrt()).log_prob(y[:, 0]).mean())


@pytest.mark.parametrize("kernel", [{"normalized": True}, {"theta": 1.5}, {"theta": 0.7, "amplitude": 40.0}])
def test_the_noise_is_the_best_of_those_tried(kernel: dict[str, Any]):
    y, likelihood = targets(X), Gaussian()
    model = small_gp(likelihood, 15, depth=3, covariance="shared", **kernel)
    with torch.no_grad():
        features = model.project(X).features
        size = float(model.project(X).variance.mean() / model.kernel.amplitude)
    features = features / features.square().sum(dim=1).mean().sqrt()
    scores = {noise: left_out_score(features, y / y.std(correction=0), noise) for noise in NOISES}
    best = min(scores, key=scores.__getitem__)
    fit(model, (X, y), Exact(), **QUIET)
    assert (likelihood.noise / (model.kernel.amplitude * size)).item() == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_targets_of_any_size_are_fitted_alike(size: float):
    one, other = (small_gp(Gaussian(), 15, theta=0.7, covariance="shared") for _ in range(2))
    fit(one, (X, targets(X)), Exact(), **QUIET)
    fit(other, (X, size * targets(X)), Exact(), **QUIET)
    for left, right, power in zip(one.predict(NEW), other.predict(NEW), (1, 2), strict=True):
        assert torch.allclose(size**power * left, right, rtol=1e-6)


def test_some_series_tune_and_all_decide():
    y = targets(X)
    model = whole_gp(2, theta=0.7)
    fit(model, (X, y), Exact(max_tuned=25), seed=1, **QUIET)
    mean, variance, _ = exact_gp(model, X, y, NEW)
    for computed, wanted in zip(model.predict_f(NEW), (mean, variance.diagonal()), strict=True):
        assert torch.allclose(computed[:, 0], wanted, atol=1e-8)
    again, *others = (whole_gp(2, theta=0.7) for _ in range(7))
    fit(again, (X, y), Exact(max_tuned=25), seed=1, **QUIET)
    assert same_state(model, again)
    for seed, other in enumerate(others):
        fit(other, (X, y), Exact(max_tuned=10), seed=seed, **QUIET)
    assert len({other.kernel.amplitude.item() for other in others}) > 1, "others are drawn for other seeds"


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("count", [3, 40])
def test_numbers_are_judged_by_the_density_of_what_was_left_out(count: int):
    features = normal(20, count, seed=2)
    y = features[:, 0] + 0.1 * normal(20, seed=3)
    computed = best_noise(features, y)
    gram = features @ features.T + computed.noise * torch.eye(20, dtype=torch.float64)
    assert computed.amplitude == pytest.approx(float(y @ torch.linalg.solve(gram, y) / 20), rel=1e-5)
    assert computed.score == pytest.approx(left_out_score(features, y, computed.noise), rel=1e-5)
    # For the least noise the plain way is not accurate itself.
    best = min(left_out_score(features, y, noise) for noise in NOISES[:-6])
    assert computed.score == pytest.approx(best, abs=2e-5)


@pytest.mark.parametrize("decay", [0.0, 12.0], ids=["alike", "nearly dependent"])
def test_both_sides_of_the_eigenproblem_agree(decay: float):
    """Columns of zeros change nothing but which of the two Gram matrices is taken."""
    features = normal(30, 12) * 10.0 ** -torch.linspace(0, decay, 12).double()
    features = features / features.norm(dim=1, keepdim=True)
    y = normal(30, seed=5)
    small, large = best_noise(features, y), best_noise(torch.cat([features, 0 * normal(30, 40)], 1), y)
    assert small.score == pytest.approx(large.score, abs=1e-5)
    assert small.noise == large.noise and small.amplitude == pytest.approx(large.amplitude, rel=1e-5)


def test_targets_that_are_noise_are_taken_to_be():
    features = normal(60, 30)
    features = features / features.norm(dim=1, keepdim=True)
    computed = best_noise(features, normal(60, seed=9))
    assert computed.noise > 1 and computed.score < 1.6


@pytest.mark.parametrize("count", [2, 60])
def test_where_scores_are_equal_the_most_noise_is_taken(count: int):
    """Features of zeros explain nothing at any noise."""
    assert best_noise(torch.zeros(40, count).double(), normal(40)).noise == max(NOISES)


def test_features_that_are_not_finite():
    for count in (2, 9):
        with pytest.raises(ArithmeticError, match="finite features"):
            best_noise(torch.full((4, count), math.nan, dtype=torch.float64), torch.arange(4.0))
