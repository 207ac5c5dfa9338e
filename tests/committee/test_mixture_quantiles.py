"""Quantiles of mixtures of any likelihood: by the normal mixture, by counting, and at the ends."""

import pytest
import torch

from siggpde.committee.mixture import NormalMixture
from siggpde.committee.mixture_quantiles import mixture_quantiles
from siggpde.gp.likelihoods import Gaussian, Poisson, StudentT

LEVELS = [0.001, 0.2, 0.5, 0.975]


def latents(seed: int, rows: int = 7):
    random = torch.Generator().manual_seed(seed)
    mean = torch.randn(rows, 1, dtype=torch.float64, generator=random)
    return mean, torch.rand(rows, 1, dtype=torch.float64, generator=random) + 0.1


def test_of_gaussian_members_they_are_those_of_the_normal_mixture():
    weights, pairs = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64), [latents(seed) for seed in range(3)]
    noises = (0.1, 0.4, 2.0)
    members = [(w, Gaussian(noise), pair) for w, noise, pair in zip(weights, noises, pairs, strict=True)]
    means = torch.stack([mean[:, 0] for mean, _ in pairs])
    variances = torch.stack([v[:, 0] + noise for (_, v), noise in zip(pairs, noises, strict=True)])
    expected = NormalMixture(means, variances, weights).quantiles(LEVELS)
    torch.testing.assert_close(mixture_quantiles(members, LEVELS), expected, rtol=1e-8, atol=1e-8)


def test_counts_are_the_smallest_that_are_enough():
    weights, pairs = (0.6, 0.4), [latents(3), latents(4)]
    members = [
        (torch.tensor(w, dtype=torch.float64), Poisson(1.5), pair) for w, pair in zip(weights, pairs, strict=True)
    ]
    found = mixture_quantiles(members, LEVELS)
    counts = torch.arange(200.0).double()
    chances = [
        w * torch.stack([Poisson(1.5).log_predictive(*pair, count.expand(7)).exp() for count in counts], dim=1)
        for w, pair in zip(weights, pairs, strict=True)
    ]
    below = (chances[0] + chances[1]).cumsum(dim=1)
    expected = torch.stack([(below >= level).double().argmax(dim=1) for level in LEVELS], dim=1)
    assert torch.equal(found, expected.double())


@pytest.mark.parametrize("likelihood", [StudentT(0.5), Poisson(1.0)], ids=["student_t", "poisson"])
def test_one_member_and_members_alike_have_their_own(likelihood):
    pair = latents(5)
    expected = torch.stack([likelihood.quantile(*pair, level) for level in LEVELS], dim=1)
    one = [(torch.tensor(1.0).double(), likelihood, pair)]
    two = [(torch.tensor(share, dtype=torch.float64), likelihood, pair) for share in (0.25, 0.75)]
    assert torch.equal(mixture_quantiles(one, LEVELS), expected)
    assert torch.equal(mixture_quantiles(two, LEVELS), expected)


def test_levels_are_probabilities():
    with pytest.raises(ValueError, match="between 0 and 1"):
        mixture_quantiles([(torch.ones(()).double(), StudentT(0.5), latents(0))], [1.5])
