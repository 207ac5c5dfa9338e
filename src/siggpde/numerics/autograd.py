"""First derivatives written by hand in torch's graph; asking for second or forward-mode derivatives raises an error."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from siggpde.numerics.static_kernels import KernelSettings, per_parameter

SECOND_DERIVATIVE_MESSAGE = (
    "this gradient is computed by a hand-written reverse pass, which cannot be differentiated again; for second "
    "derivatives set the environment variable SIGGPDE_BACKEND=reference before importing siggpde (and keep "
    "gradient='adjoint')"
)

TRANSFORM_MESSAGE = (
    "this operation has only reverse-mode gradients, by torch.autograd, written by hand: forward-mode derivatives and "
    "the transforms of torch.func (jvp, grad, vmap, ...) do not go through it; use x.requires_grad_() and backward(), "
    "or set the environment variable SIGGPDE_BACKEND=reference before importing siggpde (and keep gradient='adjoint')"
)

_transforms_active: Any = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)


def refuse_transforms(*arguments: Any) -> None:
    """Raises NotImplementedError for tensors with tangents, which would be dropped, and in transforms of torch.func."""
    if _transforms_active():
        raise NotImplementedError(TRANSFORM_MESSAGE)
    if getattr(forward_ad, "_current_level", 0) < 0:  # as almost always; private, so without it look at the tensors
        return
    for value in arguments:
        if isinstance(value, Tensor) and forward_ad.unpack_dual(value).tangent is not None:
            raise NotImplementedError(TRANSFORM_MESSAGE)


def once_differentiable(function: Callable[..., Any], *args: Any) -> Any:
    """function(*args), called in the `backward` of an autograd function: differentiating its result raises."""
    return _OnceDifferentiable.apply(function, *args) if torch.is_grad_enabled() else function(*args)


class _OnceDifferentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(SECOND_DERIVATIVE_MESSAGE)


def with_gradients(
    values: Callable[..., Tensor], gradients: Callable[..., Any], *tensors: Tensor | None, keep_value: bool = False
) -> Tensor:
    """values(*tensors), whose gradients in the tensors are gradients(grad, *tensors), with the value behind if kept."""
    for tensor in tensors if torch.is_grad_enabled() else ():
        if tensor is not None and tensor.requires_grad:
            return _WithGradients.apply(values, gradients, keep_value, *tensors)  # pyright: ignore[reportReturnType]
    return values(*tensors)


class _WithGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Any, gradients: Any, keep_value: bool, *tensors: Tensor | None) -> Tensor:
        value = values(*tensors)
        ctx.save_for_backward(*tensors, *([value] if keep_value else []))
        ctx.gradients = gradients
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None, None, None, *once_differentiable(ctx.gradients, grad, *ctx.saved_tensors)


Norms = tuple[Tensor, Tensor]
DiagonalPass = Callable[[Tensor, Tensor | None, KernelSettings, bool], tuple[Tensor, Tensor, Tensor | None]]
"""From (x, lengths, settings, log): k(X, X) or its logarithm (n,), its gradient in x, and with a static kernel that in
the logarithms of bandwidth and amplitude (n, 2)."""


def diagonal(run: DiagonalPass, x: Tensor, lengths: Tensor | None, settings: KernelSettings, log: bool) -> Tensor:
    """The values of `run`, which computes gradients in the same pass: they are kept for the first backward pass."""
    kept: list[Any] = []

    def values(x: Tensor, *_: Any) -> Tensor:
        value, *gradients = run(x, lengths, settings, log)
        kept.append(gradients)
        return value

    def gradients(grad: Tensor, x: Tensor, bandwidth: Any, amplitude: Any) -> tuple[Tensor | None, ...]:
        if not kept:  # an earlier backward pass has used it: compute it again
            with warnings.catch_warnings():  # the forward pass has warned already
                warnings.simplefilter("ignore")
                values(x)
        of_x, of_logarithms = kept.pop()
        scaled = of_x * grad.view(-1, 1, 1)
        if of_logarithms is None:
            return scaled, None, None
        return scaled, *per_parameter(grad.double() @ of_logarithms.double(), bandwidth, amplitude)

    parameters = (None, None) if settings.static is None else settings.static.tensors
    return _apply_with_gradients(values, gradients, False, x, *parameters)


# `apply` without the checks for transforms of torch.func, which are refused and take a twentieth of a call.
_apply_with_gradients: Any = super(torch.autograd.Function, _WithGradients).apply  # pyright: ignore[reportAttributeAccessIssue]


class Pairs(NamedTuple):
    """The arguments of a Gram matrix (n, m); y None means x. With `norms`, logarithms h (n,) and h' (m,), x and y are
    float64 and values N_ij = k(X_i, Y_j) exp(-h_i - h'_j), where k itself may be out of range."""

    x: Tensor
    x_lengths: Tensor | None = None
    y: Tensor | None = None
    y_lengths: Tensor | None = None
    norms: Norms | None = None
    settings: KernelSettings = KernelSettings()


GramValues = Callable[[Pairs], Tensor]
GramGradients = Callable[[Pairs, Tensor], tuple[Tensor, Tensor | None, Tensor | None]]
"""Of the sum of weights (n, m) times the values: the gradients in x, in y, in the logarithms (2,) of bandwidth and
amplitude."""


def gram(values: GramValues, gradients: GramGradients, pairs: Pairs) -> Tensor:
    static = pairs.settings.static
    parameters = (None, None) if static is None else static.tensors

    def pull_back(grad: Tensor, x: Tensor, y: Any, norm_x: Any, norm_y: Any, *rest: Any) -> tuple[Any, ...]:
        bandwidth, amplitude, *value = rest
        norms = None if norm_x is None else (norm_x, norm_y)
        of_x, of_y, of_logarithms = gradients(pairs._replace(x=x, y=y, norms=norms), grad)
        of_norms = (-(grad * value[0]).sum(1), -(grad * value[0]).sum(0)) if value else (None, None)
        if of_logarithms is None:
            return of_x, of_y, *of_norms, None, None
        return of_x, of_y, *of_norms, *per_parameter(of_logarithms, bandwidth, amplitude)

    tensors = pairs.x, pairs.y, *(pairs.norms or (None, None)), *parameters
    return with_gradients(lambda *_: values(pairs), pull_back, *tensors, keep_value=pairs.norms is not None)
