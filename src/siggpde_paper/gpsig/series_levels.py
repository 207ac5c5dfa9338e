"""Levels of truncated signature kernels: level m sums products of m numbers D (`increment_kernel`) over times i_1 <= ..
<= i_m and j_1 <= .. <= j_m of two series, over p! for a time that occurs p times in a row, at most `order`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from math import factorial
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import pad

from siggpde.numerics import inputs
from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.core import core, usual_threads
from siggpde.series import SeriesBatch

Static = Literal["linear", "rbf"]
# A product with a triangle of ones is faster than a cumulative sum along axes up to about this long, and exact
# where the difference of a total and a cumulative sum would round.
_SHORT = 64
Recursion = tuple[list["_Step"], "_LastStep"]
_TILE_CELLS = 2**19  # more leave the cache, fewer are mostly overhead
_MAX_BYTES = 2**28  # working memory of a thread in the reverse pass
# Of the rows, for threads; and what their gradients in the other series may take.
_PARTS, _MAX_GRADIENT_BYTES = 16, 2**26


def by_hand(
    compute: Callable[..., tuple[Tensor, Any]], pull_back: Callable[..., tuple[Tensor | None, ...]], *tensors: Any
) -> Tensor:
    """The values of `compute`, which returns what pull_back(grad, kept, *tensors) needs; no second derivatives."""
    return _ByHand.apply(compute, pull_back, *tensors)  # pyright: ignore[reportReturnType]


class _ByHand(Function):
    @staticmethod
    def forward(ctx: Any, compute: Any, pull_back: Any, *tensors: Any) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        values, kept = compute(*tensors)
        ctx.save_for_backward(*tensors)
        ctx.pull_back, ctx.kept = pull_back, kept if any(ctx.needs_input_grad) else None
        return values

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None, None, *once_differentiable(ctx.pull_back, grad, ctx.kept, *ctx.saved_tensors)


def point_kernel(static: Static, x: Tensor, y: Tensor) -> Tensor:
    """kap, <x, y> or exp(-|x - y|²/2), for all pairs of points of x (..., k, channels) and y (..., l, channels)."""
    products = x @ y.mT
    if static == "linear":
        return products
    # one exponential of -|x|²/2 + <x, y> - |y|²/2; what rounding makes positive of it changes kap by a rounding too
    halves = 0.5 * x.square().sum(dim=-1)[..., :, None], 0.5 * y.square().sum(dim=-1)[..., None, :]
    return (products - halves[0] - halves[1]).exp()


def scaled_pair(static: Static, x: Tensor, y: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    """x and y whose kap is kap(theta x, theta y); a linear kernel scales x alone, so that y needs no gradient."""
    return (x * theta.square(), y) if static == "linear" else (x * theta, y * theta)


def increment_kernel(static: Static, x: Tensor, y: Tensor) -> Tensor:
    """D_ij = kap(x_{i+1}, y_{j+1}) + kap(x_i, y_j) - kap(x_i, y_{j+1}) - kap(x_{i+1}, y_j) for all pairs of series of
    x (n, l, channels) and y (m, l', channels): (n, m, l-1, l'-1). For the linear kernel they are <dx_i, dy_j>."""
    if static == "linear":
        x, y = x.diff(dim=1), y.diff(dim=1)
    (n, rows, channels), (m, columns, _) = x.shape, y.shape
    values = point_kernel(static, x.reshape(n * rows, channels), y.reshape(m * columns, channels))
    values = values.view(n, rows, m, columns).transpose(1, 2)
    return values if static == "linear" else values.diff(dim=-1).diff(dim=-2)


def paired_increment_kernel(static: Static, x: Tensor, y: Tensor) -> Tensor:
    """Returns D for every series of x (n, l, channels) with the same of y (n, l', channels): (n, l-1, l'-1)."""
    if static == "linear":
        return x.diff(dim=1) @ y.diff(dim=1).mT
    return point_kernel(static, x, y).diff(dim=-1).diff(dim=-2)


def checked_series(x: Tensor, lengths: Tensor | None, name: str = "x") -> Tensor:
    """Series x (n, length, channels) of two points or more, checked to be finite, padded by their last points."""
    inputs.check_finite(x, lengths, name)
    series = SeriesBatch(x, lengths).hold_last().values
    return series if series.shape[1] > 1 else series.expand(-1, 2, -1)


def earlier(values: Tensor, axis: int = -1) -> Tensor:
    """At every time the sum of all values before, along the last axis or, of contiguous values, the last but two.

    >>> earlier(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[0., 1., 3.]])
    """
    if values.shape[axis] > _SHORT:
        return values.cumsum(dim=axis).sub_(values)
    triangle = _triangle(values.shape[axis], values.dtype, values.device)
    return values @ triangle.T if axis == -1 else (triangle @ values.flatten(-2)).view(values.shape)


def later(values: Tensor, axis: int = -1) -> Tensor:
    """At every time the sum of all values after, along the axes of `earlier`."""
    if values.shape[axis] > _SHORT:
        return values.sum(dim=axis, keepdim=True) - values.cumsum(dim=axis)
    triangle = _triangle(values.shape[axis], values.dtype, values.device)
    return values @ triangle if axis == -1 else (triangle.T @ values.flatten(-2)).view(values.shape)


@lru_cache(maxsize=64)
def _triangle(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return torch.ones(size, size, dtype=dtype, device=device).tril_(-1)


def sequence_levels(increments: Tensor, level: int, order: int) -> Tensor:
    """Levels k_1 .. k_level (level, ...) of pairs of series with D `increments` (..., s, t), where ... is n or (n, m).

    With R_pq(i, j) the sum of products that end with time i, p times, and time j, q times, multiplied by p! q!, and
    exclusive cumulative sums C_s and C_t along the two times, one level gives the next by

        R'_11 = D C_s C_t sum_pq R_pq/(p! q!),  R'_1q = D C_s sum_p R_p,q-1/p!,  R'_p1 = D C_t sum_q R_p-1,q/q!,
        R'_pq = D R_p-1,q-1.
    """
    cells = increments[:, None] if increments.ndim == 3 else increments
    run = partial(_run_recursion, level=level, order=order, keep=torch.is_grad_enabled() and increments.requires_grad)
    levels = by_hand(run, _pull_back_recursion, cells.transpose(1, 2).contiguous())
    return levels[:, :, 0] if increments.ndim == 3 else levels


def _run_recursion(d: Tensor, *, level: int, order: int, keep: bool) -> tuple[Tensor, Recursion]:
    """Levels from D (n, s, m, t), in the order of a product of increments, and all R to `keep` for the reverse pass."""
    values = d.new_empty(level, d.shape[0], d.shape[2])
    ends, steps = d[None, None], []
    for m in range(1, level - 1):
        step = _Step(d, ends, min(m + 1, order))
        torch.sum(step.plain, dim=(1, 3), out=values[m - 1])
        ends = step.ends
        if keep:
            steps.append(step)
    last = _LastStep(d, ends, level, order)
    torch.sum(last.plain, dim=(1, 3), out=values[max(level - 2, 0)])
    if level > 1:
        torch.sum(d * last.factor, dim=(1, 3), out=values[-1])
    return values, (steps, last)


def _pull_back_recursion(grad: Tensor, kept: Recursion, d: Tensor) -> tuple[Tensor]:
    if len(grad) == 1:
        return (grad[0][:, None, :, None].expand_as(d),)
    steps, last = kept
    of_levels = grad.repeat_interleave(d.shape[3], dim=2).view(len(grad), len(d), 1, *d.shape[2:])
    slope = last.factor * of_levels[-1]
    down = last.pull_back(of_levels[-1], of_levels[-2])
    for m in range(len(steps), 0, -1):
        down = steps[m - 1].pull_back(down, of_levels[m - 1], slope)
    return (slope.add_(down[0, 0]),)


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
        self.top = earlier(self.top, -3)
        self.ends = d.new_empty(then, then, *cells)
        torch.mul(self.top, d, out=self.ends[0])
        if then > 1:
            rows = torch.matmul(self.weights, before[: then - 1].reshape(then - 1, now, -1)).view(then - 1, *cells)
            self.side = earlier(rows)
            torch.mul(self.side, d, out=self.ends[1:, 0])
            torch.mul(before[: then - 1, : then - 1], d, out=self.ends[1:, 1:])

    def pull_back(self, grad: Tensor, level_grad: Tensor, slope: Tensor) -> Tensor:
        """The gradient in R, from `grad` in `ends` and `level_grad` in the level's sum; adds that in D to `slope`."""
        d, then, now = self.d, self.then, len(self.before)
        slope += (grad[0] * self.top).sum(dim=0)
        if then > 1:
            slope += (grad[1:, 0] * self.side).sum(dim=0)
            slope += (grad[1:, 1:] * self.before[: then - 1, : then - 1]).sum(dim=(0, 1))
        top = later(grad[0] * d, -3)
        plain = later(top[0]) + level_grad
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
            self.factor = earlier(self.factor, -3)
            if self.repeats:
                self.factor += earlier(sums[2])
                self.factor += sums[3]

    def pull_back(self, last: Tensor, level_grad: Tensor) -> Tensor:
        """The gradient in R, from those in the last level, `last`, and in the sum of the level before, `level_grad`."""
        both = self.d * last
        columns = later(both, -3)
        sums = [later(columns) + level_grad]
        if self.repeats:
            sums += [columns, later(both), both]
        return (self.weights.T @ torch.stack(sums).view(len(sums), -1)).view(self.shape)


