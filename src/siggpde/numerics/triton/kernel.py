"""k(X, X) by Triton: the same functions as in `siggpde.numerics.native.diagonal`, for tensors on a GPU.

Logarithms are computed in float64 whatever the dtype of x. `threads` is part of the common interface and not used.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.errors import raise_or_warn
from siggpde.numerics.static_kernel import StaticKernel, per_parameter
from siggpde.numerics.triton.diagonal import Wanted, plan_request, solve_diagonal
from siggpde.numerics.triton.lifted_batch import LiftedBatch, make_batch

Settings = tuple[int, float, bool]


class _Result(NamedTuple):
    """k or log k (n,); the gradient asked for, if any; that in log bandwidth and log amplitude (n, 2), if lifted."""

    value: Tensor
    gradient: Tensor | None
    parameters: Tensor | None


def diagonal(
    x: Tensor, lengths: Tensor | None, static: StaticKernel | None, refine: int, tol: float, log: bool, threads: int,
    differentiable: bool,
) -> Tensor:  # fmt: skip
    """k(X_i, X_i) (n,), or its logarithm; refine < 0 means polynomial edges accurate to `tol`."""
    wide = x.double() if log else x
    if differentiable:
        value: Any = _Diagonal.apply(wide, lengths, *(static or (None,) * 4), (refine, tol, log))
    else:
        value = _run_diagonal(wide, lengths, None, static, (refine, tol, log), "value").value
    return value.to(x.dtype) if log else value


def diagonal_with_scale_gradient(
    x: Tensor, lengths: Tensor | None, theta: Tensor, static: StaticKernel | None, refine: int, tol: float, log: bool,
    threads: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """k of the paths scaled by theta (d,), and its gradient in log theta (n, d), in one pass."""
    wide, scales = (x.double(), theta.double()) if log else (x, theta)
    value, gradient, _ = _run_diagonal(wide, lengths, scales, static, (refine, tol, log), "scales")
    assert gradient is not None
    return value.to(x.dtype), gradient.to(x.dtype)


def diagonal_with_gradient(
    x: Tensor, lengths: Tensor | None, static: StaticKernel | None, refine: int, tol: float, log: bool, threads: int
) -> tuple[Tensor, Tensor]:
    """k and its gradient in the points (n, length, channels), in one pass."""
    wide = (x.double() if log else x).detach()
    value, gradient, _ = _run_diagonal(wide, lengths, None, static, (refine, tol, log), "points")
    assert gradient is not None
    return value.to(x.dtype), gradient.to(x.dtype)


def _run_diagonal(
    x: Tensor, lengths: Tensor | None, theta: Tensor | None, static: StaticKernel | None, settings: Settings,
    wanted: Literal["value", "points", "scales"],
) -> _Result:  # fmt: skip
    refine, tol, log = settings
    batch = make_batch(x, lengths, static, theta)
    inside: Wanted = "segments" if wanted == "points" or (wanted == "scales" and static is not None) else wanted
    solved = solve_diagonal(batch, plan_request(refine, tol, True, log, x.dtype), log, inside)
    if solved.failure is not None:
        raise_or_warn(solved.failure, x, lengths, None, None, log)
    if solved.gradient is None or inside == "scales":
        return _Result(solved.value, solved.gradient, None)
    if not isinstance(batch, LiftedBatch):
        return _Result(solved.value, batch.of_points(solved.gradient), None)
    centre = batch.points[:, :1].double()
    if wanted == "scales":
        return _Result(solved.value, batch.of_log_scales(solved.gradient, centre), None)
    parameters = batch.of_log_parameters(solved.gradient, centre)
    return _Result(solved.value, batch.of_points(solved.gradient), parameters)


class _Diagonal(torch.autograd.Function):
    """One pass computes value and gradient, so the forward pass keeps the gradient for the first backward pass."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, x: Tensor, lengths: Tensor | None, name: Any, bandwidth: Any, amplitude: Any, alpha: Any,
        settings: Settings,
    ) -> Tensor:  # fmt: skip
        static = None if name is None else StaticKernel(name, bandwidth, amplitude, alpha)
        value, gradient, parameters = _run_diagonal(x, lengths, None, static, settings, "points")
        tensors = (None, None) if static is None else static.tensors
        ctx.save_for_backward(x, lengths, *tensors)
        ctx.call = static, settings
        ctx.kept = [(gradient, parameters)]
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, lengths, *tensors = ctx.saved_tensors
        if ctx.kept:
            gradient, parameters = ctx.kept.pop()
        else:  # an earlier backward pass has used it: compute it again
            static, settings = ctx.call
            with warnings.catch_warnings():  # the forward pass has warned already
                warnings.simplefilter("ignore")
                _, gradient, parameters = _run_diagonal(x, lengths, None, static, settings, "points")
        of_x, of_bandwidth, of_amplitude = once_differentiable(_pull_back, grad, x, *tensors, gradient, parameters)
        return of_x, None, None, of_bandwidth, of_amplitude, None, None


def _pull_back(
    grad: Tensor, _x: Tensor, bandwidth: Any, amplitude: Any, gradient: Tensor, parameters: Tensor | None
) -> tuple[Tensor | None, ...]:
    """The gradients for sensitivities grad (n,); `_x` tells `once_differentiable` that they depend on x."""
    of_x = gradient * grad[:, None, None]
    if parameters is None:
        return of_x, None, None
    return of_x, *per_parameter(grad.double() @ parameters, bandwidth, amplitude)
