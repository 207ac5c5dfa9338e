"""The Goursat problem U_st = rho U, U(0, .) = U(., 0) = 1, whose far corner is k(X, Y), in plain torch: slow, on any
device, differentiable. Edges of cells are in shifted Legendre polynomials (docs/design.md), cells of an anti-diagonal
advance together, and paths are split into pieces so short that errors are below rounding."""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import factorial
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.numerics.inputs import row_mask
from siggpde.numerics.static_kernels import StaticKernel, less_one, squared_segments


def _integrate(coefficients: list[Fraction]) -> list[Fraction]:
    """Returns the Legendre coefficients of the integral from 0 of a polynomial with these coefficients."""
    out = [Fraction(0)] * (len(coefficients) + 1)
    for k, value in enumerate(coefficients):
        out[k + 1] += value / (2 * (2 * k + 1))
        if k == 0:
            out[0] += value / 2
        else:
            out[k - 1] -= value / (2 * (2 * k + 1))
    return out


@lru_cache(maxsize=64)
def cell_tables(degree: int, powers: int) -> tuple[Tensor, Tensor, Tensor]:
    """Coefficients of rho^0..rho^powers in E, F (powers+1, m, m) and g (powers+1, m), float64, exactly rounded."""
    size = (powers + 1, degree, degree)
    keep, swap, lift = (torch.zeros(size).double(), torch.zeros(size).double(), torch.zeros(size[:2]).double())
    for k in range(degree):
        power_of_j = [Fraction(int(i == k)) for i in range(k + 1)]
        for n in range(powers + 1):
            for j, value in enumerate(power_of_j[:degree]):
                keep[n, j, k] = float(value / factorial(n))
            power_of_j = _integrate(power_of_j)
    for n in range(1, powers + 1):
        for j in range(min(degree, n)):
            row = Fraction(2 * j + 1, factorial(n - 1 - j) * factorial(n + j))
            lift[n, j] = float(row / n)
            for k in range(min(degree, n + 1)):
                value = row * n * factorial(n - 1) ** 2 / (factorial(n - k) * factorial(n + k + 1))
                swap[n, j, k] = float((-1) ** k * value)
    return keep, swap, lift


class Scheme(NamedTuple):
    """Degree of the edges, powers of rho kept, and pieces of every segment (0: as many as make them short)."""

    degree: int
    powers: int
    pieces: int


