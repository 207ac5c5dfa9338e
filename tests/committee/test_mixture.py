"""Mixtures of normal distributions against their definition, and their tails, which left-out series decide."""

import math

import pytest
import torch
from scipy import stats

from helpers.refusals import assert_refused
from helpers.view_data import generator
from siggpde.committee.mixture import NormalMixture, Recalibration, deviations, mixture_quantile, recalibrate

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
    actual = mine.quantiles([0.1, 0.5, 0.9])
    wanted = draws.quantile(torch.tensor([0.1, 0.5, 0.9]).double(), dim=0).T
    torch.testing.assert_close(actual, wanted, rtol=0, atol=0.02)
    for level in (0.0, 1.0, -0.1, float("nan")):
        assert_refused("between 0 and 1", mine.quantiles, [0.5, level])


@pytest.mark.parametrize("recalibration", [None, Recalibration(4.0, 1.3)])
def test_density_and_quantiles_belong_together(recalibration: Recalibration | None):
    """The integral of the density up to a quantile is its level."""
    mine = mixture(recalibration)
    grid = torch.linspace(-60, 60, 60_001).double()
    density = torch.stack([mine.log_density(torch.full((4,), float(y)).double()) for y in grid[::10]]).exp()
    assert density.sum(0) * float(grid[10] - grid[0]) == pytest.approx(torch.ones(4).double(), abs=1e-3)
    for level in (0.05, 0.5, 0.95):
        at = mine.quantiles([level])[:, 0]
        z = mine.deviations(at)
        reached = stats.norm.cdf(z) if recalibration is None else stats.t.cdf(z / 1.3, 4.0)
        assert reached == pytest.approx([level] * 4, abs=1e-6)


def test_recalibration_scales_the_spread_and_few_series_leave_it_near_the_prior():
    plain, wide = mixture().mean_and_variance(), mixture(Recalibration(4.0, 1.3)).mean_and_variance()
    assert torch.equal(plain[0], wide[0])
    torch.testing.assert_close(wide[1], plain[1] * 1.3**2 * 2)
    torch.testing.assert_close(mixture().quantiles([0.5]), mixture(Recalibration(4.0, 1.3)).quantiles([0.5]))
    actual = recalibrate(torch.tensor([0.01, -0.02], dtype=torch.float64))
    assert 0.9 < actual.scale < 1.2 and actual.degrees >= 10


TWO = torch.tensor([0.7, 0.3], dtype=torch.float64)


def mixtures(n: int = 50) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(2, n, generator=generator, dtype=torch.float64)
    return means, 0.5 + torch.rand(2, n, generator=generator, dtype=torch.float64)


def test_deviations_and_quantiles_of_mixtures():
    y = torch.tensor([-50.0, -3.0, 0.0, 1.0, 8.5, 60.0], dtype=torch.float64)
    z = deviations(y, torch.ones(1, 6).double(), 2 * torch.ones(1, 6).double(), torch.ones(1).double())
    assert torch.allclose(z, (y - 1) / 2, rtol=1e-6)
    means, spreads = mixtures()
    for z in (-6.0, -1.0, 0.0, 0.3, 5.0):
        y = mixture_quantile(z, means, spreads, TWO)
        assert torch.allclose(deviations(y, means, spreads, TWO), torch.full_like(y, z), atol=1e-7)
        below = (TWO[:, None] * torch.special.ndtr((y - means) / spreads)).sum(dim=0)
        assert torch.allclose(below, torch.full_like(below, stats.norm.cdf(z)), rtol=1e-6)
    y = torch.linspace(-200, 200, 4001, dtype=torch.float64)
    means, spreads = torch.tensor([[0.0], [3.0]]).double(), torch.tensor([[1.0], [4.0]]).double()
    z = deviations(y, means.expand(2, 4001), spreads.expand(2, 4001), TWO)
    assert bool((z.diff() > 0).all()) and bool(torch.isfinite(z).all())
    assert z.diff().max() < 0.2


@pytest.mark.parametrize(("degrees", "scale"), [(4.0, 0.7), (1e6, 1.5), (10.0, 1.0)])
def test_what_many_series_show_is_found(degrees: float, scale: float):
    z = scale * torch.from_numpy(stats.t.rvs(degrees, size=20_000, random_state=0))
    actual = recalibrate(z)
    assert actual.z_quantile(0.95) == pytest.approx(scale * stats.t.ppf(0.95, degrees), rel=0.04)
    assert actual.spread == pytest.approx(scale * math.sqrt(degrees / (degrees - 2)), rel=0.06)
