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

from siggpde.numerics.reference.goursat import empty_cells, solve_goursat
from siggpde.numerics.reference.kernel import Scheme


def gradients(dx: Tensor, dy: Tensor, grad: Tensor, scheme: Scheme) -> tuple[Tensor, Tensor]:
    """Algorithm 2: gradients in dx (n, I, d) and dy (n, J, d) of the kernels of n pairs, each times its grad (n,).

    By the chain rule from rho to the increments.
    """
    weight = kernel_variation(dx @ dy.transpose(1, 2), scheme) * grad[:, None, None]
    return weight @ dy, weight.transpose(1, 2) @ dx


def kernel_variation(rho: Tensor, scheme: Scheme) -> Tensor:
    """dk/drho (n, I, J): the integral of U V over every cell (Theorem 4.1)."""
    forward, backward = solution(rho, scheme), time_reversed_solution(rho, scheme)
    _, weights = _gauss(_points(scheme))
    weight = torch.as_tensor(weights, dtype=rho.dtype, device=rho.device)
    return torch.einsum("nijpq,nijpq,p,q->nij", forward, backward, weight, weight)


def solution(rho: Tensor, scheme: Scheme) -> Tensor:
    """U at the Gauss points of every cell, (n, I, J, points in s, points in t), by Riemann's formula from the edges."""
    cells = empty_cells(rho, scheme.degree)
    solve_goursat(rho, scheme.degree, scheme.powers, cells=cells)
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


def time_reversed_solution(rho: Tensor, scheme: Scheme) -> Tensor:
    """V at the same points: the solution for both paths reversed in time, in the order of the original cells.

    By the time-reversal lemma of the paper, section 4.
    """
    # Reversal reverses the order of the cells and, inside each cell, of its points, which lie symmetrically.
    return solution(rho.flip(1, 2), scheme).flip(1, 2).flip(3, 4)


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
