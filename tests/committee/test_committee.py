"""Committees: mixtures of what their members predict."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal

from helpers.small_committees import batch_of, committee_of, labels_of
from helpers.small_models import QUIET, labels, series, small_gp, targets
from siggpde.committee import committee as module
from siggpde.committee.committee import Committee, Member
from siggpde.gp.likelihoods import Gaussian, Softmax, StudentT
from siggpde.series import PathOptions, PathTransform, SeriesBatch
from siggpde.training import Exact, NaturalGradients, fit

X = series(30, seed=3)
OPTIONS = [PathOptions(time=False), PathOptions(time=False, base_point=False), PathOptions(append="arc")]
WEIGHTS = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)


def member(options: PathOptions, likelihood: Any, y: Tensor) -> Member:
    transform = PathTransform(options).fit(X)
    paths, _ = transform(X)
    model = small_gp(likelihood, 7, channels=options.channels(2), theta=0.4, covariance="shared")
    fit(model, (paths, y), Exact() if y.is_floating_point() else NaturalGradients(learn=False), **QUIET)
    return Member(transform, model, {}, None)


@pytest.fixture(scope="module")
def classifier() -> Committee:
    return Committee([member(options, Softmax(3), labels(X, 3)) for options in OPTIONS], WEIGHTS)


@pytest.fixture(scope="module")
def regressor() -> Committee:
    return Committee([member(options, Gaussian(), targets(X)) for options in OPTIONS], WEIGHTS)


def ragged(n: int = 11) -> SeriesBatch:
    lengths = torch.arange(n) % 4 + 3
    values = series(n, seed=9)
    for row, length in zip(values, lengths.tolist(), strict=True):
        row[length:] = float("nan")
    return SeriesBatch(values, lengths)


def test_probabilities_are_the_weighted_mean(classifier: Committee):
    batch = ragged()
    found = classifier.probabilities(batch)
    wanted = torch.zeros(11, 3, dtype=torch.float64)
    for weight, one in zip(WEIGHTS, classifier.members, strict=True):
        paths, lengths = one.transform(batch.values, lengths=batch.lengths)
        wanted += weight * one.model.predict(paths, lengths=lengths)
    assert found.dtype == torch.float64 and torch.allclose(found, wanted, atol=1e-12)
    assert torch.allclose(found.sum(dim=1), torch.ones(11).double(), atol=1e-15)
    y = torch.arange(11) % 3
    density = classifier.log_predictive(batch, y)
    assert torch.allclose(density, found.gather(1, y[:, None])[:, 0].log(), atol=1e-8)


def test_borders_of_chunks_change_nothing(classifier: Committee, regressor: Committee, monkeypatch: pytest.MonkeyPatch):
    batch, y = ragged(), torch.arange(11) % 3

    def everything() -> list[Tensor]:
        mean, variance = regressor.mean_and_variance(batch)
        some = [classifier.probabilities(batch), classifier.log_predictive(batch, y), mean, variance]
        alone = Committee(regressor.members[:1], torch.ones(1, dtype=torch.float64))
        some += [regressor.log_predictive(batch, y.double()), regressor.quantiles(batch, [0.1, 0.9])]
        return [*some, *regressor.moments(batch), alone.quantiles(batch, [0.5])]

    whole = everything()
    for size in (1, 4, 11):
        monkeypatch.setattr(module, "_CHUNK", size)
        for one, other in zip(everything(), whole, strict=True):
            assert one.shape == other.shape and torch.allclose(one, other, rtol=1e-12, atol=1e-12)


def test_no_series_have_no_predictions(classifier: Committee, regressor: Committee):
    none = SeriesBatch(X[:0])
    assert classifier.probabilities(none).shape == (0, 3)
    assert [part.shape for part in regressor.mean_and_variance(none)] == [(0,), (0,)]
    assert regressor.quantiles(none, [0.1, 0.5]).shape == (0, 2)
    assert classifier.log_predictive(none, torch.zeros(0).long()).shape == (0,)


def test_moments_and_density_are_those_of_the_mixture(regressor: Committee):
    batch = SeriesBatch(series(6, seed=4))
    means, variances = regressor.moments(batch)
    assert means.shape == variances.shape == (3, 6)
    random = torch.Generator().manual_seed(0)
    picked = torch.multinomial(WEIGHTS, 400_000, replacement=True, generator=random)
    noise = torch.randn(400_000, generator=random, dtype=torch.float64)
    mean, variance = regressor.mean_and_variance(batch)
    for i in range(6):
        y = means[picked, i] + variances[picked, i].sqrt() * noise
        assert mean[i].item() == pytest.approx(y.mean().item(), abs=5 * float(variance[i].sqrt()) / 400)
        assert variance[i].item() == pytest.approx(y.var().item(), rel=0.03)
    y = targets(series(6, seed=4))
    density = (WEIGHTS[:, None] * Normal(means, variances.sqrt()).log_prob(y).exp()).sum(dim=0)
    assert torch.allclose(regressor.log_predictive(batch, y), density.log(), rtol=1e-10)


def test_quantiles_have_their_probability_below(regressor: Committee):
    batch, levels = ragged(), [0.001, 0.25, 0.5, 0.975]
    means, variances = regressor.moments(batch)
    found = regressor.quantiles(batch, levels)
    assert found.shape == (11, 4) and bool((found.diff(dim=1) > 0).all())
    for column, level in enumerate(levels):
        below = (WEIGHTS[:, None] * Normal(means, variances.sqrt()).cdf(found[:, column])).sum(dim=0)
        assert torch.allclose(below, torch.full_like(below, level), rtol=1e-9)


def test_quantiles_of_one_member_are_those_of_its_likelihood(regressor: Committee):
    batch, one = ragged(), regressor.members[2]
    paths = one.paths(batch)
    latent = one.model.predict_f(paths.values, lengths=paths.lengths)
    alone = Committee([one], torch.ones(1, dtype=torch.float64))
    twice = Committee([one, one], torch.tensor([0.3, 0.7], dtype=torch.float64))
    for level in (0.1, 0.5, 0.8):
        wanted = one.model.likelihood.quantile(*latent, level)
        assert torch.allclose(alone.quantiles(batch, [level])[:, 0], wanted, rtol=1e-9)
        assert torch.allclose(twice.quantiles(batch, [level])[:, 0], wanted, rtol=1e-9)


def test_quantiles_that_are_refused(regressor: Committee):
    batch = ragged()
    alone = Committee(regressor.members[:1], torch.ones(1, dtype=torch.float64))
    for some in (regressor, alone):
        with pytest.raises(ValueError, match="p must be between 0 and 1"):
            some.quantiles(batch, [0.5, 1.0])
    odd = Member(regressor.members[0].transform, small_gp(StudentT(), 7), {}, None)
    mixed = Committee([regressor.members[0], odd], torch.tensor([0.5, 0.5]).double())
    with pytest.raises(NotImplementedError, match="for the Gaussian likelihood only"):
        mixed.quantiles(batch, [0.5])


def test_time_stamps_reach_the_members():
    times = torch.linspace(0, 1, 6).double().expand(30, 6) ** 2
    transform = PathTransform().fit(X, times=times)
    paths, _ = transform(X, times=times)
    model = small_gp(Gaussian(), 7, channels=3, theta=0.4)
    fit(model, (paths, targets(X)), Exact(), **QUIET)
    alone = Committee([Member(transform, model, {}, None)], torch.ones(1, dtype=torch.float64))
    found, _ = alone.mean_and_variance(SeriesBatch(X, None, times))
    assert torch.allclose(found, model.predict(paths)[0])


def test_sharpened_probabilities_sum_to_one_and_agree_with_the_density():
    batch = batch_of(12)
    committee = committee_of(batch, labels_of(batch, 3))
    plain, density = committee.probabilities(batch), committee.log_predictive(batch, labels_of(batch, 3))
    committee.sharpness = 1.7
    sharp = committee.probabilities(batch)
    assert torch.allclose(sharp, plain**1.7 / (plain**1.7).sum(dim=1, keepdim=True), atol=1e-12)
    assert torch.equal(sharp.argmax(dim=1), plain.argmax(dim=1))
    found = committee.log_predictive(batch, labels_of(batch, 3))
    assert torch.allclose(found, sharp.gather(1, labels_of(batch, 3)[:, None])[:, 0].log())
    assert not torch.allclose(found, density)
