"""Conformal intervals: jackknife+ by refits and sorting, coverage, groups, and too few series."""

import math

import pytest
import torch
from torch import Tensor

from helpers.left_out_refits import means_without
from helpers.view_data import generator
from siggpde.committee.conformal_intervals import conformal_intervals
from siggpde.committee.fitting import ViewSettings, fit_view_committee
from siggpde.committee.targets import Targets
from siggpde.committee.view_committee import ViewCommittee
from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.series import SeriesBatch

LINEAR = ViewSettings(kinds=("linear",))


def noisy(n: int, seed: int, points: int = 3) -> tuple[SeriesBatch, Tensor]:
    """Series and the sum of their points, with errors that have heavy tails."""
    random = generator(seed)
    values = torch.randn(n, points, 1, generator=random, dtype=torch.float64)
    errors = torch.randn(n, generator=random, dtype=torch.float64) ** 3 / 2
    return SeriesBatch(values), values.sum((1, 2)) + errors


def fitted(batch: SeriesBatch, targets: Targets, settings: ViewSettings = LINEAR) -> ViewCommittee:
    committee = fit_view_committee(batch, targets, settings, Shard(ALONE, len(batch)))
    assert isinstance(committee, ViewCommittee)
    return committee


@pytest.mark.parametrize("grouped", [False, True])
def test_intervals_are_those_of_refits(grouped: bool):
    batch, y = noisy(24, 1, points=6)
    groups = torch.randperm(24, generator=generator(2)) // 2 if grouped else None
    committee = fitted(batch, Targets(y, None, None, groups), ViewSettings(kinds=("linear", "path"), words=30))
    record, (new, _) = committee.left_out, noisy(9, 3, points=6)
    _, variance = committee.mean_and_variance(new)
    spread = variance.sqrt() / committee.recalibration.spread
    noise = sum(w * m.noise_variance for w, m in zip(committee.weights.tolist(), committee.members, strict=True))
    residuals = (record.y - record.mean[:, 0]).abs() / (record.variance + noise).sqrt()
    around, away = means_without(committee, new)[:, :, 0], residuals * spread[:, None]
    for level in (0.6, 0.8):
        found = conformal_intervals(committee, new, level)
        # Twelve groups of two are 24 values of which each counts half.
        count = math.ceil(round(level * (2 * 13 if grouped else 25), 9))
        upper = (around + away).sort(1).values[:, count - 1]
        lower = (around - away).sort(1, descending=True).values[:, count - 1]
        torch.testing.assert_close(found, torch.stack([lower, upper], 1), rtol=1e-5, atol=1e-5)


def test_too_few_series_promise_nothing():
    for n, finite in ((8, False), (9, True)):
        batch, y = noisy(n, 4)
        ends = conformal_intervals(fitted(batch, Targets(y, None)), noisy(3, 5)[0], 0.9)
        assert bool(torch.isfinite(ends).all()) is finite
        assert bool((ends[:, 0] < ends[:, 1]).all())


@pytest.mark.slow
def test_coverage_is_as_stated():
    """200 resamples: at least 90 % within the error of 200 draws, and little more."""
    covered = 0.0
    for seed in range(200):
        batch, y = noisy(30, 10 * seed)
        new, truth = noisy(20, 10 * seed + 1)
        ends = conformal_intervals(fitted(batch, Targets(y, None)), new, 0.9)
        covered += float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).double().mean()) / 200
    error = math.sqrt(0.09 * (1 / 30 + 1 / 20) / 200)
    assert 0.9 - 3 * error < covered < 28 / 31 + 3 * error, covered
