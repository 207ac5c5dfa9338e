"""The logarithm of signatures in plain torch, level by level."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from siggpde.numerics import inputs
from siggpde.numerics.lie_basis import Basis, log_basis
from siggpde.numerics.words import Word

Levels = list[Tensor]


def logsignature(signature: Tensor, channels: int, depth: int, basis: Basis, threads: int) -> Tensor:
    """Coordinates (n, L) of the logarithm of signatures (n, M) of all words up to a depth, with a graph."""
    log = torch.cat([level.flatten(1) for level in tensor_log(levels_of(signature, channels, depth))], 1)
    columns, values, rows = (part.to(log.device) for part in _change_of_basis(channels, depth, basis))
    terms = log[:, columns] * values.to(log.dtype)
    result = log.new_zeros(len(log), int(rows[-1]) + 1).index_add(1, rows, terms)
    if not torch.isfinite(result).all():
        inputs.raise_overflow(result, "the log-signature")
    return result


def levels_of(signature: Tensor, channels: int, depth: int) -> Levels:
    """The levels 1 to depth of signatures (n, M), each (n, channels, .., channels)."""
    sizes = [channels**m for m in range(depth + 1)]
    parts = signature.split(sizes, dim=1)[1:]
    return [part.reshape(len(part), *[channels] * (m + 1)) for m, part in enumerate(parts)]


def tensor_log(levels: Levels) -> Levels:
    """log(1 + x) = x - x^2 / 2 + x^3 / 3 - .. for a tensor x without constant, given and returned by levels."""
    total, power = levels, levels
    for k in range(2, len(levels) + 1):
        power = tensor_product(power, levels)
        total = [t + p * ((-1) ** (k + 1) / k) for t, p in zip(total, power, strict=True)]
    return total


def tensor_product(a: Levels, b: Levels) -> Levels:
    """The product of two tensors without constants, cut at the same level."""
    result = [torch.zeros_like(a[0])]
    for m in range(2, len(a) + 1):
        parts = [torch.einsum("np,nq->npq", a[j - 1].flatten(1), b[m - j - 1].flatten(1)) for j in range(1, m)]
        result.append(torch.stack([part.reshape(a[m - 1].shape) for part in parts]).sum(0))
    return result


def word_column(word: Word, channels: int) -> int:
    """The column of a word among all words, by length, then alphabet."""
    column = sum(channels**m for m in range(len(word)))
    return column + sum(letter * channels**place for place, letter in enumerate(reversed(word)))


@lru_cache(maxsize=64)
def _change_of_basis(channels: int, depth: int, basis: Basis) -> tuple[Tensor, Tensor, Tensor]:
    """The entries of the matrix from words to coordinates: word (its column without the empty word), value, row."""
    prepared = log_basis(channels, depth, basis)
    words = np.array([word_column(word, channels) - 1 for word in prepared.words])
    rows = np.repeat(np.arange(len(prepared.elements)), np.diff(prepared.rows))
    return torch.from_numpy(words[prepared.columns]), torch.from_numpy(prepared.values), torch.from_numpy(rows)
