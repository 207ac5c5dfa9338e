"""Committees without their series: the same means, and variances that are never smaller."""

import itertools

import pytest
import torch
from torch import Tensor

from helpers.refusals import assert_refused
from helpers.small_estimators import random_walks, rising
from siggpde import SigGPClassifier, SigGPRegressor
from siggpde.committee.committee import ViewCommittee
from siggpde.committee.weight_space import without_series
from siggpde.series import SeriesBatch

KINDS = ("linear", "path", "windows", "spectrum")


def committee(views: list[str], classes: int) -> tuple[ViewCommittee, SeriesBatch]:
    if classes:
        X, y = rising(60, classes, noise=3.0)
        fitted = SigGPClassifier(views=views, n_features=60).fit(X, y)
    else:
        X = random_walks(60, 2, 20)
        fitted = SigGPRegressor(views=views, n_features=60).fit(X, X[:, 0, -1])
    actual = fitted.committee_
    assert isinstance(actual, ViewCommittee)
    actual.members = [member for member in actual.members if member.recipe.power == 1]
    actual.weights = torch.full((len(actual.members),), 1 / len(actual.members), dtype=torch.float64)
    new = SeriesBatch(torch.from_numpy(X[::2] + 0.3 * X[1::2]).transpose(1, 2).contiguous())
    return actual, new


def variances(one: ViewCommittee, batch: SeriesBatch) -> Tensor:
    return one.member_latents(batch)[1]


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("views", [["linear"], ["path"], ["windows"], list(KINDS)])
def test_the_same_predictions_with_all_directions(views: list[str], classes: int):
    exact, batch = committee(views, classes)
    reduced, more = without_series(exact, complete=True)
    assert all(not bool(part.any()) for part in more)
    means, spread = exact.member_latents(batch)
    others, other_spread = reduced.member_latents(batch)
    assert torch.allclose(others, means, atol=1e-6, rtol=1e-6)
    scale = torch.tensor([member.regression.amplitude for member in exact.members])[:, None]
    assert float(((other_spread - spread) / scale).abs().max()) < 2e-4
    if classes:
        assert torch.allclose(reduced.probabilities(batch), exact.probabilities(batch), atol=1e-4)
    else:
        assert torch.allclose(reduced.mean_and_variance(batch)[0], exact.mean_and_variance(batch)[0], atol=1e-6)
        assert reduced.quantiles(batch, [0.1, 0.9]).shape == (len(batch), 2)


def test_fewer_directions_make_the_variance_larger():
    exact, batch = committee(["linear", "windows"], 3)
    actual = [without_series(exact, complete=True, most_bytes=size)[0] for size in (2**25, 2**20, 2**18)]
    counts = [sum(len(member.features.root) for member in one.members) for one in actual]
    assert counts[0] > counts[1] > counts[2] >= len(exact.members)
    steps = [variances(exact, batch), *(variances(one, batch) for one in actual)]
    for smaller, larger in itertools.pairwise(steps):
        assert bool((larger >= smaller - 1e-4 * (1 + smaller)).all())
    means = [one.member_latents(batch)[0] for one in actual]
    assert torch.allclose(means[1], means[0], atol=1e-5) and torch.allclose(means[2], means[0], atol=1e-5)


def test_powers_and_kernels_need_series():
    exact, _ = committee(["linear", "kernel"], 0)
    assert_refused("need the landmark series", without_series, exact, complete=True)
