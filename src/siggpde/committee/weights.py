r"""Weights of members from their leave-one-out log densities, without betting on the one that is best by luck.

A member's weight is the mean over Bayesian bootstraps of the series of :math:`\propto \exp(n \bar\ell_k / 4)`, where
:math:`\bar\ell_k` is its bootstrapped mean log density: where few series decide, several members share the weight. (Yao
et al. 2018 call it pseudo-BMA+; the factor 1/4 is for series that are alike and members that were chosen by them.)

Leave-one-out flatters a view where series come in pairs that only this view sees as alike. So three tenths of the
weight go to the best members of all families of views, in proportion to :math:`\exp(\min(n, 50) \bar\ell_k / 4)`,
however many series there are.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

_DRAWS = 400
_TEMPER = 4.0
_MOST = 8
_SMALLEST = 0.02  # members with less than this share of the largest weight are left out
_HEDGE, _HEDGE_SERIES = 0.3, 50


def bootstrap_weights(
    log_densities: Tensor,
    families: Sequence[Hashable] | None = None,
    most: int = _MOST,
    seed: int = 0,
    groups: Tensor | None = None,
) -> Tensor:
    """Weights (K,) that sum to 1, at most `most` of them not zero, from log densities (K, n) of left-out series.

    `families` are those of the members; None hedges nothing. Series of one of the `groups` (n,) are drawn together.

    Examples:
        >>> bootstrap_weights(torch.tensor([[-0.1] * 50, [-0.5] * 50]).double()).round(decimals=3)
        tensor([1., 0.], dtype=torch.float64)
    """
    n = log_densities.shape[1]
    random = torch.Generator().manual_seed(seed)
    together = torch.arange(n) if groups is None else groups.cpu().unique(return_inverse=True)[1]
    count = int(together.max()) + 1
    draws = torch.rand(_DRAWS, count, generator=random, dtype=torch.float64).clamp_min(1e-12).log().neg()[:, together]
    draws = (draws / draws.sum(1, keepdim=True)).to(log_densities.device)
    scores = n * draws @ log_densities.double().T
    weights = torch.softmax(scores / _TEMPER, dim=1).mean(0)
    if families is not None:
        weights = (1 - _HEDGE) * weights + _HEDGE * _best_of_families(log_densities.double().mean(1), families, n)
    order = weights.argsort(descending=True)[:most]
    kept = order[weights[order] > _SMALLEST * weights[order[0]]]
    out = torch.zeros_like(weights)
    out[kept] = weights[kept] / weights[kept].sum()
    return out


def _best_of_families(scores: Tensor, families: Sequence[Hashable], n: int) -> Tensor:
    best: dict[Hashable, int] = {}
    for index, family in enumerate(families):
        if family not in best or scores[index] > scores[best[family]]:
            best[family] = index
    rows = torch.tensor(list(best.values()), device=scores.device)
    out = torch.zeros_like(scores)
    out[rows] = torch.softmax(min(n, _HEDGE_SERIES) * scores[rows] / _TEMPER, dim=0)
    return out