def _inverse_factorials(count: int, like: Tensor) -> Tensor:
    """1/1!, 1/2!, .., 1/count!."""
    return like.new_tensor([1 / factorial(p) for p in range(1, count + 1)])


def full_lanes(rows: Tensor) -> Tensor:
    """Rows (n, k, channels) with zero rows behind them, so many that they fill all lanes."""
    return pad(rows, (0, 0, 0, 0, 0, -len(rows) % core.lane_step))


def in_lanes(rows: Tensor) -> Tensor:
    """Rows (n, k, channels) as (blocks, k, channels, lanes), with zeros in the last block where rows lack."""
    padded = full_lanes(rows)
    return padded.unflatten(0, (len(padded) // core.lane_step, core.lane_step)).movedim(1, 3).contiguous()


def core_has_pairs(x: Tensor, y: Tensor, level: int, order: int) -> bool:
    """Whether the core has these levels: few, of full order, float64 on the CPU, for grids that it can hold."""
    if core is None or order != level or not core.least_pair_level <= level <= core.largest_pair_level:
        return False
    if core.sequence_levels_reverse_bytes(x.shape[1] - 1, y.shape[1] - 1, level) > _MAX_BYTES:
        return False
    return all(series.device.type == "cpu" and series.dtype == torch.float64 for series in (x, y))


def cells_of_tile(cells: int) -> int:
    """How many numbers D a tile of pairs with `cells` each has: at least those of one pair in every lane."""
    return max(_TILE_CELLS, core.lane_step * cells)


def rbf_pair_levels(x: Tensor, y: Tensor, level: int) -> Tensor:
    """k_1 .. k_level (level, n, m) of all pairs of series of x (n, l, channels) and y (m, l', channels), for "rbf"."""
    (n, rows, _), (m, columns, _) = x.shape, y.shape
    lanes = full_lanes(y).transpose(0, 1)  # (l', m, channels), D of a series of zeros being zero
    values = point_kernel("rbf", x.flatten(0, 1), lanes.flatten(0, 1)).view(n, rows, columns, lanes.shape[1])
    return _increment_levels(values.diff(dim=1).diff(dim=2).contiguous(), level)[:, :, :m]


def compiled_paired_levels(static: Static, x: Tensor, level: int) -> Tensor:
    """k_1 .. k_level (level, n) of every series of x (n, l, channels) with itself."""
    values = full_lanes(paired_increment_kernel(static, x, x)).permute(1, 2, 0)[None]
    return _increment_levels(values.contiguous(), level)[:, 0, : len(x)]


def _increment_levels(d: Tensor, level: int) -> Tensor:
    """Levels (level, n, m) from D (n, s, t, m), with m a multiple of the core's step."""

    def compute(d: Tensor) -> tuple[Tensor, None]:
        values = d.new_empty(level, len(d), d.shape[3])
        core.sequence_levels(d.data_ptr(), *d.shape, level, values.data_ptr(), usual_threads())
        return values, None

    def pull_back(grad: Tensor, _kept: None, d: Tensor) -> tuple[Tensor]:
        grad, result = grad.contiguous(), torch.empty_like(d)
        core.sequence_levels_reverse(d.data_ptr(), *d.shape, level, grad.data_ptr(), result.data_ptr(), usual_threads())
        return (result,)

    return by_hand(compute, pull_back, d)


def linear_pair_levels(x: Tensor, y: Tensor | None, level: int) -> Tensor:
    """k_1 .. k_level (level, n, m), of full order, of increments x (n, s, channels) and y (m, t, channels) or x."""
    if y is not None and x.shape[2] != y.shape[2]:
        raise ValueError(f"x has {x.shape[2]} channels and y {y.shape[2]}; they must have the same")
    pull_back = partial(_pull_back_pairs, level=level, with_y=y is None or y.requires_grad)
    return by_hand(partial(_pairs, level=level), pull_back, *((x,) if y is None else (x, y)))


def _pairs(x: Tensor, y: Tensor | None = None, *, level: int) -> tuple[Tensor, None]:
    others = x if y is None else y
    x, lanes = x.contiguous(), in_lanes(others)
    values = x.new_empty(level, len(x), len(others))
    arguments = _pair_arguments(x, lanes, others, level, y is None)
    core.linear_pair_levels(*arguments, values.data_ptr(), usual_threads())
    return values, None


def _pull_back_pairs(
    grad: Tensor, _kept: None, x: Tensor, y: Tensor | None = None, *, level: int, with_y: bool
) -> tuple[Tensor | None, ...]:
    others, same = x if y is None else y, y is None
    x, lanes, grad = x.contiguous(), in_lanes(others), grad.contiguous()
    of_x = torch.empty_like(x)
    of_lanes = lanes.new_zeros(_parts(x, lanes), *lanes.shape) if with_y else None
    pointers = grad.data_ptr(), of_x.data_ptr(), 0 if of_lanes is None else of_lanes.data_ptr()
    core.linear_pair_levels_reverse(*_pair_arguments(x, lanes, others, level, same), *pointers, usual_threads())
    if of_lanes is None:
        return of_x, None
    of_others = of_lanes.sum(dim=0).movedim(3, 1).flatten(0, 1)[: len(others)]
    return (of_x + of_others,) if same else (of_x, of_others)


def _pair_arguments(x: Tensor, lanes: Tensor, others: Tensor, level: int, same: bool) -> tuple[int | bool, ...]:
    return x.data_ptr(), lanes.data_ptr(), len(x), x.shape[1], *others.shape, level, same, _parts(x, lanes)


def _parts(x: Tensor, lanes: Tensor) -> int:
    """In how many parts the rows of x are shared out, whatever the threads, for sums of gradients depend on it."""
    return max(1, min(_PARTS, len(x), _MAX_GRADIENT_BYTES // max(1, 8 * lanes.numel())))
