"""k(X_i, Y_j) for all pairs on the GPU, and its gradients, in rectangles of pairs that share a scheme."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.numerics.errors import INACCURATE, LOST, MEMORY, NOT_FINITE, OVERFLOW
from siggpde.numerics.gram_autograd import Norms
from siggpde.numerics.triton.batch import Batch, Failure, Part, failure
from siggpde.numerics.triton.diagonal import plan_request, solve_diagonal
from siggpde.numerics.triton.launch import cdiv
from siggpde.numerics.triton.plan import PlanRequest
from siggpde.numerics.triton.plan_constants import MAX_INFLATION, ROUGH_TOL
from siggpde.numerics.triton.solve import Grids, pairs_at_once

_LOWEST_BLOCK = 16


class Side(NamedTuple):
    """One side of the matrix, planned; `rounding`: the first series that loses its digits, if any."""

    batch: Batch
    rounding: Failure | None


def prepare(batch: Batch, refine: int, tol: float, log: bool) -> Side | Failure:
    """Plans a side, tightened where paths come back on themselves: a rough solution of k(X, X) tells.

    `log`: grids are to be rescaled, so that k(X, X) may be out of range.
    """
    request = plan_request(refine, tol, False, log, batch.dtype)
    inflation, rounding = None, None
    if refine < 0:
        coarse = PlanRequest(refine, max(tol, ROUGH_TOL), True, request.too_long)
        rough = solve_diagonal(batch, coarse, log, "value")
        if rough.failure is not None:
            if rough.failure[0] in (NOT_FINITE, MEMORY):
                return rough.failure
            if rough.failure[0] in (INACCURATE, LOST):
                rounding = rough.failure
        inflation = rough.inflation.clamp(max=MAX_INFLATION)
    bad = batch.check(request)
    if bad is not None:
        return bad
    batch.plan(request, inflation)
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
        weight = torch.where(
            owned, weight + torch.where(torch.eye(len(owned), device=owned.device) > 0, 0, weight.T), 0
        )
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


def _positions(batch: Batch) -> Tensor:
    """The position (n,) of every series in the common order: by scheme, then by number of pieces."""
    groups = [members for members, _, _ in batch.groups(torch.arange(batch.shape[0], device=batch.device))]
    order = torch.cat(groups) if groups else torch.zeros(0, dtype=torch.int64, device=batch.device)
    return torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=batch.device))


def _owned(batch: Batch) -> Tensor:
    """Which pairs (i, j) of a symmetric matrix are solved: i is not before j in the common order."""
    position = _positions(batch)
    return position[:, None] >= position


def _rectangles(x: Batch, y: Batch, symmetric: bool, gradient: bool) -> Iterator[tuple[Part, Part, int]]:
    """Blocks of rows and columns, each of one scheme, that fit the memory.

    In the symmetric case columns after the last row of a block are left out.
    """
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
