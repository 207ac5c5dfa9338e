r"""The Goursat problem by torch alone: slow, obvious, on any device, differentiable by autograd.

U_st = rho U with U = 1 on both axes and rho constant on each cell of a grid. The cells of an anti-diagonal do not
depend on each other and are advanced together.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.numerics.reference.cell import cell_matrices

RESCALE_ABOVE = 1e150


class Cells(NamedTuple):
    """What every cell starts from: left (n, I, J, m) and bottom (n, I, J, m) edges, corner (n, I, J)."""

    left: Tensor
    bottom: Tensor
    corner: Tensor


def goursat(
    rho: Tensor,
    degree: int,
    powers: int,
    *,
    log: bool = False,
    cells: Cells | None = None,
) -> Tensor:
    """U at the far corner, (n,), or its logarithm; rho (n, I, J). `cells`, if given, is filled."""
    n, rows, columns = rho.shape
    shift = rho.new_zeros(n)
    if rows == 0 or columns == 0:
        return shift if log else shift + 1
    left = rho.new_zeros(n, rows, degree)
    bottom = rho.new_zeros(n, columns, degree)
    corner = rho.new_ones(n, rows)
    for t in range(rows + columns - 1):
        lo, hi = max(0, t - columns + 1), min(rows - 1, t)
        i = torch.arange(lo, hi + 1, device=rho.device)
        a, b, c = (
            left[:, lo : hi + 1],
            bottom[:, t - hi : t - lo + 1].flip(1),
            corner[:, lo : hi + 1],
        )
        if cells is not None:
            (
                cells.left[:, i, t - i],
                cells.bottom[:, i, t - i],
                cells.corner[:, i, t - i],
            ) = a, b, c
        keep, swap, lift = cell_matrices(rho[:, i, t - i], degree, powers)
        source = lift * c.unsqueeze(-1)
        top = _apply(keep, b) + _apply(swap, a) + source
        right = _apply(keep, a) + _apply(swap, b) + source
        left = torch.cat([left[:, :lo], right, left[:, hi + 1 :]], 1)
        bottom = torch.cat([bottom[:, : t - hi], top.flip(1), bottom[:, t - lo + 1 :]], 1)
        corner = torch.cat([corner[:, :lo], c + b[..., 0], corner[:, hi + 1 :]], 1)
        if log:
            # The problem is linear in the boundary values: a series may be rescaled as a whole at any time.
            grown = corner.detach().abs().amax(1) > RESCALE_ABOVE
            factor = torch.where(grown, 1 / RESCALE_ABOVE, 1.0).to(rho)
            shift = shift - factor.log()
            left, bottom, corner = (
                left * factor[:, None, None],
                bottom * factor[:, None, None],
                corner * factor[:, None],
            )
    end = corner[:, -1] + left[:, -1, 0]
    return end.log() + shift if log else end


def empty_cells(rho: Tensor, degree: int) -> Cells:
    """Room for the states of every cell of rho (n, I, J)."""
    edges = rho.new_empty(*rho.shape, degree)
    return Cells(edges, edges.clone(), rho.new_empty(rho.shape))


def _apply(matrix: Tensor, edge: Tensor) -> Tensor:
    return torch.einsum("nijk,nik->nij", matrix, edge)
