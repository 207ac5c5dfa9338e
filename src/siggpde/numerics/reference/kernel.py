r"""The signature kernel in plain torch: the oracle of the native core, and what computes where there is none.

Segments are split into short pieces, which changes no kernel, and solved at a degree whose error is below rounding, so
that no tolerance is needed. The finite differences of the paper are the cell of degree 1 with two powers of rho.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.numerics.inputs import row_mask
from siggpde.numerics.reference.goursat import solve_goursat

MAX_PIECE_LENGTH = 1.0
MAX_PIECES = 20_000  # of a segment: with more the kernel overflows anyway
CELLS_AT_ONCE = 2_000_000

# A segment longer than this makes k of a part of the path exceed the range of the type, or of log k. The core has the
# same limits, so that it and the reference refuse the same series, before any work.
LONGEST_SEGMENT = {torch.float64: 700.0, torch.float32: 87.0}
LONGEST_SEGMENT_OF_LOG = 1e4


class Scheme(NamedTuple):
    """Degree of the edges, powers of rho kept, and pieces of every segment (0: as many as make them short)."""

    degree: int
    powers: int
    pieces: int


LEGENDRE = Scheme(12, 18, 0)


def scheme_of(refine: int) -> Scheme:
    """Finite differences with 2^refine pieces a segment; the Legendre scheme for refine = -1.

    Finite differences with dyadic refinement are the paper's solver.
    """
    return LEGENDRE if refine < 0 else Scheme(1, 2, 2**refine)


def split_increments(x: Tensor, lengths: Tensor | None, scheme: Scheme) -> Tensor:
    """Increments (n, pieces, channels) of the paths x (n, length, channels), split; short series end in zeros."""
    inside = row_mask(x, lengths)[:, 1:, None]
    # Masked on both sides, so that padding may hold anything and still gets no gradient.
    start, end = torch.where(inside, x[:, :-1], 0.0), torch.where(inside, x[:, 1:], 0.0)
    increments = end - start
    if scheme.pieces:
        return increments.repeat_interleave(scheme.pieces, 1) / scheme.pieces
    counts = piece_counts(increments.detach().norm(dim=2))
    if bool((counts == 1).all()):
        return increments
    split = [
        (series / count[:, None]).repeat_interleave(count, 0) for series, count in zip(increments, counts, strict=True)
    ]
    return torch.nn.utils.rnn.pad_sequence(split, batch_first=True)


def piece_counts(lengths: Tensor) -> Tensor:
    """How many pieces make segments of these lengths short."""
    counts = (lengths / MAX_PIECE_LENGTH).ceil().nan_to_num(nan=1.0, posinf=MAX_PIECES)
    return counts.clamp(1, MAX_PIECES).long()


def diagonal(x: Tensor, lengths: Tensor | None, scheme: Scheme, log: bool = False) -> Tensor:
    """k(X_i, X_i), (n,)."""
    dx = split_increments(x, lengths, scheme)
    return solve_in_chunks(lambda a, b: solve_pairs(a, b, scheme, log), dx, dx)


def gram(
    x: Tensor,
    x_lengths: Tensor | None,
    y: Tensor,
    y_lengths: Tensor | None,
    scheme: Scheme,
) -> Tensor:
    """k(X_i, Y_j), (n, m)."""
    return solve_all_pairs(
        lambda a, b: solve_pairs(a, b, scheme, False),
        split_increments(x, x_lengths, scheme),
        split_increments(y, y_lengths, scheme),
    )


def solve_all_pairs(solve: Callable[[Tensor, Tensor], Tensor], dx: Tensor, dy: Tensor) -> Tensor:
    """solve(dx_i, dy_j) for all pairs, (n, m, ...); dx (n, I, d), dy (m, J, d); solve takes paired increments."""
    n, m = len(dx), len(dy)
    left = dx.repeat_interleave(m, 0)
    right = dy.repeat(n, 1, 1)
    values = solve_in_chunks(solve, left, right)
    return values.reshape(n, m, *values.shape[1:])


def solve_in_chunks(solve: Callable[[Tensor, Tensor], Tensor], dx: Tensor, dy: Tensor) -> Tensor:
    """solve(dx, dy) -> (n, ...), a bounded number of grid cells at a time."""
    size = max(1, CELLS_AT_ONCE // max(1, dx.shape[1] * dy.shape[1]))
    values = [solve(a, b) for a, b in zip(dx.split(size), dy.split(size), strict=True)]
    return torch.cat(values) if values else dx.new_zeros(0)


def solve_pairs(dx: Tensor, dy: Tensor, scheme: Scheme, log: bool) -> Tensor:
    """k of paired increments, (n,), or its logarithm; dx (n, I, d), dy (n, J, d)."""
    return solve_goursat(dx @ dy.transpose(1, 2), scheme.degree, scheme.powers, log=log)
