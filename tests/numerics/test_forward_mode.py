"""Forward-mode derivatives and the transforms of torch.func: refused where they would be dropped, right elsewhere."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from helpers.random_paths import make, numbers_from
from siggpde import (
    extend,
    signature,
    signature_kernel,
    signature_kernel_diag,
    signature_kernel_diag_gradient,
    signature_kernel_diag_scales,
    words,
)

PLAIN = make("brownian", 0, 3, 5, 2)
OPERATIONS: dict[str, Callable[[Tensor], Any]] = {
    "signature": lambda x: signature(x, 2),
    "signature of words": lambda x: signature(x, words=[(0, 1), (1,)]),
    "increments": lambda x: extend(torch.ones(3, 4).double(), x, words(2, 4)),
    "start": lambda x: extend(x[:, 0], torch.ones(3, 5, 1).double(), words(1, 2)),
    "gram": signature_kernel,
    "rows": lambda x: signature_kernel(x, PLAIN),
    "columns": lambda x: signature_kernel(PLAIN, x),
    "diagonal": signature_kernel_diag,
    "logarithm": lambda x: signature_kernel_diag(x, log=True),
    "points": lambda x: signature_kernel_diag_gradient(x)[0],
    "paths": lambda x: signature_kernel_diag_scales(x, torch.ones(2).double())[0],
    "scales": lambda x: signature_kernel_diag_scales(PLAIN, x[0, 0])[0],
}
operations = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
REFUSED = "only reverse-mode gradients"


@operations
def test_tangents_are_refused(operation: Callable[[Tensor], Any]):
    x = PLAIN.clone()
    with forward_ad.dual_level():
        operation(x)  # a tensor without a tangent is as good as ever
        for leaf in (x, x.clone().requires_grad_()):
            with pytest.raises(NotImplementedError, match=REFUSED):
                operation(forward_ad.make_dual(leaf, torch.ones_like(x)))


@operations
def test_transforms_are_refused(operation: Callable[[Tensor], Any]):
    x = PLAIN.clone()
    with pytest.raises(NotImplementedError, match=REFUSED):
        torch.func.jvp(operation, (x,), (torch.ones_like(x),))
    with pytest.raises(NotImplementedError, match=REFUSED):
        torch.func.grad(lambda x: operation(x).sum())(x)
    with pytest.raises(NotImplementedError, match=REFUSED):
        torch.func.vmap(operation)(x[None])


@pytest.mark.parametrize("gradient", ["variation", "augmented"])
def test_the_algorithms_of_the_paper_refuse_tangents_too(gradient: Any):
    x = PLAIN.clone().requires_grad_()
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match=REFUSED):
        signature_kernel_diag(forward_ad.make_dual(x, torch.ones_like(x)), gradient=gradient)
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match=REFUSED):
        signature_kernel(x, forward_ad.make_dual(PLAIN.clone(), torch.ones_like(x)), gradient=gradient)


def test_the_reference_has_forward_mode_derivatives():
    """The tangents of the points of X are what the gradient says, along the same direction."""
    code = """
import json
import torch
import siggpde
x = (torch.arange(2 * 5 * 2).double() * 0.7).sin().reshape(2, 5, 2)
v = (torch.arange(2 * 5 * 2).double() * 0.3).cos().reshape(2, 5, 2)
for operation in (siggpde.signature_kernel_diag, lambda x: siggpde.signature(x, 3).sum(1)):
    _, tangent = torch.func.jvp(operation, (x,), (v,))
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(operation(leaf).sum(), leaf)
    assert torch.allclose(tangent, (gradient * v).sum((1, 2)), rtol=1e-12)
print(json.dumps("done"))
"""
    assert numbers_from(code, SIGGPDE_BACKEND="reference") == "done"
