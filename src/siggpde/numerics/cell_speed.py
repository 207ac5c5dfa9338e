"""How long a cell of the Goursat grid takes on this machine: measured when it is first asked for, once a process."""

from __future__ import annotations

import time
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from siggpde.numerics.backend import backend_for
from siggpde.numerics.static_kernel import Static, StaticKernel, squared_segments
from siggpde.numerics.triton.plan import FINITE_DIFFERENCES, FIRST_LEGENDRE_SCHEME, SCHEME_DEGREE, error_constant

Grid = Literal["pair", "diagonal"]

_CHANNELS = (1, 17)  # the time of a cell is taken as linear in the channels, a straight line through these two
# Lines of so many steps of this length: k is about exp(24), in the range of every dtype. Static kernels have a
# bandwidth of about the length of the line.
_SEGMENTS, _STEP, _BANDWIDTH = 24, 0.5, 10.0
_LANES = 32  # as many series as any instruction set has lanes, or a multiple
_SIZES = {"pair": (4, 32, 128), "diagonal": (1, 8, 32)}  # columns that 32 series meet, or times 32 series
_LONG_ENOUGH = 3e-4  # seconds; where a run is shorter the next size is taken
_REPEATS = 3


def seconds_per_cell(grid: Grid, scheme: int, channels: int, dtype: torch.dtype, static: Static) -> float:
    """Seconds of one thread for a cell of a scheme, in grids of pairs or of k(X, X), where every lane has a series.

    Tensors on the CPU are measured, which takes some milliseconds for each kind of grid and scheme.
    """
    few, many = (_measured(grid, scheme, count, dtype, static) for count in _CHANNELS)
    slope = max(0.0, (many - few) / (_CHANNELS[1] - _CHANNELS[0]))
    return few + slope * (channels - _CHANNELS[0])


def probe(
    scheme: int, n: int, channels: int, dtype: torch.dtype, static: Static = "linear"
) -> tuple[Tensor, StaticKernel | None, int, float]:
    """Series (n, length, channels), static kernel, refinements, tolerance: the planner takes this scheme, uncut."""
    steps = torch.arange(_SEGMENTS + 1, dtype=torch.float64)[None, :, None] * (_STEP / channels**0.5)
    lines = steps.expand(n, -1, channels).to(dtype).contiguous()
    lift = None
    if static != "linear":
        lift = StaticKernel(static, _BANDWIDTH, 1.0, 1.0)
        lifted = float(squared_segments(lift, lines[:1].double())[0, 0]) ** 0.5
        lift = lift._replace(amplitude=_STEP / lifted)  # so that lifted steps have the same length
    if scheme == FINITE_DIFFERENCES:
        return lines, lift, 0, 1e-8
    tol = 2 * _error(scheme)
    if scheme > FIRST_LEGENDRE_SCHEME:  # between what this one and the one before achieve
        tol = (_error(scheme) * _error(scheme - 1)) ** 0.5
    return lines, lift, -1, tol


def _error(scheme: int) -> float:
    m = SCHEME_DEGREE[scheme]
    return error_constant(m) * _SEGMENTS * _STEP ** (2 * m + 1)


@cache
def _measured(grid: Grid, scheme: int, channels: int, dtype: torch.dtype, static: Static) -> float:
    seconds = float("inf")
    for size in _SIZES[grid]:
        if grid == "diagonal":
            x, lift, refine, tol = probe(scheme, size * _LANES, channels, dtype, static)
            cells = len(x) * _SEGMENTS * (_SEGMENTS + 1) // 2
        else:
            x, lift, refine, tol = probe(scheme, _LANES, channels, dtype, static)
            cells = len(x) * size * _SEGMENTS**2
        y = x[:1].expand(size, -1, -1).contiguous()
        fastest = min(_timed(grid, x, y, lift, refine, tol) for _ in range(_REPEATS))
        seconds = fastest / cells
        if fastest > _LONG_ENOUGH:
            break
    return seconds


def _timed(grid: Grid, x: Tensor, y: Tensor, lift: StaticKernel | None, refine: int, tol: float) -> float:
    backend = backend_for(x, static="linear" if lift is None else lift.name)
    start = time.perf_counter()
    if grid == "diagonal":
        backend.diagonal(x, None, lift, refine, tol, False, 1, False)
    else:
        backend.gram(x, None, y, None, lift, refine, tol, 1, False)
    return time.perf_counter() - start
