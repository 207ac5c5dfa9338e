r"""The Goursat problem by anti-diagonals, in plain torch: slow, on any device, differentiable by autograd.

:math:`U_{st} = \rho U` with the boundary condition :math:`U(0, \cdot) = U(\cdot, 0) = 1` and rho constant on each cell
of a grid. A cell needs its left and its lower neighbour only, so that all cells (i, j) of an anti-diagonal i + j = t
can be advanced together: the parallel solver of Lemercier et al. (2021) for GPUs, with the cells of
`siggpde.numerics.reference.cell`.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.numerics.reference.cell import cell_matrices

RESCALE_ABOVE = 1e150


class Cells(NamedTuple):
    """The inputs of every cell: left (n, I, J, m) and bottom (n, I, J, m) edges, corner value (n, I, J)."""

    left: Tensor
    bottom: Tensor
    corner: Tensor


class Front(NamedTuple):
    """The inputs of the cells to come: left edge (n, I, m) and corner value (n, I) of the next cell of each row,
    bottom edge (n, J, m) of the next cell of each column."""

    left: Tensor
    bottom: Tensor
    corner: Tensor


def solve_goursat(
    rho: Tensor,
    degree: int,
    powers: int,
    *,
    log: bool = False,
    cells: Cells | None = None,
) -> Tensor:
    """U at the far corner, (n,), or its logarithm; rho (n, I, J). `cells`, if given, is filled.

    This is the PDE of the paper, of which k(X, Y) is the solution at the far corner.
    """
    end, shift = solve_scaled(rho, degree, powers, rescale=log, cells=cells)
    return end.log() + shift if log else end


def solve_scaled(
    rho: Tensor, degree: int, powers: int, *, rescale: bool = True, cells: Cells | None = None
) -> tuple[Tensor, Tensor]:
    """(u, shift), both (n,), with U = u exp(shift) at the far corner; without `rescale` shift is zero.

    The problem is linear in the boundary values: a series may be rescaled as a whole at any time.
    """
    n, rows, columns = rho.shape
    shift = rho.new_zeros(n)
    if rows == 0 or columns == 0:  # a point: k = 1, in the graph as every other result
        return rho.sum((1, 2)) + 1, shift
    front = boundary(rho, degree)
    for t in range(rows + columns - 1):
        front = advance_antidiagonal(front, rho, t, degree, powers, cells)
        if rescale:
            grown = front.corner.detach().abs().amax(1) > RESCALE_ABOVE
            factor = torch.where(grown, rho.new_tensor(1 / RESCALE_ABOVE), 1.0)
            shift = shift - factor.log()
            front = Front(
                front.left * factor[:, None, None],
                front.bottom * factor[:, None, None],
                front.corner * factor[:, None],
            )
    return front.corner[:, -1] + front.left[:, -1, 0], shift


def boundary(rho: Tensor, degree: int) -> Front:
    """The boundary condition U(0, .) = U(., 0) = 1: corner values on the axes are 1, derivatives along them 0.

    They are the boundary conditions of the paper's PDE.
    """
    n, rows, columns = rho.shape
    return Front(rho.new_zeros(n, rows, degree), rho.new_zeros(n, columns, degree), rho.new_ones(n, rows))


def advance_antidiagonal(
    front: Front, rho: Tensor, t: int, degree: int, powers: int, cells: Cells | None = None
) -> Front:
    """Solves all cells (i, t - i) of anti-diagonal t at once; `cells`, if given, gets their inputs.

    The paper's GPU solver advances the cells of an anti-diagonal in parallel in the same way.
    """
    left, bottom, corner = front
    _, rows, columns = rho.shape
    lo, hi = max(0, t - columns + 1), min(rows - 1, t)
    i = torch.arange(lo, hi + 1, device=rho.device)
    a, b, c = left[:, lo : hi + 1], bottom[:, t - hi : t - lo + 1].flip(1), corner[:, lo : hi + 1]
    if cells is not None:
        cells.left[:, i, t - i], cells.bottom[:, i, t - i], cells.corner[:, i, t - i] = a, b, c
    keep, swap, lift = cell_matrices(rho[:, i, t - i], degree, powers)
    source = lift * c.unsqueeze(-1)
    top = _apply(keep, b) + _apply(swap, a) + source
    right = _apply(keep, a) + _apply(swap, b) + source
    return Front(
        torch.cat([left[:, :lo], right, left[:, hi + 1 :]], 1),
        torch.cat([bottom[:, : t - hi], top.flip(1), bottom[:, t - lo + 1 :]], 1),
        torch.cat([corner[:, :lo], c + b[..., 0], corner[:, hi + 1 :]], 1),
    )


def empty_cells(rho: Tensor, degree: int) -> Cells:
    """Uninitialised memory for the inputs of every cell of rho (n, I, J)."""
    edges = rho.new_empty(*rho.shape, degree)
    return Cells(edges, edges.clone(), rho.new_empty(rho.shape))


def _apply(matrix: Tensor, edge: Tensor) -> Tensor:
    return torch.einsum("nijk,nik->nij", matrix, edge)
