"""Hand-written first derivatives, which have no second: asking for one raises an error.

Nor do they have forward-mode derivatives, and without a check the tangents would silently be dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

SECOND_DERIVATIVE_MESSAGE = (
    "this gradient is computed by a hand-written reverse pass, which cannot be differentiated again; for second "
    "derivatives set the environment variable SIGGPDE_BACKEND=reference before importing siggpde (and keep "
    "gradient='adjoint')"
)

TRANSFORM_MESSAGE = (
    "this operation has only reverse-mode gradients, by torch.autograd, written by hand: forward-mode derivatives and "
    "the transforms of torch.func (jvp, grad, vmap, ...) do not go through it; use x.requires_grad_() and backward(), "
    "or set the environment variable SIGGPDE_BACKEND=reference before importing siggpde (and keep gradient='adjoint')"
)

_transforms_active: Any = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)


def refuse_transforms(*tensors: Tensor | None) -> None:
    """Raises NotImplementedError if a tensor carries a tangent, and inside transforms of torch.func.

    Inside a transform even the results of calls on constants belong to it and have no memory of their own.
    """
    if _transforms_active():
        raise NotImplementedError(TRANSFORM_MESSAGE)
    if getattr(forward_ad, "_current_level", 0) < 0:  # as almost always; private, so without it look at the tensors
        return
    for tensor in tensors:
        if tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None:
            raise NotImplementedError(TRANSFORM_MESSAGE)


def once_differentiable(function: Callable[..., Any], *args: Any) -> Any:
    """function(*args), called in the `backward` of an autograd function: differentiating its result raises."""
    return _OnceDifferentiable.apply(function, *args) if torch.is_grad_enabled() else function(*args)


class _OnceDifferentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(SECOND_DERIVATIVE_MESSAGE)
