"""Left-out latents by brute force, and factors that make left-out and new series more probable."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from siggpde.committee.feature_gp import FeatureGP, Features
from siggpde.committee.natural_ascent import Ascent
from siggpde.committee.variational_calibration import LatentScale, fit_scale, left_out_latents
from siggpde.gp.likelihoods import Bernoulli, Gaussian, Likelihood, Softmax

N, SIZE = 40, 6


def features(n: int, seed: int, noise: float = 0.0, size: int = SIZE) -> Features:
    """Directions of variance 1 / size each, of which `labels` sees two, and a tail."""
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(n, size, dtype=torch.float64, generator=random) / size**0.5
    return Features(values, torch.full((n,), noise, dtype=torch.float64))


def many_directions(n: int, seed: int) -> Features:
    """The same two, and 150 in which series differ as much and labels do not."""
    few, many = features(n, seed), features(n, seed + 100, size=150)
    return Features(torch.cat([few.values[:, :2], many.values], dim=1), torch.full((n,), 0.5, dtype=torch.float64))


def labels(seen: Features) -> Tensor:
    return (seen.values[:, 0] > 0).long() + (seen.values[:, :2].sum(1) > 0.5).long()


def fitted(likelihood: Likelihood, seen: Features, y: Tensor, amplitude: float = 4.0) -> FeatureGP:
    gp = FeatureGP(likelihood, seen.values.shape[1], amplitude)
    ascent = Ascent(gp, seen, y)
    for _ in range(60):
        ascent.step(learn=False)
    return gp


def without(place: int) -> Tensor:
    return torch.tensor([index for index in range(N) if index != place])


def test_without_a_number_the_posterior_is_that_of_the_others():
    seen = features(N, 0, noise=0.2)
    y = seen.values @ torch.arange(SIZE).double()
    mean, variance = left_out_latents(fitted(Gaussian(0.3), seen, y), seen, y)
    for place in (0, 17, 39):
        others = without(place)
        gp = fitted(Gaussian(0.3), seen[others], y[others])
        expected = gp.latents(seen[place : place + 1])
        torch.testing.assert_close(mean[place], expected[0][0], rtol=1e-5, atol=1e-7)
        assert variance[place] == pytest.approx(float(expected[1][0]), rel=1e-5)


@pytest.mark.parametrize("likelihood", [Softmax(3), Softmax(14)], ids=["full", "shared covariance"])
def test_without_a_label_latents_are_nearly_those_of_a_fit_without_it(likelihood: Softmax):
    seen = features(N, 1)
    y = labels(seen)
    gp = fitted(likelihood, seen, y)
    assert gp.variational.shared == (likelihood.classes == 14)
    left_out, inside = left_out_latents(gp, seen, y)[0], gp.latents(seen)[0]
    missed, moved = 0.0, 0.0
    for place in range(0, N, 4):
        others = without(place)
        expected = fitted(Softmax(likelihood.classes), seen[others], y[others]).latents(seen[place : place + 1])[0][0]
        missed += float((left_out[place] - expected).square().sum())
        moved += float((inside[place] - expected).square().sum())
    assert missed < moved / 3


@pytest.mark.parametrize("likelihood", [Softmax(3), Bernoulli()], ids=["softmax", "probit"])
def test_factors_make_new_series_more_probable(likelihood: Likelihood):
    seen, new = many_directions(150, 2), many_directions(500, 3)
    y, truth = (labels(each).clamp_max(getattr(likelihood, "classes", 2) - 1) for each in (seen, new))
    gp = fitted(likelihood, seen, y, amplitude=4.0)
    scale = fit_scale(gp, seen, y)
    latents = gp.latents(new)
    before, after = (likelihood.log_predictive(*each, truth).mean() for each in (latents, scale(*latents)))
    assert after > before + 0.03


def test_the_factors_found_are_the_best_about():
    seen = features(200, 4, noise=2.0)
    y = labels(seen)
    gp = fitted(Softmax(3), seen, y)
    mean, variance = left_out_latents(gp, seen, y)

    def loss(scale: LatentScale) -> float:
        lapse = 0.3 / 202
        chances = gp.likelihood.log_predictive(*scale(mean, variance), y).exp() * (1 - lapse) + lapse / 3
        logs = torch.tensor([scale.mean, scale.variance]).log()
        return float(0.5 * logs[0] ** 2 + 0.5 * (logs[1] / 2) ** 2 - chances.log().sum())

    found = fit_scale(gp, seen, y)
    near = [
        replace(found, mean=found.mean * t, variance=found.variance * c) for t, c in product((0.7, 1, 1.4), (0.5, 1, 2))
    ]
    assert loss(found) <= min(loss(each) for each in near) + 1e-9
    assert loss(found) < loss(LatentScale()) - 1


def test_weights_of_classes_count():
    seen = features(200, 5, noise=2.0)
    y = torch.where(torch.rand(200, generator=torch.Generator().manual_seed(0)) < 0.2, 2, labels(seen))
    plain, weighed = (
        fit_scale(fitted(Softmax(3, class_weight=weight), seen, y), seen, y) for weight in (None, [1.0, 1.0, 20.0])
    )
    assert plain != weighed
