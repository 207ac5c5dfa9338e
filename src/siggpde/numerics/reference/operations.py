"""The signature kernel in plain torch, with the checks of its arguments and results."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from siggpde.numerics import errors, inputs
from siggpde.numerics.reference import kernel
from siggpde.numerics.reference.variation import Augmented, Variation


def gram(
    x: Tensor,
    x_lengths: Tensor | None,
    y: Tensor,
    y_lengths: Tensor | None,
    solver: str,
    refine: int,
    gradient: str,
) -> Tensor:
    """k(X_i, Y_j) (n, m), with a graph where x or y has one."""
    scheme = kernel.scheme_of(solver, refine)
    pieces = _finite_pieces(x, x_lengths, scheme, "x"), _finite_pieces(y, y_lengths, scheme, "y")
    return _checked(kernel.gram_by(_pair_solver(gradient, scheme, False), *pieces), False)


def diagonal(x: Tensor, lengths: Tensor | None, solver: str, refine: int, gradient: str, log: bool) -> Tensor:
    """k(X_i, X_i) (n,), or its logarithm, with a graph where x has one."""
    scheme = kernel.scheme_of(solver, refine)
    pieces = _finite_pieces(x, lengths, scheme, "x")
    return _checked(kernel.in_chunks(_pair_solver(gradient, scheme, log), pieces, pieces), True, log)


def _pair_solver(gradient: str, scheme: kernel.Scheme, log: bool) -> Any:
    if gradient == "adjoint":
        return lambda dx, dy: kernel.solve(dx, dy, scheme, log)
    rule = Variation if gradient == "variation" else Augmented

    def solve(dx: Tensor, dy: Tensor) -> Tensor:
        value: Any = rule.apply(dx, dy, scheme)
        return value.log() if log else value

    return solve


def _finite_pieces(x: Tensor, lengths: Tensor | None, scheme: kernel.Scheme, name: str) -> Tensor:
    inputs.check_finite(x, lengths, name)
    return kernel.pieces(x, lengths, scheme)


def _checked(value: Tensor, diagonal: bool, log: bool = False) -> Tensor:
    bad = (~torch.isfinite(value.detach())).nonzero()
    if len(bad):
        first = bad[0].tolist()
        which = f"of series {first[0]} of x" + ("" if diagonal else f" and series {first[1]} of y")
        errors.raise_overflow(value.dtype, which, diagonal, log)
    return value
