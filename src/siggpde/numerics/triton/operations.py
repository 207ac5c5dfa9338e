"""The operations by Triton; log-signatures, windows and thresholds, which have no kernels, by plain torch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from siggpde.numerics import autograd
from siggpde.numerics.autograd import Norms, Pairs
from siggpde.numerics.goursat import LONGEST_SEGMENT, LONGEST_SEGMENT_OF_LOG
from siggpde.numerics.inputs import COSTLY, INACCURATE, LOST, MEMORY, NOT_FINITE, OVERFLOW, raise_or_warn
from siggpde.numerics.reference import (  # noqa: F401 - operations without kernels
    logsignature,
    pool_windows,
    separating_thresholds,
    window_path_lengths,
    window_signatures,
)
from siggpde.numerics.static_kernels import KernelSettings
from siggpde.numerics.triton import cdiv, plan
from siggpde.numerics.triton.plan import MAX_INFLATION, ROUGH_TOL, PlanRequest
from siggpde.numerics.triton.signature import extend, signature  # noqa: F401 - operations too
from siggpde.numerics.triton.solve import Batch, Failure, Grids, LiftedBatch, Part, failure, make_batch, pairs_at_once

Wanted = Literal["value", "segments", "scales"]


class Solved(NamedTuple):
    """k or log k (n,), its gradient if wanted, by how much errors may exceed the plan (n,), and the failure if any."""

    value: Tensor
    gradient: Tensor | None
    inflation: Tensor
    failure: Failure | None


def plan_request(refine: int, tol: float, diagonal_only: bool, log: bool, dtype: torch.dtype) -> PlanRequest:
    """The request as the native core makes it; a segment longer than `too_long` overflows for certain."""
    return PlanRequest(refine, tol, diagonal_only, LONGEST_SEGMENT_OF_LOG if log else LONGEST_SEGMENT[dtype])


def solve_diagonal(batch: Batch, request: PlanRequest, log: bool, wanted: Wanted) -> Solved:
    """k of every series; `wanted`: without gradient, with that of the segments' values, or with that of log scales."""
    n, _, channels = batch.shape
    value = torch.ones(n, dtype=batch.dtype, device=batch.device)
    inflation = torch.ones(n, dtype=torch.float64, device=batch.device)
    shape = {"value": (), "segments": batch.values.shape, "scales": (n, channels)}[wanted]
    gradient = torch.zeros(shape, dtype=batch.dtype, device=batch.device) if shape else None
    bad = batch.check(request)
    if bad is not None:
        return Solved(value, gradient, inflation, bad)
    batch.plan(request)
    if (bad := batch.costly()) is not None:
        return Solved(value, gradient, inflation, bad)
    members = torch.arange(n, device=batch.device)
    allowed = torch.ones_like(inflation)
    # An inaccurate pass underestimates the fall, so passes are repeated until the plans allow for all of it.
    for _ in range(plan.MAX_PASSES + 1):
        for part in _chunks(batch, members, wanted != "value"):
            _solve_part(batch, part, log, wanted, value, inflation, gradient)
        ratio = inflation.clamp(max=plan.MAX_INFLATION)
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
    inflation[part.members] = _fall(grids.diagonal(), part.steps.rows, log) ** 2 / plan.ORDINARY_FALL


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
    error = plan.ROUNDINGS * plan.ORDINARY_FALL * torch.finfo(value.dtype).eps * inflation
    double = value.dtype == torch.float64
    worst = plan.INACCURATE_ABOVE_F64 if double else plan.INACCURATE_ABOVE_F32
    lost = error > max(worst, tol)
    if not bool(lost.any()):
        return None
    first = int(lost.nonzero()[0])
    return failure(LOST if float(error[first]) > 1 else INACCURATE, first)


_LOWEST_BLOCK = 16


class Side(NamedTuple):
    """One side of the matrix, planned; `rounding`: the first series that loses its digits, if any."""

    batch: Batch
    rounding: Failure | None


