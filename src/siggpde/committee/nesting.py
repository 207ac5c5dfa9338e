r"""Left-out predictions of series that had no part in choosing noise and members.

The noise of a member, and the members and their weights, are those with the best leave-one-out predictions: for the
very series that chose them these predictions flatter. On labels that mean nothing, thirty members at fifteen noise
levels find something that looks like a rule. So the series are split into folds: noise and weights chosen by the others
predict those of a fold, each still left out of the regressions themselves. Link and recalibration, which decide how
sure predictions are, are fitted to these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.committee.regression import LeftOut
from siggpde.committee.targets import Targets

_FOLDS = 5
_TIE = 1e-4  # nats a series, as in `committee.regression`


@dataclass(frozen=True)
class Fold:
    """Left-out predictions of some series, at `rows` (n,), by the choice of the others: means (K, n, outputs) and
    variances (K, n) of latents, variances of the noise of numbers (K,), and weights of the K members."""

    rows: Tensor
    means: Tensor
    variances: Tensor
    noise_variances: Tensor
    weights: Tensor


def nested_folds(
    results: Sequence[LeftOut], targets: Targets, weigh: Callable[[Tensor, Targets], Tensor], seed: int = 0
) -> list[Fold]:
    """The folds, of all candidates' leave-one-out predictions; `weigh` makes weights (K,) of log densities (K, n)."""
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
                best = index if score > scores[best] + _TIE else best
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
    """The fold (n,) of every series, drawn evenly from the classes, or whole groups at random."""
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
