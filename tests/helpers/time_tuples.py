"""Sums over tuples of times, one by one."""

import itertools
import math
from itertools import groupby


def tuples(times: int, level: int, order: int) -> list[tuple[tuple[int, ...], float]]:
    """Non-decreasing tuples of times, none more than `order` times, with 1/(multiplicities!)."""
    results = []
    for places in itertools.combinations_with_replacement(range(times), level):
        repeats = [len(list(group)) for _, group in groupby(places)]
        if max(repeats) <= order:
            results.append((places, 1 / math.prod(math.factorial(r) for r in repeats)))
    return results
