"""Leave-one-out in closed form equals leaving out."""

import math

import pytest
import torch
from torch import Tensor

from siggpde.gp.leave_one_out import NOISES, TEMPERATURES, TIE, leave_one_out


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


@pytest.mark.parametrize("count", [4, 15, 60])
def test_classes_are_judged_as_if_each_series_had_been_left_out(count: int):
    features, y = normal(25, count), torch.arange(25) % 3
    found = leave_one_out(features, y, 3)
    targets = 2.0 * torch.nn.functional.one_hot(y, 3).double() - 1
    lapse = 1 / 27
    scores = {}
    for noise in NOISES[:-6]:  # for the least noise the plain way is not accurate itself
        predicted = left_out(features, targets, noise)
        for factor in TEMPERATURES:
            own = torch.softmax(factor * predicted, dim=1).gather(1, y[:, None])
            scores[noise, factor] = -float(((1 - lapse) * own + lapse / 3).log().mean())
    assert found.score == pytest.approx(min(scores.values()), abs=20 * TIE)
    assert scores[found.noise, found.temperature] == pytest.approx(found.score, rel=1e-6)
    wrong = (left_out(features, targets, found.noise).argmax(dim=1) != y).double().mean().item()
    assert found.error == pytest.approx(wrong)
    gram = features.T @ features + found.noise * torch.eye(count, dtype=torch.float64)
    assert torch.allclose(found.weights, torch.linalg.solve(gram, features.T @ targets), atol=1e-7)


@pytest.mark.parametrize("count", [3, 40])
def test_numbers_are_judged_by_the_density_of_what_was_left_out(count: int):
    features = normal(20, count, seed=2)
    y = features[:, 0] + 0.1 * normal(20, seed=3)
    found = leave_one_out(features, y, None)
    inverse = torch.linalg.inv(features @ features.T + found.noise * torch.eye(20, dtype=torch.float64))
    assert found.amplitude == pytest.approx(float(y @ inverse @ y / 20), rel=1e-5)
    predicted = left_out(features, y[:, None], found.noise)[:, 0]
    variance = found.amplitude / inverse.diagonal()
    density = 0.5 * ((y - predicted).square() / variance + variance.log() + math.log(2 * math.pi))
    assert found.score == pytest.approx(float(density.mean()), rel=1e-5)
    assert found.error is None and found.weights.shape == (count, 1)


@pytest.mark.parametrize("classes", [None, 3])
@pytest.mark.parametrize("decay", [0.0, 12.0], ids=["alike", "nearly dependent"])
def test_both_sides_of_the_eigenproblem_agree(classes: int | None, decay: float):
    """Columns of zeros change nothing but which of the two Gram matrices is taken."""
    features = normal(30, 12) * 10.0 ** -torch.linspace(0, decay, 12).double()
    features = features / features.norm(dim=1, keepdim=True)
    y = normal(30, seed=5) if classes is None else torch.arange(30) % 3
    small, large = (
        leave_one_out(features, y, classes),
        leave_one_out(torch.cat([features, 0 * normal(30, 40)], 1), y, classes),
    )
    assert small.score == pytest.approx(large.score, abs=1e-5)
    assert small.noise == large.noise and small.amplitude == pytest.approx(large.amplitude, rel=1e-5)


def test_targets_that_are_noise_are_taken_to_be():
    features = normal(60, 30)
    features = features / features.norm(dim=1, keepdim=True)
    found = leave_one_out(features, normal(60, seed=9), None)
    assert found.noise > 1 and found.score < 1.6


def test_where_all_is_foreseen_there_is_no_less_noise_than_need_be():
    y = torch.arange(40) % 2
    features = torch.nn.functional.one_hot(y, 2).double() + 0.01 * normal(40, 2)
    found = leave_one_out(features, y, 2)
    assert found.error == 0 and found.noise > 1e-3
    assert found.score == pytest.approx(-math.log(1 - 1 / 42 / 2), abs=1e-3), "no certainty from forty series"


def test_features_that_are_not_finite():
    for count in (2, 9):
        with pytest.raises(ArithmeticError, match="finite features"):
            leave_one_out(torch.full((4, count), math.nan, dtype=torch.float64), torch.arange(4) % 2, 2)
