"""The operations in plain torch (`siggpde.numerics.backend.Operations`), with the checks of numbers and results.

`tol` and `threads` are part of the common interface and not used: the kernel is always computed to rounding.
Logarithms are computed in float64 whatever the dtype of x, because k itself may be out of the range of float32.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from siggpde.numerics import errors, inputs
from siggpde.numerics.reference import kernel, lifted
from siggpde.numerics.reference import signature as chen
from siggpde.numerics.reference.goursat import solve_scaled
from siggpde.numerics.reference.logsignature import logsignature
from siggpde.numerics.reference.windows import pool_windows, window_path_lengths, window_signatures
from siggpde.numerics.requested_words import RequestedWords
from siggpde.numerics.static_kernel import StaticKernel, squared_segments

__all__ = [
    "diagonal",
    "diagonal_by",
    "diagonal_with_gradient",
    "diagonal_with_scale_gradient",
    "extend",
    "gram",
    "gram_by",
    "logsignature",
    "normalized_gram",
    "pool_windows",
    "separating_thresholds",
    "signature",
    "window_path_lengths",
    "window_signatures",
]

PairSolver = Callable[[Tensor, Tensor], Tensor]


def diagonal(
    x: Tensor, lengths: Tensor | None, static: StaticKernel | None, refine: int, tol: float, log: bool, threads: int,
    differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, X_i) (n,), or its logarithm, with a graph where x or the static kernel has one."""
    scheme = kernel.scheme_of(refine)
    coefficients = _coefficients(static)

    def solve(a: Tensor, b: Tensor) -> Tensor:
        return kernel.solve_goursat(coefficients(a, b), scheme.degree, scheme.powers, log=log)

    wide = x.double() if log else x
    return diagonal_by(solve, wide, lengths, scheme, log, static).to(x.dtype)


def diagonal_with_gradient(
    x: Tensor, lengths: Tensor | None, static: StaticKernel | None, refine: int, tol: float, log: bool, threads: int
) -> tuple[Tensor, Tensor]:
    """k and its gradient in the points (n, length, channels)."""
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        value = diagonal(leaf, lengths, static, refine, tol, log, threads, True)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient


def diagonal_with_scale_gradient(
    x: Tensor, lengths: Tensor | None, theta: Tensor, static: StaticKernel | None, refine: int, tol: float, log: bool,
    threads: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """k of the paths scaled by theta (d,), and its gradient in log theta (n, d)."""
    log_factor = torch.zeros_like(theta).expand(len(x), -1).clone().requires_grad_()
    with torch.enable_grad():
        points = torch.where(inputs.row_mask(x, lengths)[:, :, None], x, 0.0)
        scaled = points * (theta * log_factor.exp())[:, None, :]
        value = diagonal(scaled, lengths, static, refine, tol, log, threads, True)
        (gradient,) = torch.autograd.grad(value.sum(), log_factor)
    return value.detach(), gradient


def gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, static: StaticKernel | None,
    refine: int, tol: float, threads: int, differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, Y_j) (n, m), with a graph where x, y or the static kernel has one; y None means x."""
    scheme = kernel.scheme_of(refine)
    coefficients = _coefficients(static)

    def solve(a: Tensor, b: Tensor) -> Tensor:
        return kernel.solve_goursat(coefficients(a, b), scheme.degree, scheme.powers)

    return gram_by(solve, x, x_lengths, y, y_lengths, scheme, static)


def normalized_gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, log_norm_x: Tensor,
    log_norm_y: Tensor, static: StaticKernel | None, refine: int, tol: float, threads: int, differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, Y_j) exp(-log_norm_x_i - log_norm_y_j) (n, m), where k itself may be out of range; y None means x."""
    scheme = kernel.scheme_of(refine)
    coefficients = _coefficients(static)

    def solve(a: Tensor, b: Tensor) -> Tensor:
        return torch.stack(solve_scaled(coefficients(a, b), scheme.degree, scheme.powers), 1)

    other, other_lengths = (x, x_lengths) if y is None else (y, y_lengths)
    if len(x) == 0 or len(other) == 0:
        return x.new_zeros(len(x), len(other)) + x[:, :0].sum() + other[:, :0].sum()
    left = _checked_pieces(x, x_lengths, scheme, "x", True, static)
    right = _checked_pieces(other, other_lengths, scheme, "y", True, static)
    value, shift = kernel.solve_all_pairs(solve, left, right).unbind(2)
    return check_range(value * (shift - log_norm_x[:, None] - log_norm_y).exp(), False)


