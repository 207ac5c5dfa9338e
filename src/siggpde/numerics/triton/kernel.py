"""The signature kernel by Triton: the same functions as `siggpde.numerics.native`, for tensors on a GPU.

Logarithms are computed in float64 whatever the dtype of x. `threads` is part of the common interface and not used.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.errors import raise_or_warn
from siggpde.numerics.static_kernel import StaticKernel
from siggpde.numerics.triton.batch import Batch
from siggpde.numerics.triton.diagonal import Wanted, plan_request, solve_diagonal
from siggpde.numerics.triton.gram import Side, differentiate_gram, prepare, solve_gram

Settings = tuple[int, float, bool]


def diagonal(
    x: Tensor, lengths: Tensor | None, static: StaticKernel | None, refine: int, tol: float, log: bool, threads: int,
    differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, X_i) (n,), or its logarithm; refine < 0 means polynomial edges accurate to `tol`."""
    wide = x.double() if log else x
    if differentiable:
        value: Any = _Diagonal.apply(wide, lengths, (refine, tol, log))
    else:
        value = _run_diagonal(wide, lengths, None, (refine, tol, log), "value")[0]
    return value.to(x.dtype) if log else value


def diagonal_with_scale_gradient(
    x: Tensor, lengths: Tensor | None, theta: Tensor, static: StaticKernel | None, refine: int, tol: float, log: bool,
    threads: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """k of the paths scaled by theta (d,), and its gradient in log theta (n, d), in one pass."""
    wide, scales = (x.double(), theta.double()) if log else (x, theta)
    value, gradient = _run_diagonal(wide, lengths, scales, (refine, tol, log), "scales")
    assert gradient is not None
    return value.to(x.dtype), gradient.to(x.dtype)


def diagonal_with_gradient(
    x: Tensor, lengths: Tensor | None, static: StaticKernel | None, refine: int, tol: float, log: bool, threads: int
) -> tuple[Tensor, Tensor]:
    """k and its gradient in the points (n, length, channels), in one pass."""
    wide = (x.double() if log else x).detach()
    value, gradient = _run_diagonal(wide, lengths, None, (refine, tol, log), "points")
    assert gradient is not None
    return value.to(x.dtype), gradient.to(x.dtype)


def gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, static: StaticKernel | None,
    refine: int, tol: float, threads: int, differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, Y_j) (n, m); y None means x."""
    run = _Gram.apply if differentiable else _run_gram
    return run(x, x_lengths, y, y_lengths, refine, tol)  # pyright: ignore[reportReturnType]


def _run_diagonal(
    x: Tensor, lengths: Tensor | None, theta: Tensor | None, settings: Settings, wanted: Wanted
) -> tuple[Tensor, Tensor | None]:
    refine, tol, log = settings
    solved = solve_diagonal(Batch(x, lengths, theta), plan_request(refine, tol, True, log, x.dtype), log, wanted)
    if solved.failure is not None:
        raise_or_warn(solved.failure, x, lengths, None, None, log)
    return solved.value, solved.gradient


class _Diagonal(torch.autograd.Function):
    """One pass computes value and gradient, so the forward pass keeps the gradient for the first backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, lengths: Tensor | None, settings: Settings) -> Tensor:
        value, gradient = _run_diagonal(x, lengths, None, settings, "points")
        ctx.save_for_backward(x, lengths)
        ctx.settings = settings
        ctx.kept = [gradient]
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, lengths = ctx.saved_tensors
        if ctx.kept:
            gradient = ctx.kept.pop()
        else:  # an earlier backward pass has used it: compute it again
            with warnings.catch_warnings():  # the forward pass has warned already
                warnings.simplefilter("ignore")
                gradient = _run_diagonal(x, lengths, None, ctx.settings, "points")[1]
        return once_differentiable(_scaled, x, gradient, grad), None, None


def _scaled(_x: Tensor, gradient: Tensor, grad: Tensor) -> Tensor:
    """gradient * grad; `_x` tells `once_differentiable` that the gradient depends on x."""
    return gradient * grad[:, None, None]


def _sides(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, refine: int, tol: float
) -> tuple[Side, Side | None]:
    """Both sides, planned; raises if one of them cannot be."""
    rows = prepare(x, x_lengths, refine, tol)
    columns = None if y is None else prepare(y, y_lengths, refine, tol)
    for result, side in ((rows, 0), (columns, 1)):
        if isinstance(result, tuple) and not isinstance(result, Side):
            raise_or_warn((*result[:4], side), x, x_lengths, y, y_lengths, False)
    return rows, columns  # pyright: ignore[reportReturnType]


def _run_gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, refine: int, tol: float
) -> Tensor:
    value, bad = solve_gram(*_sides(x, x_lengths, y, y_lengths, refine, tol))
    if bad is not None:
        raise_or_warn(bad, x, x_lengths, y, y_lengths, False)
    return value


class _Gram(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, x_lengths: Any, y: Any, y_lengths: Any, refine: int, tol: float) -> Tensor:
        ctx.save_for_backward(x, x_lengths, y, y_lengths)
        ctx.settings = refine, tol
        return _run_gram(x, x_lengths, y, y_lengths, refine, tol)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        of_x, of_y = once_differentiable(_gram_gradients, grad, *ctx.saved_tensors, ctx.settings)
        return of_x, None, of_y, None, None, None


def _gram_gradients(
    grad: Tensor, x: Tensor, x_lengths: Any, y: Tensor | None, y_lengths: Any, settings: tuple[int, float]
) -> tuple[Tensor, Tensor | None]:
    with warnings.catch_warnings():  # the forward pass has warned already
        warnings.simplefilter("ignore")
        sides = _sides(x, x_lengths, y, y_lengths, *settings)
    return differentiate_gram(*sides, grad)
