"""The signature kernel with a graph whose gradients come from one of the paper's algorithms; solved in plain torch."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor
from torch.autograd import Function

from siggpde.numerics.autograd import once_differentiable, refuse_transforms
from siggpde.numerics.goursat import Scheme, scheme_of, solve_pairs
from siggpde.numerics.gradients import augmented, variation
from siggpde.numerics.reference import PairSolver, check_range, diagonal_by, gram_by

Algorithm = Literal["variation", "augmented"]

_GRADIENTS = {"variation": variation.gradients, "augmented": augmented.gradients}

# Cells of the grid of a pair, for the augmented PDE times directions: some ten seconds of one core.
_MOST_CELLS = {"variation": 500_000, "augmented": 8_000_000}


def diagonal(x: Tensor, lengths: Tensor | None, refine: int, log: bool, algorithm: Algorithm) -> Tensor:
    """k(X_i, X_i) (n,), or its logarithm."""
    refuse_transforms(x)
    scheme = scheme_of(refine)
    wide = x.double() if log else x  # as the other backends do
    value = diagonal_by(_pair_solver(algorithm, scheme), wide, lengths, scheme, False)
    return check_range(value.log(), True, log).to(x.dtype) if log else value


def gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, refine: int, algorithm: Algorithm
) -> Tensor:
    """k(X_i, Y_j) (n, m); y None means x."""
    refuse_transforms(x, y)
    scheme = scheme_of(refine)
    return gram_by(_pair_solver(algorithm, scheme), x, x_lengths, y, y_lengths, scheme)


def _pair_solver(algorithm: Algorithm, scheme: Scheme) -> PairSolver:
    def solve(dx: Tensor, dy: Tensor) -> Tensor:
        _check_size(dx, dy, algorithm)
        value: Any = _PairKernel.apply(dx, dy, scheme, algorithm)
        return value

    return solve


def _check_size(dx: Tensor, dy: Tensor, algorithm: Algorithm) -> None:
    """Raises ValueError if a pair of the increments dx (n, I, d) and dy (n, J, d) is too much for plain torch."""
    rows, columns, channels = dx.shape[1], dy.shape[1], dx.shape[2]
    directions = max(rows, columns) * channels if algorithm == "augmented" else 1
    if rows * columns * directions > _MOST_CELLS[algorithm]:
        each = f" for each of {directions} directions" if directions > 1 else ""
        raise ValueError(
            f"gradient={algorithm!r} would solve a grid of {rows} x {columns} cells{each} (paths are cut into pieces "
            f"no longer than 1), and {_MOST_CELLS[algorithm]} cells in all are allowed; take gradient='adjoint', or "
            "rescale or shorten the series"
        )


class _PairKernel(Function):
    """k (n,) of paired increments dx (n, I, d) and dy (n, J, d), differentiated by one of the algorithms."""

    @staticmethod
    def forward(ctx: Any, dx: Tensor, dy: Tensor, scheme: Scheme, algorithm: Algorithm) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(dx, dy)
        ctx.scheme, ctx.algorithm = scheme, algorithm
        return solve_pairs(dx, dy, scheme, False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return *once_differentiable(_GRADIENTS[ctx.algorithm], *ctx.saved_tensors, grad, ctx.scheme), None, None
