"""k(X, Y), plain or normalised, with a graph: what the compiled backends share.

A backend says in a `GramCall` how to compute the values and their gradients. With logarithms of norms h the values are
N_ij = k(X_i, Y_j) exp(-h_i - h'_j), of which dN_ij / dh_i = -N_ij.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.static_kernel import StaticKernel, per_parameter, tensors_of

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
