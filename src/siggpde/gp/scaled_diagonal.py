"""k(theta X, theta X) with its gradient in the logarithms of the channel scales, for autograd."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function

from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.signature_kernel import signature_kernel_diag_scales


class ScaledDiagonal(Function):
    """k(theta X, theta X) and its gradient in log theta, in one fused pass."""

    @staticmethod
    def forward(ctx: Any, log_theta: Tensor, xs: Tensor, counts: Tensor | None, tol: float) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        value, slope = signature_kernel_diag_scales(xs, log_theta.exp(), lengths=counts, tol=tol)
        ctx.save_for_backward(log_theta, slope)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return once_differentiable(_pull_back, *ctx.saved_tensors, grad), None, None, None


def _pull_back(_log_theta: Tensor, slope: Tensor, grad: Tensor) -> Tensor:
    """The slope depends on log theta, though it is not computed from it here: `once_differentiable` has to know."""
    return grad @ slope