def prepare(pairs: Pairs, side: int) -> Side:
    """Plans side x (0) or y (1), more tightly where a rough k(X, X) shows that paths come back on themselves."""
    x, lengths = (pairs.y, pairs.y_lengths) if side else (pairs.x, pairs.x_lengths)
    assert x is not None
    (static, refine, tol, _), log = pairs.settings, pairs.norms is not None
    batch = make_batch(x, lengths, static)
    request = plan_request(refine, tol, False, log, batch.dtype)
    inflation, rounding, bad = None, None, None
    if refine < 0:
        coarse = PlanRequest(refine, max(tol, ROUGH_TOL), True, request.too_long)
        rough = solve_diagonal(batch, coarse, log, "value")
        if rough.failure is not None and rough.failure[0] in (NOT_FINITE, MEMORY, COSTLY):
            bad = rough.failure
        if rough.failure is not None and rough.failure[0] in (INACCURATE, LOST):
            rounding = rough.failure
        inflation = rough.inflation.clamp(max=MAX_INFLATION)
    bad = bad or batch.check(request)
    if bad is not None:
        raise_or_warn((*bad[:4], side), pairs.x, pairs.x_lengths, pairs.y, pairs.y_lengths, log)
    batch.plan(request, inflation)
    if (bad := batch.costly()) is not None:
        raise_or_warn((*bad[:4], side), pairs.x, pairs.x_lengths, pairs.y, pairs.y_lengths, log)
    return Side(batch, rounding)


def solve_gram(x: Side, y: Side | None, norms: Norms | None) -> tuple[Tensor, Failure | None]:
    """k (n, m), symmetric if y is None; with `norms`, logarithms (n,) and (m,), divided by their exponentials."""
    other = x if y is None else y
    value = torch.ones(x.batch.shape[0], other.batch.shape[0], dtype=x.batch.dtype, device=x.batch.device)
    for rows, columns, scheme in _rectangles(x.batch, other.batch, y is None, False):
        values = _grids(rows, columns, scheme, norms).solve()
        value[rows.members[:, None], columns.members] = values.reshape(len(rows.members), -1)
    if y is None:
        # Each pair was solved at least once, by the later of the two in the common order; pairs solved twice, inside a
        # block, agree to rounding: one of them is taken for both.
        value = torch.where(_owned(x.batch), value, value.T)
    wrong = ~torch.isfinite(value)
    if bool(wrong.any()):
        i, j = wrong.nonzero()[0].tolist()
        return value, failure(OVERFLOW, i, j)
    return value, x.rounding or (None if y is None or y.rounding is None else (*y.rounding[:4], 1))


def differentiate_gram(x: Side, y: Side | None, weight: Tensor, norms: Norms | None) -> tuple[Tensor, Tensor | None]:
    """Gradients of the weighted sum of k in the segments' values of x and, if there is a y, of y."""
    other = x if y is None else y
    if y is None:
        owned = _owned(x.batch)
        mirrored = torch.where(torch.eye(len(owned), device=owned.device) > 0, 0, weight.T)
        weight = torch.where(owned, weight + mirrored, 0)
    of_x = torch.zeros_like(x.batch.values)
    of_y = of_x if y is None else torch.zeros_like(other.batch.values)
    for rows, columns, scheme in _rectangles(x.batch, other.batch, y is None, True):
        share = weight[rows.members[:, None], columns.members].flatten().contiguous()
        _, of_rows, of_columns = _grids(rows, columns, scheme, norms).differentiate(share, True)
        # Members of a part are all different: no index occurs twice, so that += adds every number.
        of_x[rows.members] += x.batch.of_segments(rows, of_rows)
        if of_columns is not None:
            of_y[columns.members] += other.batch.of_segments(columns, of_columns)
    return of_x, None if y is None else of_y


def _grids(rows: Part, columns: Part, scheme: int, norms: Norms | None) -> Grids:
    if norms is None:
        return Grids(rows.steps, columns.steps, scheme, False)
    log_norm = norms[0][rows.members][:, None] + norms[1][columns.members]
    return Grids(rows.steps, columns.steps, scheme, True, log_norm.flatten())


def _owned(batch: Batch) -> Tensor:
    """Which pairs (i, j) of a symmetric matrix are solved: i is not before j by scheme, then by number of pieces."""
    groups = [members for members, _, _ in batch.groups(torch.arange(batch.shape[0], device=batch.device))]
    order = torch.cat(groups) if groups else torch.zeros(0, dtype=torch.int64, device=batch.device)
    position = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=batch.device))
    return position[:, None] >= position


