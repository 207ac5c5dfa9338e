"""First derivatives computed by hand, for which there is no second: asking for one is an error, not a wrong number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

TWICE = (
    "this gradient is computed by a hand-written reverse pass, which cannot be differentiated again; for second "
    "derivatives set the environment variable SIGGPDE_BACKEND=reference before importing siggpde (and keep "
    "gradient='adjoint')"
)


def once(function: Callable[..., Any], *args: Any) -> Any:
    """function(*args), to be called in a `backward`: differentiating its result raises."""
    return _Once.apply(function, *args) if torch.is_grad_enabled() else function(*args)


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(TWICE)
