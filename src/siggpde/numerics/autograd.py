"""Derivatives written by hand, and what the compiled backends share to put them into torch's graph.

They are first derivatives, which have no second: asking for one raises an error. Nor do they have forward-mode
derivatives, and without a check the tangents would silently be dropped.

For k(X, Y), plain or normalised, a backend says in a `GramCall` how to compute the values and their gradients. With
logarithms of norms h the values are N_ij = k(X_i, Y_j) exp(-h_i - h'_j), of which dN_ij / dh_i = -N_ij.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import forward_ad

from siggpde.numerics.static_kernels import StaticKernel, per_parameter, tensors_of

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


Norms = tuple[Tensor, Tensor]


class GramCall(Protocol):
    """A call of a backend with all but the tensors that gradients are taken in."""

    @property
    def static(self) -> StaticKernel | None:
        """What lifts the paths; None is the linear kernel."""
        ...

    def run(self, x: Tensor, y: Tensor | None, norms: Norms | None) -> Tensor:
        """The values (n, m); y None means x."""
        ...

    def gradients(
        self, grad: Tensor, x: Tensor, y: Tensor | None, norms: Norms | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Of the sum of grad (n, m) times the values: in x, in y, in the logarithms (2,) of bandwidth and amplitude."""
        ...


def gram(call: GramCall, x: Tensor, y: Tensor | None, norms: Norms | None, differentiable: bool) -> Tensor:
    """The values of a call, with a graph if `differentiable`."""
    if not differentiable:
        return call.run(x, y, norms)
    return _Gram.apply(x, y, *(norms or (None, None)), *tensors_of(call.static), call)  # pyright: ignore[reportReturnType]


class _Gram(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, x: Tensor, y: Any, norm_x: Any, norm_y: Any, bandwidth: Any, amplitude: Any, call: GramCall
    ) -> Tensor:
        value = call.run(x, y, None if norm_x is None else (norm_x, norm_y))
        ctx.save_for_backward(x, y, norm_x, norm_y, bandwidth, amplitude, None if norm_x is None else value)
        ctx.call = call
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return *once_differentiable(_gradients, grad, *ctx.saved_tensors, ctx.call), None


def _gradients(
    grad: Tensor,
    x: Tensor,
    y: Any,
    norm_x: Any,
    norm_y: Any,
    bandwidth: Any,
    amplitude: Any,
    value: Any,
    call: GramCall,
) -> tuple[Any, ...]:
    norms = None if norm_x is None else (norm_x, norm_y)
    of_x, of_y, of_logarithms = call.gradients(grad, x, y, norms)
    of_norms = (None, None) if norms is None else (-(grad * value).sum(1), -(grad * value).sum(0))
    if of_logarithms is None:
        return of_x, of_y, *of_norms, None, None
    return of_x, of_y, *of_norms, *per_parameter(of_logarithms, bandwidth, amplitude)
