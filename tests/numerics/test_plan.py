"""Plans of series, their degree and pieces, are those of the native core: its rule in plain Python is the oracle."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.random_paths import FAMILIES, make, modest
from siggpde.numerics.core import core
from siggpde.numerics.triton.plan import PlanRequest, make_plans

needs_core = pytest.mark.skipif(core is None, reason="the constants are those of the native core")
LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=6)


def scheme_and_bound(lengths: list[float], path_length: float, tol: float, diag: bool) -> tuple[int, float]:
    """The first scheme whose bound of the error is within the tolerance, or the last: csrc/plan.cpp in plain Python."""
    degrees = core.plan_constants["scheme_degree"]
    longest = max(lengths)
    fourth, eighth = sum(r**4 for r in lengths), sum(r**8 for r in lengths)
    mean = math.sqrt(eighth / fourth) if fourth > 0 else 0.0
    value = 0.0
    for scheme in range(core.plan_constants["first_legendre_scheme"], len(degrees)):
        m = degrees[scheme]
        powers = {2: fourth * mean**0.5, 3: fourth * mean**1.5}.get(m, eighth * longest ** (2 * m - 7))
        value = 2 * (math.factorial(m) / math.factorial(2 * m)) ** 2 / (2 * m + 1) * powers
        if longest > 1:
            value *= longest**6 * (1 if m == 2 else longest if m == 3 else 10 * longest ** (m - 4))
        if diag:
            value *= min(1.0, path_length**m / math.factorial(m)) * min(
                1.0, path_length ** (m + 1) / math.factorial(m + 1)
            )
        if value <= tol:
            return scheme, value
    return len(degrees) - 1, value


def plan(steps: list[float], tol: float, diag: bool) -> tuple[int, int]:
    """Scheme and number of pieces of a path whose segments have these lengths."""
    constants = core.plan_constants
    first, work = constants["first_legendre_scheme"], constants["cell_work"]
    if not steps or max(steps) == 0:
        return first, len(steps)
    path_length = math.sqrt(len(steps) * sum(r * r for r in steps))
    longest, allowed = max(steps), constants["longest_piece"]
    scheme, bound, pieces, best = first, 0.0, len(steps), 0.0
    if longest <= allowed:
        scheme, bound = scheme_and_bound(steps, path_length, tol, diag)
        if constants["scheme_degree"][scheme] <= 4 and bound <= tol:
            return scheme, pieces
        best = work[scheme] * len(steps) ** 2
    good = longest <= allowed and bound <= tol
    for factor in constants["cut_factors"]:
        piece = min(longest, allowed) / factor
        if piece >= longest:
            continue
        counts = [max(1, math.ceil(r / piece - 1e-15)) for r in steps]
        total = sum(counts)
        if good and work[first] * total**2 >= best:
            break
        parts = [r / c for r, c in zip(steps, counts, strict=True) for _ in range(c)]
        new, value = scheme_and_bound(parts, path_length, tol, diag)
        cost, meets = work[new] * total**2, value <= tol
        if best > 0 and (not meets or cost >= best if good else not meets and value >= bound):
            continue
        scheme, bound, pieces, best, good = new, value, total, cost, meets
    return scheme, pieces


def plans(series: list[Tensor], tol: float, diag: bool) -> list[tuple[int, int]]:
    return [plan(one.diff(dim=0).norm(dim=1).tolist(), tol, diag) for one in series]


@needs_core
@given(
    lengths=LENGTHS, seed=st.integers(0, 10**6), size=st.floats(0.01, 20), tol=st.floats(-13, -2), diag=st.booleans(),
    family=st.sampled_from(sorted(FAMILIES)),
)  # fmt: skip
@modest
def test_plans_are_those_of_the_core(lengths: list[int], seed: int, size: float, tol: float, diag: bool, family: str):
    series, tol = [make(family, seed + i, 1, length, 2, size)[0] for i, length in enumerate(lengths)], 10**tol
    segments = torch.tensor(lengths) - 1
    squared = torch.zeros(len(series), max(lengths) - 1, dtype=torch.float64)
    for row, points in zip(squared, series, strict=True):
        row[: len(points) - 1] = points.diff(dim=0).square().sum(1)
    request = PlanRequest(-1, tol, diag, math.inf)
    found = make_plans(squared, segments, request, torch.full((len(series),), tol, dtype=torch.float64))
    assert list(zip(found.scheme.tolist(), found.steps.tolist(), strict=True)) == plans(series, tol, diag)


@pytest.mark.parametrize("refine", [0, 1, 4])
def test_finite_differences_have_two_to_the_power_of_refine_pieces_a_segment(refine: int):
    squared = torch.rand(3, 7, dtype=torch.float64)
    request = PlanRequest(refine, 1e-8, False, math.inf)
    found = make_plans(squared, torch.full((3,), 7), request, torch.full((3,), 1e-8, dtype=torch.float64))
    assert found.steps.tolist() == [7 * 2**refine] * 3
