"""Signatures and their kernel as citizens of autograd: any input, no side effects, no silent second derivative."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.random_paths import make
from siggpde import logsignature, signature, signature_kernel, signature_kernel_diag, signature_kernel_diag_scales
from siggpde.numerics.autograd import SECOND_DERIVATIVE_MESSAGE

OPERATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "signature": lambda x: signature(x, 3),
    "log-signature": lambda x: logsignature(x, 3),
    "diagonal": signature_kernel_diag,
    "logarithm": lambda x: signature_kernel_diag(x, log=True),
    "gram": signature_kernel,
    "cross": lambda x: signature_kernel(x, x[:2]),
    "diagonal by variation": lambda x: signature_kernel_diag(x, gradient="variation"),
    "gram by variation": lambda x: signature_kernel(x, gradient="variation"),
    "diagonal by augmentation": lambda x: signature_kernel_diag(x, gradient="augmented"),
}
operations = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)


def plain() -> Tensor:
    return make("brownian", 0, 3, 6, 2)


def gradient_at(operation: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    leaf = x.detach().clone(memory_format=torch.contiguous_format).requires_grad_()
    return torch.autograd.grad(operation(leaf).sum(), leaf)[0]


@operations
def test_non_leaf_strided_and_expanded_inputs(operation: Callable[[Tensor], Tensor]):
    x = plain()
    base = x.clone().requires_grad_()
    got = torch.autograd.grad(operation(base * 2.0).sum(), base)[0]
    assert torch.allclose(got, 2 * gradient_at(operation, 2 * x), rtol=1e-12)

    turned = x.permute(2, 1, 0).contiguous().requires_grad_()
    view = turned.permute(2, 1, 0)
    assert not view.is_contiguous()
    got = torch.autograd.grad(operation(view).sum(), turned)[0]
    assert torch.allclose(got.permute(2, 1, 0), gradient_at(operation, x), rtol=1e-12)

    one = x[:1].clone().requires_grad_()
    got = torch.autograd.grad(operation(one.expand(4, -1, -1)).sum(), one)[0]
    assert torch.allclose(got[0], gradient_at(operation, x[:1].expand(4, -1, -1)).sum(0), rtol=1e-12)

    every_other = torch.stack([x, x + 1], 2).reshape(3, 12, 2).requires_grad_()
    got = torch.autograd.grad(operation(every_other[:, ::2]).sum(), every_other)[0]
    assert torch.allclose(got[:, ::2], gradient_at(operation, x), rtol=1e-12)
    assert torch.equal(got[:, 1::2], torch.zeros(3, 6, 2).double())


@operations
def test_there_is_no_second_derivative_and_it_says_so(operation: Callable[[Tensor], Tensor]):
    x = plain().requires_grad_()
    for total in (lambda k: k.sum(), lambda k: k.square().sum()):
        (first,) = torch.autograd.grad(total(operation(x)), x, create_graph=True)
        # With another term that does have a second derivative, to be silently wrong would be easy.
        with pytest.raises(RuntimeError) as caught:
            torch.autograd.grad(first.square().sum() + x.square().sum(), x)
        assert SECOND_DERIVATIVE_MESSAGE in str(caught.value)


@operations
def test_graphs_are_made_where_they_are_wanted_and_inputs_are_not_modified(operation: Callable[[Tensor], Tensor]):
    x = plain().requires_grad_()
    with torch.no_grad():
        free = operation(x)
    assert not free.requires_grad and not operation(x.detach()).requires_grad
    kept = operation(x)
    assert kept.requires_grad and torch.allclose(kept, free, rtol=1e-7)
    kept.sum().backward(retain_graph=True)
    assert x.grad is not None
    once = x.grad.clone()
    kept.sum().backward()
    assert torch.equal(x.grad, 2 * once)
    theta = torch.tensor([0.5, 2.0]).double()
    signature_kernel_diag_scales(x, theta)
    assert torch.equal(x.detach(), plain()) and theta.tolist() == [0.5, 2.0]


def test_strided_grad_outputs():
    x = plain().requires_grad_()
    weight = torch.randn(3, 3, generator=torch.Generator().manual_seed(0)).double()
    wanted = torch.autograd.grad(signature_kernel(x), x, weight)[0]
    assert torch.equal(torch.autograd.grad(signature_kernel(x), x, weight.T.contiguous().T)[0], wanted)
    got = torch.autograd.grad(signature_kernel_diag(x), x, torch.ones(1).double().expand(3))[0]
    assert torch.equal(got, gradient_at(signature_kernel_diag, plain()))


@pytest.mark.parametrize("settings", [{}, {"log": True}, {"solver": "fd"}])
def test_long_paths_by_two_routes(settings: dict[str, Any]):
    """Scaling a channel moves every knot: sum_i x_i dk/dx_i = dk/dlog theta, though the passes share no storage."""
    x = make("brownian", 11, 1, 3000, 2, 1.5).requires_grad_()
    value = signature_kernel_diag(x, **settings)
    (knots,) = torch.autograd.grad(value.sum(), x)
    fused, slope = signature_kernel_diag_scales(x, torch.ones(2).double(), **settings)
    assert torch.equal(fused, value)
    assert torch.allclose((x * knots).sum(1), slope, rtol=1e-9)


@pytest.mark.parametrize(("dtype", "end"), [(torch.float32, 25.0), (torch.float64, 25.0), (torch.float64, 70.0)])
@pytest.mark.parametrize("n", [1, 3, 8, 9])
def test_gradients_of_long_segments_are_finite_whatever_fills_the_lanes(dtype: torch.dtype, end: float, n: int):
    """One series in a vector of several leaves lanes idle, whose zero sensitivities must not meet infinities."""
    x = torch.tensor([[[0.0], [end]]], dtype=dtype).repeat(n, 1, 1).requires_grad_()
    (symmetric,) = torch.autograd.grad(signature_kernel(x).diagonal().sum(), x)
    (diagonal,) = torch.autograd.grad(signature_kernel_diag(x).sum(), x)
    torch.testing.assert_close(symmetric, diagonal)
