"""The signature kernel by the native core: tensors passed by address, failures raised, gradients through autograd.

Logarithms are computed in float64 whatever the dtype of x, because k itself may be out of the range of float32.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.core import core
from siggpde.numerics.errors import raise_or_warn


def diagonal(
    x: Tensor,
    lengths: Tensor | None,
    refine: int,
    tol: float,
    log: bool,
    threads: int,
    differentiable: bool,
) -> Tensor:
    """k(X_i, X_i) (n,), or its logarithm; refine < 0 means polynomial edges accurate to `tol`."""
    wide = x.double() if log else x
    if differentiable:
        apply = _Diagonal.apply if _transforms_active() else _apply_diagonal
        value = apply(wide, lengths, (refine, tol, log, threads))
    else:
        value = _run_diagonal(wide, lengths, None, refine, tol, log, None, False, threads)
    return value.to(x.dtype) if log else value  # pyright: ignore[reportReturnType, reportAttributeAccessIssue]


def diagonal_with_scale_gradient(
    x: Tensor,
    lengths: Tensor | None,
    theta: Tensor,
    refine: int,
    tol: float,
    log: bool,
    threads: int,
) -> tuple[Tensor, Tensor]:
    """k of the paths scaled by theta (d,), and its gradient in log theta (n, d), in one pass."""
    wide, scales = (x.double(), theta.double()) if log else (x, theta)
    gradient = wide.new_empty(x.shape[0], x.shape[2])
    value = _run_diagonal(wide, lengths, scales, refine, tol, log, gradient, True, threads)
    return value.to(x.dtype), gradient.to(x.dtype)


def diagonal_with_gradient(
    x: Tensor, lengths: Tensor | None, refine: int, tol: float, log: bool, threads: int
) -> tuple[Tensor, Tensor]:
    """k and its gradient in the points (n, length, channels), in one pass."""
    wide = x.double() if log else x
    gradient = torch.empty_like(wide)
    value = _run_diagonal(wide, lengths, None, refine, tol, log, gradient, False, threads)
    return (value.to(x.dtype), gradient.to(x.dtype)) if log else (value, gradient)


def gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, refine: int, tol: float,
    threads: int, differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, Y_j) (n, m); y None means x."""
    run = _Gram.apply if differentiable else _run_gram
    return run(x, x_lengths, y, y_lengths, refine, tol, threads)  # pyright: ignore[reportReturnType]


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _run_diagonal(
    x: Tensor,
    lengths: Tensor | None,
    theta: Tensor | None,
    refine: int,
    tol: float,
    log: bool,
    gradient: Tensor | None,
    scales: bool,
    threads: int,
) -> Tensor:
    n, length, channels = x.shape
    value = x.new_empty(n)
    run = core.diagonal_f64 if x.dtype == torch.float64 else core.diagonal_f32
    failure = run(
        x.data_ptr(), n, length, channels, _address(lengths), _address(theta), refine, tol, log, value.data_ptr(),
        _address(gradient), scales, threads,
    )  # fmt: skip
    if failure is not None:
        raise_or_warn(failure, x, lengths, None, None, log)
    return value


class _Diagonal(torch.autograd.Function):
    """One pass computes value and gradient, so the forward pass keeps the gradient for the first backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, lengths: Tensor | None, settings: tuple[int, float, bool, int]) -> Tensor:
        value, gradient = diagonal_with_gradient(x, lengths, *settings)
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
        return diagonal_with_gradient(x, lengths, *settings)[1]


def _scaled(_x: Tensor | None, gradient: Tensor, grad: Tensor) -> Tensor:
    """gradient * grad; `_x` tells `once_differentiable` that the gradient depends on x."""
    return gradient.mul(grad.view(-1, 1, 1))


# `_Diagonal.apply` without the checks that only functorch transforms need, which take a twentieth of a small call.
_apply_diagonal: Any = super(torch.autograd.Function, _Diagonal).apply  # pyright: ignore[reportAttributeAccessIssue]
_transforms_active: Any = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)


def _run_gram(
    x: Tensor,
    x_lengths: Tensor | None,
    y: Tensor | None,
    y_lengths: Tensor | None,
    refine: int,
    tol: float,
    threads: int,
    weight: Tensor | None = None,
    gradient_x: Tensor | None = None,
    gradient_y: Tensor | None = None,
) -> Tensor:
    other = x if y is None else y
    value = x.new_empty((len(x), len(other)) if weight is None else 0)
    if len(x) == 0 or len(other) == 0:  # the address of an empty tensor is 0, which would mean y None
        for gradient in (gradient_x, gradient_y):
            if gradient is not None:
                gradient.zero_()
        return value
    run = core.gram_f64 if x.dtype == torch.float64 else core.gram_f32
    failure = run(
        x.data_ptr(), x.shape[0], x.shape[1], _address(x_lengths),
        _address(y), other.shape[0], other.shape[1], _address(y_lengths),
        x.shape[2], refine, tol, value.data_ptr(), _address(weight), _address(gradient_x),
        _address(gradient_y), threads,
    )  # fmt: skip
    if failure is not None:
        raise_or_warn(failure, x, x_lengths, y, y_lengths, False)
    return value


class _Gram(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        x_lengths: Any,
        y: Any,
        y_lengths: Any,
        refine: int,
        tol: float,
        threads: int,
    ):
        ctx.save_for_backward(x, x_lengths, y, y_lengths)
        ctx.settings = refine, tol, threads
        return _run_gram(x, x_lengths, y, y_lengths, refine, tol, threads)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        of_x, of_y = once_differentiable(_gram_gradients, grad, *ctx.saved_tensors, ctx.settings)
        return of_x, None, of_y, None, None, None, None


def _gram_gradients(
    grad: Tensor,
    x: Tensor,
    x_lengths: Any,
    y: Tensor | None,
    y_lengths: Any,
    settings: tuple[int, float, int],
) -> tuple[Tensor, Tensor | None]:
    of_x, of_y = torch.empty_like(x), None if y is None else torch.empty_like(y)
    _run_gram(x, x_lengths, y, y_lengths, *settings, grad.contiguous(), of_x, of_y)
    return of_x, of_y
