"""k(X, X) by the native core, with gradients through autograd.

Logarithms are computed in float64 whatever the dtype of x, because k itself may be out of the range of float32.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.core import core
from siggpde.numerics.native.calls import run_diagonal
from siggpde.numerics.native.lifted import LiftedDiagonal
from siggpde.numerics.static_kernel import StaticKernel


def diagonal(
    x: Tensor, lengths: Tensor | None, static: StaticKernel | None, refine: int, tol: float, log: bool, threads: int,
    differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, X_i) (n,), or its logarithm; refine < 0 means polynomial edges accurate to `tol`."""
    wide = x.double() if log else x
    if static is not None and differentiable:
        value = LiftedDiagonal.apply(wide, lengths, *static, (refine, tol, log, threads))
    elif differentiable:
        apply = _Diagonal.apply if _transforms_active() else _apply_diagonal
        value = apply(wide, lengths, (refine, tol, log, threads))
    else:
        value = run_diagonal(wide, lengths, None, static, refine, tol, log, None, False, threads)
    return value.to(x.dtype) if log else value  # pyright: ignore[reportReturnType, reportAttributeAccessIssue]


def diagonal_with_scale_gradient(
    x: Tensor, lengths: Tensor | None, theta: Tensor, static: StaticKernel | None, refine: int, tol: float, log: bool,
    threads: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """k of the paths scaled by theta (d,), and its gradient in log theta (n, d), in one pass."""
    wide, scales = (x.double(), theta.double()) if log else (x, theta)
    gradient = wide.new_empty(x.shape[0], x.shape[2])
    value = run_diagonal(wide, lengths, scales, static, refine, tol, log, gradient, True, threads)
    return value.to(x.dtype), gradient.to(x.dtype)


def diagonal_with_gradient(
    x: Tensor, lengths: Tensor | None, static: StaticKernel | None, refine: int, tol: float, log: bool, threads: int
) -> tuple[Tensor, Tensor]:
    """k and its gradient in the points (n, length, channels), in one pass."""
    wide = x.double() if log else x
    gradient = torch.empty_like(wide)
    value = run_diagonal(wide, lengths, None, static, refine, tol, log, gradient, False, threads)
    return (value.to(x.dtype), gradient.to(x.dtype)) if log else (value, gradient)


class _Diagonal(torch.autograd.Function):
    """One pass computes value and gradient, so the forward pass keeps the gradient for the first backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, lengths: Tensor | None, settings: tuple[int, float, bool, int]) -> Tensor:
        value, gradient = diagonal_with_gradient(x, lengths, None, *settings)
        ctx.save_for_backward(x, lengths)
        ctx.settings = settings
        ctx.kept = [gradient]
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        try:
            gradient = ctx.kept.pop()
        except IndexError:  # an earlier backward pass has used it: compute it again
            gradient = _diagonal_gradient(ctx.saved_tensors, ctx.settings)
        if torch.is_grad_enabled():  # a second derivative may be asked for
            return once_differentiable(_scaled, ctx.saved_tensors[0], gradient, grad), None, None
        try:
            address = grad.data_ptr()
        except RuntimeError:  # many gradients at once (is_grads_batched) have no address
            return _scaled(None, gradient, grad), None, None
        scale = core.scale_rows_f64 if gradient.dtype == torch.float64 else core.scale_rows_f32
        n, length, channels = gradient.shape
        scale(gradient.data_ptr(), n, length * channels, address, grad.stride(0))
        return gradient, None, None


def _diagonal_gradient(saved: tuple[Any, ...], settings: tuple[int, float, bool, int]) -> Tensor:
    with warnings.catch_warnings():  # the forward pass has warned already
        warnings.simplefilter("ignore")
        x, lengths = saved
        return diagonal_with_gradient(x, lengths, None, *settings)[1]


def _scaled(_x: Tensor | None, gradient: Tensor, grad: Tensor) -> Tensor:
    """gradient * grad; `_x` tells `once_differentiable` that the gradient depends on x."""
    return gradient.mul(grad.view(-1, 1, 1))


# `_Diagonal.apply` without the checks that only functorch transforms need, which take a twentieth of a small call.
_apply_diagonal: Any = super(torch.autograd.Function, _Diagonal).apply  # pyright: ignore[reportAttributeAccessIssue]
_transforms_active: Any = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
