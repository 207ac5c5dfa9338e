"""The signature kernel with a graph whose gradients come from one of the paper's algorithms; solved in plain torch."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor
from torch.autograd import Function

from siggpde.numerics.autograd import once_differentiable, refuse_transforms
from siggpde.numerics.gradients import augmented, variation
from siggpde.numerics.reference.kernel import Scheme, scheme_of, solve_pairs
from siggpde.numerics.reference.operations import PairSolver, diagonal_by, gram_by

Algorithm = Literal["variation", "augmented"]

_GRADIENTS = {"variation": variation.gradients, "augmented": augmented.gradients}


def diagonal(x: Tensor, lengths: Tensor | None, refine: int, log: bool, algorithm: Algorithm) -> Tensor:
    """k(X_i, X_i) (n,), or its logarithm."""
    refuse_transforms(x)
    scheme = scheme_of(refine)
    return diagonal_by(_pair_solver(algorithm, scheme, log), x, lengths, scheme, log)


def gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, refine: int, algorithm: Algorithm
) -> Tensor:
    """k(X_i, Y_j) (n, m); y None means x."""
    refuse_transforms(x, y)
    scheme = scheme_of(refine)
    return gram_by(_pair_solver(algorithm, scheme, False), x, x_lengths, y, y_lengths, scheme)


def _pair_solver(algorithm: Algorithm, scheme: Scheme, log: bool) -> PairSolver:
    def solve(dx: Tensor, dy: Tensor) -> Tensor:
        value: Any = _PairKernel.apply(dx, dy, scheme, algorithm)
        return value.log() if log else value

    return solve


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
