"""Hand-written first derivatives, which have no second: asking for one raises an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

SECOND_DERIVATIVE_MESSAGE = (
    "this gradient is computed by a hand-written reverse pass, which cannot be differentiated again; for second "
    "derivatives set the environment variable SIGGPDE_BACKEND=reference before importing siggpde (and keep "
    "gradient='adjoint')"
)


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
