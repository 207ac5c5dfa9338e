"""Inducing tensors by the native core, against the recursion in torch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.refusals import assert_refused
from helpers.small_models import series
from siggpde.numerics.core import core
from siggpde_paper.gpsig import InducingTensors, TruncatedKernel
from siggpde_paper.gpsig.tensor_levels import compiled_levels, core_has_tensors, slot_count, tensor_levels

pytestmark = pytest.mark.skipif(core is None, reason="the native core is not there")


def random_case(rows: int, n: int, times: int, channels: int, level: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(rows + 10 * n + 100 * times)
    slots = torch.randn(rows, slot_count(level), channels, dtype=torch.float64, generator=random)
    return slots.requires_grad_(), torch.randn(n, times, channels, dtype=torch.float64, generator=random)


def by_torch(slots: torch.Tensor, increments: torch.Tensor, level: int, order: int) -> torch.Tensor:
    return tensor_levels(torch.einsum("msc,ntc->smnt", slots, increments).contiguous(), level, order)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 20), st.integers(1, 4), st.integers(0, 6), st.integers(1, 3), st.integers(1, 6), st.data())
def test_values_and_gradients_are_those_of_torch(rows, n, times, channels, level, data):
    order = data.draw(st.integers(1, level))
    slots, increments = random_case(rows, n, times, channels, level)
    ours, theirs = (function(slots, increments, level, order) for function in (compiled_levels, by_torch))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    weights = torch.linspace(-1, 1, ours.numel(), dtype=torch.float64).view(ours.shape)
    gradients = [torch.autograd.grad((levels * weights).sum(), slots)[0] for levels in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)


def test_tiles_make_no_difference(monkeypatch: pytest.MonkeyPatch):
    slots, increments = random_case(37, 3, 5, 2, 4)
    whole = compiled_levels(slots, increments, 4, 4)
    (slope,) = torch.autograd.grad(whole.square().sum(), slots)
    monkeypatch.setattr("siggpde_paper.gpsig.tensor_levels._CELLS", 1)
    tiled = compiled_levels(slots, increments, 4, 4)
    torch.testing.assert_close(tiled, whole)
    torch.testing.assert_close(torch.autograd.grad(tiled.square().sum(), slots)[0], slope)


def test_gradient_by_finite_differences():
    slots, increments = random_case(3, 2, 4, 2, 3)
    assert torch.autograd.gradcheck(lambda z: compiled_levels(z, increments, 3, 2), (slots,))
    levels = compiled_levels(slots, increments, 3, 3)
    (slope,) = torch.autograd.grad(levels.sum(), slots, create_graph=True)
    assert_refused("cannot be differentiated again", slope.sum().backward, error=RuntimeError)


def test_features_of_a_model_are_the_same_either_way():
    x, actual = series(6, length=7), []
    for method in ("core", "recursion"):
        kernel = TruncatedKernel(x.shape[2], 4, theta=0.7, method=method)
        features = InducingTensors(x.shape[2], 11, 4)
        projection = features(kernel, x)
        projection.features.square().sum().backward()
        actual.append([projection.features, features.values.grad, kernel.log_theta.grad, kernel.log_weights.grad])
    for ours, theirs in zip(*actual, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


def test_what_the_core_does_not_serve_goes_to_torch():
    slots, increments = random_case(3, 2, 4, 2, 3)
    assert core_has_tensors(slots, increments, 3)
    assert not core_has_tensors(slots, increments.clone().requires_grad_(), 3)
    assert not core_has_tensors(slots.float(), increments.float(), 3)
    assert not core_has_tensors(slots, increments, core.tensor_largest_level + 1)
    kernel, x = TruncatedKernel(2, 3, method="core"), series(2, length=5)
    features = InducingTensors(2, 4, 3)
    x.requires_grad_()
    features.cross_covariance(kernel, x).sum().backward()
    assert x.grad is not None and bool((x.grad != 0).any())
