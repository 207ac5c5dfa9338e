"""Grids of prepared increments, solved and differentiated.

Increments are [series][channel][step], contiguous; `rows` (series,) int64 is the number of steps of each series. All
series of a call share the scheme. The reverse sweep keeps the state at the start of every segment of about sqrt(steps)
rows and solves a segment again with all its cells stored: memory grows as steps^1.5.
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

_OWN, _OTHER = 16, 32


@dataclass(frozen=True)
class Steps:
    """Increments [series][channel][step], and the number of steps of each series; those after it are padding."""

    values: Tensor
    rows: Tensor

    @property
    def count(self) -> int:
        return self.values.shape[0]

    @property
    def channels(self) -> int:
        return self.values.shape[1]

    @property
    def longest(self) -> int:
        return self.values.shape[2]


class Grids:
    """The grids of all pairs of x and y, or of each x with itself if y is None."""

    def __init__(self, x: Steps, y: Steps | None, scheme: int, log_value: bool):
        self.x, self.y, self.scheme, self.log = x, x if y is None else y, scheme, log_value
        self.symmetric = y is None
        self.pairs = x.count if y is None else x.count * y.count
        self.degree = SCHEME_DEGREE[scheme]
        self.series_in_tile, self.rows_in_tile = tile(x.longest)
        self.bottom = x.values.new_zeros(self.pairs, self.degree + log_value, self.y.longest)
        self.corner = x.values.new_zeros(
            (self.pairs if self.symmetric else 0), 1 + log_value, x.longest + 1
        )  # fmt: skip
        self.corner[:, 0] = 1
        self.value = x.values.new_ones(0 if self.symmetric else self.pairs)

    def solve(self) -> Tensor:
        """The values (pairs,), or their logarithms."""
        self._sweep(0, self.x.longest, None)
        return self._values()

    def diagonal(self) -> Tensor:
        """U(i, i), or its logarithm to base 2, (series, longest + 1), after `solve` or `differentiate`."""
        values = self.corner[:, 0]
        return values.log2() + self.corner[:, 1] if self.log else values

    def differentiate(self, weight: Tensor | None, of_columns: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values, and the gradients [series][channel][step] of the weighted sum by rows and by columns.

        `weight` (pairs,) is for pairs; for k(X, X) it is None, which means one. The gradient of k(X, X) is the sum of
        both results. For scales they contribute equally, so that the second need not be computed: `of_columns` false.
        """
        x, y = self.x, self.y
        size = rows_per_segment(x.longest, self.degree, self.rows_in_tile)
        segments = max(1, cdiv(x.longest, size))
        checkpoints: list[Tensor] = []
        for s in range(segments - 1):
            checkpoints.append(self.bottom.clone())
            self._sweep(s * size, (s + 1) * size, None)
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
            self._sweep(begin, end, store)
            if s == segments - 1:
                self._seed(bottom_bar, corner_bar)
            rho_bar.zero_()
            run(
                reverse, cdiv(self.pairs, self.series_in_tile), x.values,
                x.values, y.values, x.rows, y.rows, store, bottom_bar, corner_bar, weight, rho_bar, *self._sizes(),
                begin, end, SCHEME=self.scheme, SYMMETRIC=self.symmetric, LOG=self.log, SERIES=self.series_in_tile,
                ROWS=self.rows_in_tile,
            )  # fmt: skip
            self._pull_back(rho_bar, begin, end, of_x, of_y)
        return self._values(), of_x, of_y

    def _sizes(self) -> tuple[int, ...]:
        return self.pairs, self.y.count, self.x.longest, self.y.longest, self.x.channels

    def _sweep(self, begin: int, end: int, store: Tensor | None) -> None:
        x, y = self.x, self.y
        run(
            sweep, cdiv(self.pairs, self.series_in_tile), x.values,
            x.values, y.values, x.rows, y.rows, self.bottom, self.corner, self.value, store, *self._sizes(), begin, end,
            SCHEME=self.scheme, SYMMETRIC=self.symmetric, LOG=self.log, STORE=store is not None,
            SERIES=self.series_in_tile, ROWS=self.rows_in_tile,
        )  # fmt: skip

    def _values(self) -> Tensor:
        if not self.symmetric:
            return self.value
        at = self.x.rows[:, None]
        end = self.corner[:, 0].gather(1, at)[:, 0]
        return end.log() + self.corner[:, 1].gather(1, at)[:, 0] * log(2) if self.log else end

    def _seed(self, bottom_bar: Tensor, corner_bar: Tensor) -> None:
        """Sensitivities of the result itself, for k(X, X)."""
        if not self.symmetric:
            return
        at = self.x.rows[:, None]
        end = self.corner[:, 0].gather(1, at)
        corner_bar[:, 0].scatter_(1, at, 1 / end if self.log else torch.ones_like(end))
        if self.log:
            bottom_bar[:, self.degree] = FAR.value
            corner_bar[:, 1] = FAR.value
            corner_bar[:, 1].scatter_(1, at, self.corner[:, 1].gather(1, at))

    def _pull_back(self, rho_bar: Tensor, begin: int, end: int, of_x: Tensor, of_y: Tensor | None) -> None:
        x, y, channels = self.x, self.y, self.x.channels
        rows, columns = end - begin, y.longest
        grid = rows * columns
        x_size, y_size = channels * x.longest, channels * y.longest
        # Strides of rho_bar and of the partner's increments, by the own series and by the other one.
        if self.symmetric:
            others, by_x, by_y = (1, 1), (grid, 0, y_size, 0), (grid, 0, x_size, 0)
        else:
            others = (y.count, x.count)
            by_x, by_y = (grid * y.count, grid, 0, y_size), (grid, grid * y.count, 0, x_size)
        blocks = {"OWN": _OWN, "OTHER": _OTHER}
        run(
            pull_back, x.count * channels * cdiv(rows, _OWN), of_x, rho_bar, y.values, of_x[:, :, begin:], channels,
            rows, columns, others[0], x.longest, y.longest, *by_x[:2], columns, 1, *by_x[2:], ADD=False, **blocks,
        )  # fmt: skip
        if of_y is not None:
            run(
                pull_back, y.count * channels * cdiv(columns, _OWN), of_y, rho_bar, x.values[:, :, begin:], of_y,
                channels, columns, rows, others[1], y.longest, x.longest, *by_y[:2], 1, columns, *by_y[2:], ADD=True,
                **blocks,
            )  # fmt: skip


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
