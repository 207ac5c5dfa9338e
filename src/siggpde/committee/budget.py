"""What very many series can afford: how many landmarks, and which members, by what a second brings.

Up to 20,000 series everything is affordable. Above, the work on all series has a budget of seconds of one core, by the
model of `committee.row_costs`. There are as many landmarks as it allows for a member of all windows; members are then
taken by their weights, which leave-one-out on the landmarks decides, for each second that they add.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from siggpde.committee.recipes import Recipe, kernels_of
from siggpde.committee.row_costs import landmarks_within, member_seconds

log = logging.getLogger(__name__)

LARGE = 20_000
BUDGET = 750.0
"""Seconds of one core for the rows of all series: a fit has other work too, and is to take less than 900."""

_SERIES_BYTES = 24 * 2**20  # of landmark series in float32, their times included
_MODEL_BYTES = 46e6  # of these and of the roots of all members, of as many columns as there are landmarks
_FEWEST_LANDMARKS = 300
_OF_ONE_MEMBER = 0.9  # of the budget: others often share its kernels


def landmarks_in_a_model(numbers: int, members: int) -> int:
    """The most landmarks m of so many numbers each for a model of at most 50 MB: series and roots, in float32, have
    4 m numbers + 4 m² members bytes.

    Examples:
        >>> landmarks_in_a_model(100, 3), landmarks_in_a_model(4000, 3), landmarks_in_a_model(40_000, 8)
        (1941, 1401, 157)
    """
    beside_roots = int((math.sqrt(numbers**2 + members * _MODEL_BYTES) - numbers) / (2 * members))
    return max(2, min(_SERIES_BYTES // (4 * numbers), beside_roots))


def landmarks_for(total: int, most: int, points: int = 100, channels: int = 1, limit: float | None = None) -> int:
    """How many landmarks `total` series of so many points have: at most `most`; of very many series so many that a
    member of all windows takes no more than nine tenths of the budget, or of the seconds `limit`, but at least 300.

    Examples:
        >>> [landmarks_for(total, 1500, points=46) for total in (100, 20_000, 300_000, 10**6, 10**7)]
        [100, 1500, 1500, 706, 300]
    """
    if total <= LARGE:
        return min(total, most)
    budget = BUDGET if limit is None else limit
    return min(most, max(_FEWEST_LANDMARKS, landmarks_within(_OF_ONE_MEMBER * budget / total, points, channels)))


def affordable(
    recipes: Sequence[Recipe],
    scores: Sequence[float],
    weights: Tensor,
    seconds: Mapping[str, float],
    total: int,
    limit: float | None,
    landmarks: int,
) -> Tensor:
    """The weights (K,) with members left out that cannot be paid for; the log says which.

    `scores` are leave-one-out losses, `seconds` those of a series by the name of the kernel, which all members that
    have it share; `limit` the seconds that a user allows. Members are taken by weight for each second that they add, or
    the one of the largest weight alone where that is more. Where no member with a weight is within the budget, the best
    by its score is taken of those that are; where none is, the cheapest.
    """
    if total <= LARGE:
        return weights
    budget = BUDGET if limit is None else limit

    def cost(chosen: Sequence[int]) -> float:
        rows = sum(seconds[name] for name in sorted(kernels_of(recipes[index] for index in chosen)))
        return total * (rows + len(chosen) * member_seconds(landmarks))

    shares = weights.tolist()
    weighed = [index for index, share in enumerate(shares) if share > 0]
    within = [index for index in range(len(recipes)) if cost([index]) <= budget]
    alone = max((index for index in within if shares[index] > 0), key=shares.__getitem__, default=None)
    chosen: list[int] = []
    while rest := [index for index in weighed if index not in chosen and cost([*chosen, index]) <= budget]:
        spent = cost(chosen)
        chosen.append(max(rest, key=lambda index: shares[index] / (cost([*chosen, index]) - spent)))
    if alone is not None and shares[alone] > sum(shares[index] for index in chosen):
        chosen = [alone]
    if not chosen:
        everything = range(len(recipes))
        cheapest = min(everything, key=lambda index: cost([index]))
        chosen = [min(within, key=scores.__getitem__) if within else cheapest]
    missing = [index for index in weighed if index not in chosen]
    if missing:
        log.warning(
            "of %d series the rows of members would take longer than the budget of %.0f s of one core: %s left out for "
            "%s, about %.0f s",
            total, budget,
            ", ".join(f"{recipes[i].name} (loss {scores[i]:.4f}, {cost([i]):.0f} s)" for i in missing),
            ", ".join(f"{recipes[i].name} (loss {scores[i]:.4f}, {cost([i]):.0f} s)" for i in chosen),
            cost(chosen),
        )  # fmt: skip
    else:
        log.info("the rows of %d series take about %.0f s of one core, of %.0f", total, cost(chosen), budget)
    out = torch.zeros_like(weights)
    out[chosen] = weights[chosen].clamp_min(1e-6)
    return out / out.sum()
