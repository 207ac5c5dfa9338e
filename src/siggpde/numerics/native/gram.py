"""k(X, Y) by the native core, plain or normalised, with gradients through autograd."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.native.calls import run_gram
from siggpde.numerics.static_kernel import StaticKernel, per_parameter


def gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, static: StaticKernel | None,
    refine: int, tol: float, threads: int, differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, Y_j) (n, m); y None means x."""
    if not differentiable:
        return run_gram(x, x_lengths, y, y_lengths, None, static, refine, tol, threads)
    return _Gram.apply(
        x, y, None, None, *_parameters(static), _Call(x_lengths, y_lengths, static, refine, tol, threads)
    )  # pyright: ignore[reportReturnType]


def normalized_gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, log_norm_x: Tensor,
    log_norm_y: Tensor, static: StaticKernel | None, refine: int, tol: float, threads: int, differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, Y_j) exp(-log_norm_x_i - log_norm_y_j) (n, m), float64, where k itself may be out of range."""
    if not differentiable:
        norms = log_norm_x.contiguous(), log_norm_y.contiguous()
        return run_gram(x, x_lengths, y, y_lengths, norms, static, refine, tol, threads)
    call = _Call(x_lengths, y_lengths, static, refine, tol, threads)
    return _Gram.apply(x, y, log_norm_x.contiguous(), log_norm_y.contiguous(), *_parameters(static), call)  # pyright: ignore[reportReturnType]


def _parameters(static: StaticKernel | None) -> tuple[Tensor | None, Tensor | None]:
    return (None, None) if static is None else static.tensors


class _Call(NamedTuple):
    """What a call has besides the tensors that gradients are taken in."""

    x_lengths: Tensor | None
    y_lengths: Tensor | None
    static: StaticKernel | None
    refine: int
    tol: float
    threads: int

    def run(self, x: Tensor, y: Tensor | None, norm_x: Tensor | None, norm_y: Tensor | None, *gradients: Any) -> Tensor:
        norms = None if norm_x is None or norm_y is None else (norm_x, norm_y)
        return run_gram(
            x, self.x_lengths, y, self.y_lengths, norms, self.static, self.refine, self.tol, self.threads, *gradients
        )


class _Gram(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, x: Tensor, y: Any, norm_x: Any, norm_y: Any, bandwidth: Any, amplitude: Any, call: _Call
    ) -> Tensor:
        value = call.run(x, y, norm_x, norm_y)
        ctx.save_for_backward(x, y, norm_x, norm_y, bandwidth, amplitude, None if norm_x is None else value)
        ctx.call = call
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return *once_differentiable(_gradients, grad, *ctx.saved_tensors, ctx.call), None


def _gradients(
    grad: Tensor, x: Tensor, y: Any, norm_x: Any, norm_y: Any, bandwidth: Any, amplitude: Any, value: Any, call: _Call
) -> tuple[Any, ...]:
    of_x, of_y = torch.empty_like(x), None if y is None else torch.empty_like(y)
    parameters = torch.zeros(2, dtype=torch.float64)
    call.run(x, y, norm_x, norm_y, grad.contiguous(), of_x, of_y, parameters)
    of_norms = (None, None) if norm_x is None else (-(grad * value).sum(1), -(grad * value).sum(0))
    return of_x, of_y, *of_norms, *per_parameter(parameters, bandwidth, amplitude)
