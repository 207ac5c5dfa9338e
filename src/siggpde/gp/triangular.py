"""Products with triangular and symmetric matrices, by blocks, which leave out the half that is known."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor

_NARROWEST_BLOCK, _STEP = 112, 16


@lru_cache(maxsize=64)
def blocks(size: int) -> tuple[tuple[int, int], ...]:
    """Blocks (start, stop) of about equal width: eight of them, fewer where they would be narrow.

    They start at multiples of 16, whole vectors of either dtype.
    """
    count = max(1, min(8, size // _NARROWEST_BLOCK))
    cuts = [round(size * i / count / _STEP) * _STEP for i in range(count)]
    return tuple(pairwise([*cuts, size]))


def times_lower(rows: Tensor, lower: Tensor, out: Tensor | None = None) -> Tensor:
    """rows (n, M) @ lower (M, M), where `lower` is zero above its diagonal, into `out` (n, M)."""
    result = torch.empty_like(rows) if out is None else out
    for start, stop in blocks(len(lower)):
        torch.mm(rows[:, start:], lower[start:, start:stop], out=result[:, start:stop])
    return result


def add_times_upper(rows: Tensor, lower: Tensor, out: Tensor) -> None:
    """Adds rows (n, M) @ lower^T (M, M) to `out` (n, M)."""
    for start, stop in blocks(len(lower)):
        out[:, start:stop].addmm_(rows[:, :stop], lower[start:stop, :stop].T)


def lower_products(left: Tensor, right: Tensor, buffer: Tensor) -> Iterator[tuple[int, Tensor]]:
    """The lower triangle of left^T (M, n) @ right (n, M), a block of rows after the other: (first row, (rows, M)).

    All are in the same memory, that of `buffer` (M, M), so that they are still in the cache when they are used; what is
    above the triangle is left undefined.
    """
    for start, stop in blocks(len(buffer)):
        rows = buffer[: stop - start]
        torch.mm(left[:, start:stop].T, right[:, :stop], out=rows[:, :stop])
        yield start, rows


def pack_upper(matrices: Tensor) -> Tensor:
    """The upper triangles of (C, M, M), a row after the other, (C, M (M + 1) / 2)."""
    size = matrices.shape[1]
    return torch.cat([matrices[:, row, row:] for row in range(size)], dim=1)


def unpack_upper(packed: Tensor, size: int) -> Tensor:
    """The way back, (C, M, M), with zeros below the diagonal."""
    matrices = packed.new_zeros(len(packed), size, size)
    start = 0
    for row in range(size):
        matrices[:, row, row:] = packed[:, start : start + size - row]
        start += size - row
    return matrices


def gram_upper(rows: Tensor, weights: Tensor) -> Tensor:
    """rows^T diag(weights) rows (M, M); only blocks on and above the diagonal are computed, the others are zero."""
    result = rows.new_zeros(rows.shape[1], rows.shape[1])
    weighted = rows * weights[:, None]
    for start, stop in blocks(rows.shape[1]):
        torch.mm(rows[:, :stop].T, weighted[:, start:stop], out=result[:stop, start:stop])
    return result
