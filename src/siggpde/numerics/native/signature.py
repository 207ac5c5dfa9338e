"""The signature by the native core: a word tree made once, forward and reverse passes, gradients through autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from siggpde.numerics import inputs
from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.checked_once import checked_once
from siggpde.numerics.core import core
from siggpde.numerics.errors import NOT_FINITE, OVERFLOW
from siggpde.numerics.requested_words import RequestedWords
from siggpde.numerics.words import check_depth, check_words, parents, prefix_closure


def signature(x: Tensor, lengths: Tensor | None, words: RequestedWords, threads: int) -> Tensor:
    """S(X_i) (n, M), with a graph if x requires a gradient."""
    tree = word_tree(x.shape[2], words)
    if x.requires_grad and torch.is_grad_enabled():
        return _Signature.apply(x, None, lengths, tree, threads)  # pyright: ignore[reportReturnType]
    return _forward(x, None, lengths, tree, threads)


def extend(start: Tensor, increments: Tensor, words: RequestedWords, threads: int) -> Tensor:
    """The signature after increments (n, steps, channels): start (n, M) over prefix-closed words -> (n, M)."""
    tree = word_tree(increments.shape[2], words)
    start = start.contiguous()
    if (start.requires_grad or increments.requires_grad) and torch.is_grad_enabled():
        return _Signature.apply(increments, start, None, tree, threads)  # pyright: ignore[reportReturnType]
    return _forward(increments, start, None, tree, threads)


@checked_once(64)
def word_tree(channels: int, words: RequestedWords) -> Any:
    """The core's `SignatureTree` for all words up to a depth, or for a tuple of words; one column for each word."""
    if not isinstance(words, tuple):
        check_depth(channels, words)
        return core.SignatureTree(channels, words)
    checked = check_words(words, channels)
    closure = prefix_closure(checked)
    column = {word: index for index, word in enumerate(checked)}
    letters = [word[-1] if word else -1 for word in closure]
    columns = [column.get(word, -1) for word in closure]
    return core.SignatureTree(channels, parents(closure).tolist(), letters, columns)


def _forward(x: Tensor, start: Tensor | None, lengths: Tensor | None, tree: Any, threads: int) -> Tensor:
    n, length, _ = x.shape
    out = x.new_empty((n, tree.columns))
    run = tree.forward_double if x.dtype == torch.float64 else tree.forward_float
    lengths_at = 0 if lengths is None else lengths.data_ptr()
    start_at = 0 if start is None else start.data_ptr()
    failure = run(x.data_ptr(), lengths_at, n, length, start is not None, start_at, out.data_ptr(), threads)
    if failure == NOT_FINITE:
        inputs.raise_not_finite(x, lengths, "x" if start is None else "increments")
    if failure == OVERFLOW:
        inputs.raise_overflow(out, "the signature")
    return out


def _backward(
    x: Tensor, start: Tensor | None, lengths: Tensor | None, grad: Tensor, tree: Any, threads: int
) -> tuple[Tensor, Tensor | None]:
    n, length, _ = x.shape
    grad = grad.contiguous()
    grad_x = torch.empty_like(x)
    grad_start = None if start is None else torch.zeros_like(start)
    run = tree.backward_double if x.dtype == torch.float64 else tree.backward_float
    lengths_at = 0 if lengths is None else lengths.data_ptr()
    start_at = 0 if start is None else start.data_ptr()
    grad_start_at = 0 if grad_start is None else grad_start.data_ptr()
    addresses = (start_at, grad.data_ptr(), grad_x.data_ptr(), grad_start_at)
    run(x.data_ptr(), lengths_at, n, length, start is not None, *addresses, threads)
    return grad_x, grad_start


class _Signature(torch.autograd.Function):
    """The native signature of x or, with a start, its extension by the increments x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, start: Any, lengths: Any, tree: Any, threads: int) -> Tensor:
        ctx.save_for_backward(x, start, lengths)
        ctx.tree, ctx.threads = tree, threads
        return _forward(x, start, lengths, tree, threads)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, start, lengths = ctx.saved_tensors
        return *once_differentiable(_backward, x, start, lengths, grad, ctx.tree, ctx.threads), None, None, None
