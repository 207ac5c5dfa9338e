"""Pooled window signatures by the native core."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from siggpde.numerics import inputs
from siggpde.numerics.core import core
from siggpde.numerics.errors import NOT_FINITE, OVERFLOW
from siggpde.numerics.window_view import LIFTS, OVERFLOWING, WindowView


def pool_windows(
    x: Tensor, lengths: Tensor | None, view: WindowView, lift_scale: Tensor, path_scales: Tensor, thresholds: Tensor,
    whole: Tensor, thirds: Tensor, threads: int,
) -> None:  # fmt: skip
    """Writes statistics over all windows to `whole` (n, 4 + q, M), over thirds to (n, 1 + ceil(q / 2), 3, M)."""
    factors = (1 / lift_scale)[list(view.used)]
    by_column = thresholds.T.contiguous()
    numbers = (factors.data_ptr(), path_scales.data_ptr(), by_column.data_ptr(), len(thresholds))
    run = _function("pool", x, view)
    results = (whole.data_ptr(), whole.stride(0), thirds.data_ptr(), thirds.stride(0))
    _check(run(*_batch(x, lengths), *numbers, *results, threads), x, lengths, whole)


def window_signatures(
    x: Tensor, lengths: Tensor | None, view: WindowView, lift_scale: Tensor, path_scales: Tensor, series: Tensor,
    windows: Tensor, threads: int,
) -> Tensor:  # fmt: skip
    """The normalised words (m, M) of chosen windows."""
    out = x.new_empty(len(series), view.columns)
    factors = (1 / lift_scale)[list(view.used)]
    chosen = (series.data_ptr(), windows.data_ptr(), len(series))
    run = _function("signatures", x, view)
    failure = run(*_batch(x, lengths), factors.data_ptr(), path_scales.data_ptr(), *chosen, out.data_ptr(), threads)
    _check(failure, x, lengths, out)
    return out


def window_path_lengths(
    x: Tensor, lengths: Tensor | None, view: WindowView, lift_scale: Tensor, series: Tensor, windows: Tensor,
    threads: int,
) -> Tensor:  # fmt: skip
    """The lengths (m, groups) of the paths of chosen windows, before they are scaled."""
    out = x.new_empty(len(series), len(view.groups))
    factors = (1 / lift_scale)[list(view.used)]
    chosen = (series.data_ptr(), windows.data_ptr(), len(series))
    run = _function("path_lengths", x, view)
    failure = run(*_batch(x, lengths), factors.data_ptr(), 0, *chosen, out.data_ptr(), threads)
    _check(failure, x, lengths, out)
    return out


@lru_cache(maxsize=256)
def _compiled(view: WindowView) -> Any:
    used = list(view.used)
    groups = [[used.index(channel) for channel in group] for group in view.groups]
    return core.Windows(
        LIFTS.index(view.lift), view.points, view.dilation, view.smoothing, view.max_windows, view.base_point,
        view.depth, view.channels, used, groups,
    )  # fmt: skip


def _function(name: str, x: Tensor, view: WindowView) -> Any:
    return getattr(_compiled(view), f"{name}_{'double' if x.dtype == torch.float64 else 'float'}")


def _batch(x: Tensor, lengths: Tensor | None) -> tuple[int, int, int, int]:
    return x.data_ptr(), 0 if lengths is None else lengths.data_ptr(), len(x), x.shape[1]


def _check(failure: int, x: Tensor, lengths: Tensor | None, result: Tensor) -> None:
    if failure == NOT_FINITE:
        inputs.raise_not_finite(x, lengths)
    if failure == OVERFLOW:
        inputs.raise_overflow(result, OVERFLOWING)
