"""Forecasters: left-out blocks are exact, baselines are what they say, the committee learns and does not memorise."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from siggpde.experiments.weather.block_committee import BlockRegression, candidates, logit_quantiles
from siggpde.experiments.weather.forecasters import as_batch, climatology, logistic, signature_gp
from siggpde.gp.likelihoods import LeastSquares

SETTINGS = {
    "words": 40,
    "members": 2,
    "append": ["none", "arc"],
    "degrees": [0],
    "path_lengths": [4.0],
    "time_scales": [1.0],
    "noises": [0.1, 1.0, 10.0],
}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 12), st.integers(1, 15), st.floats(0.01, 10.0))
def test_left_out_blocks_are_those_of_a_fit_without_them(seed, rows, columns, noise):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    targets = torch.randn(rows, generator=generator, dtype=torch.float64)
    blocks = np.random.default_rng(seed).integers(0, 3, rows)
    blocks[:2] = 0, 1
    mean, variance = BlockRegression(features, targets, blocks).left_out(noise)
    for block in np.unique(blocks):
        own = torch.from_numpy(blocks == block)
        others = features[~own]
        precision = others.T @ others / noise + torch.eye(columns, dtype=torch.float64)
        weights = torch.linalg.solve(precision, others.T @ targets[~own] / noise)
        torch.testing.assert_close(mean[own], features[own] @ weights, rtol=1e-7, atol=1e-8)
        spread = (features[own] * torch.linalg.solve(precision, features[own].T).T).sum(dim=1)
        torch.testing.assert_close(variance[own], spread, rtol=1e-7, atol=1e-8)


def test_amplitude_is_the_most_probable():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(30, 8, generator=generator, dtype=torch.float64)
    targets = 3 * torch.randn(30, generator=generator, dtype=torch.float64)
    found = BlockRegression(features, targets, np.arange(30)).amplitude(0.5)
    covariance = features @ features.T + 0.5 * torch.eye(30, dtype=torch.float64)

    def density(amplitude):
        zero = torch.zeros(30, dtype=torch.float64)
        return torch.distributions.MultivariateNormal(zero, amplitude * covariance).log_prob(targets)

    assert density(found) > max(density(0.95 * found), density(1.05 * found))


def test_candidates_are_all_combinations():
    found = candidates({**SETTINGS, "degrees": [0, 2], "path_lengths": [2.0, 4.0]})
    assert len(found) == len(set(found)) == 8
    assert {each.degree for each in found} == {None, 2}
    assert all(each.options.time and each.options.base_point for each in found)


def test_climatology_is_the_share_of_rain():
    found = climatology(np.arange(8) < 2)
    np.testing.assert_allclose(expit(found.log_odds(np.zeros((3, 1, 5)))), 0.25)
    with pytest.raises(ValueError, match="0 of 4 training windows are wet"):
        climatology(np.zeros(4, dtype=bool))


def windows(n, seed):
    """Two channels of twelve readings; rain follows where the first rises and the second is high."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, 2, 12)).cumsum(axis=2) + generator.normal(size=(n, 2, 1)) * 2
    wet = (x[:, 0, -1] - x[:, 0, 0]) + x[:, 1].mean(axis=1) + generator.normal(size=n) > 1
    return x, wet, np.arange(n) * 8 // n


def nlpp(forecaster, x, wet):
    return float(np.logaddexp(0, np.where(wet, -1, 1) * forecaster.log_odds(x)).mean())


def test_forecasters_beat_climatology():
    x, wet, blocks = windows(200, 0)
    new, truth, _ = windows(400, 1)
    plain = nlpp(climatology(wet), new, truth)
    linear = logistic(x, wet, blocks, [0.001, 0.1, 10.0])
    assert linear.settings["C"] in (0.001, 0.1, 10.0)
    assert nlpp(linear, new, truth) < plain - 0.1
    ours = signature_gp(x, wet, blocks, SETTINGS)
    assert nlpp(ours, new, truth) < plain - 0.1
    members = ours.settings["members"]
    assert len(members) == 2 and sum(m["weight"] for m in members) == pytest.approx(1)
    assert {m["options"]["append"] for m in members} == {"none", "arc"}


def test_windows_seen_many_times_do_not_make_it_sure():
    """Every window ten times over, with labels of pure chance: nine copies foretell the tenth, other blocks nothing."""
    generator = np.random.default_rng(2)
    x = generator.normal(size=(40, 2, 12)).repeat(10, axis=0)
    wet = (generator.random(40) < 0.4).repeat(10)
    found = signature_gp(x, wet, np.arange(40).repeat(10), SETTINGS)
    chances = expit(found.log_odds(generator.normal(size=(200, 2, 12))))
    assert abs(chances.mean() - wet.mean()) < 0.15
    assert chances.std() < 0.15


def test_band_holds_the_prediction():
    x, wet, blocks = windows(120, 3)
    found = signature_gp(x, wet, blocks, SETTINGS)
    assert found.committee is not None
    quantiles = logit_quantiles(found.committee, as_batch(x), (0.05, 0.5, 0.95))
    assert quantiles.shape == (120, 3) and (np.diff(quantiles, axis=1) > 0).all()
    middle = found.log_odds(x)
    inside = (quantiles[:, 0] < middle) & (middle < quantiles[:, 2])
    assert inside.mean() > 0.95
    assert np.corrcoef(middle, quantiles[:, 1])[0, 1] > 0.99


def test_band_is_that_of_one_latent():
    """By Monte Carlo with latents -f and f, through the link of a committee of one member."""
    x, wet, blocks = windows(120, 3)
    found = signature_gp(x, wet, blocks, {**SETTINGS, "members": 1})
    assert found.committee is not None
    (member,) = found.committee.members
    likelihood = member.model.likelihood
    assert isinstance(likelihood, LeastSquares)
    mean, variance = member.model.predict_f(member.paths(as_batch(x[:20])).values)
    f = (
        mean[:, 1]
        + variance[:, 1].sqrt() * torch.randn(50_000, 20, generator=torch.Generator().manual_seed(0)).double()
    )
    logits = likelihood.temperature * torch.stack([-f, f], dim=2) @ likelihood.mixing.T + likelihood.offset
    chances = (1 - likelihood.lapse) * torch.softmax(logits, dim=2)[:, :, 1] + likelihood.lapse / 2
    wanted = found.committee.sharpness * torch.logit(chances.quantile(torch.tensor([0.05, 0.95]).double(), dim=0)).T
    quantiles = logit_quantiles(found.committee, as_batch(x[:20]), (0.05, 0.95))
    width = wanted[:, 1] - wanted[:, 0]
    assert (torch.from_numpy(quantiles) - wanted).abs().max() < 0.05 * width.max()


def test_one_block_is_not_enough():
    x, wet, _ = windows(40, 4)
    with pytest.raises(ValueError, match="two or more of them"):
        signature_gp(x, wet, np.zeros(40), SETTINGS)
