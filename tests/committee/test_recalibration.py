"""Tails of regressions: deviations of left-out series decide how far off a prediction may be."""

import math

import pytest
import torch
from scipy import stats

from siggpde.committee.recalibration import Recalibration, deviations, mixture_quantile, recalibrate

WEIGHTS = torch.tensor([0.7, 0.3], dtype=torch.float64)


def mixtures(n: int = 50) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(2, n, generator=generator, dtype=torch.float64)
    return means, 0.5 + torch.rand(2, n, generator=generator, dtype=torch.float64)


def test_deviations_of_one_normal_are_in_units_of_its_spread():
    y = torch.tensor([-50.0, -3.0, 0.0, 1.0, 8.5, 60.0], dtype=torch.float64)
    z = deviations(y, torch.ones(1, 6).double(), 2 * torch.ones(1, 6).double(), torch.ones(1).double())
    assert torch.allclose(z, (y - 1) / 2, rtol=1e-6)


def test_quantiles_are_where_the_deviations_are_what_they_should_be():
    means, spreads = mixtures()
    for z in (-6.0, -1.0, 0.0, 0.3, 5.0):
        y = mixture_quantile(z, means, spreads, WEIGHTS)
        assert torch.allclose(deviations(y, means, spreads, WEIGHTS), torch.full_like(y, z), atol=1e-7)
        below = (WEIGHTS[:, None] * torch.special.ndtr((y - means) / spreads)).sum(dim=0)
        assert torch.allclose(below, torch.full_like(below, stats.norm.cdf(z)), rtol=1e-6)


def test_deviations_rise_without_a_jump_however_far_out():
    y = torch.linspace(-200, 200, 4001, dtype=torch.float64)
    means, spreads = torch.tensor([[0.0], [3.0]]).double(), torch.tensor([[1.0], [4.0]]).double()
    z = deviations(y, means.expand(2, 4001), spreads.expand(2, 4001), WEIGHTS)
    assert bool((z.diff() > 0).all()) and bool(torch.isfinite(z).all())
    assert z.diff().max() < 0.2


@pytest.mark.parametrize(("degrees", "scale"), [(4.0, 0.7), (1e6, 1.5), (10.0, 1.0)])
def test_what_many_series_show_is_found(degrees: float, scale: float):
    z = scale * torch.from_numpy(stats.t.rvs(degrees, size=20_000, random_state=0))
    found = recalibrate(z)
    assert found.z_quantile(0.95) == pytest.approx(scale * stats.t.ppf(0.95, degrees), rel=0.04)
    assert found.spread == pytest.approx(scale * math.sqrt(degrees / (degrees - 2)), rel=0.06)


def test_few_series_leave_it_near_the_prior():
    found = recalibrate(torch.tensor([0.01, -0.02], dtype=torch.float64))
    assert 0.9 < found.scale < 1.2 and found.degrees >= 10


def test_densities_integrate_to_one_and_match_the_quantiles():
    means, spreads = torch.tensor([[0.0], [2.0]]).double(), torch.tensor([[1.0], [0.5]]).double()
    change = Recalibration(4.0, 0.8)
    y = torch.linspace(-60, 60, 60_001, dtype=torch.float64)
    wide = means.expand(2, len(y)), spreads.expand(2, len(y))
    logs = torch.distributions.Normal(*wide).log_prob(y) + WEIGHTS.log()[:, None]
    density = change.log_density(logs.logsumexp(dim=0), deviations(y, *wide, WEIGHTS)).exp()
    step = float(y[1] - y[0])
    assert float(density.sum()) * step == pytest.approx(1.0, abs=1e-3)
    for level in (0.05, 0.5, 0.9):
        at = float(mixture_quantile(change.z_quantile(level), means, spreads, WEIGHTS))
        assert float(density[y <= at].sum()) * step == pytest.approx(level, abs=2e-3)
