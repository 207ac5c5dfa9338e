"""What a view learns from the training series: the scales of lifts and paths, and thresholds of the words."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.numerics import inputs
from siggpde.numerics.windows import Lift, WindowView, separating_thresholds, window_path_lengths, window_signatures

# Windows looked at: these many to twice as many, evenly spread over all windows of all training series.
_WINDOWS_FOR_SCALES = 3000
_WINDOWS_FOR_THRESHOLDS = 2000
_CHUNK = 2**22  # numbers lifted at a time
# Words are at most 1. Rounding in float64 moves them by 1e-16 to 1e-12, most where a short path is scaled up, so words
# that are further apart than `_DISTINCT` are different on every machine, and so many windows are rarely as close.
_DISTINCT = 1e-10
_CLEARANCE = 1e-6  # of a threshold above a word that is the same in all windows
_NO_SCALE = 1e-9  # lifted channels that are smaller are constant: they are left as they are


@dataclass(frozen=True)
class FittedView:
    """A view with its scales: path_scales (groups,) and thresholds (q, M), float64."""

    view: WindowView
    path_scales: Tensor
    thresholds: Tensor


def lift_scale(x: Tensor, lengths: Tensor, lift: Lift) -> Tensor:
    """The root mean square (channels,) of the lifted training series, float64; 1 for lifts that are not scaled.

    x (n, length, channels) standardised, held at the last point; lengths (n,).
    """
    channels = x.shape[2]
    if lift not in ("dx", "cum"):
        return torch.ones(channels, dtype=torch.float64)
    ragged = bool((lengths < x.shape[1]).any())
    total, count = torch.zeros(channels, dtype=torch.float64), 0
    rows = max(1, _CHUNK // (x.shape[1] * channels))
    for part, counts in zip(x.split(rows), lengths.split(rows), strict=True):
        inside = inputs.row_mask(part, counts)[:, :, None]
        if lift == "dx":
            lifted, inside = part.diff(dim=1), inside[:, 1:]
        else:
            values = torch.where(inside, part, 0.0) if ragged else part
            mean = values.sum(1, keepdim=True, dtype=torch.float64) / counts[:, None, None]
            lifted = (values - mean).cumsum(1)
        count += int(counts.sum()) - len(counts) * (lift == "dx")
        squares = lifted.square()
        total += (torch.where(inside, squares, 0.0) if ragged else squares).sum((0, 1), dtype=torch.float64).cpu()
    scale = (total / max(count, 1)).sqrt()
    return torch.where(scale > _NO_SCALE, scale, 1.0)


def fit_view(
    x: Tensor, lengths: Tensor | None, view: WindowView, scale: Tensor, path_length: float, thresholds: int
) -> FittedView:
    """The scales and thresholds of a view, from windows of the training series.

    A path is scaled to `path_length` in the median window. Thresholds are next to the quantiles 1 / (q + 1), ..,
    q / (q + 1) of each word, midway between two windows, so that no rounding moves a training window to the other side.
    x (n, length, channels); lengths (n,), or None for all; `scale` of the lift (channels,).
    """
    n, length, _ = x.shape
    counts = view.window_counts(torch.full((n,), length) if lengths is None else lengths.cpu())
    found = window_path_lengths(
        x, view, *spread_windows(counts, _WINDOWS_FOR_SCALES), lift_scale=scale, lengths=lengths
    )
    path_scales = path_length / found.median(0).values.double().cpu()
    if not thresholds:
        return FittedView(view, path_scales, torch.zeros(0, view.columns, dtype=torch.float64))
    chosen = spread_windows(counts, _WINDOWS_FOR_THRESHOLDS)
    words = window_signatures(x, view, *chosen, path_scales=path_scales, lift_scale=scale, lengths=lengths)
    return FittedView(
        view, path_scales, separating_thresholds(words, thresholds, distinct=_DISTINCT, clearance=_CLEARANCE).cpu()
    )


def spread_windows(counts: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """(series, window) of every k-th window of all series, which have `counts` (n,) windows: `most` to twice as many.

    Examples:
        >>> spread_windows(torch.tensor([3, 1, 4]), 4)
        (tensor([0, 0, 2, 2]), tensor([0, 2, 0, 2]))
    """
    ends = counts.cumsum(0)
    total = int(ends[-1])
    chosen = torch.arange(0, total, max(1, total // most))
    series = torch.searchsorted(ends, chosen, right=True)
    return series, chosen - (ends - counts)[series]
