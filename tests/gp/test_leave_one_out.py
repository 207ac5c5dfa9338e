"""Leave-one-out in closed form equals leaving out."""

import math

import pytest
import torch
from torch import Tensor

from siggpde.gp.exact import NOISES, best_noise


def left_out(features: Tensor, targets: Tensor, noise: float) -> Tensor:
    """Predictions of every row by the regression on all the others."""
    rows = []
    for i in range(len(features)):
        rest = [j for j in range(len(features)) if j != i]
        gram = features[rest] @ features[rest].T + noise * torch.eye(len(rest), dtype=torch.float64)
        rows.append(features[i] @ features[rest].T @ torch.linalg.solve(gram, targets[rest]))
    return torch.stack(rows)


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("count", [3, 40])
def test_numbers_are_judged_by_the_density_of_what_was_left_out(count: int):
    features = normal(20, count, seed=2)
    y = features[:, 0] + 0.1 * normal(20, seed=3)
    found = best_noise(features, y)
    inverse = torch.linalg.inv(features @ features.T + found.noise * torch.eye(20, dtype=torch.float64))
    assert found.amplitude == pytest.approx(float(y @ inverse @ y / 20), rel=1e-5)
    predicted = left_out(features, y[:, None], found.noise)[:, 0]
    variance = found.amplitude / inverse.diagonal()
    density = 0.5 * ((y - predicted).square() / variance + variance.log() + math.log(2 * math.pi))
    assert found.score == pytest.approx(float(density.mean()), rel=1e-5)
    scores = []
    for noise in NOISES[:-6]:  # for the least noise the plain way is not accurate itself
        inverse = torch.linalg.inv(features @ features.T + noise * torch.eye(20, dtype=torch.float64))
        variance = (y @ inverse @ y / 20) / inverse.diagonal()
        squared = (y - left_out(features, y[:, None], noise)[:, 0]).square()
        scores.append(float((0.5 * (squared / variance + variance.log() + math.log(2 * math.pi))).mean()))
    assert found.score == pytest.approx(min(scores), abs=2e-5)


@pytest.mark.parametrize("decay", [0.0, 12.0], ids=["alike", "nearly dependent"])
def test_both_sides_of_the_eigenproblem_agree(decay: float):
    """Columns of zeros change nothing but which of the two Gram matrices is taken."""
    features = normal(30, 12) * 10.0 ** -torch.linspace(0, decay, 12).double()
    features = features / features.norm(dim=1, keepdim=True)
    y = normal(30, seed=5)
    small, large = best_noise(features, y), best_noise(torch.cat([features, 0 * normal(30, 40)], 1), y)
    assert small.score == pytest.approx(large.score, abs=1e-5)
    assert small.noise == large.noise and small.amplitude == pytest.approx(large.amplitude, rel=1e-5)


def test_targets_that_are_noise_are_taken_to_be():
    features = normal(60, 30)
    features = features / features.norm(dim=1, keepdim=True)
    found = best_noise(features, normal(60, seed=9))
    assert found.noise > 1 and found.score < 1.6


@pytest.mark.parametrize("count", [2, 60])
def test_where_scores_are_equal_the_most_noise_is_taken(count: int):
    """Features of zeros explain nothing at any noise."""
    assert best_noise(torch.zeros(40, count).double(), normal(40)).noise == max(NOISES)


def test_features_that_are_not_finite():
    for count in (2, 9):
        with pytest.raises(ArithmeticError, match="finite features"):
            best_noise(torch.full((4, count), math.nan, dtype=torch.float64), torch.arange(4.0))
