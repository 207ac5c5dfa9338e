r"""The series of a class against all others: weights of series whose sum is 0.

With :math:`v_i = 1 / n_c` for the :math:`n_c` series of the class c and :math:`-1 / (n - n_c)` for the others, the sum
:math:`\sum_i v_i t(X_i)` is what a term t tells apart the class by: its mean over the series of the class less that
over all others. Where all series are of one class, there is only the mean over them. Of numbers the two sides are the
half of the series with the larger numbers and the other half.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Contrasts(NamedTuple):
    """The numbers of the classes that have series on both sides, and the weights (sides, n), float64; of numbers there
    is one side, 0."""

    sides: list[int]
    weights: Tensor


def contrasts_of(targets: Tensor, classes: int | None) -> Contrasts:
    """Of labels 0..classes-1 (n,), or of numbers."""
    if classes is None:
        order = targets.double().argsort(stable=True)
        upper = torch.zeros(len(targets), dtype=torch.bool, device=targets.device)
        upper[order[(len(targets) + 1) // 2 :]] = True
        return Contrasts([0], _weights(upper)[None])
    insides = [(number, targets == number) for number in range(classes)]
    told = [(number, inside) for number, inside in insides if 0 < int(inside.sum()) < len(targets)]
    if not told:  # all of one class
        own = [number for number, inside in insides if bool(inside.any())]
        return Contrasts(own, torch.full((1, len(targets)), 1 / len(targets), device=targets.device).double())
    return Contrasts([number for number, _ in told], torch.stack([_weights(inside) for _, inside in told]))


def spread_over(targets: Tensor, classes: int | None, most: int) -> Tensor:
    """The numbers of at most `most` series, in order, evenly over the classes, or over the numbers."""
    if len(targets) <= most:
        return torch.arange(len(targets), device=targets.device)
    if classes is None:
        order = targets.argsort(stable=True)
        return order[torch.arange(most, device=targets.device) * len(targets) // most].sort().values
    places = [(targets == number).nonzero()[:, 0] for number in range(classes)]
    places = sorted((own for own in places if len(own)), key=len)
    taken, left = [], most
    for number, own in enumerate(places):
        count = min(len(own), left // (len(places) - number))
        taken.append(own[torch.arange(count, device=own.device) * len(own) // max(1, count)])
        left -= count
    return torch.cat(taken).sort().values


def _weights(inside: Tensor) -> Tensor:
    count = int(inside.sum())
    return torch.where(inside, 1 / count, -1 / (len(inside) - count)).double()
