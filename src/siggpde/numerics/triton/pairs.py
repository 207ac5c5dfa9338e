"""k(X, Y) by Triton, plain or normalised, with gradients through autograd: as `siggpde.numerics.native.gram`."""

from __future__ import annotations

import warnings
from typing import NamedTuple

from torch import Tensor

from siggpde.numerics import gram_autograd
from siggpde.numerics.errors import raise_or_warn
from siggpde.numerics.gram_autograd import Norms
from siggpde.numerics.static_kernel import StaticKernel
from siggpde.numerics.triton.gram import Side, differentiate_gram, prepare, solve_gram
from siggpde.numerics.triton.lifted_batch import LiftedBatch, make_batch


def gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, static: StaticKernel | None,
    refine: int, tol: float, threads: int, differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, Y_j) (n, m); y None means x."""
    return gram_autograd.gram(_Call(x_lengths, y_lengths, static, refine, tol), x, y, None, differentiable)


def normalized_gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, log_norm_x: Tensor,
    log_norm_y: Tensor, static: StaticKernel | None, refine: int, tol: float, threads: int, differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, Y_j) exp(-log_norm_x_i - log_norm_y_j) (n, m), float64, where k itself may be out of range."""
    call = _Call(x_lengths, y_lengths, static, refine, tol)
    return gram_autograd.gram(call, x, y, (log_norm_x, log_norm_y), differentiable)


class _Call(NamedTuple):
    """`siggpde.numerics.gram_autograd.GramCall` of Triton."""

    x_lengths: Tensor | None
    y_lengths: Tensor | None
    static: StaticKernel | None
    refine: int
    tol: float

    def sides(self, x: Tensor, y: Tensor | None, log: bool) -> tuple[Side, Side | None]:
        """Both sides, planned; raises if one of them cannot be."""
        rows = prepare(make_batch(x, self.x_lengths, self.static), self.refine, self.tol, log)
        columns = None
        if y is not None:
            columns = prepare(make_batch(y, self.y_lengths, self.static), self.refine, self.tol, log)
        for result, side in ((rows, 0), (columns, 1)):
            if isinstance(result, tuple) and not isinstance(result, Side):
                raise_or_warn((*result[:4], side), x, self.x_lengths, y, self.y_lengths, log)
        return rows, columns  # pyright: ignore[reportReturnType]

    def run(self, x: Tensor, y: Tensor | None, norms: Norms | None) -> Tensor:
        value, bad = solve_gram(*self.sides(x, y, norms is not None), norms)
        if bad is not None:
            raise_or_warn(bad, x, self.x_lengths, y, self.y_lengths, norms is not None)
        return value

    def gradients(
        self, grad: Tensor, x: Tensor, y: Tensor | None, norms: Norms | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The gradients of the weighted sum of the values."""
        with warnings.catch_warnings():  # the forward pass has warned already
            warnings.simplefilter("ignore")
            rows, columns = self.sides(x, y, norms is not None)
        of_rows, of_columns = differentiate_gram(rows, columns, grad, norms)
        of_x = rows.batch.of_points(of_rows)
        of_y = None if columns is None or of_columns is None else columns.batch.of_points(of_columns)
        if not isinstance(rows.batch, LiftedBatch):
            return of_x, of_y, None
        centre = rows.batch.points.flatten(0, 1)[:1].double().sum(0)
        of_logarithms = rows.batch.of_log_parameters(of_rows, centre).sum(0)
        if columns is not None and of_columns is not None:
            assert isinstance(columns.batch, LiftedBatch)
            of_logarithms = of_logarithms + columns.batch.of_log_parameters(of_columns, centre).sum(0)
        return of_x, of_y, of_logarithms
