r"""The signature kernel by torch alone: slow, obvious, on any device, differentiable by autograd.

The oracle of the native core, and what computes where the core is not available. It always works at high degree, so it
needs no choice of one: after splitting segments until their length is at most `LONGEST_SEGMENT`, sixteen Legendre
coefficients an edge leave nothing but rounding.
"""

import torch
from torch import Tensor

from siggpde._reference.cell import cell_matrices

LONGEST_SEGMENT = 1.0
SERIES_DEGREE = 12
SERIES_POWERS = 18


def goursat(rho: Tensor, degree: int, powers: int) -> Tensor:
    """Solve U_st = rho U with U = 1 on the axes; rho (n, I, J) is constant per cell. Returns U at the far corner (n,).

    Cells on an anti-diagonal do not depend on each other: they are advanced together.
    """
    n, rows, columns = rho.shape
    left = rho.new_zeros(n, rows, degree)
    bottom = rho.new_zeros(n, columns, degree)
    corner = rho.new_ones(n, rows)
    if rows == 0 or columns == 0:
        return rho.new_ones(n)
    for t in range(rows + columns - 1):
        lo, hi = max(0, t - columns + 1), min(rows - 1, t)
        i = torch.arange(lo, hi + 1, device=rho.device)
        a, b, c = left[:, lo : hi + 1], bottom[:, t - hi : t - lo + 1].flip(1), corner[:, lo : hi + 1]
        keep, swap, lift = cell_matrices(rho[:, i, t - i], degree, powers)
        source = lift * c.unsqueeze(-1)
        top = torch.einsum("nijk,nik->nij", keep, b) + torch.einsum("nijk,nik->nij", swap, a) + source
        right = torch.einsum("nijk,nik->nij", keep, a) + torch.einsum("nijk,nik->nij", swap, b) + source
        left = torch.cat([left[:, :lo], right, left[:, hi + 1 :]], 1)
        bottom = torch.cat([bottom[:, : t - hi], top.flip(1), bottom[:, t - lo + 1 :]], 1)
        corner = torch.cat([corner[:, :lo], c + b[..., 0], corner[:, hi + 1 :]], 1)
    return corner[:, -1] + left[:, -1, 0]
