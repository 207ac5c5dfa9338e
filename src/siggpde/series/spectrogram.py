"""Spectrograms of sound and vibration: the power in each frequency bin for segments of the samples."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from siggpde.series.batch import SeriesBatch

_FLOOR = 1e-12  # the lowest power of a series, relative to its highest: 120 dB below it
_SILENCE = 1e-20  # the lowest power of a series that is zero throughout
_ROUNDING = 1e-14  # rounding error of a sample, relative to the largest


@dataclass(frozen=True)
class Spectrogram:
    """The power spectral density of evenly sampled series, as `scipy.signal.spectrogram` has it: a channel a bin.

    A series of several channels gives the bins of its first channel, then those of its second, and so on. The paper's
    whale calls are `Spectrogram(2000, 256, 128, first_bin=2, last_bin=29)`, in power; every channel of every series is
    then brought to mean 0 and spread 1 by itself (`PathOptions(scale="series")`), not all channels together as
    `standardise` does.

    Parameters
    ----------
    rate
        The samples a second.
    nfft, overlap
        The samples in a segment, and those it shares with the next.
    low, high
        The band in Hz, both ends included. By default everything up to half the rate.
    first_bin, last_bin
        The same by number, bin b being the frequency b rate / nfft.
    log
        Decibels instead of power, no lower than 120 dB below the loudest of the series.
    standardise
        Every series to mean 0 and spread 1, over all its values together.
    window
        A name or (name, parameter) that `scipy.signal.get_window` knows.

    Examples
    --------
    >>> tone = torch.sin(2 * torch.pi * 250 * torch.arange(4000).double() / 2000)
    >>> batch = Spectrogram(rate=2000, low=50, high=300)(SeriesBatch(tone.reshape(1, 4000, 1)))
    >>> batch.values.shape
    torch.Size([1, 30, 32])
    >>> Spectrogram(rate=2000, low=50, high=300).frequencies()[batch.values.mean(dim=1).argmax()]
    250.0
    """

    rate: float = 1.0
    nfft: int = 256
    overlap: int = 128
    low: float | None = None
    high: float | None = None
    first_bin: int | None = None
    last_bin: int | None = None
    log: bool = False
    standardise: bool = False
    window: str | tuple[str, float] = ("tukey", 0.25)

    def __post_init__(self) -> None:
        for name in ("rate", "low", "high"):  # numbers of numpy become plain ones, which can be written to a file
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else float(value))
        for name in ("nfft", "overlap", "first_bin", "last_bin"):
            value = getattr(self, name)
            object.__setattr__(self, name, value.item() if isinstance(value, np.integer) else value)
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise ValueError(f"rate must be a positive number of samples a second, got {self.rate!r}")
        for name, minimum, value in (("nfft", 2, self.nfft), ("overlap", 0, self.overlap)):
            if type(value) is not int or value < minimum:
                raise ValueError(f"{name} must be a whole number of samples, at least {minimum}, got {value!r}")
        if self.overlap >= self.nfft:
            raise ValueError(
                f"overlap must be less than nfft, the samples in a segment: got {self.overlap} of {self.nfft}"
            )
        if isinstance(self.window, list):  # as JSON has it
            object.__setattr__(self, "window", tuple(self.window))
        self._bins()

    def frequencies(self) -> list[float]:
        """Returns the frequency of every bin of the band, in Hz."""
        return [bin * self.rate / self.nfft for bin in self._bins()]

    def segments(self, length: int) -> int:
        """Returns the number of segments of a series of `length` samples."""
        return max(0, (length - self.overlap) // (self.nfft - self.overlap)) if length >= self.nfft else 0

    def __call__(self, batch: SeriesBatch) -> SeriesBatch:
        """Returns (n, segments, channels x bins) at the centres of segments, in seconds, of (n, length, channels)."""
        # Takes a second to import, and few need it.
        from scipy import signal  # noqa: PLC0415

        if batch.times is not None:
            raise ValueError("a spectrogram is of evenly sampled series, but these have time stamps; leave them out")
        counts = torch.tensor([self.segments(count) for count in batch.counts().tolist()])
        short = (counts == 0).nonzero()
        if len(short):
            series = int(short[0])
            raise ValueError(
                f"series {batch.first + series} has {int(batch.counts()[series])} samples, fewer than the {self.nfft} "
                "of one segment of the spectrogram; lower nfft (and overlap) or drop it"
            )
        try:
            window = signal.get_window(self.window, self.nfft)
        except (ValueError, TypeError) as trouble:
            raise ValueError(f"scipy knows no window {self.window!r}: {trouble}") from None
        values = batch.values
        if batch.lengths is not None:
            values = torch.where(batch.inside()[:, :, None], values, math.nan)
        samples = values.permute(0, 2, 1).contiguous().numpy()
        _, _, power = signal.spectrogram(samples, self.rate, window, self.nfft, self.overlap)
        bins, steps = self._bins(), int(counts.max())
        power = power[:, :, bins.start : bins.stop, :steps]
        # What is left of a constant by rounding is nothing, or it would be blown up by logarithm and standardisation.
        size = np.maximum(np.fmax.reduce(samples, axis=2), -np.fmin.reduce(samples, axis=2))[:, :, None, None]
        power = np.where(power <= (_ROUNDING * size) ** 2 * self.nfft / self.rate, 0.0, power)
        n, channels = power.shape[:2]
        values = np.ascontiguousarray(power.transpose(0, 3, 1, 2)).reshape(n, steps, channels * len(bins))
        lengths = None if bool((counts == steps).all()) else counts
        step = self.nfft - self.overlap
        times = (torch.arange(steps, dtype=torch.float64) * step + self.nfft / 2) / self.rate
        known = np.isfinite(values)  # padding is NaN
        if self.log:
            peak = np.where(known, values, 0.0).max(axis=(1, 2), keepdims=True)
            values[:] = 10 * np.log10(np.maximum(values, np.maximum(_FLOOR * peak, _SILENCE)))
        if self.standardise:
            count = np.maximum(known.sum(axis=(1, 2), keepdims=True), 1)
            values -= np.where(known, values, 0.0).sum(axis=(1, 2), keepdims=True) / count
            spread = np.sqrt((np.where(known, values, 0.0) ** 2).sum(axis=(1, 2), keepdims=True) / count)
            values /= np.where(spread > 0, spread, 1.0)
        return SeriesBatch(torch.from_numpy(values), lengths, times.repeat(n, 1), batch.first)

    def _bins(self) -> range:
        last = self.nfft // 2
        if (self.low, self.high) == (None, None):
            start = 0 if self.first_bin is None else self.first_bin
            stop = last if self.last_bin is None else self.last_bin
            whole = type(start) is int and type(stop) is int
            if not (whole and 0 <= start <= stop <= last):
                raise ValueError(
                    f"bins must be whole numbers, 0 <= first_bin <= last_bin <= {last}, got {start} to {stop}"
                )
            return range(start, stop + 1)
        if (self.first_bin, self.last_bin) != (None, None):
            raise ValueError("give the band in Hz (low, high) or in bins (first_bin, last_bin), not in both")
        low, high = self.low or 0.0, self.rate / 2 if self.high is None else self.high
        inside = [b for b in range(last + 1) if low <= b * self.rate / self.nfft <= high]
        if not inside:
            raise ValueError(
                f"no bin lies between {low:g} and {high:g} Hz: they are {self.rate / self.nfft:g} Hz apart, from 0 to "
                f"{last * self.rate / self.nfft:g} Hz; widen the band or raise nfft"
            )
        return range(inside[0], inside[-1] + 1)

    def state(self) -> dict[str, Any]:
        """Returns the settings as plain values, for `Spectrogram(**state)`."""
        window = self.window if isinstance(self.window, str) else list(self.window)
        return {**self.__dict__, "window": window}
