"""Functions of all pairs of rows, computed tile by tile.

The recursions need many numbers for every pair of series and every pair of times. They are computed for tiles of pairs
whose numbers fit the cache; these are not stored, and the reverse pass computes them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from siggpde.numerics.autograd import once_differentiable

Compute = Callable[..., Tensor]


def over_rows(compute: Compute, x: Tensor, rows: int) -> Tensor:
    """compute(x) (k, n) of x (n, ...), for `rows` rows of x at a time."""
    return _Tiles.apply(compute, (rows, 0), x, None)  # pyright: ignore[reportReturnType]


def over_pairs(compute: Compute, x: Tensor, y: Tensor | None, tile: tuple[int, int]) -> Tensor:
    """compute(x, y) (k, n, m) of x (n, ...) and y (m, ...), for tiles of tile[0] rows of x and tile[1] rows of y.

    Without y it is x with itself, and `compute` must be symmetric: tiles below the diagonal are copies of those above.
    """
    return _Tiles.apply(compute, tile, x, x if y is None else y, y is None)  # pyright: ignore[reportReturnType]


def tile_shape(cells: int, rows: int, columns: int, max_cells: int) -> tuple[int, int]:
    """Rows and columns of a tile of at most `max_cells` numbers, `cells` for each pair, but at least one pair.

    Examples:
        >>> tile_shape(10, 100, 20, 1000), tile_shape(10, 100, 400, 1000)
        ((5, 20), (1, 100))
    """
    pairs = max(1, max_cells // max(1, cells))
    if columns <= pairs:
        return max(1, min(rows, pairs // max(1, columns))), max(1, columns)
    return 1, pairs


class _Tiles(Function):
    @staticmethod
    def forward(ctx: Any, compute: Compute, tile: tuple[int, int], x: Tensor, y: Tensor | None, same: bool = False):  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.compute, ctx.tile, ctx.same = compute, tile, same
        ctx.save_for_backward(x, y)
        if y is None:
            return torch.cat([compute(chunk) for chunk in x.split(tile[0])] or [compute(x)], dim=-1)
        out: Tensor | None = None
        for rows, columns in _tiles(len(x), len(y), tile, same):
            values = compute(x[rows], y[columns])
            if out is None:
                out = values.new_empty(len(values), len(x), len(y))
            out[:, rows, columns] = values
            if same and rows != columns:
                out[:, columns, rows] = values.mT
        return compute(x, y) if out is None else out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, y = ctx.saved_tensors
        wanted = ctx.needs_input_grad[2], y is not None and ctx.needs_input_grad[3] and not ctx.same
        gradients = once_differentiable(_pull_back, ctx.compute, ctx.tile, ctx.same, wanted, x, y, grad)
        return None, None, *gradients, None


def _pull_back(
    compute: Compute,
    tile: tuple[int, int],
    same: bool,
    wanted: tuple[bool, bool],
    x: Tensor,
    y: Tensor | None,
    grad: Tensor,
) -> tuple[Tensor | None, Tensor | None]:
    grad_x = torch.zeros_like(x) if wanted[0] else None
    grad_y = torch.zeros_like(y) if wanted[1] and y is not None else None
    if y is None:
        pairs: Iterator[Any] = ((rows, None) for rows in _spans(len(x), tile[0]))
    else:
        pairs = _tiles(len(x), len(y), tile, same)
    for rows, columns in pairs:
        left = x[rows].detach().requires_grad_(wanted[0])
        outgoing = grad[..., rows] if columns is None else grad[:, rows, columns]
        arguments, gradients = [left], [(grad_x, rows)]
        if columns is not None and y is not None:
            right = y[columns].detach().requires_grad_(wanted[1] or same)
            arguments, gradients = [left, right], [(grad_x, rows), (grad_x if same else grad_y, columns)]
            if same and rows != columns:
                outgoing = outgoing + grad[:, columns, rows].mT
        with torch.enable_grad():
            value = compute(*arguments)
        learned = [index for index, argument in enumerate(arguments) if argument.requires_grad]
        slopes = torch.autograd.grad(value, [arguments[index] for index in learned], outgoing)
        for index, slope in zip(learned, slopes, strict=True):
            total, span = gradients[index]
            assert total is not None
            total[span] += slope
    return grad_x, grad_y


def _spans(size: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, size)) for start in range(0, size, max(1, step)))


def _tiles(rows: int, columns: int, tile: tuple[int, int], same: bool) -> Iterator[tuple[slice, slice]]:
    """Tiles of all pairs; of x with itself, the squares on the diagonal and the tiles to their right."""
    if same:
        for span in _spans(rows, tile[0]):
            yield span, span
            for other in _spans(columns - span.stop, tile[1]):
                yield span, slice(span.stop + other.start, span.stop + other.stop)
        return
    for span in _spans(rows, tile[0]):
        for other in _spans(columns, tile[1]):
            yield span, other
