r"""Terms that move together are one term, so that no two that are shown cancel.

Columns of a regression that are nearly collinear may have large weights of opposite sign, which say nothing by
themselves. Terms :math:`t_a(X_i)` over n series are merged into their sum as long as two of them have a correlation
below :math:`-\rho = -0.6`, or above 0.9, the nearest to 1 in size first. What is left cancels little: of any two terms

.. math:: \mathrm{std}(t_a + t_b)^2 \ge (1 - \rho^2) \max(\mathrm{std}(t_a), \mathrm{std}(t_b))^2,

so that the sum of two keeps 0.8 of the larger one. Terms that merely speak for the same side stay apart. Sums over all
terms do not change.
"""

from __future__ import annotations

import torch
from torch import Tensor

OPPOSITE = 0.6
"""The size of a negative correlation from which on two terms are one."""

SAME = 0.9
"""The correlation from which on they are."""

CANDIDATES = 150
"""Of more terms, so many of the largest are looked at."""

FEWEST = 10
"""Series over which terms are compared, at least."""

_VARIES = 1e-9  # of the largest spread: terms of less are constant but for rounding


def grouped(terms: Tensor) -> list[list[int]]:
    """The groups of k terms (n, k) over n series, each the numbers of its terms, the widest spread first.

    Examples:
        >>> x, y = torch.tensor([1.0, 2.0, 4.0, 3.0]), torch.tensor([1.0, -1.0, 1.0, -1.0])
        >>> grouped(torch.stack([9 * x, 2 * y, -8 * x + 0.01 * y], dim=1))
        [[1], [0, 2]]
    """
    centred = (terms - terms.mean(0)).double().T.contiguous()  # (k, n)
    first = centred.norm(dim=1)
    groups = [[number] for number in range(len(centred))]
    if not groups or float(first.max()) == 0:
        return groups
    least = _VARIES * float(first.max())
    units = _units(centred, least)
    alike = _alike(units @ units.T).fill_diagonal_(0.0)
    alive = torch.ones(len(groups), dtype=torch.bool)
    while len(groups) > 1:
        place = int(alike.argmax())
        one, other = divmod(place, len(groups))
        if float(alike[one, other]) == 0:
            break
        centred[one] += centred[other]
        groups[one] += groups[other]
        alive[other] = False
        alike[other], alike[:, other] = 0.0, 0.0
        units[other] = 0.0
        units[one] = _units(centred[one : one + 1], least)[0]
        row = _alike(units @ units[one])
        row[one] = 0.0
        alike[one], alike[:, one] = row, row
    spread = centred.norm(dim=1)
    kept = [number for number in range(len(groups)) if bool(alive[number])]
    kept.sort(key=lambda number: -float(spread[number]))
    return [sorted(groups[number], key=lambda term: -float(first[term])) for number in kept]


def _alike(correlations: Tensor) -> Tensor:
    """Their size where it makes two terms one, else 0."""
    return torch.where((correlations <= -OPPOSITE) | (correlations >= SAME), correlations.abs(), 0.0)


def _units(rows: Tensor, least: float) -> Tensor:
    """Rows of length 1; those that do not vary are 0."""
    norms = rows.norm(dim=1, keepdim=True)
    return torch.where(norms > least, rows / norms.clamp_min(least), 0.0)
