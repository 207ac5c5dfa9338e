r"""Quantiles of a mixture of predictive distributions, :math:`F(y) = \sum_k w_k F_k(y)`, of any likelihood of numbers.

The quantile lies between the smallest and the largest of the members' own, where bisection finds it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from siggpde.gp.likelihoods import Likelihood

_HALVINGS = 60


@torch.no_grad()
def mixture_quantiles(
    members: Sequence[tuple[Tensor, Likelihood, tuple[Tensor, Tensor]]], levels: Sequence[float]
) -> Tensor:
    """Quantiles (n, levels) of y; of every member its weight, likelihood, and mean and variance (n, 1) of its latent.

    Of counts they are the smallest with P(Y <= count) of at least the level.
    """
    columns = []
    for level in levels:
        single = torch.stack([likelihood.quantile(*latents, level).double() for _, likelihood, latents in members])
        columns.append(_between(single.amin(0), single.amax(0), level, members))
    return torch.stack(columns, dim=1)


def _between(
    low: Tensor, high: Tensor, level: float, members: Sequence[tuple[Tensor, Likelihood, tuple[Tensor, Tensor]]]
) -> Tensor:
    """The quantile (n,), which is in [low, high]."""
    if bool((low == high).all()):
        return high
    discrete = members[0][1].discrete

    def enough(y: Tensor) -> Tensor:
        below = torch.stack([weight * likelihood.cdf(*latents, y) for weight, likelihood, latents in members])
        return below.sum(0) >= level

    high = torch.where(enough(low), low, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = enough(middle)
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return high.round() if discrete else high
