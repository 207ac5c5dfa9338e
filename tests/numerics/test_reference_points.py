"""The reference on series of one point: k = 1 with no gradient, as everywhere else, and in the graph."""

from typing import Any

import pytest
import torch

from helpers.random_paths import make
from siggpde.numerics.native import operations as native
from siggpde.numerics.reference import operations as reference

refinements = pytest.mark.parametrize("refine", [-1, 0, 2])
backends: Any = pytest.mark.parametrize("backend", [reference, native], ids=["reference", "native"])


@backends
@refinements
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("n", [0, 3])
def test_points_have_kernel_one_and_no_gradient(backend: Any, refine: int, log: bool, n: int):
    x = make("brownian", 0, 3, 1, 2)[:n]
    value, gradient = backend.diagonal_with_gradient(x, None, refine, 1e-8, log, 1)
    assert torch.equal(value, torch.full((n,), 0.0 if log else 1.0).double())
    assert torch.equal(gradient, torch.zeros_like(x))
    value, slope = backend.diagonal_with_scale_gradient(x, None, torch.ones(2).double(), refine, 1e-8, log, 1)
    assert torch.equal(value, torch.full((n,), 0.0 if log else 1.0).double())
    assert torch.equal(slope, torch.zeros(n, 2).double())
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(backend.diagonal(leaf, None, refine, 1e-8, log, 1, True).sum(), leaf)
    assert torch.equal(gradient, torch.zeros_like(x))


@backends
@refinements
def test_a_point_against_a_path(backend: Any, refine: int):
    point, path = make("brownian", 0, 2, 1, 2).requires_grad_(), make("brownian", 1, 3, 4, 2).requires_grad_()
    value = backend.gram(point, None, path, None, refine, 1e-8, 1, True)
    assert torch.equal(value, torch.ones(2, 3).double())
    for gradient in torch.autograd.grad(value.sum(), (point, path)):
        assert not gradient.any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_logarithms_beyond_the_range_of_the_value(dtype: torch.dtype):
    x = (torch.linspace(0, 1, 5)[None, :, None] * 1000).to(dtype)
    for got, wanted in zip(
        reference.diagonal_with_gradient(x, None, 0, 1e-8, True, 1),
        native.diagonal_with_gradient(x, None, 0, 1e-8, True, 1),
        strict=True,
    ):
        assert got.dtype == dtype
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
