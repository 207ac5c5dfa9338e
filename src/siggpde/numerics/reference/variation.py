r"""The kernel's gradient as the paper has it: by variation of the PDE, and by the augmented PDE.

Both are functions of paired increments, dx (n, I, d) and dy (n, J, d), with value k (n,).

*Variation* (Theorem 4.1, Algorithm 2). With V the solution from the far corner, that is the kernel of what is left of
both paths, :math:`\partial k / \partial \rho_{ij} = \int\!\!\int_{ij} U V`: two solves and no tape. U and V are
evaluated inside the cell from their edges, at Gauss points.

*Augmented* (Algorithm 1). Beside U, its derivatives in every direction gamma (one channel of one increment) are
carried: :math:`(U_\gamma)_{st} = \rho U_\gamma + \langle \gamma'_s, y'_t \rangle U`, from zero. As many solves as there
are numbers in the path.
"""

from functools import lru_cache
from math import factorial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.numerics.autograd import once
from siggpde.numerics.reference.cell import cell_matrices, cell_tables
from siggpde.numerics.reference.goursat import empty_cells, goursat
from siggpde.numerics.reference.kernel import Scheme


class Variation(torch.autograd.Function):
    """k of paired increments, differentiated by variation."""

    @staticmethod
    def forward(ctx: Any, dx: Tensor, dy: Tensor, scheme: Scheme) -> Tensor:
        ctx.save_for_backward(dx, dy)
        ctx.scheme = scheme
        return goursat(dx @ dy.transpose(1, 2), scheme.degree, scheme.powers)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return *once(_by_variation, *ctx.saved_tensors, grad, ctx.scheme), None


def _by_variation(dx: Tensor, dy: Tensor, grad: Tensor, scheme: Scheme) -> tuple[Tensor, Tensor]:
    weight = cell_integrals(dx @ dy.transpose(1, 2), scheme) * grad[:, None, None]
    return weight @ dy, weight.transpose(1, 2) @ dx


class Augmented(torch.autograd.Function):
    """k of paired increments, differentiated by the augmented PDE."""

    @staticmethod
    def forward(ctx: Any, dx: Tensor, dy: Tensor, scheme: Scheme) -> Tensor:
        ctx.save_for_backward(dx, dy)
        ctx.scheme = scheme
        return goursat(dx @ dy.transpose(1, 2), scheme.degree, scheme.powers)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return *once(_by_augmentation, *ctx.saved_tensors, grad, ctx.scheme), None


def _by_augmentation(dx: Tensor, dy: Tensor, grad: Tensor, scheme: Scheme) -> tuple[Tensor, Tensor]:
    of_x = torch.stack([directional(a, b, scheme) for a, b in zip(dx, dy, strict=True)])
    of_y = torch.stack([directional(b, a, scheme) for a, b in zip(dx, dy, strict=True)])
    return of_x * grad[:, None, None], of_y * grad[:, None, None]


def cell_integrals(rho: Tensor, scheme: Scheme) -> Tensor:
    """The integral of U V over every cell, (n, I, J)."""
    forward = _inside(rho, scheme)
    backward = _inside(rho.flip(1, 2), scheme).flip(1, 2)
    _, weights = _gauss(_points(scheme))
    weight = torch.as_tensor(weights, dtype=rho.dtype, device=rho.device)
    # A cell of the reversed problem runs the other way: its points, symmetric in the cell, are met in reverse order.
    return torch.einsum("nijpq,nijpq,p,q->nij", forward, backward.flip(3, 4), weight, weight)


def _points(scheme: Scheme) -> int:
    return scheme.degree + 2


@lru_cache(maxsize=16)
def _gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2


