"""The operations in plain torch (`siggpde.numerics.backend.Operations`), with the checks of numbers and results.

`tol` and `threads` are part of the common interface and not used: the kernel is always computed to rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from siggpde.numerics import errors, inputs
from siggpde.numerics.reference import kernel
from siggpde.numerics.reference import signature as chen
from siggpde.numerics.requested_words import RequestedWords

PairSolver = Callable[[Tensor, Tensor], Tensor]


def diagonal(
    x: Tensor, lengths: Tensor | None, refine: int, tol: float, log: bool, threads: int, differentiable: bool
) -> Tensor:
    """k(X_i, X_i) (n,), or its logarithm, with a graph where x has one."""
    scheme = kernel.scheme_of(refine)
    return diagonal_by(lambda dx, dy: kernel.solve_pairs(dx, dy, scheme, log), x, lengths, scheme, log)


def diagonal_with_gradient(
    x: Tensor, lengths: Tensor | None, refine: int, tol: float, log: bool, threads: int
) -> tuple[Tensor, Tensor]:
    """k and its gradient in the points (n, length, channels)."""
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        value = diagonal(leaf, lengths, refine, tol, log, threads, True)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient


def diagonal_with_scale_gradient(
    x: Tensor, lengths: Tensor | None, theta: Tensor, refine: int, tol: float, log: bool, threads: int
) -> tuple[Tensor, Tensor]:
    """k of the paths scaled by theta (d,), and its gradient in log theta (n, d)."""
    log_factor = torch.zeros_like(theta).expand(len(x), -1).clone().requires_grad_()
    with torch.enable_grad():
        points = torch.where(inputs.row_mask(x, lengths)[:, :, None], x, 0.0)
        scaled = points * (theta * log_factor.exp())[:, None, :]
        value = diagonal(scaled, lengths, refine, tol, log, threads, True)
        (gradient,) = torch.autograd.grad(value.sum(), log_factor)
    return value.detach(), gradient


def gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, refine: int, tol: float,
    threads: int, differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, Y_j) (n, m), with a graph where x or y has one; y None means x."""
    scheme = kernel.scheme_of(refine)
    return gram_by(lambda dx, dy: kernel.solve_pairs(dx, dy, scheme, False), x, x_lengths, y, y_lengths, scheme)


def signature(x: Tensor, lengths: Tensor | None, words: RequestedWords, threads: int) -> Tensor:
    """S(X_i) (n, M), with a graph where x has one."""
    return chen.signature_by(chen.extend, x, lengths, words)


def extend(start: Tensor, increments: Tensor, words: RequestedWords, threads: int) -> Tensor:
    """The signature after increments (n, steps, channels): start (n, M) over prefix-closed words -> (n, M)."""
    return chen.extend_by(chen.extend, start, increments, words)


def diagonal_by(solve: PairSolver, x: Tensor, lengths: Tensor | None, scheme: kernel.Scheme, log: bool) -> Tensor:
    """k(X_i, X_i) (n,), or its logarithm, by a function of paired increments."""
    dx = _finite_increments(x, lengths, scheme, "x")
    return _check_range(kernel.solve_in_chunks(solve, dx, dx), True, log)


def gram_by(
    solve: PairSolver,
    x: Tensor,
    x_lengths: Tensor | None,
    y: Tensor | None,
    y_lengths: Tensor | None,
    scheme: kernel.Scheme,
) -> Tensor:
    """k(X_i, Y_j) (n, m), by a function of paired increments; y None means x."""
    other, other_lengths = (x, x_lengths) if y is None else (y, y_lengths)
    dx = _finite_increments(x, x_lengths, scheme, "x")
    dy = _finite_increments(other, other_lengths, scheme, "y")
    return _check_range(kernel.solve_all_pairs(solve, dx, dy), False)


def _finite_increments(x: Tensor, lengths: Tensor | None, scheme: kernel.Scheme, name: str) -> Tensor:
    inputs.check_finite(x, lengths, name)
    return kernel.split_increments(x, lengths, scheme)


def _check_range(value: Tensor, diagonal: bool, log: bool = False) -> Tensor:
    bad = (~torch.isfinite(value.detach())).nonzero()
    if len(bad):
        first = bad[0].tolist()
        which = f"of series {first[0]} of x" + ("" if diagonal else f" and series {first[1]} of y")
        errors.raise_overflow(value.dtype, which, diagonal, log)
    return value
