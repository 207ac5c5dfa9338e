"""The normalised signature kernel k(X, Y) / sqrt(k(X, X) k(Y, Y)), where k itself may be out of range."""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.numerics.backend import backend_for
from siggpde.numerics.static_kernel import StaticKernel, tensors_of


def normalized_gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, static: StaticKernel | None,
    refine: int, tol: float, threads: int, differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, Y_j) / sqrt(k(X_i, X_i) k(Y_j, Y_j)), (n, m), signed; y None means x, with ones on the diagonal.

    Computed in float64 from log k(X, X), log k(Y, Y) and grids that are rescaled on the way; in the dtype of x.
    """
    name = "linear" if static is None else static.name
    wide, other = x.double(), None if y is None else y.double()
    backend = backend_for(wide, other, *tensors_of(static), static=name)

    def log_norm(batch: Tensor, lengths: Tensor | None) -> Tensor:
        return backend.diagonal(batch, lengths, static, refine, tol, True, threads, differentiable) / 2

    of_x = log_norm(wide, x_lengths)
    of_y = of_x if other is None else log_norm(other, y_lengths)
    value = backend.normalized_gram(
        wide, x_lengths, other, y_lengths, of_x, of_y, static, refine, tol, threads, differentiable
    )
    if other is None:
        value = torch.where(torch.eye(len(x), dtype=torch.bool, device=x.device), 1.0, value)
    return value.to(x.dtype)
