"""The signature by Chen's identity, one increment at a time, in plain torch.

`extend` and `signature` are the oracle: they check nothing. `signature_by` and `extend_by` add the checks, and take the
function that applies Chen's identity, so that the Triton backend can use them with its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from siggpde.numerics import inputs
from siggpde.numerics.requested_words import RequestedWords, word_list
from siggpde.numerics.words import prefix_closure

Extend = Callable[[Tensor, Tensor, Sequence[tuple[int, ...]]], Tensor]


def extend(start: Tensor, increments: Tensor, words: Sequence[tuple[int, ...]]) -> Tensor:
    """The signature after straight increments, S <- S ⊗ exp(v) for each v in turn.

    In coefficients, with |w| letters in w: S_w <- sum over j <= |w| of S_(w without its last j letters) times
    v_(last j letters of w) / j!, where v_(a1..aj) is the product v_a1 .. v_aj.

    start (n, M) over prefix-closed `words`; increments (n, steps, channels); returns (n, M).
    """
    depth = max(len(word) for word in words)
    position = {word: index for index, word in enumerate(words)}
    absent = len(words)  # a column of zeros, for words shorter than j
    terms = []
    for j in range(1, depth + 1):
        prefix = [position[word[:-j]] if len(word) >= j else absent for word in words]
        letter = [word[-j] if len(word) >= j else 0 for word in words]
        terms.append((j, torch.tensor(prefix, device=start.device), torch.tensor(letter, device=start.device)))
    state = start
    for v in increments.unbind(1):
        padded = torch.cat([state, state.new_zeros(len(state), 1)], 1)
        tail = torch.ones_like(state)
        for j, prefix, letter in terms:
            tail = tail * v[:, letter] / j
            state = state + padded[:, prefix] * tail
    return state + increments[:, :0].sum()  # nothing, but the empty word is then in the graph as every other one


def signature(x: Tensor, mask: Tensor, words: Sequence[tuple[int, ...]], by: Extend = extend) -> Tensor:
    """The signature of piecewise-linear paths.

    x (n, length, channels), finite; mask (n, length) bool, the points that count; prefix-closed words, the empty
    word first; returns (n, M). `by` is the function that applies Chen's identity.
    """
    before = torch.cat([x[:, :1], x[:, :-1]], 1)  # the first increment is zero, which changes nothing
    increments = torch.where(mask[:, :, None], x - before, 0.0)
    start = torch.zeros(len(x), len(words), dtype=x.dtype, device=x.device)
    start[:, 0] = 1
    return by(start, increments, words)


def signature_by(by: Extend, x: Tensor, lengths: Tensor | None, words: RequestedWords) -> Tensor:
    """S(X_i) (n, M) on any words, computed on their prefix closure; raises if an input or a result is not finite."""
    listed = word_list(x.shape[2], words)
    mask = inputs.row_mask(x, lengths)
    x = torch.where(mask[:, :, None], x, 0.0)
    if not torch.isfinite(x).all():
        inputs.raise_not_finite(x, lengths)
    closure = prefix_closure(listed)
    position = {word: index for index, word in enumerate(closure)}
    columns = torch.tensor([position[word] for word in listed], dtype=torch.int64, device=x.device)
    return _check_range(signature(x, mask, closure, by)[:, columns])


def extend_by(by: Extend, start: Tensor, increments: Tensor, words: RequestedWords) -> Tensor:
    """Chen's identity on prefix-closed words; raises if an input or a result is not finite."""
    listed = word_list(increments.shape[2], words)
    if not torch.isfinite(increments).all():
        inputs.raise_not_finite(increments, None, "increments")
    return _check_range(by(start, increments, listed))


def _check_range(result: Tensor) -> Tensor:
    if not torch.isfinite(result).all():
        inputs.raise_overflow(result, "the signature")
    return result
