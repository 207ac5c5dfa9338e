r"""Algorithm 1 of the paper: the gradient of the kernel by the augmented PDE, one directional derivative at a time.

Lemercier et al. (2021), section 4, Algorithm 1. The derivative :math:`U_\gamma` of U in a direction gamma, a path added
to x, solves the same kind of Goursat problem with a source,

.. math:: (U_\gamma)_{st} = \langle x'_s, y'_t \rangle\, U_\gamma + \langle \gamma'_s, y'_t \rangle\, U, \qquad
          U_\gamma(0, \cdot) = U_\gamma(\cdot, 0) = 0,

beside :math:`U(0, \cdot) = U(\cdot, 0) = 1`; both are carried together. The full gradient takes one direction for each
number of the path, the localised impulses, so that its cost is that of as many solutions. It is here because the paper
has it, and as an oracle of the other gradients.
"""

import torch
from torch import Tensor

from siggpde.numerics.goursat import Scheme, cell_matrices, cell_matrix_slopes

_DIRECTIONS_AT_ONCE = 1000


def gradients(dx: Tensor, dy: Tensor, grad: Tensor, scheme: Scheme) -> tuple[Tensor, Tensor]:
    """Algorithm 1: gradients in dx (n, I, d) and dy (n, J, d) of the kernels of n pairs, each times its grad (n,)."""
    of_x, of_y = torch.empty_like(dx), torch.empty_like(dy)
    for pair, (a, b) in enumerate(zip(dx, dy, strict=True)):
        of_x[pair], of_y[pair] = gradient(a, b, scheme), gradient(b, a, scheme)
    return of_x * grad[:, None, None], of_y * grad[:, None, None]


def gradient(dx: Tensor, dy: Tensor, scheme: Scheme) -> Tensor:
    """dk/d(dx) (I, d) for one pair of paths: the derivatives in the directions of all localised impulses."""
    slopes = [
        directional_derivatives(dx, dy, localised_impulses(dx, begin, begin + _DIRECTIONS_AT_ONCE), scheme)
        for begin in range(0, dx.numel(), _DIRECTIONS_AT_ONCE)
    ]
    return torch.cat(slopes).reshape(dx.shape) if slopes else torch.zeros_like(dx)


def localised_impulses(dx: Tensor, begin: int = 0, end: int | None = None) -> Tensor:
    """The directions (I d, I, d) that change one channel of one increment by one, in the order of dx.flatten().

    The localised impulses of the paper, section 4; all of them, or those from `begin` to `end`.
    """
    chosen = torch.arange(dx.numel(), device=dx.device)[begin:end]
    impulses = dx.new_zeros(len(chosen), dx.numel())
    impulses[torch.arange(len(chosen), device=dx.device), chosen] = 1
    return impulses.reshape(-1, *dx.shape)


def directional_derivatives(dx: Tensor, dy: Tensor, directions: Tensor, scheme: Scheme) -> Tensor:
    """The derivatives (D,) of k in the direction of each gamma, for one pair of paths.

    The directional derivatives of the paper, section 4: the unknowns that Algorithm 1 adds to the PDE.

    dx (I, d) and dy (J, d) are increments, `directions` (D, I, d) the increments of the gammas.
    """
    degree, powers = scheme.degree, scheme.powers
    rows, columns = len(dx), len(dy)
    if rows == 0 or columns == 0:
        return dx.new_zeros(len(directions))
    rho = dx @ dy.T
    keep, swap, lift = cell_matrices(rho, degree, powers)
    slopes = cell_matrix_slopes(rho, degree, powers)
    # Axis 0 of edges and corners: U first, then U_gamma of every direction.
    count = 1 + len(directions)
    bottom = dx.new_zeros(columns, count, degree)  # U(., 0) = 1 and U_gamma(., 0) = 0 have derivative 0
    value = dx.new_ones(count)
    for i in range(rows):
        left = dx.new_zeros(count, degree)  # as have U(0, .) = 1 and U_gamma(0, .) = 0
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
