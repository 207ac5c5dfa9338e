"""k(X, Y) by the native core, plain or normalised, with gradients through autograd."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.numerics import gram_autograd
from siggpde.numerics.gram_autograd import Norms
from siggpde.numerics.native.calls import run_gram
from siggpde.numerics.static_kernel import StaticKernel


def gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, static: StaticKernel | None,
    refine: int, tol: float, threads: int, differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, Y_j) (n, m); y None means x."""
    call = _Call(x_lengths, y_lengths, static, refine, tol, threads)
    return gram_autograd.gram(call, x, y, None, differentiable)


def normalized_gram(
    x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, log_norm_x: Tensor,
    log_norm_y: Tensor, static: StaticKernel | None, refine: int, tol: float, threads: int, differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, Y_j) exp(-log_norm_x_i - log_norm_y_j) (n, m), float64, where k itself may be out of range."""
    call = _Call(x_lengths, y_lengths, static, refine, tol, threads)
    norms = log_norm_x.contiguous(), log_norm_y.contiguous()
    return gram_autograd.gram(call, x, y, norms, differentiable)


class _Call(NamedTuple):
    """`siggpde.numerics.gram_autograd.GramCall` of the native core."""

    x_lengths: Tensor | None
    y_lengths: Tensor | None
    static: StaticKernel | None
    refine: int
    tol: float
    threads: int

    def run(self, x: Tensor, y: Tensor | None, norms: Norms | None, *gradients: Tensor | None) -> Tensor:
        """The values; with `gradients`, as `run_gram` takes them, those are written instead."""
        settings = self.static, self.refine, self.tol, self.threads
        return run_gram(x, self.x_lengths, y, self.y_lengths, norms, *settings, *gradients)

    def gradients(
        self, grad: Tensor, x: Tensor, y: Tensor | None, norms: Norms | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The gradients of the weighted sum of the values."""
        of_x, of_y = torch.empty_like(x), None if y is None else torch.empty_like(y)
        of_logarithms = None if self.static is None else torch.zeros(2, dtype=torch.float64)
        self.run(x, y, norms, grad.contiguous(), of_x, of_y, of_logarithms)
        return of_x, of_y, of_logarithms