def signature(x: Tensor, lengths: Tensor | None, words: RequestedWords, threads: int) -> Tensor:
    """S(X_i) (n, M), with a graph where x has one."""
    return chen.signature_by(chen.extend, x, lengths, words)


def extend(start: Tensor, increments: Tensor, words: RequestedWords, threads: int) -> Tensor:
    """The signature after increments (n, steps, channels): start (n, M) over prefix-closed words -> (n, M)."""
    return chen.extend_by(chen.extend, start, increments, words)


def diagonal_by(
    solve: PairSolver,
    x: Tensor,
    lengths: Tensor | None,
    scheme: kernel.Scheme,
    log: bool,
    static: StaticKernel | None = None,
) -> Tensor:
    """k(X_i, X_i) (n,), or its logarithm, by a function of paired pieces."""
    pieces = _checked_pieces(x, lengths, scheme, "x", log, static)
    return check_range(kernel.solve_in_chunks(solve, pieces, pieces), True, log)


def separating_thresholds(values: Tensor, count: int, distinct: float, clearance: float, threads: int) -> Tensor:
    """Thresholds (count, M) near the quantiles of every column (m, M), float64."""
    last = len(values) - 1
    ordered = values.sort(dim=0).values
    thresholds = (ordered[-1] + clearance).repeat(count, 1)
    wide = ordered.diff(dim=0) > distinct
    some = wide.any(0)
    if not bool(some.any()):
        return thresholds
    for j in range(count):
        # 2 (count + 1) times the distance of every gap from the quantile; the order is that of ranks, the larger first.
        distance = (2 * torch.arange(last, device=values.device) + 1) * (count + 1) - 2 * (j + 1) * last
        order = 2 * distance.abs() + (distance < 0)
        nearest = torch.where(wide, order[:, None], torch.iinfo(torch.int64).max).argmin(dim=0)[None]
        middle = (ordered.gather(0, nearest) + ordered.gather(0, nearest + 1))[0] / 2
        thresholds[j] = torch.where(some, middle, thresholds[j])
    return thresholds


def gram_by(
    solve: PairSolver,
    x: Tensor,
    x_lengths: Tensor | None,
    y: Tensor | None,
    y_lengths: Tensor | None,
    scheme: kernel.Scheme,
    static: StaticKernel | None = None,
) -> Tensor:
    """k(X_i, Y_j) (n, m), by a function of paired pieces; y None means x."""
    other, other_lengths = (x, x_lengths) if y is None else (y, y_lengths)
    if len(x) == 0 or len(other) == 0:  # zero numbers, but in the graph as every other result
        return x.new_zeros(len(x), len(other)) + x[:, :0].sum() + other[:, :0].sum()
    left = _checked_pieces(x, x_lengths, scheme, "x", False, static)
    right = _checked_pieces(other, other_lengths, scheme, "y", False, static)
    return check_range(kernel.solve_all_pairs(solve, left, right), False)


def _coefficients(static: StaticKernel | None) -> PairSolver:
    """rho (n, I, J) of paired pieces: increments, or segments that a static kernel lifts."""
    if static is None:
        return lambda dx, dy: dx @ dy.transpose(1, 2)
    return lambda a, b: lifted.lifted_coefficients(a, b, static)


def _checked_pieces(
    x: Tensor, lengths: Tensor | None, scheme: kernel.Scheme, name: str, log: bool, static: StaticKernel | None
) -> Tensor:
    inputs.check_finite(x, lengths, name)
    longest = kernel.LONGEST_SEGMENT_OF_LOG if log else kernel.LONGEST_SEGMENT[x.dtype]
    inside = inputs.row_mask(x, lengths)
    points = torch.where(inside[:, :, None], x.detach(), 0.0)
    segments = points.diff(dim=1).norm(dim=2) if static is None else squared_segments(static, points).detach().sqrt()
    too_long = (~(segments <= longest) & inside[:, 1:]).any(1).nonzero()
    if len(too_long):
        errors.raise_overflow(x.dtype, f"of series {int(too_long[0])} of {name}", True, log)
    if static is None:
        return kernel.split_increments(x, lengths, scheme)
    return lifted.split_lifted(x, lengths, scheme, static)


def check_range(value: Tensor, diagonal: bool, log: bool = False) -> Tensor:
    """The values, (n,) or (n, m); raises OverflowError if one of them is not finite."""
    bad = (~torch.isfinite(value.detach())).nonzero()
    if len(bad):
        first = bad[0].tolist()
        which = f"of series {first[0]} of x" + ("" if diagonal else f" and series {first[1]} of y")
        errors.raise_overflow(value.dtype, which, diagonal, log)
    return value
