"""The signature by Chen's identity, one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch


def extend(start: torch.Tensor, increments: torch.Tensor, words: Sequence[tuple[int, ...]]) -> torch.Tensor:
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
        terms.append(
            (
                j,
                torch.tensor(prefix, device=start.device),
                torch.tensor(letter, device=start.device),
            )
        )
    state = start
    for v in increments.unbind(1):
        padded = torch.cat([state, state.new_zeros(len(state), 1)], 1)
        tail = torch.ones_like(state)
        for j, prefix, letter in terms:
            tail = tail * v[:, letter] / j
            state = state + padded[:, prefix] * tail
    return state


def signature(
    x: torch.Tensor,
    counts: torch.Tensor,
    words: Sequence[tuple[int, ...]],
    by: Callable[[torch.Tensor, torch.Tensor, Sequence[tuple[int, ...]]], torch.Tensor] = extend,
) -> torch.Tensor:
    """The signature of piecewise-linear paths.

    x (n, length, channels), finite; counts (n, length) bool, the rows that count; prefix-closed words, the empty
    word first; returns (n, M). `by` is what applies Chen's identity.
    """
    before = torch.cat([x[:, :1], x[:, :-1]], 1)  # the path starts where it is: a zero increment, which changes nothing
    increments = torch.where(counts[:, :, None], x - before, 0.0)
    start = torch.zeros(len(x), len(words), dtype=x.dtype, device=x.device)
    start[:, 0] = 1
    return by(start, increments, words)
