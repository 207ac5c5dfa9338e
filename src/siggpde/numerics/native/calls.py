"""Calls of the native core for the signature kernel: tensors passed by address, failures raised."""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.numerics.core import core
from siggpde.numerics.errors import raise_or_warn
from siggpde.numerics.static_kernel import StaticKernel

_LINEAR = 0, 1.0, 1.0, 1.0


def address(tensor: Tensor | None) -> int:
    """Where the numbers of a tensor are; 0 for none."""
    return 0 if tensor is None else tensor.data_ptr()


def run_diagonal(
    x: Tensor,
    lengths: Tensor | None,
    theta: Tensor | None,
    static: StaticKernel | None,
    refine: int,
    tol: float,
    log: bool,
    gradient: Tensor | None,
    scales: bool,
    threads: int,
    parameters: Tensor | None = None,
) -> Tensor:
    """k(X_i, X_i) (n,); gradients are written where tensors for them are given."""
    n, length, channels = x.shape
    value = x.new_empty(n)
    run = core.diagonal_f64 if x.dtype == torch.float64 else core.diagonal_f32
    numbers = _LINEAR if static is None else static.numbers
    failure = run(
        x.data_ptr(), n, length, channels, address(lengths), address(theta), refine, tol, log, value.data_ptr(),
        address(gradient), scales, threads, *numbers, address(parameters),
    )  # fmt: skip
    if failure is not None:
        raise_or_warn(failure, x, lengths, None, None, log)
    return value


def run_gram(
    x: Tensor,
    x_lengths: Tensor | None,
    y: Tensor | None,
    y_lengths: Tensor | None,
    norms: tuple[Tensor, Tensor] | None,
    static: StaticKernel | None,
    refine: int,
    tol: float,
    threads: int,
    weight: Tensor | None = None,
    gradient_x: Tensor | None = None,
    gradient_y: Tensor | None = None,
    parameters: Tensor | None = None,
) -> Tensor:
    """k(X_i, Y_j) (n, m), or with `weight` (n, m) the gradients of the weighted sum, written to what is given.

    `norms` are logarithms (n,) and (m,): k is divided by the exponentials of both.
    """
    other = x if y is None else y
    value = x.new_empty((len(x), len(other)) if weight is None else 0)
    if len(x) == 0 or len(other) == 0:  # the address of an empty tensor is 0, which would mean y None
        for gradient in (gradient_x, gradient_y, parameters):
            if gradient is not None:
                gradient.zero_()
        return value
    run = core.gram_f64 if x.dtype == torch.float64 else core.gram_f32
    numbers = _LINEAR if static is None else static.numbers
    norm_x, norm_y = (None, None) if norms is None else norms
    failure = run(
        x.data_ptr(), x.shape[0], x.shape[1], address(x_lengths),
        address(y), other.shape[0], other.shape[1], address(y_lengths),
        x.shape[2], refine, tol, value.data_ptr(), address(weight), address(gradient_x),
        address(gradient_y), threads, *numbers, address(parameters), address(norm_x), address(norm_y),
    )  # fmt: skip
    if failure is not None:
        raise_or_warn(failure, x, x_lengths, y, y_lengths, norms is not None)
    return value
