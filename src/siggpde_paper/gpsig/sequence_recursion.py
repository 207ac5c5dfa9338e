"""Levels of truncated signature kernels of pairs of series, by recursion over levels, for all times at once.

With D_ij of two series (see `static_kernels`), level m sums products of m factors D over times i_1 <= .. <= i_m of one
series and j_1 <= .. <= j_m of the other. A time that occurs p times in a row divides the product by p!, on either side;
no time occurs more than `order` times. Order 1 keeps strictly increasing times only; with the linear static kernel and
order m, level m is the inner product of the levels m of the two signatures.
"""

from __future__ import annotations

from math import factorial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from siggpde.numerics.autograd import once_differentiable
from siggpde_paper.gpsig.exclusive_sums import earlier, earlier_rows, later, later_rows


def check_order(level: int, order: int | None) -> int:
    """The order as a number, `level` by default."""
    if not isinstance(level, int) or level < 1:
        raise ValueError(f"level must be an integer, at least 1, got {level!r}")
    if order is None:
        return level
    if not isinstance(order, int) or not 1 <= order <= level:
        raise ValueError(f"order must be an integer from 1 to the level, {level}, got {order!r}")
    return order


def sequence_levels(increments: Tensor, level: int, order: int) -> Tensor:
    """Levels k_1 .. k_level (level, ...) of pairs of series with D `increments` (..., s, t), where ... is n or (n, m).

    With R_pq(i, j) the sum of products that end with time i, p times, and time j, q times, multiplied by p! q!, and
    exclusive cumulative sums C_s and C_t along the two times, one level gives the next by

        R'_11 = D C_s C_t sum_pq R_pq/(p! q!),  R'_1q = D C_s sum_p R_p,q-1/p!,  R'_p1 = D C_t sum_q R_p-1,q/q!,
        R'_pq = D R_p-1,q-1.

    Of the last level only the sum is needed, so that sums are taken before cumulative sums and R' is never formed.
    """
    cells = increments[:, None] if increments.ndim == 3 else increments
    levels: Tensor = _SequenceLevels.apply(cells.transpose(1, 2).contiguous(), level, order)  # pyright: ignore[reportAssignmentType]
    return levels[:, :, 0] if increments.ndim == 3 else levels


class _SequenceLevels(Function):
    """Of D (n, s, m, t), in this order because a matrix product of increments gives it so.

    All R are kept for the reverse pass: callers give tiles of pairs, for which they stay in the cache.
    """

    @staticmethod
    def forward(ctx: Any, d: Tensor, level: int, order: int) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        values = d.new_empty(level, d.shape[0], d.shape[2])
        ends, steps = d[None, None], []
        for m in range(1, level - 1):
            step = _Step(d, ends, min(m + 1, order))
            torch.sum(step.plain, dim=(1, 3), out=values[m - 1])
            ends = step.ends
            if ctx.needs_input_grad[0]:
                steps.append(step)
        last = _LastStep(d, ends, level, order)
        torch.sum(last.plain, dim=(1, 3), out=values[max(level - 2, 0)])
        if level > 1:
            torch.sum(d * last.factor, dim=(1, 3), out=values[-1])
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(d)
            ctx.steps, ctx.last = steps, last
        return values

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return once_differentiable(_pull_back, *ctx.saved_tensors, grad, ctx.steps, ctx.last), None, None


def _pull_back(d: Tensor, grad: Tensor, steps: list[_Step], last: _LastStep) -> Tensor:
    if len(grad) == 1:
        return grad[0][:, None, :, None].expand_as(d)
    each = grad.repeat_interleave(d.shape[3], dim=2).view(len(grad), len(d), 1, *d.shape[2:])
    slope = last.factor * each[-1]
    down = last.pull_back(each[-1], each[-2])
    for m in range(len(steps), 0, -1):
        down = steps[m - 1].pull_back(down, each[m - 1], slope)
    return slope.add_(down[0, 0])


