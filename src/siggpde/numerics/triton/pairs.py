"""k(X, Y) by Triton, plain or normalised, with gradients through autograd: as `siggpde.numerics.native.gram`."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor

from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.errors import raise_or_warn
from siggpde.numerics.static_kernel import StaticKernel, per_parameter
from siggpde.numerics.triton.gram import Norms, Side, differentiate_gram, prepare, solve_gram
from siggpde.numerics.triton.lifted_batch import LiftedBatch, make_batch


def gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, static: StaticKernel | None,
    refine: int, tol: float, threads: int, differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, Y_j) (n, m); y None means x."""
    call = _Call(x_lengths, y_lengths, static, refine, tol)
    if not differentiable:
        return call.run(x, y, None)
    return _Gram.apply(x, y, None, None, *_parameters(static), call)  # pyright: ignore[reportReturnType]


def normalized_gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, log_norm_x: Tensor,
    log_norm_y: Tensor, static: StaticKernel | None, refine: int, tol: float, threads: int, differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, Y_j) exp(-log_norm_x_i - log_norm_y_j) (n, m), float64, where k itself may be out of range."""
    call = _Call(x_lengths, y_lengths, static, refine, tol)
    if not differentiable:
        return call.run(x, y, (log_norm_x, log_norm_y))
    return _Gram.apply(x, y, log_norm_x, log_norm_y, *_parameters(static), call)  # pyright: ignore[reportReturnType]


def _parameters(static: StaticKernel | None) -> tuple[Tensor | None, Tensor | None]:
    return (None, None) if static is None else static.tensors


class _Call(NamedTuple):
    """What a call has besides the tensors that gradients are taken in."""

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


class _Gram(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, x: Tensor, y: Any, norm_x: Any, norm_y: Any, bandwidth: Any, amplitude: Any, call: _Call
    ) -> Tensor:
        value = call.run(x, y, None if norm_x is None else (norm_x, norm_y))
        ctx.save_for_backward(x, y, norm_x, norm_y, bandwidth, amplitude, None if norm_x is None else value)
        ctx.call = call
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return *once_differentiable(_gradients, grad, *ctx.saved_tensors, ctx.call), None


def _gradients(
    grad: Tensor, x: Tensor, y: Any, norm_x: Any, norm_y: Any, bandwidth: Any, amplitude: Any, value: Any, call: _Call
) -> tuple[Any, ...]:
    norms = None if norm_x is None else (norm_x, norm_y)
    with warnings.catch_warnings():  # the forward pass has warned already
        warnings.simplefilter("ignore")
        rows, columns = call.sides(x, y, norms is not None)
    of_rows, of_columns = differentiate_gram(rows, columns, grad, norms)
    of_x = rows.batch.of_points(of_rows)
    of_y = None if columns is None or of_columns is None else columns.batch.of_points(of_columns)
    of_norms = (None, None) if norms is None else (-(grad * value).sum(1), -(grad * value).sum(0))
    if not isinstance(rows.batch, LiftedBatch):
        return of_x, of_y, *of_norms, None, None
    centre = rows.batch.points.flatten(0, 1)[:1].double().sum(0)
    of_logarithms = rows.batch.of_log_parameters(of_rows, centre).sum(0)
    if columns is not None and of_columns is not None:
        assert isinstance(columns.batch, LiftedBatch)
        of_logarithms = of_logarithms + columns.batch.of_log_parameters(of_columns, centre).sum(0)
    return of_x, of_y, *of_norms, *per_parameter(of_logarithms, bandwidth, amplitude)
