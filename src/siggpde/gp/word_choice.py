"""Which words and which directions: those that hold the most of the training series."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from siggpde.gp.kernel import SignatureKernel
from siggpde.numerics.signature import signature
from siggpde.numerics.words import Word
from siggpde.series import SeriesBatch

_SMALLEST_SHARE = 1e-10


def principal_directions(rows: Tensor, count: int) -> Tensor:
    """At most `count` orthonormal directions (M, r) with the largest shares of the sum of squares of rows (n, M).

    Eigenvectors of the smaller of rows^T rows and rows rows^T; the largest share comes first, and
    directions with less than 1e-10 of it are dropped, because rounding would decide them. With n < M and count >= n
    they span all the rows.
    """
    matrix = rows.to(torch.float64)
    n, columns = matrix.shape
    if n == 0 or count < 1:
        raise ValueError(
            f"principal directions need at least one row and one direction, got {n} rows and {count} directions"
        )
    if columns <= n:
        share, directions = torch.linalg.eigh(matrix.T @ matrix)
    else:
        share, left = torch.linalg.eigh(matrix @ matrix.T)
        directions = matrix.T @ left
    keep = [i for i in reversed(range(len(share))) if share[i] > _SMALLEST_SHARE * share[-1]][:count]
    if not keep:
        raise ValueError("all rows are zero: there are no principal directions")
    chosen = directions[:, torch.tensor(keep)]
    if columns > n:
        chosen, _ = torch.linalg.qr(chosen)
    return chosen


def most_energetic(energy: Tensor, pool: Sequence[Word], count: int) -> list[Word]:
    """The `count` words of the pool with the largest energy (P,), in the order of words; () is always among them.

    Energies that differ in the tenth digit are alike, so that rounding does not choose.
    """
    if len(energy) != len(pool):
        raise ValueError(f"there are {len(pool)} words but {len(energy)} energies")
    shown = [float(f"{value:.9e}") for value in energy.tolist()]
    ranked = sorted(range(len(pool)), key=lambda i: (pool[i] != (), -shown[i], len(pool[i]), pool[i]))
    return sorted((pool[i] for i in ranked[:count]), key=lambda word: (len(word), word))


def grow_pool(kernel: SignatureKernel, paths: SeriesBatch, limit: int, *, max_letters: int = 16) -> list[Word]:
    """A prefix-closed pool of about `limit` words with the most energy in the paths, grown letter by letter.

    Words of j + 1 letters extend those of j letters by every letter, at first all of them, later those of the largest
    mean S_theta(X)²: a word whose prefix is small is seldom large. Constant channels give no words.
    """
    paths = paths.to(kernel.device)
    values, lengths = paths.values.to(torch.float64), paths.lengths
    pool: list[Word] = [()]
    front: list[Word] = [()]
    increments = torch.where(paths.inside()[:, 1:, None], values.diff(dim=1), 0.0)
    letters = [letter for letter in range(kernel.channels) if bool((increments[:, :, letter] != 0).any())]
    scaled = values * kernel.theta.detach()
    norm = kernel.squared_norm(values, lengths=lengths).detach() if kernel.normalized and kernel.words is None else None
    for _ in range(max_letters):
        missing = limit - len(pool)
        parents = front[: max(1, math.ceil(2 * missing / kernel.channels))]
        children = [(*word, letter) for word in parents for letter in letters]
        if missing <= 0 or not children:
            break
        squares = signature(scaled, words=children, lengths=lengths).square()
        energy = (squares if norm is None else squares / norm[:, None]).mean(dim=0)
        ranked = energy.argsort(descending=True, stable=True).tolist()
        front = [children[i] for i in ranked[:missing]]
        pool.extend(front)
    return sorted(pool, key=lambda word: (len(word), word))
