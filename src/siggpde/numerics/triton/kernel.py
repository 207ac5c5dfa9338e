"""The signature kernel by Triton: the same three calls as `siggpde.numerics.native.kernel`, for tensors on a GPU."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from siggpde.numerics.autograd import once
from siggpde.numerics.errors import report
from siggpde.numerics.triton.batch import Batch
from siggpde.numerics.triton.diagonal import Wanted, request_of, solve_diagonal
from siggpde.numerics.triton.gram import Side, differentiate_gram, prepare, solve_gram

Settings = tuple[int, float, bool]


def diagonal(
    x: Tensor, lengths: Tensor | None, refine: int, tol: float, log: bool, differentiable: bool
) -> Tensor:  # fmt: skip
    """k(X_i, X_i) (n,), or its logarithm; refine < 0 means the series solver."""
    if differentiable:
        return _Diagonal.apply(x, lengths, (refine, tol, log))  # pyright: ignore[reportReturnType]
    return _run_diagonal(x, lengths, None, (refine, tol, log), "value")[0]


def diagonal_with_scale_gradient(
    x: Tensor, lengths: Tensor | None, theta: Tensor, refine: int, tol: float, log: bool
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """k of the paths scaled by theta (d,), and its gradient in log theta (n, d), in one pass."""
    return _run_diagonal(x, lengths, theta, (refine, tol, log), "scales")  # pyright: ignore[reportReturnType]


def diagonal_with_gradient(
    x: Tensor, lengths: Tensor | None, refine: int, tol: float, log: bool
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """k and its gradient in the points (n, length, channels), in one pass."""
    return _run_diagonal(x, lengths, None, (refine, tol, log), "points")  # pyright: ignore[reportReturnType]


def gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, refine: int, tol: float,
    differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, Y_j) (n, m); y None means x."""
    run = _Gram.apply if differentiable else _run_gram
    return run(x, x_lengths, y, y_lengths, refine, tol)  # pyright: ignore[reportReturnType]


def _run_diagonal(
    x: Tensor, lengths: Tensor | None, theta: Tensor | None, settings: Settings, wanted: Wanted
) -> tuple[Tensor, Tensor | None]:
    refine, tol, log = settings
    solved = solve_diagonal(Batch(x, lengths, theta), request_of(refine, tol, True, log, x.dtype), log, wanted)
    if solved.failure is not None:
        report(solved.failure, x, lengths, None, None, log)
    return solved.value, solved.gradient


class _Diagonal(torch.autograd.Function):
    """Value and gradient come from one pass, so the gradient is taken at once and kept for the first backward."""

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
        else:  # given away by an earlier backward: compute it again
            with warnings.catch_warnings():  # what there was to say has been said
                warnings.simplefilter("ignore")
                gradient = _run_diagonal(x, lengths, None, ctx.settings, "points")[1]
        return once(_scaled, x, gradient, grad), None, None


def _scaled(_x: Tensor, gradient: Tensor, grad: Tensor) -> Tensor:
    """The gradient depends on x, though it is not computed from it here: `once` has to know."""
    return gradient * grad[:, None, None]


def _sides(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, refine: int, tol: float
) -> tuple[Side, Side | None]:
    """Both sides, planned; what is wrong with one of them is raised."""
    rows = prepare(x, x_lengths, refine, tol)
    columns = None if y is None else prepare(y, y_lengths, refine, tol)
    for found, side in ((rows, 0), (columns, 1)):
        if isinstance(found, tuple) and not isinstance(found, Side):
            report((*found[:4], side), x, x_lengths, y, y_lengths, False)
    return rows, columns  # pyright: ignore[reportReturnType]


def _run_gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, refine: int, tol: float
) -> Tensor:
    value, bad = solve_gram(*_sides(x, x_lengths, y, y_lengths, refine, tol))
    if bad is not None:
        report(bad, x, x_lengths, y, y_lengths, False)
    return value


class _Gram(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, x_lengths: Any, y: Any, y_lengths: Any, refine: int, tol: float) -> Tensor:
        ctx.save_for_backward(x, x_lengths, y, y_lengths)
        ctx.settings = refine, tol
        return _run_gram(x, x_lengths, y, y_lengths, refine, tol)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        of_x, of_y = once(_gram_gradients, grad, *ctx.saved_tensors, ctx.settings)
        return of_x, None, of_y, None, None, None


def _gram_gradients(
    grad: Tensor, x: Tensor, x_lengths: Any, y: Tensor | None, y_lengths: Any, settings: tuple[int, float]
) -> tuple[Tensor, Tensor | None]:
    with warnings.catch_warnings():  # what there was to say has been said
        warnings.simplefilter("ignore")
        sides = _sides(x, x_lengths, y, y_lengths, *settings)
    return differentiate_gram(*sides, grad)