def cell_matrices(rho: Tensor, scheme: Scheme, *, slopes: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """E (..., m, m), F (..., m, m) and g (..., m) at every rho (...), or their derivatives in rho."""
    n = torch.arange(scheme.powers + 1, device=rho.device)
    powers = n * rho.unsqueeze(-1) ** (n - 1).clamp(min=0) if slopes else rho.unsqueeze(-1) ** n
    keep, swap, lift = (table.to(powers) for table in cell_tables(scheme.degree, scheme.powers))
    return (
        torch.einsum("...n,njk->...jk", powers, keep),
        torch.einsum("...n,njk->...jk", powers, swap),
        torch.einsum("...n,nj->...j", powers, lift),
    )


RESCALE_ABOVE = 1e150


class Cells(NamedTuple):
    """The inputs of every cell: left (n, I, J, m) and bottom (n, I, J, m) edges, corner value (n, I, J)."""

    left: Tensor
    bottom: Tensor
    corner: Tensor


class Front(NamedTuple):
    """The edges that the next cells read: left (n, I, m) and corner (n, I) by rows, bottom (n, J, m) by columns."""

    left: Tensor
    bottom: Tensor
    corner: Tensor


def solve_goursat(rho: Tensor, scheme: Scheme, *, log: bool = False, cells: Cells | None = None) -> Tensor:
    """U of the paper's PDE at the far corner, (n,), or its logarithm; rho (n, I, J). `cells`, if given, is filled."""
    end, shift = solve_scaled(rho, scheme, rescale=log, cells=cells)
    return end.log() + shift if log else end


def solve_scaled(
    rho: Tensor, scheme: Scheme, *, rescale: bool = True, cells: Cells | None = None
) -> tuple[Tensor, Tensor]:
    """(u, shift), both (n,), with U = u exp(shift) at the far corner; without `rescale` shift is zero. U is linear in
    its boundary values: a series may be rescaled as a whole at any time."""
    n, rows, columns = rho.shape
    shift = rho.new_zeros(n)
    if rows == 0 or columns == 0:  # a point: k = 1, in the graph as every other result
        return rho.sum((1, 2)) + 1, shift
    front = boundary(rho, scheme.degree)
    for t in range(rows + columns - 1):
        front = advance_antidiagonal(front, rho, t, scheme, cells)
        if rescale:
            grown = front.corner.detach().abs().amax(1) > RESCALE_ABOVE
            factor = torch.where(grown, rho.new_tensor(1 / RESCALE_ABOVE), 1.0)
            shift = shift - factor.log()
            front = Front(
                front.left * factor[:, None, None], front.bottom * factor[:, None, None], front.corner * factor[:, None]
            )
    return front.corner[:, -1] + front.left[:, -1, 0], shift


def boundary(rho: Tensor, degree: int) -> Front:
    """The boundary condition U(0, .) = U(., 0) = 1 of the paper: corner values on the axes are 1, derivatives 0."""
    n, rows, columns = rho.shape
    return Front(rho.new_zeros(n, rows, degree), rho.new_zeros(n, columns, degree), rho.new_ones(n, rows))


def advance_antidiagonal(front: Front, rho: Tensor, t: int, scheme: Scheme, cells: Cells | None = None) -> Front:
    """Solves all cells (i, t - i) of anti-diagonal t at once, as the paper's GPU solver; fills `cells`, if given."""
    left, bottom, corner = front
    _, rows, columns = rho.shape
    lo, hi = max(0, t - columns + 1), min(rows - 1, t)
    i = torch.arange(lo, hi + 1, device=rho.device)
    a, b, c = left[:, lo : hi + 1], bottom[:, t - hi : t - lo + 1].flip(1), corner[:, lo : hi + 1]
    if cells is not None:
        cells.left[:, i, t - i], cells.bottom[:, i, t - i], cells.corner[:, i, t - i] = a, b, c
    keep, swap, lift = cell_matrices(rho[:, i, t - i], scheme)
    source = lift * c.unsqueeze(-1)
    top = _apply(keep, b) + _apply(swap, a) + source
    right = _apply(keep, a) + _apply(swap, b) + source
    return Front(
        torch.cat([left[:, :lo], right, left[:, hi + 1 :]], 1),
        torch.cat([bottom[:, : t - hi], top.flip(1), bottom[:, t - lo + 1 :]], 1),
        torch.cat([corner[:, :lo], c + b[..., 0], corner[:, hi + 1 :]], 1),
    )


def empty_cells(rho: Tensor, degree: int) -> Cells:
    edges = rho.new_empty(*rho.shape, degree)
    return Cells(edges, edges.clone(), rho.new_empty(rho.shape))


def _apply(matrix: Tensor, edge: Tensor) -> Tensor:
    return torch.einsum("nijk,nik->nij", matrix, edge)


MAX_PIECE_LENGTH = 1.0
MAX_PIECES = 20_000  # of a segment: with more the kernel overflows anyway
CELLS_AT_ONCE = 2_000_000

# A segment longer than this makes k of a part of the path exceed the range of the type, or of log k. The core has the
# same limits, so that it and the reference refuse the same series, before any work.
LONGEST_SEGMENT = {torch.float64: 700.0, torch.float32: 87.0}
LONGEST_SEGMENT_OF_LOG = 1e4


LEGENDRE = Scheme(12, 18, 0)


def scheme_of(refine: int) -> Scheme:
    """Finite differences with 2^refine pieces a segment, the paper's solver; the Legendre scheme for refine = -1."""
    return LEGENDRE if refine < 0 else Scheme(1, 2, 2**refine)


def split_path(x: Tensor, lengths: Tensor | None, scheme: Scheme, static: StaticKernel | None = None) -> Tensor:
    """Returns the pieces (n, pieces, fields): increments, or with a static kernel start, end and 1 / pieces."""
    mask = row_mask(x, lengths)[:, :, None]
    inside = mask[:, 1:]
    # Masked on both sides, so that padding may hold anything and still gets no gradient.
    start, end = torch.where(inside, x[:, :-1], 0.0), torch.where(inside, x[:, 1:], 0.0)
    if scheme.pieces:
        counts = torch.full(start.shape[:2], scheme.pieces, device=x.device)
    else:  # as many as make them short
        if static is None:
            long = (end - start).detach().norm(dim=2)
        else:
            long = squared_segments(static, torch.where(mask, x, 0.0).detach()).sqrt() * inside[:, :, 0]
        counts = (long / MAX_PIECE_LENGTH).ceil().nan_to_num(nan=1.0, posinf=MAX_PIECES).clamp(1, MAX_PIECES).long()
    parts = counts[:, :, None]
    pieces = (end - start) / parts if static is None else torch.cat([start, end, inside / parts.to(x)], 2)
    if bool((counts == 1).all()):
        return pieces
    split = [series.repeat_interleave(count, 0) for series, count in zip(pieces, counts, strict=True)]
    return torch.nn.utils.rnn.pad_sequence(split, batch_first=True)


def solve_in_chunks(solve: Callable[[Tensor, Tensor], Tensor], dx: Tensor, dy: Tensor) -> Tensor:
    """solve(dx, dy) -> (n, ...), a bounded number of grid cells at a time."""
    size = max(1, CELLS_AT_ONCE // max(1, dx.shape[1] * dy.shape[1]))
    values = [solve(a, b) for a, b in zip(dx.split(size), dy.split(size), strict=True)]
    return torch.cat(values) if values else dx.new_zeros(0)


def lifted_coefficients(pieces_x: Tensor, pieces_y: Tensor, static: StaticKernel) -> Tensor:
    """p_ij (n, I, J) of all pairs of pieces of paired paths, as `split_path` gives them."""
    channels = pieces_x.shape[2] // 2
    x, to_x, factor_x = pieces_x.split([channels, channels, 1], 2)
    y, to_y, factor_y = pieces_y.split([channels, channels, 1], 2)
    corners = (
        less_one(static, to_x, to_y) - less_one(static, x, to_y) - less_one(static, to_x, y) + less_one(static, x, y)
    )
    return corners * (factor_x * factor_y.transpose(1, 2)) * static.parameters(corners)[1] ** 2
