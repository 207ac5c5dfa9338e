"""The exact schedule: the posterior of dense regression, leave-one-out by leaving out, and going on bitwise."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.small_models import QUIET, exact_gp, labels, same_state, series, small_gp, targets, whole_gp
from siggpde.gp.exact import ExactPosterior, left_out
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
    found = log_left_out(model, x, y)
    for i in range(20):
        rest = torch.arange(20) != i
        mean, variance, _ = exact_gp(model, x[rest], y[rest], x[i : i + 1])
        wanted = model.likelihood.log_predictive(mean[:, None], variance, y[i : i + 1])
        assert found[i].item() == pytest.approx(wanted.item(), rel=1e-5, abs=1e-6)
    if depth == 2:
        alone = whole_gp(depth, Gaussian(noise), theta=0.7)
        fit(alone, (x[1:], y[1:]), FIXED, **QUIET)
        assert found[0].item() == pytest.approx(alone.log_predictive(x[:1], y[:1]).item(), rel=1e-8)


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


class Interruption(Exception):
    pass


CASES: dict[str, Any] = {
    "numbers": lambda: (small_gp(Gaussian(), 15, theta=0.7, covariance="shared"), targets(X)),
    "float32": lambda: (small_gp(Gaussian(), 15, theta=0.7, dtype=torch.float32), targets(X)),
    "more words": lambda: (small_gp(Gaussian(), 63, normalized=True, covariance="shared"), targets(X)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("step", ["_tune", "_solve", "_score"])
def test_a_resumed_fit_ends_bitwise_as_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, step: str
):
    whole, y = CASES[case]()
    history = fit(whole, (X, y), Exact(), seed=3, **QUIET)
    path = tmp_path / "state"
    settings: dict[str, Any] = {"seed": 3, "checkpoint": path, "checkpoint_every": 0.0, **QUIET}
    broken, _ = CASES[case]()

    def stopped(self: ExactPosterior, trainer: Any) -> None:
        raise Interruption

    with monkeypatch.context() as patch:
        patch.setattr(ExactPosterior, step, stopped)
        with pytest.raises(Interruption):
            fit(broken, (X, y), Exact(), **settings)
    kept = path.read_bytes()
    for model in (CASES[case]()[0], broken):  # a new process has a new model; a notebook has the interrupted one
        path.write_bytes(kept)
        resumed = fit(model, (X, y), Exact(), resume=True, **settings)
        assert same_state(model, whole)
        for one, other in zip(resumed.records, history.records, strict=True):
            assert (one.elbo, one.nlpp, one.accuracy) == (other.elbo, other.nlpp, other.accuracy)
    finished = CASES[case]()[0]
    fit(finished, (X, y), Exact(), resume=True, **settings)
    assert same_state(finished, whole)


def test_what_is_refused():
    y = labels(X, 3)
    with pytest.raises(ValueError, match=r"is for the Gaussian likelihood, not Softmax; take NaturalGradients"):
        fit(small_gp(Softmax(3), 7), (X, y), Exact(), **QUIET)
    with pytest.raises(ValueError, match=r"Exact\(\) has no covariance='diagonal'; take 'shared' or 'full'"):
        fit(small_gp(Gaussian(), 7, covariance="diagonal"), (X, targets(X)), Exact(), **QUIET)
    with pytest.raises(ValueError, match="the paper's schedule has no covariance='shared'; take 'full' or 'diagonal'"):
        fit(small_gp(Softmax(3), 7, covariance="shared"), (X, y), PaperSchedule(), **QUIET)
    with pytest.raises(ValueError, match="max_tuned must be positive, got 0"):
        Exact(max_tuned=0)


def test_targets_that_are_all_the_same():
    model = small_gp(Gaussian(), 7, theta=0.7, covariance="shared")
    fit(model, (X, torch.zeros(40).double()), Exact(), **QUIET)
    mean, variance = model.predict(NEW)
    assert mean.abs().max() < 1e-6 and torch.isfinite(variance).all() and bool((variance > 0).all())
    fit(model, (X, torch.full((40,), 5.0).double()), Exact(), **QUIET)
    assert torch.allclose(model.predict(NEW)[0], torch.full((9,), 5.0).double(), atol=0.05)


def test_the_model_given_is_the_only_thing_that_changes():
    x, y = X.clone(), targets(X)
    kept = copy.deepcopy(y)
    before = torch.get_rng_state()
    fit(small_gp(Gaussian(), 7), (x, y), Exact(), **QUIET)
    assert torch.equal(x, X) and torch.equal(y, kept) and torch.equal(before, torch.get_rng_state())
