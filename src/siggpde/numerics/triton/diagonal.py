"""k(X, X) of a batch on the GPU, with or without its gradient."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from siggpde.numerics.errors import INACCURATE, LOST, OVERFLOW
from siggpde.numerics.triton import plan_constants
from siggpde.numerics.triton.batch import Batch, Failure, Part, failure
from siggpde.numerics.triton.plan import PlanRequest
from siggpde.numerics.triton.solve import Grids, pairs_at_once

Wanted = Literal["value", "segments", "scales"]


class Solved(NamedTuple):
    """k or log k (n,), its gradient if wanted, by how much errors may exceed the plan (n,), and the failure if any."""

    value: Tensor
    gradient: Tensor | None
    inflation: Tensor
    failure: Failure | None


def plan_request(refine: int, tol: float, diagonal_only: bool, log: bool, dtype: torch.dtype) -> PlanRequest:
    """The request as the native core makes it; a segment longer than `too_long` overflows for certain."""
    if log:
        too_long = plan_constants.OVERFLOWING_SEGMENT_LOG
    elif dtype == torch.float64:
        too_long = plan_constants.OVERFLOWING_SEGMENT_F64
    else:
        too_long = plan_constants.OVERFLOWING_SEGMENT_F32
    return PlanRequest(refine, tol, diagonal_only, too_long)


def solve_diagonal(batch: Batch, request: PlanRequest, log: bool, wanted: Wanted) -> Solved:
    """k of every series; the gradient `wanted` is none, that of the segments' values, for the gradients of points, or
    for increments that of log scales (n, d)."""
    n, _, channels = batch.shape
    value = torch.ones(n, dtype=batch.dtype, device=batch.device)
    inflation = torch.ones(n, dtype=torch.float64, device=batch.device)
    shape = {"value": (), "segments": batch.values.shape, "scales": (n, channels)}[wanted]
    gradient = torch.zeros(shape, dtype=batch.dtype, device=batch.device) if shape else None
    bad = batch.check(request)
    if bad is not None:
        return Solved(value, gradient, inflation, bad)
    batch.plan(request)
    members = torch.arange(n, device=batch.device)
    allowed = torch.ones_like(inflation)
    # An inaccurate pass underestimates the fall, so passes are repeated until the plans allow for all of it.
    for _ in range(plan_constants.MAX_PASSES + 1):
        for part in _chunks(batch, members, wanted != "value"):
            _solve_part(batch, part, log, wanted, value, inflation, gradient)
        ratio = inflation.clamp(max=plan_constants.MAX_INFLATION)
        again = (ratio > 1) & (batch.plans.estimate * ratio > request.tol) & (ratio > allowed)
        members = again.nonzero()[:, 0]
        if request.refine >= 0 or len(members) == 0:
            break
        allowed[members] = ratio[members]
        batch.plan_again(members, request, ratio[members])
    return Solved(value, gradient, inflation, _failure_of(value, inflation, request.tol))


def _chunks(batch: Batch, members: Tensor, gradient: bool):
    element = torch.finfo(batch.dtype).bits // 8
    for group, scheme, steps in batch.groups(members):
        end = len(group)
        while end > 0:  # the longest first: they decide how many fit
            size = pairs_at_once(steps[end - 1], steps[end - 1], scheme, element, gradient)
            begin = max(0, end - size)
            yield batch.part(group[begin:end], scheme, steps[end - 1])
            end = begin


def _solve_part(
    batch: Batch, part: Part, log: bool, wanted: Wanted, value: Tensor, inflation: Tensor, gradient: Tensor | None
) -> None:
    grids = Grids(part.steps, None, part.scheme, log)
    if gradient is None:
        value[part.members] = grids.solve()
    else:
        value[part.members], of_rows, of_columns = grids.differentiate(None, wanted == "segments")
        if of_columns is not None:
            gradient[part.members] = batch.of_segments(part, of_rows + of_columns)
        else:
            gradient[part.members] = 2 * (of_rows * part.steps.values).sum(2)
    inflation[part.members] = _fall(grids.diagonal(), part.steps.rows, log) ** 2 / plan_constants.ORDINARY_FALL


def _fall(diagonal: Tensor, rows: Tensor, log: bool) -> Tensor:
    """The largest ratio of an earlier U(i, i) to a later one, at least 1, float64."""
    inside = torch.arange(diagonal.shape[1], device=diagonal.device) <= rows[:, None]
    if log:  # logarithms to base 2; those of numbers below zero, which are not, count for nothing
        known = inside & ~diagonal.isnan()
        highest = torch.where(known, diagonal, -torch.inf).cummax(1).values
        ratio = torch.where(known, highest - diagonal, 0.0).amax(1).double().exp2()
    else:
        highest = torch.where(inside, diagonal, 0.0).cummax(1).values
        ratio = torch.where(inside, highest / diagonal, 1.0).nan_to_num(nan=1.0).amax(1).double()
    return ratio.clamp(min=1)


def _failure_of(value: Tensor, inflation: Tensor, tol: float) -> Failure | None:
    wrong = ~torch.isfinite(value)
    if bool(wrong.any()):
        return failure(OVERFLOW, int(wrong.nonzero()[0]))
    error = plan_constants.ROUNDINGS * plan_constants.ORDINARY_FALL * torch.finfo(value.dtype).eps * inflation
    double = value.dtype == torch.float64
    worst = plan_constants.INACCURATE_ABOVE_F64 if double else plan_constants.INACCURATE_ABOVE_F32
    lost = error > max(worst, tol)
    if not bool(lost.any()):
        return None
    first = int(lost.nonzero()[0])
    return failure(LOST if float(error[first]) > 1 else INACCURATE, first)
