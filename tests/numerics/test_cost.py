"""The cost model: cells are counted as the core plans them, and no test is about time."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.random_paths import FAMILIES, few, make, modest
from siggpde import kernel_cost, kernel_cost_of_sizes, points_within, signature_kernel
from siggpde.numerics import cell_speed
from siggpde.numerics.core import core
from siggpde.numerics.cost import MOST_POINTS
from siggpde.numerics.grid_counts import plan_series, squared_steps
from siggpde.numerics.static_kernel import KINDS

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


def lifted_plans(x: Tensor, tol: float, diag: bool) -> list[tuple[int, int]]:
    """The same of paths lifted by an RBF kernel of bandwidth 0.7 and amplitude 1.5."""
    steps = (2 * 1.5**2 * (1 - (-(x.diff(dim=1).norm(dim=2) ** 2) / (2 * 0.7**2)).exp())).sqrt()
    return [plan(one, tol, diag) for one in steps.tolist()]


def counted(pairs: list[tuple[int, int]]) -> dict[int, int]:
    """Cells by degree from (scheme, cells) of every grid."""
    cells: Counter[int] = Counter()
    for scheme, count in pairs:
        cells[core.plan_constants["scheme_degree"][scheme]] += count
    return dict(cells)


def ragged(family: str, seed: int, lengths: list[int], size: float) -> list[Tensor]:
    return [make(family, seed + i, 1, length, 2, size)[0] for i, length in enumerate(lengths)]


@needs_core
@given(
    left=LENGTHS, right=LENGTHS, seed=st.integers(0, 10**6), size=st.floats(0.01, 20), tol=st.floats(-13, -2),
    family=st.sampled_from(sorted(FAMILIES)),
)  # fmt: skip
@modest
def test_cells_are_those_of_the_plans_of_the_core(
    left: list[int], right: list[int], seed: int, size: float, tol: float, family: str
):
    x, y, tol = ragged(family, seed, left, size), ragged(family, seed + 99, right, size), 10**tol
    rows, columns = plans(x, tol, False), plans(y, tol, False)
    cost = kernel_cost(x, y, tol=tol)
    assert cost.pairs == len(x) * len(y)
    assert cost.cells == counted([(max(s, t), a * b) for s, a in rows for t, b in columns])
    rough = [(s, a * (a + 1) // 2) for s, a in plans([*x, *y], max(tol, core.plan_constants["rough_tol"]), True)]
    assert cost.planning_cells == counted(rough)
    assert cost.total == sum(cost.cells.values()) + sum(count for _, count in rough)
    alone = kernel_cost(x, tol=tol)
    once = [(max(rows[i][0], rows[j][0]), rows[i][1] * rows[j][1]) for i in range(len(x)) for j in range(i + 1)]
    assert alone.pairs == len(once) and alone.cells == counted(once)
    own = kernel_cost(x, diag=True, tol=tol)
    assert own.pairs == len(x) and own.planning_cells == {}
    assert own.cells == counted([(s, a * (a + 1) // 2) for s, a in plans(x, tol, True)])


@given(n=st.integers(1, 9), m=st.integers(1, 9), points=st.integers(1, 30), refine=st.integers(0, 4))
@few
def test_finite_differences_have_a_cell_for_each_pair_of_pieces(n: int, m: int, points: int, refine: int):
    pieces = (points - 1) * 2**refine
    x, y = make("smooth", 0, n, points, 2), make("smooth", 1, m, points, 2)
    for cost in (
        kernel_cost(x, y, solver="fd", refine=refine),
        kernel_cost_of_sizes(n, m, points=points, channels=2, solver="fd", refine=refine),
    ):
        assert cost.cells == {1: n * m * pieces**2} and cost.planning_cells == {}
    own = kernel_cost(x, diag=True, solver="fd", refine=refine)
    assert own.cells == {1: n * pieces * (pieces + 1) // 2}, "half the cells and half the diagonal"
    assert kernel_cost(x, solver="fd", refine=refine).cells == {1: n * (n + 1) // 2 * pieces**2}


@pytest.mark.parametrize("path_length", [0.0, 0.1, 6.0, 60.0])
@pytest.mark.parametrize("points", [1, 2, 9, 64])
def test_sizes_cost_what_straight_lines_cost(points: int, path_length: float):
    lines = torch.linspace(0, path_length if points > 1 else 0, points).double()[None, :, None]
    x, y = lines.expand(7, -1, 1), lines.expand(3, -1, 1)
    options: dict[str, Any] = {"points": points, "channels": 1, "path_length": path_length}
    assert kernel_cost_of_sizes(7, 3, **options) == kernel_cost(x, y)
    assert kernel_cost_of_sizes(7, **options) == kernel_cost(x)
    assert kernel_cost_of_sizes(7, 3, normalize=True, **options) == kernel_cost(x, y, normalize=True)
    assert kernel_cost_of_sizes(7, diag=True, **options) == kernel_cost(x, diag=True)


def test_costs_add_up_over_series_and_max_points_bounds_them():
    x = make("brownian", 0, 8, 40, 3)
    whole, upper, lower = kernel_cost(x, x[:4]), kernel_cost(x[:5], x[:4]), kernel_cost(x[5:], x[:4])
    assert sum(whole.cells.values()) == sum(upper.cells.values()) + sum(lower.cells.values())
    short = kernel_cost(x, x[:4], max_points=10, solver="fd")
    assert short.cells == {1: 32 * 81}
    lengths = torch.arange(8) + 2
    ragged_cost = kernel_cost(x, lengths=lengths, solver="fd", diag=True)
    assert ragged_cost.cells == {1: sum((length - 1) * length // 2 for length in lengths.tolist())}


@needs_core
@pytest.mark.parametrize("scheme", range(7))
@pytest.mark.parametrize("static", KINDS)
@pytest.mark.parametrize("diag", [False, True])
def test_speed_is_measured_on_the_scheme_it_is_for(scheme: int, static: Any, diag: bool):
    lines, lift, refine, tol = cell_speed.probe(scheme, 2, 3, torch.float64, static)
    squared, segments = squared_steps(lines, None, lift)
    assert torch.allclose(squared, torch.tensor(0.25).double())
    assert plan_series(squared, segments, refine, tol, diag) == [(scheme, lines.shape[1] - 1)] * 2


def test_seconds_are_positive_and_follow_the_cells(monkeypatch: pytest.MonkeyPatch):
    x = make("brownian", 0, 6, 20, 3)
    assert kernel_cost(x, x).seconds > 0 and kernel_cost(x[:, :1]).seconds == 0
    monkeypatch.setattr(
        "siggpde.numerics.cost.seconds_per_cell",
        lambda grid, scheme, channels, dtype, static: 2.0 if grid == "pair" else 1.0,
    )
    cost = kernel_cost(x, x)
    assert cost.seconds == 2 * sum(cost.cells.values()) + sum(cost.planning_cells.values())
    own = kernel_cost(x, diag=True)
    assert own.seconds == own.total


@needs_core
def test_lifted_paths_are_planned_by_their_lifted_steps():
    x, tol = make("brownian", 0, 5, 9, 2, 3.0), 1e-6
    options: dict[str, Any] = {"static": "rbf", "bandwidth": 0.7, "amplitude": 1.5, "tol": tol}
    rows = lifted_plans(x, tol, False)
    cost = kernel_cost(x, x[:2], **options)
    assert cost.cells == counted([(max(s, t), a * b) for s, a in rows for t, b in rows[:2]])
    own = kernel_cost(x, diag=True, **options)
    assert own.cells == counted([(s, a * (a + 1) // 2) for s, a in lifted_plans(x, tol, True)])
    assert own.cells != kernel_cost(x, diag=True, tol=tol).cells and own.seconds > 0
    louder = kernel_cost(x, amplitude=3.0, tol=tol)
    assert louder == kernel_cost(3 * x, tol=tol), "the linear kernel of scaled paths"


@needs_core
def test_normalising_solves_the_diagonal_as_well():
    x, y = make("brownian", 0, 5, 9, 2), make("brownian", 1, 3, 7, 2)
    plain, normal = kernel_cost(x, y), kernel_cost(x, y, normalize=True)
    assert normal.cells == plain.cells
    more = counted([(s, a * (a + 1) // 2) for s, a in plans([*x, *y], 1e-8, True)])
    assert Counter(normal.planning_cells) == Counter(plain.planning_cells) + Counter(more)
    assert kernel_cost(x.float(), normalize=True).dtype == torch.float64, "which it computes with"


def test_a_speed_is_measured_once(monkeypatch: pytest.MonkeyPatch):
    cell_speed._measured.cache_clear()
    kernel_cost_of_sizes(100, 10, points=30, channels=3).seconds  # noqa: B018 - measured here
    monkeypatch.setattr(cell_speed, "_timed", lambda *_: pytest.fail("measured again"))
    assert kernel_cost_of_sizes(200, 10, points=30, channels=5).seconds > 0
    cell_speed._measured.cache_clear()


@pytest.mark.parametrize(
    "options", [{}, {"diag": True}, {"solver": "fd", "refine": 1}, {"path_length": 40.0}, {"normalize": True}]
)
def test_points_within_a_budget_are_the_most_that_fit(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "siggpde.numerics.cost.seconds_per_cell",
        lambda grid, scheme, channels, dtype, static: 1e-9 * (scheme + 1) * channels,
    )
    m = None if "diag" in options else 7

    def seconds(points: int) -> float:
        return kernel_cost_of_sizes(50, m, points=points, channels=2, **options).seconds

    found = [points_within(budget, 50, m, channels=2, **options) for budget in (1e-2, 1e-1, 1.0)]
    for budget, points in zip((1e-2, 1e-1, 1.0), found, strict=True):
        assert seconds(points) <= budget
        assert all(seconds(more) > budget for more in (*range(points + 1, points + 20), 2 * points, 5 * points))
    assert found == sorted(found)
    assert points_within(1e-1, 100, m, channels=2, **options) <= found[1], "more series, fewer points"
    assert points_within(1e-1, 50, m, channels=8, **options) <= found[1], "more channels, fewer points"


def test_points_within_has_its_limits():
    assert points_within(1e9, 3, 2, channels=1) == MOST_POINTS
    with pytest.raises(ValueError, match=r"1000000 pairs .* take more than 1e-12 seconds, however few"):
        points_within(1e-12, 1000, 1000, channels=2)


def test_the_kernel_keeps_to_the_points():
    """What `points_within` answers is what `max_points` takes."""
    points = points_within(0.05, 20, channels=2)
    assert isinstance(points, int)
    x = make("brownian", 0, 20, 30, 2)
    assert kernel_cost(x, max_points=points).total <= kernel_cost(x).total
    assert signature_kernel(x).shape == (20, 20)


def test_errors():
    x = make("smooth", 0, 3, 5, 2)
    for options in ({"y": x}, {"normalize": True}):
        with pytest.raises(ValueError, match="leave y and normalize out"):
            kernel_cost(x, diag=True, **options)
    with pytest.raises(ValueError, match="static must be one of"):
        kernel_cost(x, static="cubic")
    with pytest.raises(ValueError, match="they need the same"):
        kernel_cost(x, x[:, :, :1])
    with pytest.raises(ValueError, match="solver must be"):
        kernel_cost(x, solver="exact")
    with pytest.raises(ValueError, match="series 1, at time index 2"):
        kernel_cost(torch.tensor([[0.0, 1, 2], [0, 1, torch.nan]])[:, :, None])
    for name, value in (("n", 0), ("m", 2.5), ("points", 0), ("channels", -1)):
        with pytest.raises(ValueError, match=f"{name} must be a positive whole number"):
            kernel_cost_of_sizes(**({"n": 2, "m": 3, "points": 4, "channels": 5} | {name: value}))
    for length in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="path_length must be"):
            kernel_cost_of_sizes(2, points=4, channels=1, path_length=length)
    with pytest.raises(ValueError, match="leave m and normalize out"):
        kernel_cost_of_sizes(2, 3, points=4, channels=1, diag=True)
    with pytest.raises(ValueError, match="seconds must be positive"):
        points_within(0.0, 2, channels=1)
