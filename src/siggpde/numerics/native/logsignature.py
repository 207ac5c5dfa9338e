"""The logarithm of signatures by the native core: coordinates prepared once, gradients through autograd."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from siggpde.numerics import inputs
from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.core import core
from siggpde.numerics.errors import OVERFLOW
from siggpde.numerics.lie_basis import Basis, log_basis
from siggpde.numerics.reference.logsignature import word_column
from siggpde.numerics.words import count_up_to


def logsignature(signature: Tensor, channels: int, depth: int, basis: Basis, threads: int) -> Tensor:
    """Coordinates (n, L) of the logarithm of signatures (n, M) of all words up to a depth, with a graph."""
    prepared = coordinates(channels, depth, basis)
    if signature.requires_grad and torch.is_grad_enabled():
        return _Logarithm.apply(signature, prepared, threads)  # pyright: ignore[reportReturnType]
    return _forward(signature, prepared, threads)


@lru_cache(maxsize=64)
def coordinates(channels: int, depth: int, basis: Basis) -> Any:
    """The core's `LogCoordinates` of a basis."""
    prepared = log_basis(channels, depth, basis)
    lengths = [len(word) for word in prepared.words]
    columns = [word_column(word, channels) for word in prepared.words]
    ranks = [column - count_up_to(channels, m - 1) for column, m in zip(columns, lengths, strict=True)]
    change: tuple[list, list, list] = ([], [], [])
    if basis != "words":
        change = (prepared.rows.tolist(), prepared.columns.tolist(), prepared.values.tolist())
    return core.LogCoordinates(channels, depth, count_up_to(channels, depth), lengths, ranks, columns, *change)


def _forward(signature: Tensor, prepared: Any, threads: int) -> Tensor:
    out = signature.new_empty((len(signature), prepared.coordinates))
    run = prepared.forward_double if signature.dtype == torch.float64 else prepared.forward_float
    if run(signature.data_ptr(), len(signature), out.data_ptr(), threads) == OVERFLOW:
        inputs.raise_overflow(out, "the log-signature")
    return out


def _backward(signature: Tensor, grad: Tensor, prepared: Any, threads: int) -> Tensor:
    grad, result = grad.contiguous(), torch.empty_like(signature)
    run = prepared.backward_double if signature.dtype == torch.float64 else prepared.backward_float
    run(signature.data_ptr(), len(signature), grad.data_ptr(), result.data_ptr(), threads)
    return result


class _Logarithm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, signature: Tensor, prepared: Any, threads: int) -> Tensor:
        ctx.save_for_backward(signature)
        ctx.prepared, ctx.threads = prepared, threads
        return _forward(signature, prepared, threads)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        (signature,) = ctx.saved_tensors
        return once_differentiable(_backward, signature, grad, ctx.prepared, ctx.threads), None, None
