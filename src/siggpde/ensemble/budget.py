"""What very many series can afford: how many landmarks, and which members, by leave-one-out gain a second; and how
many landmarks a model can.

Up to 20,000 series everything is affordable. Above, landmarks become fewer, and members are taken in the order of their
weights as long as the work on all series stays within the budget; if none does, the best of the cheapest is taken.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from siggpde.ensemble.recipes import Recipe

log = logging.getLogger(__name__)

LARGE = 20_000
_SERIES_BYTES = 24 * 2**20  # of landmark series in float32, their times included
_MODEL_BYTES = 46e6  # of these and of the roots of all members, of as many columns as there are landmarks
_FEWEST_LANDMARKS = 500
_BUDGET = 900.0  # seconds of one core for the rows of all series


def landmarks_in_a_model(numbers: int, members: int) -> int:
    """The most landmarks m of so many numbers each for a model of at most 50 MB: series and roots, in float32, have
    4 m numbers + 4 m² members bytes.

    Examples:
        >>> landmarks_in_a_model(100, 3), landmarks_in_a_model(4000, 3), landmarks_in_a_model(40_000, 8)
        (1941, 1401, 157)
    """
    beside_roots = int((math.sqrt(numbers**2 + members * _MODEL_BYTES) - numbers) / (2 * members))
    return max(2, min(_SERIES_BYTES // (4 * numbers), beside_roots))


def landmarks_for(total: int, most: int) -> int:
    """How many landmarks `total` series have: at most `most`, less the more series there are.

    Examples:
        >>> [landmarks_for(total, 1500) for total in (100, 20_000, 160_000, 10**6)]
        [100, 1500, 750, 500]
    """
    if total <= LARGE:
        return min(total, most)
    return min(most, max(_FEWEST_LANDMARKS, round(most * (LARGE / total) ** (1 / 3))))


def affordable(
    recipes: Sequence[Recipe],
    scores: Sequence[float],
    weights: Tensor,
    seconds: Mapping[str, float],
    total: int,
    limit: float | None,
) -> Tensor:
    """The weights (K,) with members left out that cannot be paid for.

    `scores` are leave-one-out losses, `seconds` those of a series by the name of the kernel; kernels of one block are
    computed together and have the same seconds. `limit`: the seconds that a user allows.
    """
    if total <= LARGE:
        return weights
    budget = _BUDGET if limit is None else limit
    costs = [total * sum({name: seconds[name] for name, _ in recipe.weights}.values()) for recipe in recipes]
    order = weights.argsort(descending=True).tolist()
    chosen: list[int] = []
    kernels: set[str] = set()
    for index in (index for index in order if weights[index] > 0):
        needed = kernels | {name for name, _ in recipes[index].weights}
        if total * sum(seconds[name] for name in needed) <= budget:
            chosen.append(index)
            kernels = needed
    if not chosen:
        within = [index for index, cost in enumerate(costs) if cost <= budget]
        chosen = [min(within, key=scores.__getitem__) if within else min(range(len(costs)), key=costs.__getitem__)]
    best = min(range(len(scores)), key=scores.__getitem__)
    if best not in chosen:
        log.warning(
            "member %s (leave-one-out loss %.4f) would take %.0f s on %d series and is left out for %s (%.4f, %.0f s)",
            recipes[best].name, scores[best], costs[best], total,
            ", ".join(recipes[index].name for index in chosen), scores[chosen[0]], costs[chosen[0]],
        )  # fmt: skip
    out = torch.zeros_like(weights)
    out[chosen] = weights[chosen].clamp_min(1e-6)
    return out / out.sum()
