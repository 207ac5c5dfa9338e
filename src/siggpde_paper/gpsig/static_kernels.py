"""Static kernels on points, and the kernels of increments of series that follow from them.

A static kernel kap on points gives, for the increments of two series, the numbers

    D_ij = kap(x_{i+1}, y_{j+1}) + kap(x_i, y_j) - kap(x_i, y_{j+1}) - kap(x_{i+1}, y_j),

which for the linear kernel <x, y> are the inner products <dx_i, dy_j> of increments.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from siggpde.numerics import inputs
from siggpde.series import SeriesBatch

Static = Literal["linear", "rbf"]


def check_static(static: Static) -> Static:
    """The name of a static kernel, after checking that there is one of that name."""
    if static not in ("linear", "rbf"):
        raise ValueError(f"static must be 'linear' or 'rbf', got {static!r}")
    return static


def point_kernel(static: Static, x: Tensor, y: Tensor) -> Tensor:
    """kap of all pairs of points of x (..., k, channels) and y (..., l, channels): (..., k, l).

    <x, y> for "linear" and exp(-|x - y|²/2) for "rbf".
    """
    products = x @ y.mT
    if static == "linear":
        return products
    # one exponential of -|x|²/2 + <x, y> - |y|²/2; what rounding makes positive of it changes kap by a rounding too
    halves = 0.5 * x.square().sum(dim=-1)[..., :, None], 0.5 * y.square().sum(dim=-1)[..., None, :]
    return (products - halves[0] - halves[1]).exp()


def scaled_pair(static: Static, x: Tensor, y: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    """x and y such that kap of them is kap(theta x, theta y).

    A linear kernel takes both scales on x, so that no gradient has to go through y.
    """
    return (x * theta.square(), y) if static == "linear" else (x * theta, y * theta)


def increment_kernel(static: Static, x: Tensor, y: Tensor) -> Tensor:
    """D of all pairs of series of x (n, l, channels) and y (m, l', channels): (n, m, l-1, l'-1).

    Examples:
        >>> import torch
        >>> increment_kernel("linear", torch.tensor([[[0.0], [2.0]]]), torch.tensor([[[1.0], [2.0], [5.0]]]))
        tensor([[[[2., 6.]]]])
    """
    if static == "linear":
        x, y = x.diff(dim=1), y.diff(dim=1)
    (n, rows, channels), (m, columns, _) = x.shape, y.shape
    values = point_kernel(static, x.reshape(n * rows, channels), y.reshape(m * columns, channels))
    values = values.view(n, rows, m, columns).transpose(1, 2)
    return values if static == "linear" else second_differences(values)


def paired_increment_kernel(static: Static, x: Tensor, y: Tensor) -> Tensor:
    """D of every series of x (n, l, channels) with the same of y (n, l', channels): (n, l-1, l'-1)."""
    if static == "linear":
        return x.diff(dim=1) @ y.diff(dim=1).mT
    return second_differences(point_kernel(static, x, y))


def second_differences(values: Tensor) -> Tensor:
    """Differences along both of the last two axes, (..., k, l) to (..., k-1, l-1)."""
    return values.diff(dim=-1).diff(dim=-2)


def checked_series(x: Tensor, lengths: Tensor | None, name: str = "x") -> Tensor:
    """Series x (n, length, channels) of two points or more, checked to be finite, padded by their last points."""
    inputs.check_finite(x, lengths, name)
    series = SeriesBatch(x, lengths).hold_last().values
    return series if series.shape[1] > 1 else series.expand(-1, 2, -1)
