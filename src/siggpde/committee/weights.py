"""Weights of members, and left-out predictions that had no part in choosing them (docs/design.md, Weights)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.committee import cost
from siggpde.committee.recipes import Recipe, kernels_of
from siggpde.committee.regression import TIE, LeftOut, Targets

log = logging.getLogger(__name__)

_DRAWS = 400
_TEMPER = 4.0
_MOST = 8
_SMALLEST = 0.02  # members with less than this share of the largest weight are left out
_EVIDENCE = 600  # series, as many as members are compared by
_HEDGE, _HEDGE_SERIES = 0.3, 50


def bootstrap_weights(
    log_densities: Tensor,
    families: Sequence[Hashable] | None = None,
    most: int = _MOST,
    seed: int = 0,
    groups: Tensor | None = None,
) -> Tensor:
    """Returns weights (K,) that sum to 1, at most `most` of them not zero, from log densities (K, n) of left-out
    series, hedged over the `families` of the members; series of one of the `groups` (n,) are drawn together."""
    n = log_densities.shape[1]
    random = torch.Generator().manual_seed(seed)
    together = torch.arange(n) if groups is None else groups.cpu().unique(return_inverse=True)[1]
    count = int(together.max()) + 1
    draws = torch.rand(_DRAWS, count, generator=random, dtype=torch.float64).clamp_min(1e-12).log().neg()[:, together]
    draws = (draws / draws.sum(1, keepdim=True)).to(log_densities.device)
    scores = min(n, _EVIDENCE) * draws @ log_densities.double().T
    weights = torch.softmax(scores / _TEMPER, dim=1).mean(0)
    if families is not None:
        means, best = log_densities.double().mean(1), dict[Hashable, int]()
        for index, family in enumerate(families):
            if family not in best or means[index] > means[best[family]]:
                best[family] = index
        rows = torch.tensor(list(best.values()), device=means.device)
        weights = (1 - _HEDGE) * weights
        weights[rows] += _HEDGE * torch.softmax(min(n, _HEDGE_SERIES) * means[rows] / _TEMPER, dim=0)
    order = weights.argsort(descending=True)[:most]
    kept = order[weights[order] > _SMALLEST * weights[order[0]]]
    out = torch.zeros_like(weights)
    out[kept] = weights[kept] / weights[kept].sum()
    return out


_FOLDS = 5


@dataclass(frozen=True)
class Fold:
    """Left-out predictions of the series at `rows` (n,), by what the others chose: means (K, n, outputs) and variances
    (K, n) of latents, variances of the noise of numbers and weights of the members, (K,)."""

    rows: Tensor
    means: Tensor
    variances: Tensor
    noise_variances: Tensor
    weights: Tensor


def nested_folds(
    results: Sequence[LeftOut], targets: Targets, weigh: Callable[[Tensor, Targets], Tensor], seed: int = 0
) -> list[Fold]:
    """Returns the folds from all candidates' leave-one-out predictions; `weigh` takes log densities (K, n)."""
    numbers = fold_numbers(targets, seed)
    folds = []
    for number in numbers.unique():
        held, others = (numbers == number).nonzero()[:, 0], (numbers != number).nonzero()[:, 0]
        if not len(others):
            continue
        rest = targets[others]
        chosen = []
        for left_out in results:
            scores = [float(rest.average(level.log_density[others])) for level in left_out.levels]
            # As in the fit, of levels as good as each other the first is taken.
            best = 0
            for index, score in enumerate(scores):
                best = index if score > scores[best] + TIE else best
            chosen.append(left_out.levels[best])
        weights = weigh(torch.stack([level.log_density[others] for level in chosen]), rest)
        kept = weights.nonzero()[:, 0]
        levels = [chosen[index] for index in kept.tolist()]
        noises = torch.tensor([level.noise_variance for level in levels], dtype=torch.float64, device=weights.device)
        means = torch.stack([level.mean[held] for level in levels])
        variances = torch.stack([level.variance[held] for level in levels])
        folds.append(Fold(held, means, variances, noises, weights[kept]))
    return folds


def fold_numbers(targets: Targets, seed: int = 0) -> Tensor:
    """Returns the fold (n,) of every series, drawn evenly from the classes, or whole groups at random."""
    random = torch.Generator().manual_seed(seed)
    if targets.groups is not None:
        _, inverse = targets.groups.cpu().unique(return_inverse=True)
        count = int(inverse.max()) + 1
        return (torch.randperm(count, generator=random) % _FOLDS)[inverse].to(targets.y.device)
    order = torch.randperm(len(targets), generator=random)
    if targets.classes is not None:
        order = order[targets.y.cpu()[order].argsort(stable=True)]
    numbers = torch.empty(len(targets), dtype=torch.int64)
    numbers[order] = torch.arange(len(targets)) % _FOLDS
    return numbers.to(targets.y.device)


def affordable(
    recipes: Sequence[Recipe],
    scores: Sequence[float],
    weights: Tensor,
    of_kernels: Callable[[], Mapping[str, float]],
    total: int,
    limit: float | None,
    landmarks: int,
) -> Tensor:
    """Returns the weights (K,) without the members that cannot be paid for, which the log names; `of_kernels` gives the
    seconds of a series by kernel. Members are taken by weight for each second that they add, or the one of the largest
    weight alone where that is more; where none has a weight the best by the losses `scores`, and where none is
    affordable the cheapest."""
    if total <= (cost.LARGE if limit is None else landmarks):
        return weights
    seconds, budget = of_kernels(), cost.BUDGET if limit is None else limit

    def seconds_of(chosen: Sequence[int]) -> float:
        rows = sum(seconds[name] for name in sorted(kernels_of(recipes[index] for index in chosen)))
        return total * (rows + len(chosen) * (2 * cost.PRODUCT * landmarks**2))

    def listed(chosen: Iterable[int]) -> str:
        return ", ".join(f"{recipes[i].name} (loss {scores[i]:.4f}, {seconds_of([i]):.0f} s)" for i in chosen)

    shares = weights.tolist()
    weighed = [index for index, share in enumerate(shares) if share > 0]
    within = [index for index in range(len(recipes)) if seconds_of([index]) <= budget]
    chosen: list[int] = []
    while rest := [index for index in weighed if index not in chosen and seconds_of([*chosen, index]) <= budget]:
        spent = seconds_of(chosen)
        chosen.append(max(rest, key=lambda index: shares[index] / (seconds_of([*chosen, index]) - spent)))
    alone = max((index for index in within if shares[index] > 0), key=shares.__getitem__, default=None)
    if alone is not None and shares[alone] > sum(shares[index] for index in chosen):
        chosen = [alone]
    if not chosen:
        cheapest = min(range(len(recipes)), key=lambda index: seconds_of([index]))
        chosen = [min(within, key=scores.__getitem__, default=cheapest)]
    if missing := [index for index in weighed if index not in chosen]:
        log.warning(
            "of %d series the rows of members would take longer than the budget of %.0f s of one core: %s left out for "
            "%s, about %.0f s",
            *(total, budget, listed(missing), listed(chosen), seconds_of(chosen)),
        )
    else:
        log.info("the rows of %d series take about %.0f s of one core, of %.0f", total, seconds_of(chosen), budget)
    out = torch.zeros_like(weights)
    out[chosen] = weights[chosen].clamp_min(1e-6)
    return out / out.sum()
