"""The signature of piecewise-linear paths, differentiable, on the words one asks for.

S(X)^w for the word w = (a1, .., aj) is the integral over s1 < .. < sj of dX^(a1) .. dX^(aj). It is computed by
Chen's identity, S(X * v) = S(X) ⊗ exp(v) for each increment v of the path: by the native core on the CPU, by Triton on
a GPU, and by the reference implementation elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import torch

from siggpde.numerics import inputs, triton
from siggpde.numerics.autograd import once
from siggpde.numerics.backend import core
from siggpde.numerics.reference import signature as reference
from siggpde.word_sets import Word, check_words, count_up_to, parents, prefix_closure, words_up_to


def signature(
    x: inputs.Series,
    depth: int | None = None,
    words: Iterable[Sequence[int]] | None = None,
    lengths: torch.Tensor | Sequence[int] | None = None,
    *,
    n_jobs: int | None = None,
) -> torch.Tensor:
    """Signature coefficients of a batch of paths, one column for each word.

    Give exactly one of `depth`, for all the words of at most that many letters in the order of `words_up_to`, and
    `words`, for any list of words (letters are 0-based; the work is that of their prefix closure).

    x (n, length, channels) float32 or float64, or a list of (length_i, channels); lengths (n,) integers: only the
    first lengths[i] points of series i count. Returns (n, M) of x's dtype. Gradients flow to x. `n_jobs` threads
    (torch's number by default) share the series; the result does not depend on it.

    Examples:
        >>> signature(torch.tensor([[[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]]]), depth=2)
        tensor([[1.0000, 1.0000, 2.0000, 0.5000, 2.0000, 0.0000, 2.0000]])
    """
    threads = inputs.thread_count(n_jobs)
    batch, counted = inputs.as_batch(x, lengths)
    channels = batch.shape[2]
    if (depth is None) == (words is None):
        raise ValueError("give exactly one of depth and words, " + ("got both" if words is not None else "got none"))
    key: Key = depth if words is None else _as_key(words)  # pyright: ignore[reportAssignmentType]
    if triton.wanted(batch) or core is None or not batch.is_cpu:
        return _without_core(batch, counted, _listed(channels, key))
    tree = _compiled(channels, key)
    if batch.requires_grad and torch.is_grad_enabled():
        return _Signature.apply(batch, None, counted, tree, threads)  # pyright: ignore[reportReturnType]
    return _forward(batch, None, counted, tree, threads)


def extend(
    signature: torch.Tensor, increments: torch.Tensor, words: Iterable[Sequence[int]], *, n_jobs: int | None = None
) -> torch.Tensor:
    """The signature of paths that go on: Chen's identity for the new increments only.

    signature (n, M) over prefix-closed `words`; increments (n, steps, channels), or (n, channels) for one step;
    returns (n, M). Gradients flow to both.

    Examples:
        >>> some = words_up_to(1, 2)
        >>> extend(signature(torch.tensor([[[0.0], [1.0]]]), words=some), torch.tensor([[2.0]]), some)
        tensor([[1.0000, 3.0000, 4.5000]])
    """
    threads = inputs.thread_count(n_jobs)
    steps = increments[:, None] if increments.ndim == 2 else increments
    if steps.ndim == 3 and steps.shape[1] == 0:
        steps = steps.new_zeros(len(steps), 1, steps.shape[2])
    steps, _ = inputs.as_batch(steps, name="increments")
    key = _as_key(words)
    if signature.shape != (len(steps), len(key)):
        raise ValueError(
            f"signature must have shape (n, words) = ({len(steps)}, {len(key)}), got {tuple(signature.shape)}"
        )
    if signature.dtype != steps.dtype or signature.device != steps.device:
        raise ValueError(
            f"signature is {signature.dtype} on {signature.device}, increments are {steps.dtype} on {steps.device}; "
            "convert one to the other"
        )
    _check_closed(key)
    if triton.wanted(steps) or core is None or not steps.is_cpu:
        listed = check_words(key, steps.shape[2])
        if not torch.isfinite(steps).all():
            inputs.raise_not_finite(steps, None, "increments")
        return _checked(_extended(signature, steps, listed))
    tree = _compiled(steps.shape[2], key)
    start = signature.contiguous()
    if (start.requires_grad or steps.requires_grad) and torch.is_grad_enabled():
        return _Signature.apply(steps, start, None, tree, threads)  # pyright: ignore[reportReturnType]
    return _forward(steps, start, None, tree, threads)


Key = int | tuple[tuple[int, ...], ...]


def _as_key(words: Iterable[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    try:
        return tuple(map(tuple, words))
    except TypeError:
        raise ValueError(f"words is a list of words, and a word is a tuple of integers, got {words!r}") from None


def _listed(channels: int, key: Key) -> list[Word]:
    if isinstance(key, tuple):
        return check_words(key, channels)
    _check_depth(channels, key)
    return words_up_to(channels, key)


def _check_depth(channels: int, depth: int) -> None:
    if count_up_to(channels, depth) >= 2**31:
        raise ValueError(f"depth {depth} with {channels} channels has {count_up_to(channels, depth)} words; lower it")


@lru_cache(maxsize=64)
def _check_closed(words: tuple[tuple[int, ...], ...]) -> None:
    parents(words)


@lru_cache(maxsize=64)
def _compiled(channels: int, key: Key) -> Any:
    """The native word tree for all words up to a depth, or for a tuple of words."""
    if not isinstance(key, tuple):
        _check_depth(channels, key)
        return core.SignatureTree(channels, key)
    listed = check_words(key, channels)
    closure = prefix_closure(listed)
    column = {word: index for index, word in enumerate(listed)}
    letters = [word[-1] if word else -1 for word in closure]
    columns = [column.get(word, -1) for word in closure]
    return core.SignatureTree(channels, parents(closure).tolist(), letters, columns)


def _without_core(x: torch.Tensor, lengths: torch.Tensor | None, listed: list[Word]) -> torch.Tensor:
    mask = inputs.row_mask(x, lengths)
    x = torch.where(mask[:, :, None], x, 0.0)
    if not torch.isfinite(x).all():
        inputs.raise_not_finite(x, lengths)
    closure = prefix_closure(listed)
    position = {word: index for index, word in enumerate(closure)}
    columns = torch.tensor([position[word] for word in listed], dtype=torch.int64, device=x.device)
    return _checked(reference.signature(x, mask, closure, by=_extended)[:, columns])


def _extended(start: torch.Tensor, increments: torch.Tensor, listed: Sequence[Word]) -> torch.Tensor:
    """Chen's identity where the native core does not compute; nothing leaves its device."""
    if triton.wanted(increments):
        from siggpde.numerics.triton import signature as fast  # noqa: PLC0415 - Triton is imported only where it computes

        if max(map(len, listed)) <= fast.MOST_LETTERS:
            return fast.extend(start, increments, list(listed))
    return reference.extend(start, increments, listed)


def _checked(result: torch.Tensor) -> torch.Tensor:
    if not torch.isfinite(result).all():
        inputs.raise_overflow(result, "the signature")
    return result


def _forward(
    x: torch.Tensor, start: torch.Tensor | None, lengths: torch.Tensor | None, tree: Any, threads: int
) -> torch.Tensor:
    n, length, _ = x.shape
    out = x.new_empty((n, tree.columns))
    run = tree.forward_double if x.dtype == torch.float64 else tree.forward_float
    lengths_at = 0 if lengths is None else lengths.data_ptr()
    start_at = 0 if start is None else start.data_ptr()
    status = run(x.data_ptr(), lengths_at, n, length, start is not None, start_at, out.data_ptr(), threads)
    if status == 1:
        inputs.raise_not_finite(x, lengths, "x" if start is None else "increments")
    if status == 2:
        inputs.raise_overflow(out, "the signature")
    return out


def _backward(
    x: torch.Tensor,
    start: torch.Tensor | None,
    lengths: torch.Tensor | None,
    grad: torch.Tensor,
    tree: Any,
    threads: int,
) -> tuple[torch.Tensor, torch.Tensor | None]:
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
    def forward(ctx: Any, x: torch.Tensor, start: Any, lengths: Any, tree: Any, threads: int) -> torch.Tensor:
        ctx.save_for_backward(x, start, lengths)
        ctx.tree, ctx.threads = tree, threads
        return _forward(x, start, lengths, tree, threads)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, start, lengths = ctx.saved_tensors
        return *once(_backward, x, start, lengths, grad, ctx.tree, ctx.threads), None, None, None