@lru_cache(maxsize=16)
def _edge_integrals(degree: int, powers: int) -> np.ndarray:
    """(J^(n+1) P_k)(s_p) / n! at the Gauss points: (powers + 1, degree, points)."""
    nodes, _ = _gauss(degree + 2)
    out = np.empty((powers + 1, degree, len(nodes)))
    for k in range(degree):
        polynomial = np.polynomial.Legendre.basis(k, domain=[0, 1])
        for n in range(powers + 1):
            polynomial = polynomial.integ(lbnd=0)
            out[n, k] = polynomial(nodes) / factorial(n)
    return out


def _inside(rho: Tensor, scheme: Scheme) -> Tensor:
    """U at the Gauss points of every cell, (n, I, J, points in s, points in t)."""
    cells = empty_cells(rho, scheme.degree)
    goursat(rho, scheme.degree, scheme.powers, cells=cells)
    powers = scheme.powers
    nodes, _ = _gauss(_points(scheme))
    exponents = np.arange(powers + 1)
    grown = torch.as_tensor(nodes[:, None] ** exponents, dtype=rho.dtype, device=rho.device)
    integrals = torch.as_tensor(_edge_integrals(scheme.degree, powers), dtype=rho.dtype, device=rho.device)
    factorials = torch.as_tensor([1 / factorial(n) ** 2 for n in exponents], dtype=rho.dtype, device=rho.device)
    monomials = rho.unsqueeze(-1) ** torch.as_tensor(exponents, device=rho.device)
    corner = torch.einsum("nij,nije,pe,qe,e->nijpq", cells.corner, monomials, grown, grown, factorials)
    # p runs along the columns of the grid, as the bottom edges do, q along its rows.
    bottom = torch.einsum("nijk,nije,ekp,qe->nijpq", cells.bottom, monomials, integrals, grown)
    left = torch.einsum("nijk,nije,ekq,pe->nijpq", cells.left, monomials, integrals, grown)
    return corner + bottom + left


def directional(dx: Tensor, dy: Tensor, scheme: Scheme) -> Tensor:
    """Derivatives of k in every number of dx (I, d), for one pair of paths."""
    degree, powers = scheme.degree, scheme.powers
    rows, channels = dx.shape
    columns = len(dy)
    rho = dx @ dy.T
    slopes = _slopes(rho, degree, powers)
    keep, swap, lift = cell_matrices(rho, degree, powers)
    # Axis 0: the path itself, then one direction for every number of dx.
    count = 1 + rows * channels
    bottom = dx.new_zeros(columns, count, degree)
    value = dx.new_ones(count)
    for i in range(rows):
        left, corner = dx.new_zeros(count, degree), dx.new_zeros(count)
        corner[0] = 1
        mine = slice(1 + i * channels, 1 + (i + 1) * channels)
        for j in range(columns):
            below = bottom[j]
            source = corner[:, None] * lift[i, j]
            top = below @ keep[i, j].T + left @ swap[i, j].T + source
            right = left @ keep[i, j].T + below @ swap[i, j].T + source
            dkeep, dswap, dlift = (slope[i, j] for slope in slopes)
            top_slope = dkeep @ below[0] + dswap @ left[0] + dlift * corner[0]
            right_slope = dkeep @ left[0] + dswap @ below[0] + dlift * corner[0]
            top[mine] += dy[j][:, None] * top_slope
            right[mine] += dy[j][:, None] * right_slope
            corner = corner + below[:, 0]
            bottom[j], left = top, right
        value = corner + left[:, 0]
    return value[1:].reshape(rows, channels) if rows and columns else dx.new_zeros(rows, channels)


def _slopes(rho: Tensor, degree: int, powers: int) -> tuple[Tensor, Tensor, Tensor]:
    """Derivatives of the cell matrices in rho."""
    exponents = torch.arange(powers + 1, device=rho.device)
    monomials = exponents * rho.unsqueeze(-1) ** (exponents - 1).clamp(min=0)
    keep, swap, lift = (table.to(rho) for table in cell_tables(degree, powers))
    return (
        torch.einsum("...n,njk->...jk", monomials, keep),
        torch.einsum("...n,njk->...jk", monomials, swap),
        torch.einsum("...n,nj->...j", monomials, lift),
    )
