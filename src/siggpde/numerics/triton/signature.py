"""The signature by Triton: series in chunks, states checkpointed every sqrt(steps) steps for the reverse sweep."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Any

import torch
from torch import Tensor

from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.reference import signature as reference
from siggpde.numerics.requested_words import RequestedWords
from siggpde.numerics.triton.chen import advance, collect_words, retreat
from siggpde.numerics.triton.launch import LANES, at_once, cdiv, run
from siggpde.numerics.triton.tree import Chains, chains
from siggpde.numerics.words import Word

# The longest word that a lane can carry; sets with longer words are computed by the reference.
MAX_LETTERS = 12
_MAX_SERIES = 32
# Gradients are sums over lanes. Groups and tiles of a sum do not depend on the batch, so its bits do not either.
_GROUPS = 16
_TILE = (LANES // 16, 16)


def signature(x: Tensor, lengths: Tensor | None, words: RequestedWords, threads: int) -> Tensor:
    """S(X_i) (n, M), with a graph if x requires a gradient."""
    return reference.signature_by(apply_chen, x, lengths, words)


def extend(start: Tensor, increments: Tensor, words: RequestedWords, threads: int) -> Tensor:
    """The signature after increments (n, steps, channels): start (n, M) over prefix-closed words -> (n, M)."""
    return reference.extend_by(apply_chen, start, increments, words)


def apply_chen(start: Tensor, increments: Tensor, words: Sequence[Word]) -> Tensor:
    """Chen's identity for each increment: start (n, M) over prefix-closed words, () first -> (n, M)."""
    if max(map(len, words)) > MAX_LETTERS:
        return reference.extend(start, increments, words)
    table = chains(tuple(words), increments.device)
    return _Extend.apply(start, increments, table)  # pyright: ignore[reportReturnType]


def _in_chunks(start: Tensor, increments: Tensor, numbers: int):
    """(range of series, state [word][series], increments [step][channel][series]), as many as fit the memory."""
    size = at_once(numbers * start.element_size())
    for begin in range(0, len(start), size):
        part = slice(begin, begin + size)
        yield part, start[part].T.contiguous(), increments[part].permute(1, 2, 0).contiguous()


def _tile(n: int) -> tuple[int, int]:
    """(WORDS, SERIES) of a program."""
    series = 1
    while series < min(n, _MAX_SERIES):
        series *= 2
    return LANES // series, series


def _advance(
    state: Tensor, increments: Tensor, table: Chains, begin: int, end: int, store: Tensor | None
) -> Tensor:  # fmt: skip
    _, channels, n = increments.shape
    words, series = _tile(n)
    both = torch.stack([state, torch.empty_like(state)])
    run(
        advance, cdiv(n, series) * cdiv(table.lanes, words), state, increments, both, store, table.prefix, table.owned,
        table.letter, n, table.words, table.lanes, channels, begin, end, DEPTH=table.depth, STORE=store is not None,
        WORDS=words, SERIES=series,
    )  # fmt: skip
    return both[1]


def _forward(start: Tensor, increments: Tensor, table: Chains) -> Tensor:
    out = torch.empty_like(start)
    for part, state, steps in _in_chunks(start, increments, 4 * table.words):
        out[part] = _advance(state, steps, table, 0, len(steps), None).T
    return out


def _backward(start: Tensor, increments: Tensor, grad: Tensor, table: Chains) -> tuple[Tensor, Tensor]:
    of_start, of_increments = torch.empty_like(start), torch.empty_like(increments)
    _, count, channels = increments.shape
    size = max(1, isqrt(count))
    copies = size + cdiv(count, size) + 4 + table.depth + 1
    for part, state, steps in _in_chunks(start, increments, table.words * copies + _GROUPS * size * channels):
        n = state.shape[1]
        begins = list(range(0, count, size))
        states = [state]
        for begin in begins[:-1]:
            states.append(_advance(states[-1], steps, table, begin, begin + size, None))
        outside = (table.owned < 0)[:, :, None]
        bar = torch.where(outside, 0.0, grad[part].T[table.owned.clamp(min=0)]).contiguous()
        store = state.new_empty(size, table.words, n)
        of_steps = torch.empty_like(steps)
        for begin in reversed(begins):
            end = min(begin + size, count)
            _advance(states.pop(), steps, table, begin, end, store)
            of_steps[begin:end] = _retreat(steps, store, bar, table, begin, end)
        of_increments[part] = of_steps.permute(2, 0, 1)
        of_start[part] = _collect(bar, table, state).T
    return of_start, of_increments


def _retreat(steps: Tensor, store: Tensor, bar: Tensor, table: Chains, begin: int, end: int) -> Tensor:
    """Advances `bar` from the end to the begin of some steps; returns the gradients of their increments."""
    _, channels, n = steps.shape
    words, series = _TILE
    groups = min(_GROUPS, cdiv(table.lanes, words))
    out = steps.new_zeros(groups, end - begin, channels, n)
    run(
        retreat, cdiv(n, series) * groups, steps, steps, store, bar, out, table.prefix, table.letter, n, table.words,
        table.lanes, channels, groups, begin, end, DEPTH=table.depth, WORDS=words, SERIES=series,
    )  # fmt: skip
    return out.sum(0)


def _collect(bar: Tensor, table: Chains, state: Tensor) -> Tensor:
    out = torch.empty_like(state)
    n = state.shape[1]
    _, series = _tile(n)
    run(
        collect_words, cdiv(n, series) * table.words, state, bar, table.first, table.last, table.level, out, n,
        table.lanes, SERIES=series,
    )  # fmt: skip
    return out


class _Extend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, start: Tensor, increments: Tensor, table: Chains) -> Tensor:
        ctx.save_for_backward(start, increments)
        ctx.table = table
        return _forward(start, increments, table)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        start, increments = ctx.saved_tensors
        return *once_differentiable(_backward, start, increments, grad, ctx.table), None
