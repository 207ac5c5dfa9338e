r"""The signature kernel by torch alone: the oracle of the native core, and what computes where there is none.

Paths are cut into short pieces, which changes no kernel, and solved at a degree that leaves nothing but rounding; so
no tolerance has to be weighed. The finite-difference scheme is the cell of degree 1 with two powers of rho.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.numerics.inputs import row_mask
from siggpde.numerics.reference.goursat import goursat

LONGEST_PIECE = 1.0
MOST_PIECES = 20_000  # a segment: beyond this the kernel overflows anyway
CELLS_AT_ONCE = 2_000_000


class Scheme(NamedTuple):
    """Degree of the edges, powers of rho kept, and uniform splitting (0: split to short pieces)."""

    degree: int
    powers: int
    pieces: int


SERIES = Scheme(12, 18, 0)


def scheme_of(solver: str, refine: int) -> Scheme:
    """The scheme of a solver's name: "series", or "fd" with 2^refine pieces a segment."""
    return SERIES if solver == "series" else Scheme(1, 2, 2**refine)


def pieces(x: Tensor, lengths: Tensor | None, scheme: Scheme) -> Tensor:
    """Increments (n, pieces, channels) of the paths x (n, length, channels), split; short series end in zeros."""
    inside = row_mask(x, lengths)[:, 1:, None]
    # Masked on both sides, so that padding may hold anything and still gets no gradient.
    start, end = torch.where(inside, x[:, :-1], 0.0), torch.where(inside, x[:, 1:], 0.0)
    increments = end - start
    if scheme.pieces:
        return increments.repeat_interleave(scheme.pieces, 1) / scheme.pieces
    longest = increments.detach().norm(dim=2) / LONGEST_PIECE
    counts = longest.ceil().nan_to_num(nan=1.0, posinf=MOST_PIECES).clamp(1, MOST_PIECES).long()
    if bool((counts == 1).all()):
        return increments
    split = [
        (series / count[:, None]).repeat_interleave(count, 0) for series, count in zip(increments, counts, strict=True)
    ]
    return torch.nn.utils.rnn.pad_sequence(split, batch_first=True)


def diagonal(x: Tensor, lengths: Tensor | None, scheme: Scheme, log: bool = False) -> Tensor:
    """k(X_i, X_i), (n,)."""
    dx = pieces(x, lengths, scheme)
    return in_chunks(lambda a, b: solve(a, b, scheme, log), dx, dx)


def gram(
    x: Tensor,
    x_lengths: Tensor | None,
    y: Tensor,
    y_lengths: Tensor | None,
    scheme: Scheme,
) -> Tensor:
    """k(X_i, Y_j), (n, m)."""
    return gram_by(
        lambda a, b: solve(a, b, scheme, False),
        pieces(x, x_lengths, scheme),
        pieces(y, y_lengths, scheme),
    )


def gram_by(solve: Callable[[Tensor, Tensor], Tensor], dx: Tensor, dy: Tensor) -> Tensor:
    """All pairs (n, m) by a function of paired increments."""
    n, m = len(dx), len(dy)
    if n == 0 or m == 0:
        return dx.new_zeros(n, m) * (dx.sum() + dy.sum())  # in the graph, as any other
    left = dx.repeat_interleave(m, 0)
    right = dy.repeat(n, 1, 1)
    return in_chunks(solve, left, right).reshape(n, m)


def in_chunks(solve: Callable[[Tensor, Tensor], Tensor], dx: Tensor, dy: Tensor) -> Tensor:
    """solve(dx, dy) -> (n,), a bounded number of grid cells at a time."""
    size = max(1, CELLS_AT_ONCE // max(1, dx.shape[1] * dy.shape[1]))
    parts = [solve(a, b) for a, b in zip(dx.split(size), dy.split(size), strict=True)]
    return torch.cat(parts) if parts else dx.new_zeros(0)


def solve(dx: Tensor, dy: Tensor, scheme: Scheme, log: bool) -> Tensor:
    return goursat(dx @ dy.transpose(1, 2), scheme.degree, scheme.powers, log=log)
