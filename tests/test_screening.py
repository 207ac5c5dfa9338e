"""Leave-one-out in closed form equals leaving out; screening finds what matters and says what it tried."""

import math

import pytest
import torch

import siggpde
from siggpde.leave_one_out import NOISES, leave_one_out
from siggpde.likelihoods import Gaussian, Softmax
from siggpde.paths import PathOptions
from siggpde.screening import Candidate


def walks(n=40, length=12, channels=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, length, channels, generator=generator, dtype=torch.float64).cumsum(dim=1)


def left_out(features, targets, noise):
    """Predictions of every row by the regression on all the others."""
    rows = []
    for i in range(len(features)):
        rest = [j for j in range(len(features)) if j != i]
        gram = features[rest] @ features[rest].T + noise * torch.eye(len(rest), dtype=torch.float64)
        rows.append(features[i] @ features[rest].T @ torch.linalg.solve(gram, targets[rest]))
    return torch.stack(rows)


@pytest.mark.parametrize("count", [4, 15, 60])
def test_classes_are_judged_as_if_each_series_had_been_left_out(count):
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(25, count, generator=generator, dtype=torch.float64)
    y = torch.arange(25) % 3
    found = leave_one_out(features, y, 3)
    targets = 2.0 * torch.nn.functional.one_hot(y, 3).double() - 1
    scores = {}
    for noise in NOISES:
        logits = left_out(features, targets, noise)
        for factor in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
            scores[noise, factor] = float(torch.nn.functional.cross_entropy(factor * logits, y))
    assert found.score == pytest.approx(min(scores.values()), rel=1e-6)
    assert scores[found.noise, found.temperature] == pytest.approx(found.score, rel=1e-6)
    wrong = (left_out(features, targets, found.noise).argmax(dim=1) != y).double().mean().item()
    assert found.error == pytest.approx(wrong)
    gram = features.T @ features + found.noise * torch.eye(count, dtype=torch.float64)
    assert torch.allclose(found.weights, torch.linalg.solve(gram, features.T @ targets), atol=1e-8)


@pytest.mark.parametrize("count", [3, 40])
def test_numbers_are_judged_by_the_density_of_what_was_left_out(count):
    generator = torch.Generator().manual_seed(2)
    features = torch.randn(20, count, generator=generator, dtype=torch.float64)
    y = features[:, 0] + 0.1 * torch.randn(20, generator=generator, dtype=torch.float64)
    found = leave_one_out(features, y, None)
    inverse = torch.linalg.inv(features @ features.T + found.noise * torch.eye(20, dtype=torch.float64))
    assert found.amplitude == pytest.approx(float(y @ inverse @ y / 20), rel=1e-6)
    predicted = left_out(features, y[:, None], found.noise)[:, 0]
    variance = found.amplitude / inverse.diagonal()
    density = 0.5 * ((y - predicted).square() / variance + variance.log() + math.log(2 * math.pi))
    assert found.score == pytest.approx(float(density.mean()), rel=1e-6)


def test_positions_need_a_base_point_and_screening_finds_out():
    series = 0.1 * walks(80)
    labels = torch.arange(80) % 2
    series = series + labels[:, None, None]  # the classes differ in position only
    found = siggpde.screen(series, labels, max_words=100)
    assert found.candidate.options.base_point
    assert found.result.error == 0
    tried = found.to_dict()["tried"]
    assert len(tried) == len(found.report) >= 8
    without = [entry for entry in tried if not entry["base_point"]]
    assert min(entry["error"] for entry in without) > 0.2


def test_the_same_seed_finds_the_same_and_nothing_global_moves():
    series, labels = walks(), torch.arange(40) % 2
    before = torch.get_rng_state()
    first, second = (siggpde.screen(series, labels, max_words=60, seed=3) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert first.candidate == second.candidate
    assert torch.equal(first.theta, second.theta) and first.result.score == second.result.score


def test_a_model_is_built_for_classes_and_for_numbers():
    series = walks()
    some = [Candidate(PathOptions(), 4.0, 1.0, 60)]
    classes = siggpde.screen(series, torch.arange(40) % 3, candidates=some).build(rank=10)
    assert isinstance(classes.likelihood, Softmax) and classes.likelihood.classes == 3
    assert classes.features.size == 10
    numbers = siggpde.screen(series, 100 * series[:, -1, 0], candidates=some)
    model = numbers.build()
    assert isinstance(model.likelihood, Gaussian)
    assert len(numbers.report) == 1
    paths, _ = numbers.transform(series)
    median = (paths * numbers.theta).diff(dim=1).norm(dim=2).sum(dim=1).median()
    assert median == pytest.approx(4.0)
    siggpde.fit(model, (paths, 100 * series[:, -1, 0]), screening=numbers)
    mean, _ = model.predict(paths)
    assert (mean - 100 * series[:, -1, 0]).square().mean() < 0.1 * (100 * series[:, -1, 0]).var()


def test_many_classes_take_fewer_directions():
    found = siggpde.screen(walks(), torch.arange(40) % 3, candidates=[Candidate(words=700)], max_words=700)
    few = found.build(Softmax(3))
    many = found.build(Softmax(400))
    assert few.features.size == min(500, len(found.words))
    assert many.variational.root.numel() * 8 <= 2**27


def test_the_weights_found_start_the_fit():
    series, labels = walks(60), torch.arange(60) % 2
    found = siggpde.screen(series, labels, candidates=[Candidate(words=60)])
    model = found.build(rank=None)
    start = found.starting_mean(model)
    assert start is not None and start.shape == model.variational.mean.shape
    paths, _ = found.transform(series)
    with torch.no_grad():
        model.variational.mean.copy_(start)
    latent, _ = model.predict_f(paths)
    values = siggpde.signature(paths * found.theta, words=found.words)
    predicted = values / values.norm(dim=1, keepdim=True) @ found.result.weights
    assert torch.allclose(latent, found.result.temperature * predicted, rtol=1e-8)


def test_ragged_series_and_a_time_limit():
    series = [walks(1, 5 + i % 6)[0] * (1 + i % 2) for i in range(24)]
    labels = torch.arange(24) % 2
    found = siggpde.screen(series, labels, max_words=40, time_limit=0.0)
    full = siggpde.screen(series, labels, max_words=40)
    assert 1 <= len(found.report) < len(full.report)


@pytest.mark.parametrize(
    ("series", "labels", "message"),
    [
        (walks(1), torch.zeros(1, dtype=torch.int64), "two or more"),
        (walks(5), torch.zeros(4, dtype=torch.int64), r"shape \(5,\)"),
        (walks(5) * math.nan, torch.arange(5), "series 0"),
    ],
)
def test_errors_say_what_is_wrong(series, labels, message):
    with pytest.raises(ValueError, match=message):
        siggpde.screen(series, labels)
