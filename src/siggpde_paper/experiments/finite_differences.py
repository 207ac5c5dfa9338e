r"""The paper's gradient of k(X, X) in the channel scales as its authors compute it: Algorithm 2 by finite differences.

U, the solution of the PDE for the path, and V, the one for the path reversed in time, are known at the nodes of a grid
that has 2^r pieces for every segment. The integral of Theorem 4.1 over a cell is taken to be the product of both at
two opposite corners,

.. math:: \frac{\partial k}{\partial \rho_{ij}} \approx U(s_i, t_j)\, V(s_{i+1}, t_{j+1}),

which is of first order in the width of a cell. `siggpde.numerics.gradients.variation` has the same algorithm with the
integral computed by a Gauss rule.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from siggpde.gp.kernel import SignatureKernel
from siggpde.numerics import inputs
from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.goursat import scheme_of, split_increments
from siggpde.numerics.gradients.variation import edges
from siggpde.numerics.signature_kernel import Lengths, signature_kernel_diag


def scale_gradient(x: Tensor, theta: Tensor, refine: int) -> Tensor:
    """dk/dlog theta (n, d) of k(theta X, theta X) for x (n, length, d), from corners of cells at refinement `refine`.

    Algorithm 2 of the paper as its authors' code has it.

    rho_ij = sum_c theta_c² dx_i^c dx_j^c, so that dk/dlog theta_c = 2 sum_ij dk/drho_ij theta_c² dx_i^c dx_j^c.
    """
    scheme = scheme_of(refine)
    dx = split_increments(x * theta, None, scheme)
    rho = dx @ dx.transpose(1, 2)
    forward, backward = edges(rho, scheme).corner, edges(rho.flip(1, 2), scheme).corner
    weight = forward * backward.flip(1, 2)
    return 2 * (dx * (weight @ dx)).sum(dim=1)


class _CornerGradient(torch.autograd.Function):
    """k(theta X, theta X) (n,), whose gradient in log theta is that of `scale_gradient`."""

    @staticmethod
    def forward(ctx: Any, log_theta: Tensor, x: Tensor, value: Tensor, refine: int) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(log_theta, scale_gradient(x, log_theta.exp(), refine))
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return once_differentiable(_pull_back, *ctx.saved_tensors, grad), None, None, None


def _pull_back(_log_theta: Tensor, slope: Tensor, grad: Tensor) -> Tensor:
    return grad @ slope


class FiniteDifferenceKernel(SignatureKernel):
    """The untruncated signature kernel whose k(X, X) has the authors' gradient at refinement `refine`.

    Values are exact to `tol`, or with `values=True` those of finite differences at the same refinement. These are wrong
    by 1e-4 k and more: `tol` is then how far below zero, over 64, k(X, X) - |S_M(X)|² may fall by it, and such a tail
    counts as zero.
    """

    def __init__(self, channels: int, *, theta: Tensor, refine: int, values: bool = False, tol: float = 1e-6) -> None:
        super().__init__(channels, theta=theta, tol=tol)
        self.refine, self.values = refine, values

    def squared_norm(self, x: inputs.Series, *, lengths: Lengths = None) -> Tensor:
        """k(theta X, theta X), (n,), of series of equal length."""
        paths = self.as_paths(x, lengths)
        if paths.lengths is not None:
            raise ValueError(
                "finite differences of the authors' kind are for series of equal length; leave lengths out"
            )
        with torch.no_grad():
            scaled = paths.values * self.theta
            if self.values:
                value = signature_kernel_diag(scaled, solver="fd", refine=self.refine)
            else:
                value = signature_kernel_diag(scaled, tol=self.tol)
        if not (torch.is_grad_enabled() and self.log_theta.requires_grad):
            return value
        result: Any = _CornerGradient.apply(self.log_theta, paths.values, value, self.refine)
        return result
