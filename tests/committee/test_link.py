"""The link of classes: its objective, its optimum and its search, and its probabilities against integrals."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize, minimize_scalar
from torch import Tensor

from helpers.random_paths import few
from helpers.view_data import generator
from siggpde.committee import link as module
from siggpde.committee.link import ClassLink, fit_link, minimize_bounded
from siggpde.committee.regression import Targets


def latents(n: int, classes: int, seed: int, strength: float = 1.0) -> tuple[Tensor, Tensor, Targets]:
    random = generator(seed)
    y = torch.arange(n) % classes
    mean = 0.7 * torch.randn(n, classes, generator=random).double()
    mean[torch.arange(n), y] += strength
    return mean, torch.rand(n, generator=random).double() + 0.1, Targets(y, classes)


def link_of(classes: int, seed: int, lapse: float = 0.0) -> ClassLink:
    random = generator(seed)
    mixing = 3 * torch.eye(classes).double() + torch.randn(classes, classes, generator=random).double()
    return ClassLink(mixing, torch.randn(classes, generator=random).double(), 0.4, lapse)


@given(st.integers(2, 6), st.integers(0, 999))
@few
def test_usual_variance_is_a_softmax(classes: int, seed: int):
    link = link_of(classes, seed, lapse=0.1)
    mean, variance, _ = latents(9, classes, seed)
    softmax = torch.softmax(mean @ link.mixing.T + link.offset, dim=1)
    usual = variance * 0.4 / variance.max()
    actual = link.probabilities(mean, usual)
    torch.testing.assert_close(actual, 0.9 * softmax + 0.1 / classes)
    # One series beyond takes all through the other branch, which has the same limit.
    tiny = link.probabilities(mean, usual.clamp_max(0.399).index_fill(0, torch.tensor([0]), 0.4 + 1e-12))
    torch.testing.assert_close(tiny, actual, rtol=0, atol=1e-9)


@given(st.integers(2, 6), st.integers(0, 999))
@few
def test_much_variance_is_no_knowledge(classes: int, seed: int):
    mean, _, _ = latents(9, classes, seed)
    actual = [link_of(classes, seed).probabilities(mean, torch.full((9,), v).double()) for v in (0.4, 2.0, 20.0, 1e12)]
    torch.testing.assert_close(actual[-1], torch.full((9, classes), 1 / classes).double(), rtol=0, atol=1e-4)
    top = torch.stack([table.amax(1) for table in actual])
    assert bool((top.diff(dim=0) <= 1e-9).all())
    for table in actual:
        torch.testing.assert_close(table.sum(1), torch.ones(9).double())


@pytest.mark.parametrize(("mean", "excess"), [*itertools.product([-3.0, -1.0, 0.2, 2.0], [0.05, 0.5, 2.0, 10.0])])
def test_two_classes_are_the_mean_of_a_sigmoid(mean: float, excess: float):
    """Latents f and -f with variance w: the logit a (f - -f) has variance 4 a² w."""
    slope = 1.5
    link = ClassLink(slope * torch.eye(2).double(), torch.zeros(2).double(), 0.3, 0.0)
    actual = link.probabilities(torch.tensor([[mean, -mean]]).double(), torch.tensor([0.3 + excess]).double())
    grid = np.linspace(-12, 12, 20001)
    weights = np.exp(-(grid**2) / 2) / np.exp(-(grid**2) / 2).sum()
    logits = 2 * slope * (mean + math.sqrt(excess) * grid)
    assert float(actual[0, 0]) == pytest.approx(float((weights / (1 + np.exp(-logits))).sum()), abs=0.02)


def test_three_classes_are_nearly_the_mean_of_a_softmax():
    """Nearer by far than a softmax that knows of no variance."""
    link, classes = link_of(3, 5), 3
    mean, _, _ = latents(12, classes, 6)
    values, vectors = torch.linalg.eigh((classes * torch.eye(3) - 1).double() / (classes - 1))
    root = vectors * values.clamp_min(0).sqrt()
    draws = torch.randn(50_000, 3, generator=generator(7)).double() @ root.T
    for excess in (0.1, 1.0):
        moved = mean[:, None] + excess**0.5 * draws
        wanted = torch.softmax(moved @ link.mixing.T + link.offset, dim=2).mean(1)
        spreads = (torch.full((12,), link.usual_variance + more).double() for more in (excess, 0.0))
        actual, plain = (link.probabilities(mean, spread) for spread in spreads)
        error = (actual - wanted).abs().mean()
        assert float(error) < min(0.04, 0.4 * float((plain - wanted).abs().mean()))


@given(st.integers(2, 5), st.integers(0, 999))
@few
def test_names_of_classes_do_not_matter(classes: int, seed: int):
    mean, variance, targets = latents(30, classes, seed)
    order = torch.randperm(classes, generator=generator(seed))
    one = fit_link(mean, variance, targets)
    renamed = Targets(order.argsort()[targets.y], classes)
    other = fit_link(mean[:, order], variance, renamed)
    new, spread, _ = latents(8, classes, seed + 1)
    spread = spread * 3
    actual, wanted = other.probabilities(new[:, order], spread), one.probabilities(new, spread)[:, order]
    torch.testing.assert_close(actual, wanted, rtol=0, atol=1e-4)


class Caught:
    """What `fit_link` hands to the optimiser."""

    loss: Any
    start: np.ndarray

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def catch(loss: Any, start: np.ndarray, **options: Any) -> Any:
            self.loss, self.start = loss, start
            return minimize(loss, start, **options)

        monkeypatch.setattr("scipy.optimize.minimize", catch)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 4])
def test_gradient_and_optimum(classes: int, weighted: bool, monkeypatch: pytest.MonkeyPatch):
    caught = Caught(monkeypatch)
    mean, variance, targets = latents(40, classes, 1)
    if weighted:
        targets = Targets(targets.y, classes, torch.rand(40, generator=generator(2)).double() + 0.5)
    link = fit_link(mean, variance, targets)
    random = np.random.default_rng(0)
    for _ in range(3):
        point = caught.start + random.normal(size=caught.start.size)
        value, gradient = caught.loss(point)
        assert gradient == pytest.approx(approx_fprime(point, lambda x: caught.loss(x)[0], 1e-7), abs=2e-6)
        assert value == pytest.approx(slow_loss(point, caught.start, mean, targets), rel=1e-9)
    best = caught.loss(torch.cat([link.mixing, link.offset[:, None]], dim=1).flatten().numpy())[0]
    for seed in range(2):
        away = caught.start + np.random.default_rng(seed).normal(size=caught.start.size)
        other = minimize(caught.loss, away, jac=True, method="BFGS", options={"gtol": 1e-9})
        assert best <= other.fun + 1e-7
    assert link.usual_variance == pytest.approx(float(variance.quantile(0.999)))


def slow_loss(point: np.ndarray, start: np.ndarray, mean: Tensor, targets: Targets) -> float:
    """Minus the log posterior over n, written out series by series."""
    n, classes = mean.shape
    weights = np.ones(n) if targets.weights is None else targets.weights.numpy()
    matrix, lapse = point.reshape(classes, classes + 1), 0.3 / (n + 2)
    total = 0.5 * float(((point - start) ** 2).sum())
    for mu, label, weight in zip(mean.numpy(), targets.y.tolist(), weights, strict=True):
        logits = matrix[:, :-1] @ mu + matrix[:, -1]
        chances = np.exp(logits - logits.max())
        total -= weight * math.log((1 - lapse) * chances[label] / chances.sum() + lapse / classes)
    return total / n


def test_certainty_grows_with_what_was_right_and_is_never_whole():
    right = torch.tensor([[0.3, -0.3], [-0.3, 0.3]]).double()
    of_sizes = {n: Targets(torch.arange(2 * n) % 2, 2) for n in (2, 200)}
    fits = [fit_link(right.repeat(n, 1), torch.ones(2 * n).double(), targets) for n, targets in of_sizes.items()]
    few_right, many_right = (float(link.probabilities(right, torch.ones(2).double())[0, 0]) for link in fits)
    assert 0.6 < few_right < 0.97 < many_right < 1
    mean, variance, targets = latents(200, 2, 4, strength=0.0)
    chances = fit_link(mean, variance, targets).probabilities(mean, variance)
    assert float((chances - 0.5).abs().max()) < 0.35
    mean = torch.tensor([[1e6, -1e6], [-1e6, 1e6]]).double()
    means, spread = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).double(), torch.ones(2).double()
    link = fit_link(means, spread, Targets(torch.arange(2), 2))
    for variance in (0.0, 1e-3, 1e9):
        actual = link.probabilities(mean, torch.full((2,), variance).double())
        assert bool(torch.isfinite(actual.log()).all()) and bool((actual > 0).all())


def test_series_in_chunks(monkeypatch: pytest.MonkeyPatch):
    link = link_of(3, 8)
    mean, variance, _ = latents(20, 3, 9)
    whole = link.probabilities(mean, variance)
    monkeypatch.setattr(module, "_CHUNK", 27)
    torch.testing.assert_close(link.probabilities(mean, variance), whole, rtol=0, atol=1e-14)
    state = link.state()
    again = ClassLink(**state).to("cpu")
    assert torch.equal(again.probabilities(mean, variance), link.probabilities(mean, variance))


@given(st.floats(-1.0, 1.0), st.floats(0.1, 10.0))
def test_the_minimum_is_that_of_scipy_within_the_resolution(centre: float, steepness: float):
    def function(x: float) -> float:
        return steepness * (x - centre) ** 2 + 0.1 * (x - centre) ** 4

    exact = minimize_scalar(function, bounds=(-2.0, 3.0), method="bounded", options={"xatol": 1e-9}).x
    assert abs(minimize_bounded(function, -2.0, 3.0) - exact) <= 5.0 / 2000


def test_at_a_bound():
    assert abs(minimize_bounded(lambda x: x, 0.0, 1.0)) < 1 / 2000
