"""The spectrum of a series as a series: log power by frequency, so that windows of it see peaks wherever they are."""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.series import SeriesBatch

_RANGE = 35.0  # nats below the strongest frequency of a channel: less is rounding


def log_spectrum(batch: SeriesBatch, bins: int) -> SeriesBatch:
    """Log power (n, bins, channels) at `bins` frequencies from 0 to half of a cycle a point.

    The power of the discrete Fourier transform of the series less its mean, times a Hann window, averaged over bins of
    equal width (with shares of frequencies that lie in two), and nowhere further below its maximum than exp(-35). What
    comes of a series does not depend on the others.

    Examples:
        >>> wave = torch.sin(torch.arange(64.0) * (2 * torch.pi / 8)).double()[None, :, None]
        >>> int(log_spectrum(SeriesBatch(wave), 8).values[0, :, 0].argmax())
        2
    """
    values, counts = batch.values.double(), batch.counts()
    out = values.new_empty(len(batch), bins, batch.channels)
    for length in counts.unique().tolist():
        rows = (counts == length).nonzero()[:, 0]
        series = values[rows, :length]
        out[rows] = _pooled(_power(series), bins)
    highest = out.amax(dim=1, keepdim=True)
    tiny = torch.finfo(torch.float64).tiny
    floor = (highest * torch.exp(torch.tensor(-_RANGE))).clamp_min(tiny)
    return SeriesBatch(torch.maximum(out, floor).log(), first=batch.first)


def _power(series: Tensor) -> Tensor:
    length = series.shape[1]
    centred = series - series.mean(dim=1, keepdim=True)
    if length > 4:
        window = torch.hann_window(length, periodic=False, dtype=series.dtype, device=series.device)
        centred = centred * window[None, :, None]
    return torch.fft.rfft(centred, dim=1).abs().square() / length


def _pooled(power: Tensor, bins: int) -> Tensor:
    """The mean power (n, bins, channels) of frequencies (n, k, channels) in bins of equal width."""
    count = power.shape[1]
    sums = torch.cat([torch.zeros_like(power[:, :1]), power.cumsum(dim=1)], dim=1)
    edges = torch.linspace(0, count, bins + 1, dtype=power.dtype, device=power.device)
    below = edges.floor().long().clamp_max(count - 1)
    share = (edges - below)[None, :, None]
    at_edges = sums[:, below] * (1 - share) + sums[:, below + 1] * share
    return (at_edges.diff(dim=1) * (bins / count)).clamp_min(0.0)
