"""The signature kernel k(X, Y) = <S(X), S(Y)>, exact and differentiable.

It is the value at the far corner of the solution of U_st = <X'_s, Y'_t> U with U = 1 on the axes. Two solvers:
`"series"`, accurate to a tolerance with degree and splitting chosen for each series, and `"fd"`, the finite differences
of the SigGPDE paper with `refine` dyadic refinements.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from siggpde.numerics import inputs, triton
from siggpde.numerics.backend import core
from siggpde.numerics.native import kernel as native_kernel
from siggpde.numerics.reference import operations

Solver = Literal["series", "fd"]
Gradient = Literal["adjoint", "variation", "augmented"]
Lengths = Tensor | Sequence[int] | None

_MOST_REFINE = 12


def signature_kernel(
    x: inputs.Series,
    y: inputs.Series | None = None,
    *,
    solver: Solver = "series",
    refine: int = 0,
    tol: float = 1e-8,
    gradient: Gradient = "adjoint",
    lengths: Lengths = None,
    y_lengths: Lengths = None,
    n_jobs: int | None = None,
) -> Tensor:
    """Gram matrix (n, m) of signature kernels k(X_i, Y_j), symmetric (n, n) when y is None.

    x (n, length, channels) and y (m, length', channels), float32 or float64, or lists of (length_i, channels);
    `lengths` and `y_lengths` as for `signature`.

    `solver="series"` bounds |error| / sqrt(k(X, X) k(Y, Y)) by `tol` (at least 16 roundings of the dtype);
    `solver="fd"` uses `refine` dyadic refinements. No value depends on the rest of the batch.

    Gradients flow to both x and y: by the exact reverse sweep of the solver (`"adjoint"`), by variation of the PDE
    (`"variation"`, Algorithm 2 of the paper) or by the augmented PDE (`"augmented"`, Algorithm 1). The last two are
    there for comparison: slow, in plain torch, and always at full accuracy.

    Examples:
        >>> x = torch.tensor([[[0.0], [1.0]], [[0.0], [2.0]]]).double()
        >>> signature_kernel(x)
        tensor([[ 2.2796,  4.2524],
                [ 4.2524, 11.3019]], dtype=torch.float64)
    """
    threads = inputs.thread_count(n_jobs)
    xs, x_counts = inputs.as_batch(x, lengths)
    steps, tol = _settings(solver, refine, tol, gradient, xs.dtype)
    ys, y_counts = (None, None) if y is None else inputs.as_batch(y, y_lengths, "y")
    if ys is not None:
        _check_pair(xs, ys)
    elif y_lengths is not None:
        raise ValueError("y_lengths is given, but y is not; for the Gram matrix of x alone give `lengths`")
    differentiable = torch.is_grad_enabled() and (xs.requires_grad or (ys is not None and ys.requires_grad))
    fast = gradient == "adjoint" or not differentiable
    if fast and triton.wanted(xs):
        from siggpde.numerics.triton import kernel  # noqa: PLC0415 - Triton is imported only where it computes

        return kernel.gram(xs, x_counts, ys, y_counts, steps, tol, differentiable)
    if fast and core is not None and xs.is_cpu:
        return native_kernel.gram(xs, x_counts, ys, y_counts, steps, tol, threads, differentiable)
    others = (xs, x_counts) if ys is None else (ys, y_counts)
    return operations.gram(xs, x_counts, *others, solver, refine, gradient)


def signature_kernel_diag(
    x: inputs.Series,
    *,
    lengths: Lengths = None,
    log: bool = False,
    solver: Solver = "series",
    refine: int = 0,
    tol: float = 1e-8,
    gradient: Gradient = "adjoint",
    n_jobs: int | None = None,
) -> Tensor:
    """k(X_i, X_i), (n,), or with `log=True` its logarithm, which exists where k itself would overflow.

    Half the work of the diagonal of `signature_kernel`: the problem is symmetric. The other arguments are the same.

    Examples:
        >>> signature_kernel_diag(torch.tensor([[[0.0], [1.0]]]).double())
        tensor([2.2796], dtype=torch.float64)
    """
    threads = inputs.thread_count(n_jobs)
    xs, counts = inputs.as_batch(x, lengths)
    steps, tol = _settings(solver, refine, tol, gradient, xs.dtype)
    differentiable = torch.is_grad_enabled() and xs.requires_grad
    if gradient == "adjoint" or not differentiable:
        wide = xs.double() if log else xs
        if triton.wanted(xs):
            from siggpde.numerics.triton import kernel  # noqa: PLC0415

            value = kernel.diagonal(wide, counts, steps, tol, log, differentiable)
            return value.to(xs.dtype) if log else value
        if core is not None and xs.is_cpu:
            value = native_kernel.diagonal(wide, counts, steps, tol, log, threads, differentiable)
            return value.to(xs.dtype) if log else value
    return operations.diagonal(xs, counts, solver, refine, gradient, log)


def signature_kernel_diag_scales(
    x: inputs.Series,
    theta: Tensor,
    *,
    lengths: Lengths = None,
    log: bool = False,
    solver: Solver = "series",
    refine: int = 0,
    tol: float = 1e-8,
    n_jobs: int | None = None,
) -> tuple[Tensor, Tensor]:
    """k(X_i, X_i) of the paths with channels scaled by theta (d,), and its gradient in log theta, in one pass.

    Returns (k (n,), dk/dlog theta (n, d)); with `log=True` both of log k. Neither carries a graph. This is what
    training needs: there are d numbers a series to learn from, not one for every knot.

    Examples:
        >>> x, theta = torch.tensor([[[0.0], [2.0]]]).double(), torch.tensor([0.5]).double()
        >>> k, slope = signature_kernel_diag_scales(x, theta)
        >>> k, slope
        (tensor([2.2796], dtype=torch.float64), tensor([[3.1813]], dtype=torch.float64))
    """
    threads = inputs.thread_count(n_jobs)
    xs, counts = inputs.as_batch(x, lengths)
    steps, tol = _settings(solver, refine, tol, "adjoint", xs.dtype)
    xs, by_triton = xs.detach(), triton.wanted(xs)
    scale = torch.as_tensor(theta).detach().to(dtype=xs.dtype, device=xs.device).contiguous()
    if scale.shape != xs.shape[2:] or not torch.isfinite(scale).all():
        raise ValueError(f"theta must be {xs.shape[2]} finite scales, one a channel of x, got {theta}")
    wide = (xs.double(), counts, scale.double()) if log else (xs, counts, scale)
    if by_triton:
        from siggpde.numerics.triton import kernel  # noqa: PLC0415

        value, slope = kernel.diagonal_with_scale_gradient(*wide, steps, tol, log)
        return value.to(xs.dtype), slope.to(xs.dtype)
    if core is not None and xs.is_cpu:
        value, slope = native_kernel.diagonal_with_scale_gradient(*wide, steps, tol, log, threads)
        return value.to(xs.dtype), slope.to(xs.dtype)
    logarithm = torch.zeros_like(scale).expand(len(xs), -1).clone().requires_grad_()
    with torch.enable_grad():
        scaled = torch.where(inputs.row_mask(xs, counts)[:, :, None], xs, 0.0) * (scale * logarithm.exp())[:, None, :]
        value = signature_kernel_diag(scaled, lengths=counts, log=log, solver=solver, refine=refine, tol=tol)
        (slope,) = torch.autograd.grad(value.sum(), logarithm)
    return value.detach(), slope


def signature_kernel_diag_gradient(
    x: inputs.Series,
    *,
    lengths: Lengths = None,
    log: bool = False,
    solver: Solver = "series",
    refine: int = 0,
    tol: float = 1e-8,
    n_jobs: int | None = None,
) -> tuple[Tensor, Tensor]:
    """k(X_i, X_i), (n,), and its gradient in the points of X_i, (n, length, channels), in one pass.

    With `log=True` both of log k. The same numbers as autograd's of `signature_kernel_diag`, without a graph: for small
    batches autograd costs more than the gradient. Zero after the end of a series.

    Examples:
        >>> k, slope = signature_kernel_diag_gradient(torch.tensor([[[0.0], [1.0]]]).double())
        >>> k, slope.flatten()
        (tensor([2.2796], dtype=torch.float64), tensor([-3.1813,  3.1813], dtype=torch.float64))
    """
    threads = inputs.thread_count(n_jobs)
    xs, counts = inputs.as_batch(x, lengths)
    steps, tol = _settings(solver, refine, tol, "adjoint", xs.dtype)
    wide = xs.double() if log else xs
    if triton.wanted(xs):
        from siggpde.numerics.triton import kernel  # noqa: PLC0415

        value, slope = kernel.diagonal_with_gradient(wide.detach(), counts, steps, tol, log)
    elif core is not None and xs.is_cpu:
        value, slope = native_kernel.diagonal_with_gradient(wide, counts, steps, tol, log, threads)
    else:
        leaf = xs.detach().requires_grad_()
        with torch.enable_grad():
            graph = signature_kernel_diag(leaf, lengths=counts, log=log, solver=solver, refine=refine, tol=tol)
            (slope,) = torch.autograd.grad(graph.sum(), leaf)
        value = graph.detach()
    return (value.to(xs.dtype), slope.to(xs.dtype)) if log else (value, slope)


@lru_cache(maxsize=256)
def _settings(solver: str, refine: int, tol: float, gradient: str, dtype: torch.dtype) -> tuple[int, float]:
    """Checks them; returns the refinement as the core wants it, -1 for the series solver, and the tolerance."""
    if solver not in ("series", "fd"):
        raise ValueError(f"solver must be 'series' or 'fd', got {solver!r}")
    if gradient not in ("adjoint", "variation", "augmented"):
        raise ValueError(f"gradient must be 'adjoint', 'variation' or 'augmented', got {gradient!r}")
    if refine != 0 and solver == "series":
        raise ValueError(f"refine={refine} is for solver='fd'; the series solver takes its accuracy from `tol`")
    if not isinstance(refine, int) or not 0 <= refine <= _MOST_REFINE:
        raise ValueError(f"refine must be an integer from 0 to {_MOST_REFINE}, got {refine!r}")
    if not 0 < tol < 1:
        raise ValueError(f"tol must be between 0 and 1, got {tol!r}")
    return (-1 if solver == "series" else refine), max(float(tol), 16 * torch.finfo(dtype).eps)


def _check_pair(x: Tensor, y: Tensor) -> None:
    if x.shape[2] != y.shape[2]:
        raise ValueError(f"x has {x.shape[2]} channels and y has {y.shape[2]}; they need the same")
    if x.dtype != y.dtype or x.device != y.device:
        raise ValueError(f"x is {x.dtype} on {x.device} and y is {y.dtype} on {y.device}; convert one to the other")
