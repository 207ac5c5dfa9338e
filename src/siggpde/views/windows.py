"""Statistics of signatures over windows: of the series (kind "windows") or of its log spectrum (kind "spectrum")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import torch

from siggpde.numerics.windows import STEPS
from siggpde.series import SeriesBatch
from siggpde.views.base import FeatureBlock, Part, Rows, Table, View
from siggpde.views.window_features import WindowFeatures, WindowScaler, WindowSettings, feature_names


@dataclass(frozen=True)
class WindowsView(View):
    """Statistics of window signatures, of the series or of their log spectra.

    The kernels are called "x1" for statistics of the lift x over the whole series, "x3" over its thirds, "spectrum1"
    and "spectrum3".

    Parameters
    ----------
    settings : WindowSettings
        The windows and what is computed of them.
    bins : int or None, default None
        Frequencies of the log spectrum; None looks at the series themselves.

    Examples
    --------
    >>> series = SeriesBatch(torch.arange(40.0).sin().double().reshape(5, 8, 1))
    >>> list(WindowsView(WindowSettings(lifts=("x",))).fit(series)[1])
    ['x1', 'x3']
    """

    settings: WindowSettings = field(default_factory=WindowSettings)
    bins: int | None = None

    @property
    def kind(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - of the settings, not of the class
        return "windows" if self.bins is None else "spectrum"

    def fit(self, landmarks: SeriesBatch) -> tuple[WindowsBlock, dict[str, Rows]]:
        seen = landmarks if self.bins is None else log_spectrum(landmarks, self.bins)
        features = WindowFeatures.fit(seen, self.settings)
        scaler, blocks = WindowScaler.fit_transform(features.blocks(seen), whole=True)
        block = WindowsBlock(self, features, scaler, [])
        for name, (_, _, values), unit in zip(block.kernels, blocks, block.units, strict=True):
            block.landmarks.append(Part(name, values, unit))
        return block, block.centre()


_TOGETHER = 2**22  # features computed at a time


class WindowsBlock(FeatureBlock):
    """The pooled statistics of all views as features, at mean 0 and spread 1 over the landmarks."""

    def __init__(
        self, view: WindowsView, features: WindowFeatures, scaler: WindowScaler, landmarks: list[Part] | SeriesBatch
    ) -> None:
        self.view, self.features, self.scaler = view, features, scaler
        self.kind, self.windows = view.kind, features.scaled(scaler)
        self.widths = [len(columns.kept) for columns in scaler.columns]
        self.units = [1 / (STEPS * max(1, width) ** 0.5) for width in self.widths]  # phi for the whole number 1
        lifts = [fitted.view.lift if view.bins is None else "spectrum" for fitted in features.views]
        self.kernels = [f"{lift}{end}" for lift in lifts for end in "13"]
        super().__init__(landmarks)

    def tables(self, batch: SeriesBatch) -> Iterator[Table]:
        seen = batch if self.view.bins is None else log_spectrum(batch, self.view.bins)
        x, widths, start = self.features.standardised(seen), self.widths, 0
        while start < len(widths):
            stop, width = start, 0
            while stop < len(widths) and (stop == start or len(x) * width < _TOGETHER):
                width += widths[stop] + widths[stop + 1]
                stop += 2
            numbers = self.windows(x, seen.lengths, range(start // 2, stop // 2))
            yield Table(start, numbers, self.units[start:stop])
            start = stop

    def parts(self, batch: SeriesBatch) -> Iterator[Part]:
        for first, numbers, units in self.tables(batch):
            for number, values in enumerate(numbers.split(self.widths[first : first + len(units)], 1), first):
                yield Part(self.kernels[number], values, self.units[number])

    def names(self, channels: Sequence[str]) -> list[list[str]]:
        flat, out, start = feature_names(self.features, channels, self._clock), [], 0
        before = "" if self.view.bins is None else "spectrum "
        for width, columns in zip(self.features.widths(), self.scaler.columns, strict=True):
            out.append([before + flat[start + index] for index in columns.kept.tolist()])
            start += width
        return out

    def letters(self, channels: Sequence[str]) -> list[list[tuple[str, ...]]]:
        out = []
        for number, columns in enumerate(self.scaler.columns):  # of every view the whole series and its thirds
            words = [
                tuple((self._clock, *(channels[c] for c in group))[letter] for letter in word)
                for group, word in self.features.views[number // 2].view.words()
            ]
            out.append([words[index % len(words)] for index in columns.kept.tolist()])  # statistic by statistic
        return out

    @property
    def _clock(self) -> str:
        return "time" if self.view.bins is None else "frequency"

    def keep(self, names: set[str]) -> WindowsBlock | None:
        """Returns the block with the views that give these kernels alone: the others need not be computed."""
        views, columns, landmarks, centring = [], [], [], {}
        for number, view in enumerate(self.features.views):
            both = slice(2 * number, 2 * number + 2)
            whole, thirds = self.landmarks[both]
            if {whole.name, thirds.name} & names:
                views.append(view)
                columns += self.scaler.columns[both]
                for part in (whole, thirds):
                    landmarks.append(part)
                    centring[part.name] = self.centring[part.name]
        if not views:
            return None
        features = replace(self.features, views=tuple(views))
        block = WindowsBlock(self.view, features, WindowScaler(tuple(columns)), landmarks)
        block.centring, block.count = centring, self.count
        return block

    def to(self, device: torch.device | str) -> Self:
        block = super().to(device)
        block.scaler = self.scaler.to(device)
        block.windows = self.features.scaled(block.scaler)
        return block

    def state(self) -> dict[str, Any]:
        view = {"settings": asdict(self.view.settings), "bins": self.view.bins}
        return {"view": view, "features": self.features.state(), "scaler": self.scaler.state()}

    @staticmethod
    def from_state(state: dict[str, Any], landmarks: list[Part] | SeriesBatch) -> WindowsBlock:
        settings = {**state["view"]["settings"], "lifts": tuple(state["view"]["settings"]["lifts"])}
        view = WindowsView(WindowSettings(**settings), state["view"]["bins"])
        features = WindowFeatures.from_state(state["features"])
        return WindowsBlock(view, features, WindowScaler.from_state(state["scaler"]), landmarks)


def spectrum_bins(landmarks: SeriesBatch) -> int | None:
    """Returns how many frequencies spectra have: half of the points, at most 128; None below 16 points."""
    median = int(torch.as_tensor(landmarks.counts()).median())
    return min(128, median // 2) if median >= 16 else None


_RANGE = 35.0  # nats below the strongest frequency of a channel: less is rounding


def log_spectrum(batch: SeriesBatch, bins: int) -> SeriesBatch:
    """Returns log power (n, bins, channels) at `bins` frequencies from 0 to half a cycle a point: of the discrete
    Fourier transform of the series less its mean, times a Hann window, averaged over bins of equal width, at least
    exp(-35) times the maximum. What comes of a series does not depend on the others."""
    values, counts = batch.values.double(), batch.counts()
    out = values.new_empty(len(batch), bins, batch.channels)
    for length in counts.unique().tolist():
        rows = (counts == length).nonzero()[:, 0]
        series = values[rows, :length]
        series = series - series.mean(dim=1, keepdim=True)
        if length > 4:
            window = torch.hann_window(length, periodic=False, dtype=series.dtype, device=series.device)
            series = series * window[None, :, None]
        power = torch.fft.rfft(series, dim=1).abs().square() / length
        sums = torch.cat([torch.zeros_like(power[:, :1]), power.cumsum(dim=1)], dim=1)
        edges = torch.linspace(0, power.shape[1], bins + 1, dtype=power.dtype, device=power.device)
        below = edges.floor().long().clamp_max(power.shape[1] - 1)
        share = (edges - below)[None, :, None]
        at_edges = sums[:, below] * (1 - share) + sums[:, below + 1] * share
        out[rows] = (at_edges.diff(dim=1) * (bins / power.shape[1])).clamp_min(0.0)
    highest = out.amax(dim=1, keepdim=True)
    tiny = torch.finfo(torch.float64).tiny
    floor = (highest * torch.exp(torch.tensor(-_RANGE))).clamp_min(tiny)
    return SeriesBatch(torch.maximum(out, floor).log(), first=batch.first)
