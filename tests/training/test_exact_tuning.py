"""What the exact schedule tunes: noise and amplitude are the best of what is tried."""

from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.small_models import QUIET, exact_gp, same_state, series, small_gp, targets, whole_gp
from siggpde.gp.exact import NOISES
from siggpde.gp.likelihoods import Gaussian
from siggpde.gp.model import SignatureGP
from siggpde.training import Exact, fit

X, NEW = series(40), series(9, seed=7)


def left_out_score(model: SignatureGP, y: Tensor, noise: float) -> float:
    """What tuning wants the least of, at a noise relative to features of mean square 1, by refitting."""
    with torch.no_grad():
        features = model.project(X).features
    features = features / features.square().sum(dim=1).mean().sqrt()
    gram = features @ features.T + noise * torch.eye(40).double()
    wanted = y[:, None].double() / y.std(correction=0)
    amplitude = float((wanted * torch.linalg.solve(gram, wanted)).mean())
    predicted, variance = torch.empty_like(wanted), torch.empty(40).double()
    for i in range(40):
        rest = torch.arange(40) != i
        solved = torch.linalg.solve(gram[rest][:, rest], torch.cat([wanted[rest], gram[rest, i : i + 1]], dim=1))
        predicted[i] = gram[i, rest] @ solved[:, :-1]
        variance[i] = amplitude * (gram[i, i] - gram[i, rest] @ solved[:, -1])
    density = torch.distributions.Normal(predicted[:, 0], variance.sqrt()).log_prob(wanted[:, 0])
    return -float(density.mean())


@pytest.mark.parametrize("kernel", [{"normalized": True}, {"theta": 1.5}, {"theta": 0.7, "amplitude": 40.0}])
def test_the_noise_is_the_best_of_those_tried(kernel: dict[str, Any]):
    y, likelihood = targets(X), Gaussian()
    model = small_gp(likelihood, 15, depth=3, covariance="shared", **kernel)
    scores = {noise: left_out_score(model, y, noise) for noise in NOISES}
    best = min(scores, key=scores.__getitem__)
    with torch.no_grad():
        size = float(model.project(X).variance.mean() / model.kernel.amplitude)
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
    found_mean, found = model.predict_f(NEW)
    assert torch.allclose(found_mean[:, 0], mean, atol=1e-8)
    assert torch.allclose(found[:, 0], variance.diagonal(), atol=1e-8)
    again = whole_gp(2, theta=0.7)
    fit(again, (X, y), Exact(max_tuned=25), seed=1, **QUIET)
    assert same_state(model, again)
    assert len({_noise_tuned_by(seed) for seed in range(6)}) > 1, "others are drawn for other seeds"


def _noise_tuned_by(seed: int) -> float:
    model = whole_gp(2, theta=0.7)
    fit(model, (X, targets(X)), Exact(max_tuned=10), seed=seed, **QUIET)
    return model.kernel.amplitude.item()
