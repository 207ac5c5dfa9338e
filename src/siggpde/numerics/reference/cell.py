r"""One cell of the Goursat problem, with polynomial edges.

On the unit cell with constant coefficient :math:`\rho` the solution of :math:`U_{st} = \rho U` is fixed by the corner
value :math:`c = U(0,0)` and the derivatives along two edges, carried in shifted Legendre polynomials of degree below m:
bottom :math:`\partial_s U(s,0) = \sum_k b_k P_k(s)`, left :math:`\partial_t U(0,t) = \sum_k a_k P_k(t)`. By Riemann's
formula, with J the integration from 0,

.. math:: U(s,t) = c \sum_n \frac{(\rho s t)^n}{n!^2} + \sum_n \frac{\rho^n t^n}{n!} J^{n+1} b(s)
          + \sum_n \frac{\rho^n s^n}{n!} J^{n+1} a(t),

so that the top edge, projected on the same polynomials, is :math:`b' = E(\rho) b + F(\rho) a + g(\rho) c`, and the
right edge the same with a and b exchanged, where

.. math:: E_{jk} = \sum_n \frac{\rho^n}{n!} (J^n)_{jk}, \quad
          F_{jk} = (-1)^k (2j+1) \sum_n \frac{\rho^n\, n\, (n-1)!^2}{(n-k)!\,(n+k+1)!\,(n-1-j)!\,(n+j)!}, \quad
          g_j = (2j+1) \sum_n \frac{\rho^n}{n\,(n-1-j)!\,(n+j)!}.

J is tridiagonal: :math:`J P_0 = (P_0 + P_1)/2` and :math:`J P_k = (P_{k+1} - P_{k-1}) / (2(2k+1))`. The mean of the
edge is carried exactly (the projection keeps it), so corner values stay consistent. Finite differences are the case
m = 1 with the powers of :math:`\rho` cut after the second.
"""

from fractions import Fraction
from functools import lru_cache
from math import factorial

import torch
from torch import Tensor


def _integrate(coefficients: list[Fraction]) -> list[Fraction]:
    """Legendre coefficients of the integral from 0 of a polynomial given by its own."""
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
    keep, swap, lift = (
        torch.zeros(size).double(),
        torch.zeros(size).double(),
        torch.zeros(size[:2]).double(),
    )
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


def cell_matrices(rho: Tensor, degree: int, powers: int) -> tuple[Tensor, Tensor, Tensor]:
    """E (..., m, m), F (..., m, m) and g (..., m) at every rho (...)."""
    exponents = torch.arange(powers + 1, device=rho.device)
    return _combine(rho.unsqueeze(-1) ** exponents, degree, powers)


def cell_matrix_slopes(rho: Tensor, degree: int, powers: int) -> tuple[Tensor, Tensor, Tensor]:
    """The derivatives of E, F and g in rho, in the same shapes."""
    exponents = torch.arange(powers + 1, device=rho.device)
    return _combine(exponents * rho.unsqueeze(-1) ** (exponents - 1).clamp(min=0), degree, powers)


def _combine(monomials: Tensor, degree: int, powers: int) -> tuple[Tensor, Tensor, Tensor]:
    keep, swap, lift = (table.to(monomials) for table in cell_tables(degree, powers))
    return (
        torch.einsum("...n,njk->...jk", monomials, keep),
        torch.einsum("...n,njk->...jk", monomials, swap),
        torch.einsum("...n,nj->...j", monomials, lift),
    )
