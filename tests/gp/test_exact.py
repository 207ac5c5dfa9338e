"""The exact schedule: the posterior of dense regression, noise by leave-one-out, and going on bitwise."""

import copy
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
    natural, history = copy.deepcopy(model), fit(model, (X, y), FIXED, **QUIET)
    if depth == 2 and dtype == torch.float64:
        fit(natural, (X, y), NaturalGradients(learn=False, settle=1e-10), **QUIET)
        assert torch.allclose(model.variational.mean, natural.variational.mean, atol=1e-9)
    close = {"atol": 1e-7} if dtype == torch.float64 else {"atol": 2e-3}
    for place in (X, NEW):
        mean, variance = model.predict_f(place)
        wanted_mean, wanted, evidence = exact_gp(model, X, y, place)
        if depth == 2 or place is X:  # directions of fewer series hold all of these series, not all of others
            assert torch.allclose(mean[:, 0].double(), wanted_mean, **close)
            assert torch.allclose(variance[:, 0].double(), wanted.diagonal(), **close)
    assert depth == 5 or history.elbo == pytest.approx(evidence / 40, rel=1e-9 if dtype == torch.float64 else 1e-3)
    assert history.stopped == {"exact": "exact"} and history.schedule == "Exact"
    assert model.kernel.amplitude.item() == pytest.approx(2.0)


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
    y, computed = targets(X), []
    for dtype in (torch.float64, torch.float32):
        model = small_gp(Gaussian(0.05), 15, theta=0.7, dtype=dtype)
        fit(model, (X, y), FIXED, **QUIET)
        computed.append(log_left_out(model, X, y))
        close = 1e-10 if dtype == torch.float64 else 1e-3
        assert torch.allclose(log_left_out(model, X[3:9], y[3:9]), computed[0][3:9], atol=close)
    assert torch.allclose(*computed, atol=1e-3)


def test_hardly_any_noise_leaves_something_to_leave_out():
    """Every series decides its own prediction almost wholly; the difference to 1 is lost in float32."""
    y, scores = targets(X), []
    for dtype in (torch.float64, torch.float32):
        model = small_gp(Gaussian(1e-9), 63, theta=0.7, normalized=True, depth=5, dtype=dtype)
        scores.append(fit(model, (X, y), FIXED, **QUIET).records[-1].nlpp)
        assert torch.isfinite(log_left_out(model, X, y)).all()
    assert math.isfinite(scores[0]) and scores[1] == pytest.approx(scores[0], rel=0.2)


def test_a_time_limit_or_a_validation_part_change_nothing():
    x = series(60)
    models = [small_gp(Gaussian(), 15, theta=0.7, covariance="shared") for _ in range(3)]
    for model, more in zip(models, ({}, {"time_limit": 0.0}, {"validation": 0.5}), strict=True):
        fit(model, (x, targets(x)), Exact(), **more, **QUIET)
    assert same_state(models[0], models[1]) and same_state(models[0], models[2])


def test_what_is_refused():
    classes, numbers = (X, labels(X, 3)), (X, targets(X))
    message = "is for the Gaussian likelihood, not Softmax; take NaturalGradients"
    assert_refused(message, fit, small_gp(Softmax(3)), classes, Exact())
    message = r"Exact\(\) has no covariance='diagonal'; take 'shared' or 'full'"
    assert_refused(message, fit, small_gp(covariance="diagonal"), numbers, Exact())
    message = "the paper's schedule has no covariance='shared'; take 'full' or 'diagonal'"
    assert_refused(message, fit, small_gp(Softmax(3), covariance="shared"), classes, PaperSchedule())
    assert_refused("max_tuned must be positive, got 0", Exact, max_tuned=0)


def test_targets_of_any_size_are_fitted_alike_and_may_all_be_the_same():
    one = small_gp(Gaussian(), 15, theta=0.7, covariance="shared")
    fit(one, (X, targets(X)), Exact(), **QUIET)
    for size in (1e-6, 1e6):
        other = small_gp(Gaussian(), 15, theta=0.7, covariance="shared")
        fit(other, (X, size * targets(X)), Exact(), **QUIET)
        for left, right, power in zip(one.predict(NEW), other.predict(NEW), (1, 2), strict=True):
            assert torch.allclose(size**power * left, right, rtol=1e-6)
    for value, close in ((0.0, 1e-6), (5.0, 0.05)):
        fit(one, (X, torch.full((40,), value).double()), Exact(), **QUIET)
        mean, variance = one.predict(NEW)
        assert torch.allclose(mean, torch.full_like(mean, value), atol=close)
        assert torch.isfinite(variance).all() and bool((variance > 0).all())


def left_out_score(features: Tensor, y: Tensor, noise: float) -> tuple[float, float]:
    """Minus the mean log density of every target by the regression on all the others, and the amplitude."""
    n = len(y)
    gram = features @ features.T + noise * torch.eye(n).double()
    amplitude = float(y @ torch.linalg.solve(gram, y) / n)
    density = 0.0
    for i in range(n):
        rest = torch.arange(n) != i
        both = torch.stack([y[rest], gram[rest, i]], dim=1)
        mean, explained = gram[i, rest] @ torch.linalg.solve(gram[rest][:, rest], both)
        density += torch.distributions.Normal(mean, (amplitude * (gram[i, i] - explained)).sqrt()).log_prob(y[i])
    return -float(density / n), amplitude


@pytest.mark.parametrize("kernel", [{"normalized": True}, {"theta": 1.5}, {"theta": 0.7, "amplitude": 40.0}])
def test_the_noise_is_the_best_of_those_tried(kernel: dict[str, Any]):
    y, likelihood = targets(X), Gaussian()
    model = small_gp(likelihood, 15, depth=3, covariance="shared", **kernel)
    with torch.no_grad():
        seen = model.project(X)
    features = seen.features / seen.features.square().sum(dim=1).mean().sqrt()
    best = min(NOISES, key=lambda noise: left_out_score(features, y / y.std(correction=0), noise))
    size = float(seen.variance.mean() / model.kernel.amplitude.detach())
    fit(model, (X, y), Exact(), **QUIET)
    assert (likelihood.noise / (model.kernel.amplitude * size)).item() == pytest.approx(best, rel=1e-6)


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
    refitted = left_out_score(features, y, computed.noise)
    assert (computed.score, computed.amplitude) == pytest.approx(refitted, rel=1e-5)
    # The least noise is left out: there the plain way is inaccurate.
    scores = [left_out_score(features, y, noise)[0] for noise in NOISES[:-6]]
    assert computed.score == pytest.approx(min(scores), abs=2e-5)


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
    """Of equal scores the most noise is taken: features of zeros explain nothing at any noise."""
    features = normal(60, 30)
    features = features / features.norm(dim=1, keepdim=True)
    computed = best_noise(features, normal(60, seed=9))
    assert computed.noise > 1 and computed.score < 1.6
    for count in (2, 60):
        assert best_noise(torch.zeros(40, count).double(), normal(40)).noise == max(NOISES)
        infinite = torch.full((4, count), math.nan, dtype=torch.float64)
        assert_refused("finite features", best_noise, infinite, torch.arange(4.0), error=ArithmeticError)
