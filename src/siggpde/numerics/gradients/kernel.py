"""The signature kernel with a graph whose gradients come from one of the paper's algorithms; solved in plain torch."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from siggpde.numerics.gradients.augmented import Augmented
from siggpde.numerics.gradients.variation import Variation
from siggpde.numerics.reference.kernel import Scheme, scheme_of
from siggpde.numerics.reference.operations import PairSolver, diagonal_by, gram_by

Algorithm = Literal["variation", "augmented"]

_FUNCTIONS: dict[Algorithm, Any] = {"variation": Variation, "augmented": Augmented}


def diagonal(x: Tensor, lengths: Tensor | None, refine: int, log: bool, algorithm: Algorithm) -> Tensor:
    """k(X_i, X_i) (n,), or its logarithm."""
    scheme = scheme_of(refine)
    return diagonal_by(_pair_solver(algorithm, scheme, log), x, lengths, scheme, log)


def gram(
    x: Tensor,
    x_lengths: Tensor | None,
    y: Tensor | None,
    y_lengths: Tensor | None,
    refine: int,
    algorithm: Algorithm,
) -> Tensor:
    """k(X_i, Y_j) (n, m); y None means x."""
    scheme = scheme_of(refine)
    return gram_by(_pair_solver(algorithm, scheme, False), x, x_lengths, y, y_lengths, scheme)


def _pair_solver(algorithm: Algorithm, scheme: Scheme, log: bool) -> PairSolver:
    function = _FUNCTIONS[algorithm]

    def solve(dx: Tensor, dy: Tensor) -> Tensor:
        value = function.apply(dx, dy, scheme)
        return value.log() if log else value

    return solve
