"""Grids of prepared pieces, solved and differentiated.

Pieces are [series][field][step], contiguous, with the fields of `coefficients`: increments, or segments that a static
kernel lifts. `rows` (series,) int64 is the number of steps of each series. All series of a call share the scheme. The
reverse sweep keeps the state at the start of every segment of about sqrt(steps) rows and solves a segment again with
all its cells stored: memory grows as steps^1.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, log

import torch
from torch import Tensor

from siggpde.numerics.triton.grid import FAR, reverse, sweep
from siggpde.numerics.triton.launch import at_once, cdiv, run, tile
from siggpde.numerics.triton.plan_constants import SCHEME_DEGREE
from siggpde.numerics.triton.pull_back import pull_back
from siggpde.numerics.triton.pull_back_lifted import pull_back_lifted

_OWN, _OTHER = 16, 32


@dataclass(frozen=True)
class Steps:
    """Pieces [series][field][step], and the number of steps of each series; those after it are padding."""

    values: Tensor
    rows: Tensor
    lifted: bool = False

    @property
    def count(self) -> int:
        return self.values.shape[0]

    @property
    def fields(self) -> int:
        return self.values.shape[1]

    @property
    def channels(self) -> int:
        return self.fields // 2 - 1 if self.lifted else self.fields

    @property
    def longest(self) -> int:
        return self.values.shape[2]


class Grids:
    """The grids of all pairs of x and y, or of each x with itself if y is None.

    With `log_value` grids are rescaled on the way. The values of k(X, X) are then logarithms; those of pairs are
    divided by the exponentials of `log_norm` (pairs,).
    """

    def __init__(self, x: Steps, y: Steps | None, scheme: int, log_value: bool, log_norm: Tensor | None = None):
        self.x, self.y, self.scheme, self.log = x, x if y is None else y, scheme, log_value
        self.log_norm = log_norm
        self.symmetric = y is None
        self.pairs = x.count if y is None else x.count * y.count
        self.degree = SCHEME_DEGREE[scheme]
        self.series_in_tile, self.rows_in_tile = tile(x.longest)
        self.bottom = x.values.new_zeros(self.pairs, self.degree + log_value, self.y.longest)
        self.corner = x.values.new_zeros(
            (self.pairs if self.symmetric else 0), 1 + log_value, x.longest + 1
        )  # fmt: skip
        self.corner[:, 0] = 1
        self.value = x.values.new_zeros(1 + log_value, 0 if self.symmetric else self.pairs)
        self.value[0] = 1

    def solve(self) -> Tensor:
        """The values (pairs,), or the logarithms of k(X, X)."""
        self._sweep(0, self.x.longest)
        return self._values()

    def diagonal(self) -> Tensor:
        """U(i, i), or its logarithm to base 2, (series, longest + 1), after `solve` or `differentiate`."""
        values = self.corner[:, 0]
        return values.log2() + self.corner[:, 1] if self.log else values

    def differentiate(self, weight: Tensor | None, of_columns: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values, and the gradients [series][field][step] of the weighted sum by rows and by columns.

        `weight` (pairs,) is for pairs; for k(X, X) it is None, which means one. The gradient of k(X, X) is the sum of
        both results. For scales of increments they contribute equally, so that the second need not be computed:
        `of_columns` false.
        """
        x, y = self.x, self.y
        size = rows_per_segment(x.longest, self.degree, self.rows_in_tile)
        segments = max(1, cdiv(x.longest, size))
        checkpoints: list[Tensor] = []
        for s in range(segments - 1):
            checkpoints.append(self.bottom.clone())
            self._sweep(s * size, (s + 1) * size)
        fields = 2 * self.degree + 1 + self.log
        store = x.values.new_empty(self.pairs, min(size, max(1, x.longest)), fields, y.longest)
        rho_bar = torch.empty_like(store[:, :, 0])
        bottom_bar = torch.zeros_like(self.bottom)
        corner_bar = torch.zeros_like(self.corner)
        of_x, of_y = torch.zeros_like(x.values), torch.zeros_like(y.values) if of_columns else None
        for s in reversed(range(segments)):
            begin, end = s * size, min((s + 1) * size, x.longest)
            if s < segments - 1:
                self.bottom = checkpoints.pop()
            rho_bar.zero_()
            self._sweep(begin, end, store, rho_bar)  # the sweep leaves rho, the reverse puts its sensitivity there
            if s == segments - 1:
                weight = self._seed(bottom_bar, corner_bar, weight)
            run(
                reverse, cdiv(self.pairs, self.series_in_tile), x.values,
                x.rows, y.rows, store, bottom_bar, corner_bar, weight, rho_bar, *self._sizes(),
                begin, end, SCHEME=self.scheme, SYMMETRIC=self.symmetric, LOG=self.log, SERIES=self.series_in_tile,
                ROWS=self.rows_in_tile,
            )  # fmt: skip
            self._pull_back(rho_bar, begin, end, of_x, of_y)
        return self._values(), of_x, of_y

    def _sizes(self) -> tuple[int, ...]:
        return self.pairs, self.y.count, self.x.longest, self.y.longest

    def _sweep(self, begin: int, end: int, store: Tensor | None = None, rho: Tensor | None = None) -> None:
        x, y = self.x, self.y
        run(
            sweep, cdiv(self.pairs, self.series_in_tile), x.values,
            x.values, y.values, x.rows, y.rows, self.bottom, self.corner, self.value, store, rho, *self._sizes(), begin,
            end, x.channels, SCHEME=self.scheme, SYMMETRIC=self.symmetric, LOG=self.log, STORE=store is not None,
            LIFTED=x.lifted, SERIES=self.series_in_tile, ROWS=self.rows_in_tile,
        )  # fmt: skip

    def _values(self) -> Tensor:
        if not self.symmetric:
            return self.value[0] * self._scale() if self.log else self.value[0]
        at = self.x.rows[:, None]
        end = self.corner[:, 0].gather(1, at)[:, 0]
        return end.log() + self.corner[:, 1].gather(1, at)[:, 0] * log(2) if self.log else end

    def _scale(self) -> Tensor:
        """What the rescaled value of a pair is multiplied by."""
        assert self.log_norm is not None
        return (self.value[1] * log(2) - self.log_norm).exp()

    def _seed(self, bottom_bar: Tensor, corner_bar: Tensor, weight: Tensor | None) -> Tensor | None:
        """Sensitivities of the result itself: put in their place for k(X, X), returned for pairs."""
        if self.log:
            bottom_bar[:, self.degree] = FAR.value
        if not self.symmetric:
            return weight * self._scale() if self.log and weight is not None else weight
        at = self.x.rows[:, None]
        end = self.corner[:, 0].gather(1, at)
        corner_bar[:, 0].scatter_(1, at, 1 / end if self.log else torch.ones_like(end))
        if self.log:
            corner_bar[:, 1] = FAR.value
            corner_bar[:, 1].scatter_(1, at, self.corner[:, 1].gather(1, at))
        return None

    def _pull_back(self, rho_bar: Tensor, begin: int, end: int, of_x: Tensor, of_y: Tensor | None) -> None:
        x, y = self.x, self.y
        rows, columns = end - begin, y.longest
        grid = rows * columns
        x_size, y_size = x.fields * x.longest, y.fields * y.longest
        # Strides of rho_bar and of the partner's pieces, by the own series and by the other one.
        if self.symmetric:
            others, by_x, by_y = (1, 1), (grid, 0, y_size, 0), (grid, 0, x_size, 0)
        else:
            others = (y.count, x.count)
            by_x, by_y = (grid * y.count, grid, 0, y_size), (grid, grid * y.count, 0, x_size)
        own, part = x.values[:, :, begin:], of_x[:, :, begin:]
        sizes = rows, columns, others[0], x.longest, y.longest, *by_x[:2], columns, 1, *by_x[2:]
        self._pull_back_side(rho_bar, own, y.values, part, *sizes, add=False)
        if of_y is not None:
            sizes = columns, rows, others[1], y.longest, x.longest, *by_y[:2], 1, columns, *by_y[2:]
            self._pull_back_side(rho_bar, y.values, own, of_y, *sizes, add=True)

    def _pull_back_side(
        self, rho_bar: Tensor, own: Tensor, partner: Tensor, out: Tensor, steps: int, *sizes: int, add: bool
    ) -> None:
        """Adds to the gradient of a side; without `add` the places it goes to are known to be zero."""
        blocks, channels = own.shape[0] * cdiv(steps, _OWN), self.x.channels
        tiles = {"OWN": _OWN, "OTHER": _OTHER}
        if self.x.lifted:
            run(pull_back_lifted, blocks, out, rho_bar, own, partner, out, channels, steps, *sizes, **tiles)
        else:
            run(pull_back, blocks * channels, out, rho_bar, partner, out, channels, steps, *sizes, ADD=add, **tiles)


def rows_per_segment(steps: int, degree: int, rows_in_tile: int) -> int:
    """The number of rows, in whole bands, that about minimises the memory of stored cells and checkpoints."""
    best = isqrt(max(1, steps * degree // (2 * degree + 2)))
    return rows_in_tile * max(1, (best + rows_in_tile // 2) // rows_in_tile)


def pairs_at_once(x_steps: int, y_steps: int, scheme: int, element: int, gradient: bool) -> int:
    """The number of grids that fit the scratch memory."""
    degree = SCHEME_DEGREE[scheme]
    numbers = (degree + 1) * y_steps + 2 * (x_steps + 1)
    if gradient:
        size = rows_per_segment(x_steps, degree, tile(x_steps)[1])
        numbers = 2 * numbers + (2 * degree + 3) * size * y_steps + cdiv(max(1, x_steps), size) * (degree + 1) * y_steps
    return at_once(numbers * element)
