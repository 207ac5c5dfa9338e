"""Cells of Goursat grids, counted from the plans of the series: their scheme, and how many pieces they are cut into."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

from siggpde.numerics import inputs
from siggpde.numerics.static_kernel import StaticKernel, squared_segments
from siggpde.numerics.triton.plan import ROUGH_TOL, SCHEME_DEGREE, PlanRequest, make_plans

Plan = tuple[int, int]  # scheme, number of pieces
Plans = Counter[Plan]  # how many series have each plan


def squared_steps(values: Tensor, lengths: Tensor | None, lift: StaticKernel | None) -> tuple[Tensor, Tensor]:
    """|x_{i+1} - x_i|² (n, length - 1), float64, zero after the end of a series; and the numbers of segments (n,).

    With a static kernel the squared steps of the lifted path.
    """
    inputs.check_finite(values, lengths)
    inside = inputs.row_mask(values, lengths)
    points = values.detach().double()
    squared = points.diff(dim=1).square().sum(dim=2) if lift is None else squared_segments(lift, points).detach()
    return torch.where(inside[:, 1:], squared, 0.0), inside.sum(dim=1) - 1


def plan_series(squared: Tensor, segments: Tensor, refine: int, tol: float, diagonal_only: bool) -> list[Plan]:
    """The plan of every series; `refine` -1 for edges accurate to `tol`, as the backends take it."""
    request = PlanRequest(refine, tol, diagonal_only, math.inf)
    plans = make_plans(squared, segments, request, torch.full_like(segments, tol, dtype=torch.float64))
    return list(zip(plans.scheme.tolist(), plans.steps.tolist(), strict=True))


def rough_plans(squared: Tensor, segments: Tensor, refine: int, tol: float) -> list[Plan]:
    """Of the solutions that tell a Gram matrix where paths come back on themselves; finite differences have none."""
    return [] if refine >= 0 else plan_series(squared, segments, refine, max(tol, ROUGH_TOL), True)


def pair_grids(left: Plans, right: Plans) -> dict[int, int]:
    """Cells of all pairs by degree: a pair has the scheme of the costlier of its two."""
    columns: Counter[int] = Counter()
    for (scheme, pieces), count in right.items():
        columns[scheme] += pieces * count
    cells: Counter[int] = Counter()
    for (scheme, pieces), count in left.items():
        for other, total in columns.items():
            cells[SCHEME_DEGREE[max(scheme, other)]] += pieces * count * total
    return _ordered(cells)


def symmetric_grids(plans: Plans) -> dict[int, int]:
    """Cells of each pair once, and of every series with itself: half of the whole matrix and of its diagonal."""
    own = _grids_of_each(plans, lambda pieces: pieces * pieces)
    return {degree: (count + own.get(degree, 0)) // 2 for degree, count in pair_grids(plans, plans).items()}


def half_grids(plans: Plans) -> dict[int, int]:
    """Cells of k(X, X) of every series: U is symmetric."""
    return _grids_of_each(plans, lambda pieces: pieces * (pieces + 1) // 2)


def _grids_of_each(plans: Plans, cells_of: Callable[[int], int]) -> dict[int, int]:
    cells: Counter[int] = Counter()
    for (scheme, pieces), count in plans.items():
        cells[SCHEME_DEGREE[scheme]] += count * cells_of(pieces)
    return _ordered(cells)


def _ordered(cells: Counter[int]) -> dict[int, int]:
    return {degree: cells[degree] for degree in sorted(cells)}
