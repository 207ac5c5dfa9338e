"""Pooled window signatures in plain torch: all windows of a view are made, then their words, then the statistics.

Series of equal lengths are computed together, so that nothing is padded or masked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from siggpde.numerics import inputs
from siggpde.numerics.reference import signature as chen
from siggpde.numerics.window_view import OVERFLOWING, WindowView
from siggpde.numerics.words import words_up_to

Signature = Callable[[Tensor, int], Tensor]
_CHUNK = 2**24  # numbers of the words of a chunk of series


def pool_windows(
    x: Tensor, lengths: Tensor | None, view: WindowView, lift_scale: Tensor, path_scales: Tensor, thresholds: Tensor,
    whole: Tensor, thirds: Tensor, threads: int,
) -> None:  # fmt: skip
    """Writes statistics over all windows to `whole` (n, 4 + q, M), over thirds to (n, 1 + ceil(q / 2), 3, M)."""
    inputs.check_finite(x, lengths)
    for rows, series in equally_long(x, lengths, view):
        words = normalised_words(windows_of(series, view, lift_scale), view, path_scales, plain_signature)
        whole[rows], thirds[rows] = statistics(words, thresholds)
    _check_range(whole)


def window_signatures(
    x: Tensor, lengths: Tensor | None, view: WindowView, lift_scale: Tensor, path_scales: Tensor, series: Tensor,
    windows: Tensor, threads: int,
) -> Tensor:  # fmt: skip
    """The normalised words (m, M) of chosen windows."""
    chosen = _chosen_windows(x, lengths, view, lift_scale, series, windows)
    return _check_range(normalised_words(chosen[:, None], view, path_scales, plain_signature)[:, 0])


def window_path_lengths(
    x: Tensor, lengths: Tensor | None, view: WindowView, lift_scale: Tensor, series: Tensor, windows: Tensor,
    threads: int,
) -> Tensor:  # fmt: skip
    """The lengths (m, groups) of the paths of chosen windows, before they are scaled."""
    chosen = _chosen_windows(x, lengths, view, lift_scale, series, windows)
    return _check_range(torch.stack([path.diff(dim=1).norm(dim=2).sum(1) for path in paths_of(chosen, view)], 1))


def equally_long(x: Tensor, lengths: Tensor | None, view: WindowView) -> Iterator[tuple[Tensor, Tensor]]:
    """(rows (g,), their series (g, l, channels)) of one length l each, in chunks that fit in memory."""
    counts = torch.full((len(x),), x.shape[1], device=x.device) if lengths is None else lengths
    size = max(1, _CHUNK // (view.max_windows * (view.columns + view.points * view.channels)))
    for length in counts.unique().tolist():
        for rows in (counts == length).nonzero()[:, 0].split(size):
            yield rows, x[rows, :length]


def windows_of(x: Tensor, view: WindowView, lift_scale: Tensor) -> Tensor:
    """All windows of series of one length: (n, length, channels) -> (n, windows, points, channels)."""
    y = _hold(lifted(x, view, lift_scale), view.smoothing)
    y = _hold(y.unfold(1, view.smoothing, 1).mean(3), view.span)
    length = torch.tensor([x.shape[1]])
    starts = torch.arange(int(view.window_counts(length)), device=x.device) * int(view.strides(length))
    return y[:, starts[:, None] + torch.arange(view.points, device=x.device) * view.dilation]


def lifted(x: Tensor, view: WindowView, lift_scale: Tensor) -> Tensor:
    """The lift of series of one length (n, length, channels); one point less for increments, if there are two."""
    if view.lift == "x":
        return x
    if view.lift == "dx":
        return x.diff(dim=1) / lift_scale if x.shape[1] > 1 else torch.zeros_like(x)
    deviations = x - x.mean(1, keepdim=True)
    if view.lift == "cum":
        return deviations.cumsum(1) / lift_scale
    return deviations / (deviations.square().mean(1, keepdim=True).sqrt() + 1e-3)


def paths_of(windows: Tensor, view: WindowView) -> list[Tensor]:
    """Paths (m, points, letters) of time and the channels of each group, from windows (m, points, channels)."""
    time = torch.linspace(0, 1, view.points, dtype=windows.dtype, device=windows.device)
    time = time[:, None].expand(len(windows), -1, -1)
    paths = [torch.cat([time, windows[:, :, list(group)]], 2) for group in view.groups]
    return [torch.cat([torch.zeros_like(path[:, :1]), path], 1) for path in paths] if view.base_point else paths


def normalised_words(windows: Tensor, view: WindowView, path_scales: Tensor, signature: Signature) -> Tensor:
    """S / |S| without words of time alone, for all groups: (n, windows, points, channels) -> (n, windows, M).

    `signature` takes paths (m, points, letters) and a depth.
    """
    out = []
    for path, scale in zip(paths_of(windows.flatten(0, 1), view), path_scales, strict=True):
        values = signature(path * scale, view.depth)
        values = values / values.abs().amax(1, keepdim=True)  # squares may be out of range
        values = values / values.norm(dim=1, keepdim=True)
        out.append(values[:, [i for i, word in enumerate(words_up_to(path.shape[2], view.depth)) if any(word)]])
    return torch.cat(out, 1).unflatten(0, windows.shape[:2])


def plain_signature(path: Tensor, depth: int) -> Tensor:
    """The signature (m, words) of paths (m, points, letters) by Chen's identity."""
    everywhere = torch.ones(path.shape[:2], dtype=torch.bool, device=path.device)
    return chen.signature(path, everywhere, words_up_to(path.shape[2], depth))


def statistics(words: Tensor, thresholds: Tensor) -> tuple[Tensor, Tensor]:
    """Over (n, windows, M): mean, deviation, largest, smallest, shares above thresholds (q, M); and those of thirds."""
    count = words.shape[1]
    mean, deviation = words.mean(1), words.std(1, correction=0)
    above = [(words > t).to(words.dtype) for t in thresholds]
    whole = torch.stack([mean, deviation, words.amax(1), words.amin(1), *(share.mean(1) for share in above)], 1)
    third = 3 * torch.arange(count, device=words.device) // count
    thirds = []
    for values in (words, *above[::2]):
        parts = [values[:, third == t] for t in range(3)]
        thirds.append(torch.stack([(part if part.shape[1] else values).mean(1) for part in parts], 1))
    return whole, torch.stack(thirds, 1)


def _chosen_windows(
    x: Tensor, lengths: Tensor | None, view: WindowView, lift_scale: Tensor, series: Tensor, windows: Tensor
) -> Tensor:
    """The points (m, points, channels) of chosen windows."""
    inputs.check_finite(x, lengths)
    out = x.new_empty(len(series), view.points, view.channels)
    for rows, same in equally_long(x, lengths, view):
        number = torch.full((len(x),), -1, device=x.device)
        number[rows] = torch.arange(len(rows), device=x.device)
        wanted = (number[series] >= 0).nonzero()[:, 0]
        out[wanted] = windows_of(same, view, lift_scale)[number[series[wanted]], windows[wanted]]
    return out


def _hold(y: Tensor, length: int) -> Tensor:
    """The series (n, l, channels) with its last value repeated up to `length`, if it is shorter."""
    return torch.cat([y, y[:, -1:].expand(-1, max(0, length - y.shape[1]), -1)], 1)


def _check_range(result: Tensor) -> Tensor:
    if not torch.isfinite(result).all():
        inputs.raise_overflow(result, OVERFLOWING)
    return result
