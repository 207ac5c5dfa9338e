"""Algorithms 1 and 2 of the SigGPDE paper (Lemercier et al., 2021, section 4) in plain torch: oracles of the backends'
exact derivative, `gradient="adjoint"`."""

from functools import lru_cache, partial
from math import factorial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from siggpde.numerics.autograd import Pairs, refuse_transforms, with_gradients
from siggpde.numerics.goursat import (
    Cells,
    Scheme,
    cell_matrices,
    empty_cells,
    scheme_of,
    solve_goursat,
)
from siggpde.numerics.reference import PairSolver, check_range, diagonal_by, gram_by
from siggpde.numerics.static_kernels import KernelSettings

_DIRECTIONS_AT_ONCE = 1000


def augmented_gradients(scheme: Scheme, grad: Tensor, dx: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients by Algorithm 1 in dx (n, I, d) and dy (n, J, d) of the kernels of n pairs, each times its grad (n,)."""
    of_x, of_y = torch.empty_like(dx), torch.empty_like(dy)
    for pair, (a, b) in enumerate(zip(dx, dy, strict=True)):
        of_x[pair], of_y[pair] = augmented_gradient(a, b, scheme), augmented_gradient(b, a, scheme)
    return of_x * grad[:, None, None], of_y * grad[:, None, None]


def augmented_gradient(dx: Tensor, dy: Tensor, scheme: Scheme) -> Tensor:
    """Returns dk/d(dx) (I, d) for one pair of paths: the derivatives in the directions of all localised impulses."""
    slopes = [
        directional_derivatives(dx, dy, localised_impulses(dx, begin, begin + _DIRECTIONS_AT_ONCE), scheme)
        for begin in range(0, dx.numel(), _DIRECTIONS_AT_ONCE)
    ]
    return torch.cat(slopes).reshape(dx.shape) if slopes else torch.zeros_like(dx)


def localised_impulses(dx: Tensor, begin: int = 0, end: int | None = None) -> Tensor:
    """The paper's localised impulses `begin` to `end` of (I d, I, d): each raises one number of dx.flatten() by one."""
    chosen = torch.arange(dx.numel(), device=dx.device)[begin:end]
    impulses = dx.new_zeros(len(chosen), dx.numel())
    impulses[torch.arange(len(chosen), device=dx.device), chosen] = 1
    return impulses.reshape(-1, *dx.shape)


def directional_derivatives(dx: Tensor, dy: Tensor, directions: Tensor, scheme: Scheme) -> Tensor:
    """The derivatives (D,) of k of a pair of paths in `directions` (D, I, d) of the increments dx (I, d); dy (J, d).

    Algorithm 1 solves (U_g)_st = <x'_s, y'_t> U_g + <g'_s, y'_t> U with U_g(0, .) = U_g(., 0) = 0 together with U.
    """
    rows, columns = len(dx), len(dy)
    if rows == 0 or columns == 0:
        return dx.new_zeros(len(directions))
    rho = dx @ dy.T
    keep, swap, lift = cell_matrices(rho, scheme)
    slopes = cell_matrices(rho, scheme, slopes=True)
    # Axis 0 of edges and corners: U first, then U_gamma of every direction.
    count = 1 + len(directions)
    bottom = dx.new_zeros(columns, count, scheme.degree)  # U(., 0) = 1 and U_gamma(., 0) = 0 have derivative 0
    value = dx.new_ones(count)
    for i in range(rows):
        left = dx.new_zeros(count, scheme.degree)  # as have U(0, .) = 1 and U_gamma(0, .) = 0
        corner = dx.new_zeros(count)
        corner[0] = 1
        for j in range(columns):
            below = bottom[j]
            lifted = corner[:, None] * lift[i, j]
            top = below @ keep[i, j].T + left @ swap[i, j].T + lifted
            right = left @ keep[i, j].T + below @ swap[i, j].T + lifted
            # The source: d rho_ij / d gamma = <gamma_i, dy_j> times the derivative of the cell's step of U in rho.
            keep_slope, swap_slope, lift_slope = (slope[i, j] for slope in slopes)
            rho_slope = (directions[:, i] @ dy[j])[:, None]
            top[1:] += rho_slope * (keep_slope @ below[0] + swap_slope @ left[0] + lift_slope * corner[0])
            right[1:] += rho_slope * (keep_slope @ left[0] + swap_slope @ below[0] + lift_slope * corner[0])
            corner = corner + below[:, 0]
            bottom[j], left = top, right
        value = corner + left[:, 0]
    return value[1:]


# A cell has 200 bytes of edges, and 1600 inside.
_CELLS_AT_ONCE = 250_000
_CELLS_EVALUATED_AT_ONCE = 10_000


def variation_gradients(scheme: Scheme, grad: Tensor, dx: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients by Algorithm 2 in dx (n, I, d) and dy (n, J, d) of the kernels of n pairs, each times its grad (n,)."""
    rho = dx @ dy.transpose(1, 2)
    size = max(1, _CELLS_AT_ONCE // max(1, rho.shape[1] * rho.shape[2]))
    weight = torch.cat([kernel_variation(part, scheme) for part in rho.split(size)]) * grad[:, None, None]
    return weight @ dy, weight.transpose(1, 2) @ dx


def kernel_variation(rho: Tensor, scheme: Scheme) -> Tensor:
    """dk/drho (n, I, J), the integral of U V over every cell (Theorem 4.1), V being U of the time-reversed paths."""
    forward, backward = edges(rho, scheme), edges(rho.flip(1, 2), scheme)
    _, weights = _gauss(scheme.degree + 2)
    weight = torch.as_tensor(weights, dtype=rho.dtype, device=rho.device)
    out = torch.empty_like(rho)
    _, rows, columns = rho.shape
    size = max(1, _CELLS_EVALUATED_AT_ONCE // max(1, len(rho) * columns))
    for begin in range(0, rows, size):
        part = slice(begin, min(begin + size, rows))
        u, v = solution(forward, rho, scheme, part), time_reversed_solution(backward, rho, scheme, part)
        out[:, part] = torch.einsum("nijpq,nijpq,p,q->nij", u, v, weight, weight)
    return out


def edges(rho: Tensor, scheme: Scheme) -> Cells:
    cells = empty_cells(rho, scheme.degree)
    solve_goursat(rho, scheme, cells=cells)
    return cells


def solution(cells: Cells, rho: Tensor, scheme: Scheme, rows: slice) -> Tensor:
    """U at the Gauss points of the cells of some rows, (n, rows, J, points in s, points in t), by Riemann's formula."""
    exponents = np.arange(scheme.powers + 1)
    points, _ = _gauss(scheme.degree + 2)
    grown = torch.as_tensor(points[:, None] ** exponents).to(rho)  # (points, powers)
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


def time_reversed_solution(backward: Cells, rho: Tensor, scheme: Scheme, rows: slice) -> Tensor:
    """V at the same points, from the cells of the reversed rho put back in order: the paper's time-reversal lemma."""
    count = rho.shape[1]
    reversed_rows = slice(count - rows.stop, count - rows.start)
    return solution(backward, rho.flip(1, 2), scheme, reversed_rows).flip(1, 2).flip(3, 4)


@lru_cache(maxsize=16)
def _gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the Gauss-Legendre rule on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(count)
    return (points + 1) / 2, weights / 2


@lru_cache(maxsize=16)
def _edge_integrals(degree: int, powers: int) -> np.ndarray:
    """(J^(n+1) P_k)(s_p) / n! at the Gauss points, J being the integration from 0: (powers + 1, degree, points)."""
    points, _ = _gauss(degree + 2)
    out = np.empty((powers + 1, degree, len(points)))
    for k in range(degree):
        polynomial = np.polynomial.Legendre.basis(k, domain=[0, 1])
        for n in range(powers + 1):
            polynomial = polynomial.integ(lbnd=0)
            out[n, k] = polynomial(points) / factorial(n)
    return out


Algorithm = Literal["variation", "augmented"]

_GRADIENTS = {"variation": variation_gradients, "augmented": augmented_gradients}

# Cells of the grid of a pair, for the augmented PDE times directions: some ten seconds of one core.
_MOST_CELLS = {"variation": 500_000, "augmented": 8_000_000}


def diagonal(x: Tensor, lengths: Tensor | None, refine: int, log: bool, algorithm: Algorithm) -> Tensor:
    """k(X_i, X_i) (n,), or its logarithm, of x in float64."""
    refuse_transforms(x)
    value = diagonal_by(_pair_solver(algorithm, refine), x, lengths, KernelSettings(None, refine), False)
    return check_range(value.log(), True, log) if log else value


def gram(pairs: Pairs, algorithm: Algorithm) -> Tensor:
    refuse_transforms(pairs.x, pairs.y)
    return gram_by(_pair_solver(algorithm, pairs.settings.refine), pairs)


def _pair_solver(algorithm: Algorithm, refine: int) -> PairSolver:
    """Returns the function that computes k (n,) of paired increments dx (n, I, d) and dy (n, J, d)."""
    scheme = scheme_of(refine)

    def values(dx: Tensor, dy: Tensor) -> Tensor:
        return solve_goursat(dx @ dy.transpose(1, 2), scheme)

    def solve(dx: Tensor, dy: Tensor) -> Tensor:
        _check_size(dx, dy, algorithm)
        return with_gradients(values, partial(_GRADIENTS[algorithm], scheme), dx, dy)

    return solve


def _check_size(dx: Tensor, dy: Tensor, algorithm: Algorithm) -> None:
    """Raises ValueError if a pair of the increments dx (n, I, d) and dy (n, J, d) is too much for plain torch."""
    rows, columns, channels = dx.shape[1], dy.shape[1], dx.shape[2]
    directions = max(rows, columns) * channels if algorithm == "augmented" else 1
    if rows * columns * directions > _MOST_CELLS[algorithm]:
        many = f" for each of {directions} directions" if directions > 1 else ""
        raise ValueError(
            f"gradient={algorithm!r} would solve a grid of {rows} x {columns} cells{many} (paths are cut into pieces "
            f"no longer than 1), and {_MOST_CELLS[algorithm]} cells in all are allowed; take gradient='adjoint', or "
            "rescale or shorten the series"
        )
