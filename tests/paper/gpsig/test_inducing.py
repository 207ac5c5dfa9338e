"""Inducing tensors and sequences against explicit tensors, signatures and the kernel."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from helpers.small_models import series
from helpers.time_tuples import tuples
from siggpde import signature
from siggpde.numerics.words import count_up_to, words_up_to
from siggpde.series import SeriesBatch
from siggpde_paper.gpsig import InducingSequences, InducingTensors, TruncatedKernel
from siggpde_paper.gpsig.models import whiten
from siggpde_paper.gpsig.tensor_levels import slot_index

METHODS = ("explicit", "recursion")


def kernel_of(level: int = 3, **settings) -> TruncatedKernel:
    kernel = TruncatedKernel(2, level, theta=[0.7, 1.3], amplitude=1.5, **settings)
    with torch.no_grad():
        kernel.log_weights.copy_(torch.linspace(-0.3, 0.4, level + 1))
    return kernel


def dense_tensors(features: InducingTensors, theta: Tensor) -> Tensor:
    """All coefficients (M, words), one by one."""
    slots = features.slots.detach() * theta
    rows = torch.zeros(features.size, count_up_to(2, features.level), dtype=torch.float64)
    for column, word in enumerate(words_up_to(2, features.level)):
        for row in range(features.size):
            places = [slot_index(k, len(word), features.level) for k in range(1, len(word) + 1)]
            rows[row, column] = math.prod(slots[row, p, a].item() for p, a in zip(places, word, strict=True))
    return rows


@pytest.mark.parametrize("method", METHODS)
def test_tensors_are_contracted_with_signatures(method):
    kernel, x = kernel_of(method=method), series(4, length=5)
    features = InducingTensors(2, 5, 3)
    theta = kernel.theta.detach()
    rows, columns = dense_tensors(features, theta), signature(x * theta, depth=3)
    weights = (kernel.amplitude * kernel.weights)[[len(word) for word in words_up_to(2, 3)]]
    assert torch.allclose(features.inducing_covariance(kernel), rows * weights @ rows.T, rtol=1e-10)
    assert torch.allclose(features.cross_covariance(kernel, x), rows * weights @ columns.T, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_tensors_of_any_order_by_loops(order):
    kernel, x = kernel_of(order=order, method="recursion"), series(2, length=5)
    features = InducingTensors(2, 3, 3)
    slots, steps = (features.slots * kernel.theta).detach(), (x * kernel.theta).detach().diff(dim=1)
    found = features.cross_covariance(kernel, x)
    for row, column in itertools.product(range(3), range(2)):
        wanted = kernel.weights[0].item()
        for m in (1, 2, 3):
            g = [slots[row, slot_index(k, m, 3)] @ steps[column].T for k in range(1, m + 1)]
            level = sum(w * math.prod(g[k][t].item() for k, t in enumerate(times)) for times, w in tuples(4, m, order))
            wanted += kernel.weights[m].item() * level
        assert found[row, column].item() == pytest.approx(1.5 * wanted, rel=1e-10)


def test_rbf_tensors_by_loops():
    kernel, x = kernel_of(static="rbf", order=2), series(2, length=4)
    features = InducingTensors(2, 3, 3)
    values, paths = (features.values * kernel.theta).detach(), (x * kernel.theta).detach()
    signs = (-1.0, 1.0)

    def kap(a: Tensor, b: Tensor) -> float:
        return math.exp(-((a - b) @ (a - b)).item() / 2)

    def gram(a: Tensor, b: Tensor) -> float:
        return sum(s * t * kap(p, q) for s, p in zip(signs, a, strict=True) for t, q in zip(signs, b, strict=True))

    def step(a: Tensor, path: Tensor, t: int) -> float:
        return sum(s * (kap(p, path[t + 1]) - kap(p, path[t])) for s, p in zip(signs, a, strict=True))

    covariance, cross = features.inducing_covariance(kernel), features.cross_covariance(kernel, x)
    for row in range(3):
        for other in range(3):
            wanted = kernel.weights[0].item()
            for m in (1, 2, 3):
                places = [slot_index(k, m, 3) for k in range(1, m + 1)]
                wanted += kernel.weights[m].item() * math.prod(gram(values[row, p], values[other, p]) for p in places)
            assert covariance[row, other].item() == pytest.approx(1.5 * wanted, rel=1e-10)
        for column in range(2):
            wanted = kernel.weights[0].item()
            for m in (1, 2, 3):
                places = [slot_index(k, m, 3) for k in range(1, m + 1)]
                wanted += kernel.weights[m].item() * sum(
                    w * math.prod(step(values[row, p], paths[column], t) for p, t in zip(places, times, strict=True))
                    for times, w in tuples(3, m, 2)
                )
            assert cross[row, column].item() == pytest.approx(1.5 * wanted, rel=1e-9)


@pytest.mark.parametrize("settings", [{"method": "explicit"}, {"order": 2}, {"static": "rbf"}])
def test_sequences_are_values_of_the_kernel(settings):
    kernel, x = kernel_of(**settings), series(4, length=5)
    features = InducingSequences(2, 3, length=4)
    assert torch.allclose(features.inducing_covariance(kernel), kernel(features.values), rtol=1e-10)
    assert torch.allclose(features.cross_covariance(kernel, x), kernel(features.values, x), rtol=1e-10, atol=1e-12)
    seen = features(kernel, x)
    assert torch.allclose(seen.variance, kernel(x, diag=True), rtol=1e-10)


@pytest.mark.parametrize("kind", ["tensors", "sequences"])
@pytest.mark.parametrize("method", METHODS)
def test_covariance_is_psd_and_its_rank_is_that_of_words(kind, method):
    kernel = kernel_of(2, method=method)
    features = InducingTensors(2, 20, 2) if kind == "tensors" else InducingSequences(2, 20, 4)
    share = torch.linalg.eigvalsh(features.inducing_covariance(kernel).detach())
    assert share.min() > -1e-10 * share.max()
    assert int((share > 1e-10 * share.max()).sum()) == count_up_to(2, 2) == 7


@pytest.mark.parametrize("method", METHODS)
def test_tensors_of_words_have_signatures_as_features(method):
    kernel, x = TruncatedKernel(2, 3, method=method), series(4)
    listed = words_up_to(2, 3)[1:]
    values = torch.zeros(len(listed), 6, 2, 2, dtype=torch.float64)  # slots of two points, unit vectors of letters
    for row, word in enumerate(listed):
        for position, letter in enumerate(word, 1):
            values[row, slot_index(position, len(word), 3), 1, letter] = 1.0
    features = InducingTensors(2, len(listed), 3, values=values)
    unit = torch.eye(len(listed), dtype=torch.float64)
    assert torch.equal(features.inducing_covariance(kernel), 1 + unit)  # 1 of level 0
    wanted = 1 + signature(x, depth=3)[:, 1:]
    assert torch.allclose(features.cross_covariance(kernel, x).T, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["tensors", "sequences"])
def test_explicit_recursion_and_kept_signatures_agree_with_gradients(kind):
    x = series(4, length=5)
    found = []
    for way in ("explicit", "recursion", "kept"):
        kernel = kernel_of(method="recursion" if way == "recursion" else "explicit")
        features = InducingTensors(2, 4, 3) if kind == "tensors" else InducingSequences(2, 4, 4)
        assert features.explicit(kernel) == (way != "recursion")
        if way == "kept":
            reference = kernel.log_theta.detach().clone()
            plain = features.signatures(kernel, SeriesBatch(x))
            with torch.no_grad():
                kernel.log_theta.add_(0.3)
            moved = kernel.log_theta.detach().clone()
            kept = features.project_signatures(kernel, plain, reference)
            fresh = features(kernel, x)
            assert torch.allclose(kept.features, fresh.features, rtol=1e-9, atol=1e-9)
            with torch.no_grad():
                kernel.log_theta.copy_(reference)
            seen = features.project_signatures(kernel, plain, reference)
            assert not torch.equal(moved, reference)
        else:
            seen = features(kernel, x)
        total = seen.features.sin().sum() + seen.tail.sum() + seen.variance.cos().sum()
        grads = torch.autograd.grad(total, [*kernel.parameters(), *features.parameters()])
        found.append([seen.features, seen.variance, seen.tail, *grads])
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert torch.allclose(one, two, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("settings", [{"method": "explicit"}, {"method": "recursion"}, {"static": "rbf", "order": 2}])
@pytest.mark.parametrize("kind", ["tensors", "sequences"])
def test_gradients(kind, settings):
    kernel, x = kernel_of(2 if "static" not in settings else 3, **settings), series(2, length=4)
    features = InducingTensors(2, 3, kernel.level) if kind == "tensors" else InducingSequences(2, 3, 3)
    inputs = (*kernel.parameters(), *features.parameters())

    def covariances(*_: Tensor) -> tuple[Tensor, Tensor]:
        return features.inducing_covariance(kernel), features.cross_covariance(kernel, x)

    assert torch.autograd.gradcheck(covariances, inputs)


def test_whitening_and_its_gradient():
    random = torch.Generator().manual_seed(0)
    half, cross = (torch.randn(4, n, dtype=torch.float64, generator=random).requires_grad_() for n in (6, 3))
    gram = (half @ half.T).detach()
    found = whiten(gram, cross, 0.1)
    shifted = gram + 0.1 * torch.eye(4)
    assert torch.allclose(found.T @ found, cross.T @ torch.linalg.solve(shifted, cross))
    assert torch.autograd.gradcheck(lambda h, c: whiten(h @ h.T, c, 0.1), (half, cross))
    with pytest.raises(ArithmeticError, match="not positive definite"):
        whiten(-gram, cross, 0.1)


def test_bad_settings():
    with pytest.raises(ValueError, match="count must be an integer, at least 1, got 0"):
        InducingTensors(2, 0)
    with pytest.raises(ValueError, match=r"values must have shape \(3, 10, 2, 2\), got \(3, 2\)"):
        InducingTensors(2, 3, values=torch.zeros(3, 2))
    with pytest.raises(ValueError, match="values must be finite"):
        InducingTensors(2, 3, 1, values=torch.full((3, 1, 2, 2), math.nan))
    with pytest.raises(ValueError, match=r"values must have shape \(3, 5, 2\)"):
        InducingSequences(2, 3, values=torch.zeros(3, 2))
    with pytest.raises(ValueError, match="length must be an integer, at least 2, got 1"):
        InducingSequences(2, 3, length=1)
    with pytest.raises(ValueError, match="jitter must be between 0 and 1"):
        InducingSequences(2, 3, jitter=0.0)
    with pytest.raises(ValueError, match="the kernel has 3 levels and the inducing tensors 4"):
        InducingTensors(2, 3).check(kernel_of(3))
    with pytest.raises(ValueError, match="the kernel has 2 channels and the features 3"):
        InducingSequences(3, 3).check(kernel_of(3))
    with pytest.raises(ValueError, match="depends on the kernel"):
        InducingTensors(2, 3).inducing_covariance()
    with pytest.raises(ValueError, match="not a product of signatures"):
        InducingTensors(2, 3, 3).project_signatures(kernel_of(static="rbf"), torch.zeros(1, 1), torch.zeros(2))
    with pytest.raises(ValueError, match="positions 1 to 2, got position 3"):
        slot_index(3, 2, 4)
