"""The reference where it had no care taken of it: series of one point, empty batches, logarithms of huge kernels."""

from typing import Any

import pytest
import torch

from helpers.random_paths import make
from siggpde.numerics import native, reference
from siggpde.numerics.static_kernels import KernelSettings

refinements = pytest.mark.parametrize("refine", [-1, 0, 2])
backends: Any = pytest.mark.parametrize("backend", [reference, native], ids=["reference", "native"])


@backends
@refinements
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("n", [0, 3])
def test_points_have_kernel_one_and_no_gradient(backend: Any, refine: int, log: bool, n: int):
    x = make("brownian", 0, 3, 1, 2)[:n]
    settings = KernelSettings(None, refine)
    value, gradient = backend.diagonal_with_gradient(x, None, settings, log)
    assert torch.equal(value, torch.full((n,), 0.0 if log else 1.0).double())
    assert torch.equal(gradient, torch.zeros_like(x))
    theta = torch.ones(2).double()
    value, slope = backend.diagonal_with_scale_gradient(x, None, theta, settings, log)
    assert torch.equal(value, torch.full((n,), 0.0 if log else 1.0).double())
    assert torch.equal(slope, torch.zeros(n, 2).double())
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(backend.diagonal(leaf, None, settings, log, True).sum(), leaf)
    assert torch.equal(gradient, torch.zeros_like(x))


@backends
@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 0), (0, 0)])
def test_no_pairs_are_in_the_graph_all_the_same(backend: Any, n: int, m: int):
    x, y = make("brownian", 0, 3, 4, 2)[:n].requires_grad_(), make("brownian", 1, 3, 4, 2)[:m].requires_grad_()
    value = backend.gram(x, None, y, None, None, KernelSettings(), True)
    assert value.shape == (n, m)
    for gradient in torch.autograd.grad(value.sum(), (x, y)):
        assert not gradient.any()


@backends
@pytest.mark.parametrize("words", [0, (), ((),)])
def test_constant_coefficients_are_in_the_graph_all_the_same(backend: Any, words: Any):
    x = make("brownian", 0, 3, 4, 2).requires_grad_()
    value = backend.signature(x, None, words, 1)
    assert value.shape == (3, 0 if words == () else 1)
    assert not torch.autograd.grad(value.sum(), x)[0].any()


@backends
@refinements
def test_a_point_against_a_path(backend: Any, refine: int):
    point, path = make("brownian", 0, 2, 1, 2).requires_grad_(), make("brownian", 1, 3, 4, 2).requires_grad_()
    value = backend.gram(point, None, path, None, None, KernelSettings(None, refine), True)
    assert torch.equal(value, torch.ones(2, 3).double())
    for gradient in torch.autograd.grad(value.sum(), (point, path)):
        assert not gradient.any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("refine", "size"), [(0, 1000.0), (1, 3e4), (2, 3e4), (-1, 200.0)])
def test_logarithms_beyond_the_range_of_the_value(dtype: torch.dtype, refine: int, size: float):
    """Values of k above 1e150 are rescaled on the way; log k of the line of length `size` is about 2 size."""
    x = (torch.linspace(0, 1, 5)[None, :, None] * size).to(dtype)
    pairs = zip(
        reference.diagonal_with_gradient(x, None, KernelSettings(None, refine), True),
        native.diagonal_with_gradient(x, None, KernelSettings(None, refine), True),
        strict=True,
    )
    for got, wanted in pairs:
        assert got.dtype == dtype
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
    if refine == -1:
        assert abs(reference.diagonal(x, None, KernelSettings(), True, False) - 2 * size) < 5
