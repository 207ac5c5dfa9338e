"""Products with triangular and symmetric matrices, by blocks, which leave out the half that is known."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

_LEAST_BLOCK = 96


def blocks(size: int) -> list[tuple[int, int]]:
    """Column blocks (start, stop) of about equal width: eight of them, fewer where they would be narrow."""
    count = max(1, min(8, size // _LEAST_BLOCK))
    cuts = [size * i // count for i in range(count + 1)]
    return list(pairwise(cuts))


def times_lower(rows: Tensor, lower: Tensor, out: Tensor | None = None) -> Tensor:
    """rows (n, M) @ lower (M, M), where `lower` is zero above its diagonal, into `out` (n, M)."""
    result = torch.empty_like(rows) if out is None else out
    for start, stop in blocks(len(lower)):
        torch.matmul(rows[:, start:], lower[start:, start:stop], out=result[:, start:stop])
    return result


def gram_upper(rows: Tensor, weights: Tensor) -> Tensor:
    """rows^T diag(weights) rows (M, M); only blocks on and above the diagonal are computed, the others are zero."""
    result = rows.new_zeros(rows.shape[1], rows.shape[1])
    weighted = rows * weights[:, None]
    for start, stop in blocks(rows.shape[1]):
        torch.matmul(rows[:, :stop].T, weighted[:, start:stop], out=result[:stop, start:stop])
    return result
