"""k(X, X) of paths lifted by a static kernel, with gradients in the points, the bandwidth and the amplitude."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.native.calls import run_diagonal
from siggpde.numerics.static_kernel import Static, StaticKernel, per_parameter


class LiftedDiagonal(torch.autograd.Function):
    """One pass computes the value and all gradients, which the backward pass multiplies."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, x: Tensor, lengths: Tensor | None, name: Static, bandwidth: Any, amplitude: Any, alpha: float,
        settings: tuple[int, float, bool, int],
    ) -> Tensor:  # fmt: skip
        static = StaticKernel(name, bandwidth, amplitude, alpha)
        gradient, parameters = torch.empty_like(x), x.new_empty(len(x), 2)
        refine, tol, log, threads = settings
        value = run_diagonal(x, lengths, None, static, refine, tol, log, gradient, False, threads, parameters)
        ctx.save_for_backward(x, *static.tensors, gradient, parameters)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        of_x, of_bandwidth, of_amplitude = once_differentiable(_pull_back, grad, *ctx.saved_tensors)
        return of_x, None, None, of_bandwidth, of_amplitude, None, None


def _pull_back(
    grad: Tensor, _x: Tensor, bandwidth: Any, amplitude: Any, gradient: Tensor, parameters: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients for sensitivities grad (n,); `_x` tells `once_differentiable` that they depend on x."""
    of_logarithms = grad.double() @ parameters.double()
    return gradient * grad[:, None, None], *per_parameter(of_logarithms, bandwidth, amplitude)
