r"""Algorithm 2 of the paper: the gradient of the kernel by variation of the PDE, from two solutions.

Lemercier et al. (2021), section 4, Theorem 4.1 and Algorithm 2. Let U solve the Goursat problem of the paths and V the
one of the time-reversed paths, so that V(s, t) is the kernel of what is left of both paths after s and t. Then

.. math:: \frac{\partial k}{\partial \rho_{ij}} = \int\!\!\int_{\text{cell } ij} U(s, t)\, V(s, t)\, ds\, dt,

where :math:`\rho_{ij} = \langle dx_i, dy_j \rangle`, and the chain rule gives the gradient in the increments. U and V
are evaluated inside the cells, from the edges, at the points of a Gauss rule.
"""

from functools import lru_cache
from math import factorial

import numpy as np
import torch
from torch import Tensor

from siggpde.numerics.goursat import Cells, Scheme, empty_cells, solve_goursat

# A cell has 200 bytes of edges, and 1600 inside.
_CELLS_AT_ONCE = 250_000
_CELLS_EVALUATED_AT_ONCE = 10_000


def gradients(dx: Tensor, dy: Tensor, grad: Tensor, scheme: Scheme) -> tuple[Tensor, Tensor]:
    """Algorithm 2: gradients in dx (n, I, d) and dy (n, J, d) of the kernels of n pairs, each times its grad (n,).

    By the chain rule from rho to the increments.
    """
    rho = dx @ dy.transpose(1, 2)
    size = max(1, _CELLS_AT_ONCE // max(1, rho.shape[1] * rho.shape[2]))
    weight = torch.cat([kernel_variation(part, scheme) for part in rho.split(size)]) * grad[:, None, None]
    return weight @ dy, weight.transpose(1, 2) @ dx


def kernel_variation(rho: Tensor, scheme: Scheme) -> Tensor:
    """dk/drho (n, I, J): the integral of U V over every cell (Theorem 4.1)."""
    forward, backward = edges(rho, scheme), edges(rho.flip(1, 2), scheme)
    _, weights = _gauss(_points(scheme))
    weight = torch.as_tensor(weights, dtype=rho.dtype, device=rho.device)
    out = torch.empty_like(rho)
    _, rows, columns = rho.shape
    size = max(1, _CELLS_EVALUATED_AT_ONCE // max(1, len(rho) * columns))
    for begin in range(0, rows, size):
        end = min(begin + size, rows)
        u = inside(forward, rho, scheme, slice(begin, end))
        v = turned(inside(backward, rho.flip(1, 2), scheme, slice(rows - end, rows - begin)))
        out[:, begin:end] = torch.einsum("nijpq,nijpq,p,q->nij", u, v, weight, weight)
    return out


def edges(rho: Tensor, scheme: Scheme) -> Cells:
    """The edges and corner values of every cell of the solution."""
    cells = empty_cells(rho, scheme.degree)
    solve_goursat(rho, scheme.degree, scheme.powers, cells=cells)
    return cells


def inside(cells: Cells, rho: Tensor, scheme: Scheme, rows: slice) -> Tensor:
    """U at the Gauss points of the cells of some rows, (n, rows, J, points in s, points in t), by Riemann's formula."""
    exponents = np.arange(scheme.powers + 1)
    nodes, _ = _gauss(_points(scheme))
    grown = torch.as_tensor(nodes[:, None] ** exponents).to(rho)  # (points, powers)
    factorials = torch.as_tensor([1 / factorial(n) ** 2 for n in exponents], dtype=torch.float64).to(rho)
    integrals = torch.as_tensor(_edge_integrals(scheme.degree, scheme.powers)).to(rho)
    monomials = rho[:, rows].unsqueeze(-1) ** torch.as_tensor(exponents, device=rho.device)

    def integrated(edge: Tensor) -> Tensor:
        """The sum over k of the coefficients times rho^n (J^(n+1) P_k) / n!, (n, rows, J, powers, points)."""
        flat = integrals.transpose(0, 1).flatten(1)  # (degree, powers points)
        return (edge[:, rows] @ flat).unflatten(-1, integrals.shape[::2]) * monomials.unsqueeze(-1)

    corner = (cells.corner[:, rows].unsqueeze(-1) * monomials * factorials).unsqueeze(-1) * grown.T
    # p, the last but one, runs along the columns of the grid, as the bottom edges do, q along its rows.
    return integrated(cells.bottom).transpose(-1, -2) @ grown.T + grown @ (integrated(cells.left) + corner)


def solution(rho: Tensor, scheme: Scheme) -> Tensor:
    """U at the Gauss points of every cell, (n, I, J, points in s, points in t)."""
    return inside(edges(rho, scheme), rho, scheme, slice(None))


def turned(values: Tensor) -> Tensor:
    """Reversal in time: of the order of the cells and, inside each cell, of its points, which lie symmetrically."""
    return values.flip(1, 2).flip(3, 4)


def time_reversed_solution(rho: Tensor, scheme: Scheme) -> Tensor:
    """V at the same points: the solution for both paths reversed in time, in the order of the original cells.

    By the time-reversal lemma of the paper, section 4.
    """
    return turned(solution(rho.flip(1, 2), scheme))


def _points(scheme: Scheme) -> int:
    return scheme.degree + 2


@lru_cache(maxsize=16)
def _gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the Gauss-Legendre rule on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2


@lru_cache(maxsize=16)
def _edge_integrals(degree: int, powers: int) -> np.ndarray:
    """(J^(n+1) P_k)(s_p) / n! at the Gauss points, J being the integration from 0: (powers + 1, degree, points)."""
    nodes, _ = _gauss(degree + 2)
    out = np.empty((powers + 1, degree, len(nodes)))
    for k in range(degree):
        polynomial = np.polynomial.Legendre.basis(k, domain=[0, 1])
        for n in range(powers + 1):
            polynomial = polynomial.integ(lbnd=0)
            out[n, k] = polynomial(nodes) / factorial(n)
    return out