class _Step:
    """R of the next level, `ends` (then, then, n, s, m, t), from R (now, now, ...) of this one; and the reverse."""

    def __init__(self, d: Tensor, before: Tensor, then: int) -> None:
        now, cells = len(before), d.shape
        self.d, self.before, self.then, self.weights = d, before, then, _inverse_factorials(now, d)
        columns = (self.weights @ before.reshape(now, -1)).view(now, *cells)
        self.plain = (self.weights @ columns.view(now, -1)).view(cells)
        self.top = d.new_empty(then, *cells)
        self.top[0] = earlier(self.plain)
        self.top[1:] = columns[: then - 1]
        self.top = earlier_rows(self.top)
        self.ends = d.new_empty(then, then, *cells)
        torch.mul(self.top, d, out=self.ends[0])
        if then > 1:
            rows = torch.matmul(self.weights, before[: then - 1].reshape(then - 1, now, -1)).view(then - 1, *cells)
            self.side = earlier(rows)
            torch.mul(self.side, d, out=self.ends[1:, 0])
            torch.mul(before[: then - 1, : then - 1], d, out=self.ends[1:, 1:])

    def pull_back(self, grad: Tensor, each: Tensor, slope: Tensor) -> Tensor:
        """The gradient in R, from those in `ends` and in the sum of this level, `each`; adds that in D to `slope`."""
        d, then, now = self.d, self.then, len(self.before)
        slope += (grad[0] * self.top).sum(dim=0)
        if then > 1:
            slope += (grad[1:, 0] * self.side).sum(dim=0)
            slope += (grad[1:, 1:] * self.before[: then - 1, : then - 1]).sum(dim=(0, 1))
        top = later_rows(grad[0] * d)
        plain = later(top[0]) + each
        columns = self.weights.view(-1, 1, 1, 1, 1) * plain
        if then > 1:
            columns[: then - 1] += top[1:]
        result = self.weights.view(-1, 1, 1, 1, 1, 1) * columns
        if then > 1:
            rows = later(grad[1:, 0] * d)
            result[: then - 1].addcmul_(self.weights.view(1, now, 1, 1, 1, 1), rows[:, None])
            result[: then - 1, : then - 1].addcmul_(grad[1:, 1:], d)
        return result


class _LastStep:
    """The last level is sum D F, with `factor` F (n, s, m, t) from R of the level before."""

    def __init__(self, d: Tensor, before: Tensor, level: int, order: int) -> None:
        now = len(before)
        self.d, self.shape, self.repeats = d, before.shape, order > 1
        weights = _inverse_factorials(now, d)
        following = weights / torch.arange(2, now + 2, dtype=d.dtype, device=d.device)
        if now == order:
            following[-1] = 0.0  # no time occurs more than `order` times
        sides = (weights, following) if self.repeats else (weights,)
        pairs = [(p, q) for p in sides for q in sides]
        self.weights = torch.stack([torch.outer(p, q).flatten() for p, q in pairs])
        sums = (self.weights @ before.reshape(now * now, -1)).view(-1, *d.shape)
        self.plain = sums[0]
        if level > 1:
            self.factor = earlier(self.plain)
            if self.repeats:
                self.factor += sums[1]
            self.factor = earlier_rows(self.factor)
            if self.repeats:
                self.factor += earlier(sums[2])
                self.factor += sums[3]

    def pull_back(self, last: Tensor, each: Tensor) -> Tensor:
        """The gradient in R, from those in the last level, `last`, and in the sum of the level before, `each`."""
        both = self.d * last
        columns = later_rows(both)
        sums = [later(columns) + each]
        if self.repeats:
            sums += [columns, later(both), both]
        return (self.weights.T @ torch.stack(sums).view(len(sums), -1)).view(self.shape)


def _inverse_factorials(count: int, like: Tensor) -> Tensor:
    """1/1!, 1/2!, .., 1/count!."""
    return like.new_tensor([1 / factorial(p) for p in range(1, count + 1)])
