"""Slow, plain expectations over Gaussian marginals, in float64, by dense trapezoidal integration."""

import torch
from torch import Tensor

EULER = 0.57721566490153286


def normal_grid(count: int = 2001, reach: float = 9.0) -> tuple[Tensor, Tensor]:
    z = torch.linspace(-reach, reach, count, dtype=torch.float64)
    weights = torch.exp(-z.square() / 2)
    return z, weights / weights.sum()


def expectation(function, mean: Tensor, variance: Tensor) -> Tensor:
    """E[function(f)], (B,), for one latent function; `function` takes and gives (B, count)."""
    z, weights = normal_grid()
    return function(mean + variance.sqrt() * z) @ weights


def softmax(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """E[log sum_c exp(f_c)] (B,) and E[softmax(f)] (B, C), by the Gumbel trick.

    log-sum-exp is E[max_c (f_c + G_c)] - gamma with independent Gumbel G_c, and class c is the maximiser with its
    softmax probability: integrals in one variable t of the distribution functions F_c of f_c + G_c.
    """
    z, weights = normal_grid(61)
    sums, probabilities = [], []
    for m, s in zip(mean, variance.sqrt(), strict=True):
        low, high = float((m - 9 * s).min()) - 5, float((m + 9 * s).max()) + 40
        t = torch.linspace(low, high, 400, dtype=torch.float64)
        step = t[1] - t[0]
        e = torch.exp(-(t[None, :, None] - m[:, None, None] - s[:, None, None] * z))
        single = torch.exp(-e)
        f, slope = single @ weights, (e * single).nan_to_num(0.0) @ weights
        product = f.prod(0)
        others = torch.stack([f[torch.arange(len(m)) != c].prod(0) for c in range(len(m))])
        sums.append(high - torch.trapezoid(product, t) - EULER)
        probabilities.append((slope * others).sum(1) * step)
    return torch.stack(sums), torch.stack(probabilities)