def _rectangles(x: Batch, y: Batch, symmetric: bool, gradient: bool) -> Iterator[tuple[Part, Part, int]]:
    """Blocks of rows and columns, of one scheme each, that fit the memory; if symmetric, up to the block's last row."""
    element = torch.finfo(x.dtype).bits // 8
    x_groups = list(x.groups(torch.arange(x.shape[0], device=x.device)))
    y_groups = x_groups if symmetric else list(y.groups(torch.arange(y.shape[0], device=y.device)))
    for g, (x_members, x_scheme, x_steps) in enumerate(x_groups):
        for h, (y_members, y_scheme, y_steps) in enumerate(y_groups):
            if symmetric and h > g:
                continue
            scheme = max(x_scheme, y_scheme)
            capacity = pairs_at_once(max(1, x_steps[-1]), max(1, y_steps[-1]), scheme, element, gradient)
            tall = max(1, min(len(x_members), int(capacity**0.5)))
            if symmetric and g == h:  # the lower the blocks, the less is solved twice
                tall = min(tall, max(_LOWEST_BLOCK, cdiv(len(x_members), 8)))
            for top in range(0, len(x_members), tall):
                bottom = min(top + tall, len(x_members))
                rows = x.part(x_members[top:bottom], x_scheme, x_steps[bottom - 1])
                last = bottom if symmetric and g == h else len(y_members)
                wide = max(1, capacity // (bottom - top))
                for left in range(0, last, wide):
                    right = min(left + wide, last)
                    yield rows, y.part(y_members[left:right], y_scheme, y_steps[right - 1]), scheme


def diagonal(x: Tensor, lengths: Tensor | None, settings: KernelSettings, log: bool, differentiable: bool) -> Tensor:
    if differentiable:
        return autograd.diagonal(_diagonal_and_gradients, x, lengths, settings, log)
    return _solved(make_batch(x, lengths, settings.static), x, lengths, settings, log, "value").value


def diagonal_with_gradient(
    x: Tensor, lengths: Tensor | None, settings: KernelSettings, log: bool
) -> tuple[Tensor, Tensor]:
    return _diagonal_and_gradients(x.detach(), lengths, settings, log)[:2]


def diagonal_with_scale_gradient(
    x: Tensor, lengths: Tensor | None, theta: Tensor, settings: KernelSettings, log: bool
) -> tuple[Tensor, Tensor]:
    batch = make_batch(x, lengths, settings.static, theta)
    lifted = isinstance(batch, LiftedBatch)
    solved = _solved(batch, x, lengths, settings, log, "segments" if lifted else "scales")
    assert solved.gradient is not None
    if not lifted:
        return solved.value, solved.gradient
    return solved.value, batch.of_log_scales(solved.gradient, batch.points[:, :1].double()).to(x.dtype)


def _diagonal_and_gradients(
    x: Tensor, lengths: Tensor | None, settings: KernelSettings, log: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """k or log k (n,); its gradient in the points; that in log bandwidth and log amplitude (n, 2), if lifted."""
    batch = make_batch(x, lengths, settings.static)
    solved = _solved(batch, x, lengths, settings, log, "segments")
    assert solved.gradient is not None
    parameters = None
    if isinstance(batch, LiftedBatch):
        parameters = batch.of_log_parameters(solved.gradient, batch.points[:, :1].double())
    return solved.value, batch.of_points(solved.gradient), parameters


def _solved(
    batch: Batch, x: Tensor, lengths: Tensor | None, settings: KernelSettings, log: bool, wanted: Wanted
) -> Solved:
    solved = solve_diagonal(batch, plan_request(settings.refine, settings.tol, True, log, x.dtype), log, wanted)
    if solved.failure is not None:
        raise_or_warn(solved.failure, x, lengths, None, None, log)
    return solved


def gram(pairs: Pairs, differentiable: bool) -> Tensor:
    return autograd.gram(_gram_values, _gram_gradients, pairs) if differentiable else _gram_values(pairs)


def _gram_values(pairs: Pairs) -> Tensor:
    value, bad = solve_gram(*_sides(pairs), pairs.norms)
    if bad is not None:
        raise_or_warn(bad, pairs.x, pairs.x_lengths, pairs.y, pairs.y_lengths, pairs.norms is not None)
    return value


def _gram_gradients(pairs: Pairs, weight: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
    with warnings.catch_warnings():  # the forward pass has warned already
        warnings.simplefilter("ignore")
        rows, columns = _sides(pairs)
    of_rows, of_columns = differentiate_gram(rows, columns, weight, pairs.norms)
    of_x = rows.batch.of_points(of_rows)
    of_y = None if columns is None or of_columns is None else columns.batch.of_points(of_columns)
    if not isinstance(rows.batch, LiftedBatch):
        return of_x, of_y, None
    centre = rows.batch.points.flatten(0, 1)[:1].double().sum(0)
    of_logarithms = rows.batch.of_log_parameters(of_rows, centre).sum(0)
    if columns is not None and of_columns is not None:
        assert isinstance(columns.batch, LiftedBatch)
        of_logarithms = of_logarithms + columns.batch.of_log_parameters(of_columns, centre).sum(0)
    return of_x, of_y, of_logarithms


def _sides(pairs: Pairs) -> tuple[Side, Side | None]:
    return prepare(pairs, 0), None if pairs.y is None else prepare(pairs, 1)
