"""Points and weights for expectations over Gaussian marginals."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

_FLOOR = {torch.float32: 1e-6, torch.float64: 1e-10}


@lru_cache(maxsize=64)
def gauss_hermite(count: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights (count,), float64, with sum_k w_k h(z_k) = E[h(Z)], Z ~ N(0, 1), for degrees below 2 count.

    Examples
    --------
    >>> nodes, weights = gauss_hermite(3)
    >>> bool(torch.isclose((weights * nodes**4).sum(), torch.tensor(3.0).double()))
    True
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    # Exact symmetry makes odd moments cancel to the last bit, which derivatives at small variances rely on.
    nodes, weights = (nodes - nodes[::-1]) / 2, (weights + weights[::-1]) / 2
    return torch.from_numpy(nodes), torch.from_numpy(weights / weights.sum())


@lru_cache(maxsize=64)
def normal_trapezoid(count: int, reach: float = 8.5) -> tuple[Tensor, Tensor]:
    """Equally spaced nodes in [-reach, reach] and normal weights (count,), float64, for integrands with steep steps."""
    nodes = torch.linspace(-reach, reach, count, dtype=torch.float64)
    weights = (-0.5 * nodes.square()).exp()
    return nodes, weights / weights.sum()


def sobol_normal(count: int, dimensions: int, seed: int = 0) -> Tensor:
    """Quasi-random standard normal points (count, dimensions), float64: count / 2 scrambled Sobol points and their
    negatives, rescaled so that each coordinate has second moment 1 and, where there are points enough, so that no two
    are correlated: averages of cubic polynomials are then exact. The global random state is neither read nor changed.

    Examples
    --------
    >>> z = sobol_normal(8, 3)
    >>> z.shape, bool((z.mean(0).abs() < 1e-12).all()), bool((z.square().mean(0) - 1 < 1e-12).all())
    (torch.Size([8, 3]), True, True)
    """
    if count < 2 or count % 2:
        raise ValueError(f"points come in pairs z, -z: their number must be even and at least 2, got {count}")
    if not 1 <= dimensions <= SobolEngine.MAXDIM:
        raise ValueError(f"Sobol points have from 1 to {SobolEngine.MAXDIM} dimensions, got {dimensions}")
    uniform = SobolEngine(dimensions, scramble=True, seed=seed).draw(count // 2, dtype=torch.float64)
    half = torch.special.ndtri(uniform.clamp(1e-9, 1 - 1e-9))
    if len(half) >= 2 * dimensions:
        moments, axes = torch.linalg.eigh(half.T @ half / len(half))
        half = half @ (axes / moments.sqrt()) @ axes.T
    half = half / half.square().mean(0).sqrt()
    return torch.cat([half, -half])


def deviation(variance: Tensor) -> Tensor:
    """sqrt(variance), with variances below 1e-10 (1e-6 in float32) raised to that and the gradient kept.

    The square root has no slope at 0; with the floor the derivative of a quadrature with symmetric nodes is there a
    central difference, E[h'(m + s Z) Z] / 2s = h''(m) / 2 + O(s^2).
    """
    floor = _FLOOR.get(variance.dtype, 1e-6)
    return (variance + (floor - variance.detach()).clamp(min=0)).sqrt()


def invert_increasing(function: Callable[[Tensor], Tensor], value: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """x (B,) with function(x) = value, by bisection; [low, high] is widened until it holds the answer.

    Examples
    --------
    >>> invert_increasing(torch.exp, torch.tensor([8.0]), torch.tensor([0.0]), torch.tensor([1.0]))
    tensor([2.0794])
    """
    while bool((short := function(high) < value).any()):
        high = torch.where(short, 2 * high - low, high)
    while bool((short := function(low) > value).any()):
        low = torch.where(short, 2 * low - high, low)
    for _ in range(60):
        middle = (low + high) / 2
        enough = function(middle) >= value
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    return (low + high) / 2


def as_probabilities(p: float | Tensor, like: Tensor) -> Tensor:
    """Probabilities strictly between 0 and 1, (B,), float64, for the B rows of `like`."""
    probability = torch.as_tensor(p, dtype=torch.float64, device=like.device)
    if probability.ndim > 1 or (probability.ndim == 1 and len(probability) != len(like)):
        raise ValueError(f"p must be a number or ({len(like)},), got shape {tuple(probability.shape)}")
    if not bool(((probability > 0) & (probability < 1)).all()):
        raise ValueError(f"p must be between 0 and 1, got {p}")
    return probability.expand(len(like))
