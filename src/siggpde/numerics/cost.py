"""What a signature kernel costs before it is computed: cells of Goursat grids, and seconds on this machine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import torch

from siggpde.numerics import inputs
from siggpde.numerics.averaging import average_sides
from siggpde.numerics.cell_speed import Grid, seconds_per_cell
from siggpde.numerics.grid_counts import (
    Plans,
    half_grids,
    pair_grids,
    plan_series,
    rough_plans,
    squared_steps,
    symmetric_grids,
)
from siggpde.numerics.kernel_settings import Solver, check_pair, check_settings, times_amplitude
from siggpde.numerics.signature_kernel import Lengths
from siggpde.numerics.static_kernel import Parameter, Static, check_static
from siggpde.numerics.triton.plan import FINITE_DIFFERENCES, FIRST_LEGENDRE_SCHEME, SCHEME_DEGREE
from siggpde.numerics.words import as_integer

MOST_POINTS = 4096  # that `points_within` ever answers
_SIZES_AT_ONCE = 256


@dataclass(frozen=True)
class KernelCost:
    """The work of one call of `signature_kernel` or `signature_kernel_diag`.

    - `pairs`: how many pairs of series are solved.
    - `cells`: cells of their grids by the number of coefficients of an edge (1: finite differences; 2, 3, 4, 5, 6, 8).
    - `planning_cells`: those of the rough solutions of k(X, X), by which a Gram matrix decides about accuracy, and of
      the exact ones by which it is normalised.
    - `diag`: whether the pairs are series with themselves, k(X, X), of which half a grid is solved.
    """

    pairs: int
    cells: dict[int, int]
    planning_cells: dict[int, int]
    diag: bool
    channels: int
    dtype: torch.dtype
    static: Static

    @property
    def total(self) -> int:
        """All cells."""
        return sum(self.cells.values()) + sum(self.planning_cells.values())

    @property
    def seconds(self) -> float:
        """Seconds of one CPU thread, by the speed of a cell, which is measured once a process, in milliseconds.

        Threads share the work where there is enough. Fewer than about 16 series take as long as 16, which fill the
        processor's vectors; series of very unequal length, and paths that come back on themselves, take longer.
        """
        own: Grid = "diagonal" if self.diag else "pair"
        grids: tuple[tuple[Grid, dict[int, int]], ...] = ((own, self.cells), ("diagonal", self.planning_cells))
        return sum(
            count * seconds_per_cell(grid, SCHEME_DEGREE.index(degree), self.channels, self.dtype, self.static)
            for grid, cells in grids
            for degree, count in cells.items()
        )


def kernel_cost(
    x: inputs.Series,
    y: inputs.Series | None = None,
    *,
    diag: bool = False,
    static: Static = "linear",
    bandwidth: Parameter | None = None,
    amplitude: Parameter = 1.0,
    alpha: float | None = None,
    normalize: bool = False,
    lengths: Lengths = None,
    y_lengths: Lengths = None,
    solver: Solver = "series",
    refine: int = 0,
    tol: float = 1e-8,
    max_points: int | None = None,
) -> KernelCost:
    """The cost of `signature_kernel(x, y)`, or with `diag=True` of `signature_kernel_diag(x)`, without solving a grid.

    Each series is planned as the kernel does it: edges of enough coefficients, and segments cut into pieces, for `tol`.
    A pair of series of s and t pieces then has s t cells with the larger number of coefficients of the two, and
    k(X, X) has s (s + 1) / 2. The arguments are those of the kernel; the cost is that of values without gradients.

    Examples:
        >>> x = torch.linspace(0, 1, 11).double().reshape(1, 11, 1).expand(20, 11, 1)
        >>> kernel_cost(x, x[:5], solver="fd").cells
        {1: 10000}
        >>> kernel_cost(x, diag=True).cells
        {3: 1100}
    """
    if diag and (y is not None or y_lengths is not None or normalize):
        raise ValueError("diag=True is about k(X, X) of x alone, not normalised; leave y and normalize out")
    sides = [inputs.as_batch(x, lengths)]
    if y is not None:
        sides.append(inputs.as_batch(y, y_lengths, "y"))
        check_pair(*sides[0], *sides[1])
    values = sides[0][0]
    refinement, tol, _ = check_settings(solver, refine, tol, "adjoint", False, values.dtype)
    lift, factor = check_static(static, bandwidth, amplitude, alpha)
    paths = [
        squared_steps(times_amplitude(points, counts, factor), counts, lift)
        for points, counts in average_sides(max_points, *sides)
    ]
    plans = [Counter(plan_series(*path, refinement, tol, diag)) for path in paths]
    planning: Plans = Counter()
    for path in paths:
        planning.update([] if diag else rough_plans(*path, refinement, tol))
        planning.update(plan_series(*path, refinement, tol, True) if normalize else [])
    return _cost(plans, planning, diag, values.shape[2], torch.float64 if normalize else values.dtype, static)


def kernel_cost_of_sizes(
    n: int,
    m: int | None = None,
    *,
    points: int,
    channels: int,
    path_length: float = 6.0,
    diag: bool = False,
    static: Static = "linear",
    normalize: bool = False,
    solver: Solver = "series",
    refine: int = 0,
    tol: float = 1e-8,
    dtype: torch.dtype = torch.float64,
) -> KernelCost:
    """The cost of n series with m others, or None: with each other, all with as many points and one path length.

    The path length is the sum of |x_{i+1} - x_i|, all of them taken as equal; with a static kernel it is that of the
    lifted path. `diag=True`: the cost of k(X, X).

    Examples:
        >>> kernel_cost_of_sizes(1000, 100, points=64, channels=3).cells
        {3: 396900000}
    """
    settings = check_settings(solver, refine, tol, "adjoint", False, dtype)[:2]
    return _costs_of_sizes(n, m, [points], channels, path_length, diag, static, normalize, settings, dtype)[0]


def points_within(
    seconds: float,
    n: int,
    m: int | None = None,
    *,
    channels: int,
    path_length: float = 6.0,
    diag: bool = False,
    static: Static = "linear",
    normalize: bool = False,
    solver: Solver = "series",
    refine: int = 0,
    tol: float = 1e-8,
    dtype: torch.dtype = torch.float64,
) -> int:
    """The largest `max_points`, up to 4096, for which the kernel takes at most so many seconds of one thread.

    For n series with m others, as in `kernel_cost_of_sizes`. With t threads give t times the seconds.

    Examples:
        >>> 2 <= points_within(10.0, 1000, 100, channels=3) <= points_within(20.0, 1000, 100, channels=3)
        True
    """
    settings = check_settings(solver, refine, tol, "adjoint", False, dtype)[:2]
    least = kernel_cost_of_sizes(n, m, points=2, channels=channels, diag=diag, static=static)  # checks the sizes
    cheapest = FINITE_DIFFERENCES if settings[0] >= 0 else FIRST_LEGENDRE_SCHEME
    speed = seconds_per_cell("diagonal" if diag else "pair", cheapest, channels, dtype, static)
    if not isinstance(seconds, Real) or not seconds > 0:
        raise ValueError(f"seconds must be positive, got {seconds!r}")
    # No plan is cheaper than this many segments at the cheapest scheme; of k(X, X) it is half a grid.
    bound = math.sqrt(seconds / (speed * max(1, least.pairs)) * (2 if diag else 1)) + 2
    high = int(min(bound, MOST_POINTS))
    for top in range(high, 1, -_SIZES_AT_ONCE):
        sizes = range(top, max(1, top - _SIZES_AT_ONCE), -1)
        costs = _costs_of_sizes(n, m, sizes, channels, path_length, diag, static, normalize, settings, dtype)
        for points, cost in zip(sizes, costs, strict=True):
            if cost.seconds <= seconds:
                return points
    raise ValueError(
        f"{least.pairs} pairs of series of path length {path_length} take more than {seconds} seconds, "
        "however few their points; take fewer series or landmarks, shorter paths or a larger tol"
    )


def _costs_of_sizes(
    n: int,
    m: int | None,
    sizes: Sequence[int],
    channels: int,
    path_length: float,
    diag: bool,
    static: Static,
    normalize: bool,
    settings: tuple[int, float],
    dtype: torch.dtype,
) -> list[KernelCost]:
    for name, number in (("n", n), ("m", 1 if m is None else m), ("points", min(sizes)), ("channels", channels)):
        if (whole := as_integer(number)) is None or whole < 1:
            raise ValueError(f"{name} must be a positive whole number, got {number!r}")
    if diag and (m is not None or normalize):
        raise ValueError("diag=True is about k(X, X) of n series, not normalised; leave m and normalize out")
    check_static(static, None, 1.0, None)
    if not (math.isfinite(path_length) and path_length >= 0):
        raise ValueError(f"path_length must be a finite length, got {path_length!r}")
    segments = torch.tensor(sizes) - 1
    step = path_length / segments.clamp(min=1).double()
    inside = torch.arange(max(sizes) - 1) < segments[:, None]
    squared = torch.where(inside, step.square()[:, None], 0.0)
    planned = plan_series(squared, segments, *settings, diag)
    before = [] if diag else [rough_plans(squared, segments, *settings)]
    before += [plan_series(squared, segments, *settings, True)] if normalize else []
    costs = []
    for index, plan in enumerate(planned):
        plans = [Counter({plan: n}), *([] if m is None else [Counter({plan: m})])]
        planning: Plans = Counter()
        for each in before:
            planning.update({each[index]: n + (m or 0)} if each else {})
        costs.append(_cost(plans, planning, diag, channels, torch.float64 if normalize else dtype, static))
    return costs


def _cost(
    plans: list[Plans], planning: Plans, diag: bool, channels: int, dtype: torch.dtype, static: Static
) -> KernelCost:
    """Of one side with itself, or of two."""
    n, m = plans[0].total(), plans[-1].total()
    if diag:
        pairs, cells = n, half_grids(plans[0])
    elif len(plans) == 1:
        pairs, cells = n * (n + 1) // 2, symmetric_grids(plans[0])
    else:
        pairs, cells = n * m, pair_grids(*plans)
    return KernelCost(pairs, cells, half_grids(planning), diag, channels, dtype, static)
