"""Mixtures of normal distributions against their definition."""

import pytest
import torch
from scipy import stats

from helpers.view_data import generator
from siggpde.committee.mixture import NormalMixture
from siggpde.committee.recalibration import Recalibration

WEIGHTS = torch.tensor([0.2, 0.5, 0.3]).double()


def mixture(recalibration: Recalibration | None = None) -> NormalMixture:
    random = generator(0)
    means = torch.randn(3, 4, generator=random).double()
    return NormalMixture(means, torch.rand(3, 4, generator=random).double() + 0.1, WEIGHTS, recalibration)


def test_moments_are_those_of_draws():
    random, mine = generator(1), mixture()
    which = torch.multinomial(WEIGHTS, 400_000, True, generator=random)
    draws = mine.means[which] + mine.variances[which].sqrt() * torch.randn(400_000, 4, generator=random).double()
    mean, variance = mine.mean_and_variance()
    torch.testing.assert_close(mean, draws.mean(0), rtol=0, atol=0.01)
    torch.testing.assert_close(variance, draws.var(0), rtol=0.02, atol=0)
    found = mine.quantiles([0.1, 0.5, 0.9])
    wanted = draws.quantile(torch.tensor([0.1, 0.5, 0.9]).double(), dim=0).T
    torch.testing.assert_close(found, wanted, rtol=0, atol=0.02)


@pytest.mark.parametrize("recalibration", [None, Recalibration(4.0, 1.3)])
def test_density_and_quantiles_belong_together(recalibration: Recalibration | None):
    """The integral of the density up to a quantile is its level."""
    mine = mixture(recalibration)
    grid = torch.linspace(-60, 60, 240_001).double()
    density = torch.stack([mine.log_density(torch.full((4,), float(y)).double()) for y in grid[::400]]).exp()
    assert density.sum(0) * float(grid[400] - grid[0]) == pytest.approx(torch.ones(4).double(), abs=0.01)
    for level in (0.05, 0.5, 0.95):
        at = mine.quantiles([level])[:, 0]
        z = mine.deviations(at)
        reached = stats.norm.cdf(z) if recalibration is None else stats.t.cdf(z / 1.3, 4.0)
        assert reached == pytest.approx([level] * 4, abs=1e-6)


def test_recalibration_scales_the_spread():
    plain, wide = mixture().mean_and_variance(), mixture(Recalibration(4.0, 1.3)).mean_and_variance()
    assert torch.equal(plain[0], wide[0])
    torch.testing.assert_close(wide[1], plain[1] * 1.3**2 * 2)
    torch.testing.assert_close(mixture().quantiles([0.5]), mixture(Recalibration(4.0, 1.3)).quantiles([0.5]))


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, float("nan")])
def test_levels_that_are_none(level: float):
    with pytest.raises(ValueError, match="between 0 and 1"):
        mixture().quantiles([0.5, level])
