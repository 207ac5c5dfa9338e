"""Series as statistics of signatures over their windows: settings, what is learned, features, scales and names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from siggpde.numerics import inputs
from siggpde.numerics.windows import (
    LIFTS,
    FeatureScale,
    Lift,
    ScaledView,
    ScaledWindows,
    WindowView,
    pool_windows,
    separating_thresholds,
    whole_numbers,
    window_path_lengths,
    window_signatures,
)
from siggpde.numerics.words import word_names
from siggpde.series.batch import SeriesBatch
from siggpde.series.statistics import mean_and_spread
from siggpde.views.base import Learned

_JOINT_CHANNELS = 3  # so many channels are in one path; more are cut into groups


@dataclass(frozen=True)
class WindowSettings:
    """The settings of window features; the defaults were chosen by accuracy on archive data sets.

    Parameters
    ----------
    lifts
        What is looked at (`WindowView.lift`).
    points
        The points of a window; of series with a median length below twice as many, max(3, length / 2).
    max_dilations
        The most dilations 1, 2, 4, .. at which windows span at most the median length, evenly spaced where there are
        more. Before dilating by D, all lifts but "dx" are averaged over D / 2 points.
    max_windows
        The most windows of a series.
    max_channels
        The most channels of a view, where there are more than three.
    thresholds
        How many quantiles of the training series there are shares of windows above.
    path_length
        The length of the path of the median window, time included.
    seed
        The seed of the generator that draws groups of channels.

    Examples
    --------
    >>> views = WindowSettings(lifts=("x",)).views(1, torch.tensor([40, 40, 20]))
    >>> [(view.points, view.dilation, view.smoothing, view.base_point) for view in views]
    [(9, 1, 1, False), (9, 1, 1, True), (9, 2, 1, False), (9, 2, 1, True), (9, 4, 2, False), (9, 4, 2, True)]
    """

    lifts: tuple[Lift, ...] = LIFTS
    points: int = 9
    max_dilations: int = 8
    max_windows: int = 128
    max_channels: int = 12
    thresholds: int = 5
    path_length: float = 4.0
    seed: int = 0

    def __post_init__(self) -> None:
        listed = isinstance(self.lifts, list | tuple)
        if not listed or not self.lifts or len({*self.lifts}.intersection(LIFTS)) < len(self.lifts):
            raise ValueError(f"lifts must be some of {', '.join(LIFTS)}, each once, got {self.lifts!r}")
        least = {"points": 3, "max_dilations": 1, "max_windows": 1, "max_channels": 2, "thresholds": 0}
        for name, minimum in least.items():
            if getattr(self, name) < minimum:
                raise ValueError(f"{name} must be at least {minimum}, got {getattr(self, name)}")
        if not self.path_length > 0:
            raise ValueError(f"path_length must be positive, got {self.path_length}")

    def views(self, channels: int, lengths: Tensor) -> list[WindowView]:
        """Returns the views of series with so many channels; lengths (n,) are those of the training series."""
        random = torch.Generator().manual_seed(self.seed)
        views = []
        for lift in self.lifts:
            lifted = (lengths - 1).clamp_min(1) if lift == "dx" else lengths
            median = int(lifted.median())
            points = self.points if median >= 2 * self.points else max(3, median // 2)
            for dilation in dilations(points, median, self.max_dilations):
                smoothing = 1 if lift == "dx" else max(1, dilation // 2)
                for base_point in (False, True):
                    groups, depth = channel_groups(channels, self.max_channels, base_point, random)
                    views.append(
                        WindowView(
                            channels, groups, points, depth, dilation, smoothing, lift, base_point, self.max_windows
                        )
                    )
        return views


def dilations(points: int, length: int, most: int) -> list[int]:
    """Returns powers of two by which a window can be dilated in `length` points: at most `most`, evenly spaced.

    >>> dilations(9, 100, 8), dilations(9, 100, 3), dilations(9, 5, 8)
    ([1, 2, 4, 8], [1, 4, 8], [1])
    """
    powers = [2**i for i in range(12) if (points - 1) * 2**i + 1 <= length] or [1]
    if len(powers) <= most:
        return powers
    last = len(powers) - 1
    return sorted({powers[round(j * last / (most - 1))] for j in range(most)} if most > 1 else powers[:1])


def channel_groups(
    channels: int, most: int, base_point: bool, random: torch.Generator
) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Returns groups of channels that have a path together, and the depth of its signature: up to three channels are
    one group; of more `most` are drawn, single with base point and in pairs, for how they move together, without."""
    if channels <= _JOINT_CHANNELS:
        return (tuple(range(channels)),), 4 if channels == 1 else 3
    drawn = torch.randperm(channels, generator=random).tolist()[:most]
    size = 1 if base_point else 2
    return tuple(tuple(drawn[i : i + size]) for i in range(0, len(drawn), size)), 3


class WindowBlock(NamedTuple):
    """The features of one view that belong to one block.

    Attributes
    ----------
    name
        The name of the block: the lift and "1" for statistics over the whole series or "3" for those over its thirds.
    view
        The number of the view.
    values
        (n, p), statistic by statistic (and third by third), in each the words of the view.
    """

    name: str
    view: int
    values: Tensor


@dataclass(frozen=True)
class WindowFeatures:
    """Statistics of window signatures of series, for many views (`siggpde.numerics.windows`), made by `fit`.

    What comes of a series depends on it alone, and on what was learned. All is computed in float64: a share of windows
    above a threshold jumps where a word passes it, and rounding in float32 would move words past it.

    Attributes
    ----------
    settings : WindowSettings
    mean, spread : Tensor (channels,)
        Of all points of the training series.
    lift_scales : dict of Tensor (channels,)
        The scales of the channels by lift.
    views : tuple of FittedView
        Every view with its scales and thresholds.

    Examples
    --------
    >>> random = torch.Generator().manual_seed(0)
    >>> batch = SeriesBatch(torch.randn(20, 30, 1, generator=random).double().cumsum(1))
    >>> features = WindowFeatures.fit(batch, WindowSettings(lifts=("x", "dx"), max_dilations=1))
    >>> [(block.name, block.view, tuple(block.values.shape)) for block in features.blocks(batch)][:2]
    [('x1', 0, (20, 234)), ('x3', 0, (20, 312))]
    >>> features.transform(batch).shape
    torch.Size([20, 2184])
    """

    settings: WindowSettings
    mean: Tensor
    spread: Tensor
    lift_scales: dict[str, Tensor]
    views: tuple[FittedView, ...]

    @staticmethod
    def fit(batch: SeriesBatch, settings: WindowSettings | None = None) -> WindowFeatures:
        """Learns from training series without gaps."""
        settings = WindowSettings() if settings is None else settings
        mean, spread = mean_and_spread(partial(batch.split, len(batch)))
        features = WindowFeatures(settings, mean.cpu(), spread.cpu(), {}, ())
        x, lengths, scales, fitted = features.standardised(batch), batch.counts(), features.lift_scales, []
        for view in settings.views(batch.channels, lengths.cpu()):
            if view.lift not in scales:
                scales[view.lift] = lift_scale(x, lengths, view.lift)
            scale = scales[view.lift]
            fitted.append(fit_view(x, batch.lengths, view, scale, settings.path_length, settings.thresholds))
        return replace(features, views=tuple(fitted))

    def blocks(self, batch: SeriesBatch, dtype: torch.dtype = torch.float32) -> Iterator[WindowBlock]:
        """Yields the blocks of all views, two a view, with features of `dtype`; memory is that of one view."""
        x = self.standardised(batch)
        for number, fitted in enumerate(self.views):
            pooled = pool_windows(
                x,
                fitted.view,
                path_scales=fitted.path_scales,
                thresholds=fitted.thresholds,
                lift_scale=self.lift_scales[fitted.view.lift],
                lengths=batch.lengths,
            )
            yield WindowBlock(f"{fitted.view.lift}1", number, pooled.whole.flatten(1).to(dtype))
            yield WindowBlock(f"{fitted.view.lift}3", number, pooled.thirds.flatten(1).to(dtype))

    def scaled(self, scaler: WindowScaler) -> ScaledWindows:
        """Returns all views, with the scales of the statistics of each."""
        views = []
        for fitted, *scales in zip(self.views, scaler.columns[::2], scaler.columns[1::2], strict=True):
            lift_scale = self.lift_scales[fitted.view.lift]
            views.append(ScaledView(fitted.view, fitted.path_scales, fitted.thresholds, lift_scale, *scales))
        return ScaledWindows(tuple(views))

    def widths(self) -> list[int]:
        """Returns the number of features of each block, in the order of `blocks`."""
        q = self.settings.thresholds
        statistics = (4 + q, 3 * (1 + (q + 1) // 2))
        return [count * fitted.view.columns for fitted in self.views for count in statistics]

    def transform(self, batch: SeriesBatch, dtype: torch.dtype = torch.float32) -> Tensor:
        """Returns all features, (n, sum of `widths`), block beside block."""
        out = torch.empty(len(batch), sum(self.widths()), dtype=dtype, device=batch.values.device)
        for columns, block in zip(out.split(self.widths(), 1), self.blocks(batch, torch.float64), strict=True):
            columns.copy_(block.values)
        return out

    def standardised(self, batch: SeriesBatch) -> Tensor:
        """Returns (n, length, channels), float64, at mean 0 and spread 1; padding holds the last point."""
        if batch.channels != len(self.mean):
            raise ValueError(f"the series have {batch.channels} channels, but those of fit had {len(self.mean)}")
        values = batch.hold_last().values.double()
        return ((values - self.mean.to(values.device)) / self.spread.to(values.device)).contiguous()

    def state(self) -> dict[str, Any]:
        """Returns everything learned as plain values and tensors."""
        return {
            "settings": asdict(self.settings),
            "mean": self.mean,
            "spread": self.spread,
            "lift_scales": dict(self.lift_scales),
            "views": [
                {"view": asdict(v.view), "path_scales": v.path_scales, "thresholds": v.thresholds} for v in self.views
            ],
        }

    @staticmethod
    def from_state(state: dict[str, Any]) -> WindowFeatures:
        views = tuple(
            FittedView(
                WindowView(**{**stored["view"], "groups": tuple(map(tuple, stored["view"]["groups"]))}),
                stored["path_scales"],
                stored["thresholds"],
            )
            for stored in state["views"]
        )
        settings = WindowSettings(**{**state["settings"], "lifts": tuple(state["settings"]["lifts"])})
        return WindowFeatures(settings, state["mean"], state["spread"], dict(state["lift_scales"]), views)


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
    """Returns the root mean square (channels,) of the lifted training series x (n, length, channels), float64, which
    are held at the last point; 1 for lifts that are not scaled."""
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
    """Returns the scales of a view, at which the median window of x (n, length, channels) has the length `path_length`,
    and thresholds next to the quantiles of each word, midway between two windows, so that no rounding moves a training
    window to the other side."""
    n, length, _ = x.shape
    counts = view.window_counts(torch.full((n,), length) if lengths is None else lengths.cpu())
    chosen = spread_windows(counts, _WINDOWS_FOR_SCALES)
    path_lengths = window_path_lengths(x, view, *chosen, lift_scale=scale, lengths=lengths)
    path_scales = path_length / path_lengths.median(0).values.double().cpu()
    if not thresholds:
        return FittedView(view, path_scales, torch.zeros(0, view.columns, dtype=torch.float64))
    chosen = spread_windows(counts, _WINDOWS_FOR_THRESHOLDS)
    words = window_signatures(x, view, *chosen, path_scales=path_scales, lift_scale=scale, lengths=lengths)
    return FittedView(
        view, path_scales, separating_thresholds(words, thresholds, distinct=_DISTINCT, clearance=_CLEARANCE).cpu()
    )


def spread_windows(counts: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Returns (series, window) of every k-th window of series with `counts` (n,) windows: `most` to twice as many."""
    ends = counts.cumsum(0)
    total = int(ends[-1])
    chosen = torch.arange(0, total, max(1, total // most))
    series = torch.searchsorted(ends, chosen, right=True)
    return series, chosen - (ends - counts)[series]


_CUT_OFF = 8.0


class _Columns(Learned, FeatureScale):
    """Of the features of a block: those that vary, (p,), and their mean and spread (p,)."""


@dataclass(frozen=True)
class WindowScaler:
    """Standardisation of every block of every view to phi = z / sqrt(p), for the p features z that vary, cut off at 8.

    Attributes
    ----------
    columns : tuple
        For every block the features kept, their means and their spreads.

    Examples
    --------
    >>> values = torch.tensor([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]])
    >>> scaler, (block,) = WindowScaler.fit_transform([WindowBlock("x1", 0, values)])
    >>> block.values.flatten()
    tensor([-1.,  0.,  1.])
    """

    columns: tuple[_Columns, ...]

    @staticmethod
    def fit_transform(blocks: Iterable[WindowBlock], whole: bool = False) -> tuple[WindowScaler, list[WindowBlock]]:
        """Learns from the blocks of the training series, which are standardised on the way, or to `whole` numbers."""
        columns, out = [], []
        for block in blocks:
            values, mean = block.values, block.values.mean(0)
            spread = values.std(0) if len(values) > 1 else torch.zeros_like(mean)
            varies = (spread > 1e-5 * values.abs().mean(0)) & (spread > 1e-7)  # more than rounding
            kept = varies.nonzero()[:, 0]
            scale = _Columns(kept, mean[kept], spread[kept])
            columns.append(scale)
            out.append(block._replace(values=whole_numbers(values, scale)) if whole else _scaled(block, scale))
        return WindowScaler(tuple(columns)), out

    def __call__(self, blocks: Iterable[WindowBlock]) -> Iterator[WindowBlock]:
        """Yields the features phi (n, p) of all blocks of `WindowFeatures.blocks`, in the same order."""
        for block, columns in zip(blocks, self.columns, strict=True):
            yield _scaled(block, columns)

    def to(self, device: torch.device | str) -> WindowScaler:
        """Returns the same on a device, which has to be that of the features."""
        return WindowScaler(tuple(columns.to(device) for columns in self.columns))

    def state(self) -> list[dict[str, Tensor]]:
        """Returns everything learned as tensors."""
        return [columns.state() for columns in self.columns]

    @staticmethod
    def from_state(state: list[dict[str, Any]]) -> WindowScaler:
        return WindowScaler(tuple(_Columns(**columns) for columns in state))


def _scaled(block: WindowBlock, columns: _Columns) -> WindowBlock:
    mean, spread = columns.mean.to(block.values), columns.spread.to(block.values)
    z = block.values[:, columns.kept].sub_(mean).div_(spread).clamp_(-_CUT_OFF, _CUT_OFF)
    return block._replace(values=z.div_(max(1, len(columns.kept)) ** 0.5))


_THIRDS = ("first third", "middle third", "last third")


def feature_names(features: WindowFeatures, channels: Sequence[str], clock: str = "time") -> list[str]:
    """Returns the name of every feature, in the order of `WindowFeatures.transform`: "<lift> dilation <D>[ base point]:
    <statistic of a word>[, <third>]", a word being its `channels`, and "time" or what `clock` calls it, in order."""
    if len({clock, *channels}) <= len(channels):  # channels called alike, or one called "time"
        channels = [f"{name} {i}" for i, name in enumerate(channels)]
    return [
        name
        for fitted in features.views
        for name in _view_names(fitted.view, [clock, *channels], features.settings.thresholds)
    ]


def _view_names(view: WindowView, letters: Sequence[str], thresholds: int) -> list[str]:
    words = [word_names([word], [letters[0], *(letters[1 + c] for c in group)])[0] for group, word in view.words()]
    levels = [f"q{Fraction(j + 1, thresholds + 1)}" for j in range(thresholds)]
    shares = [[f"share of {word} above {level}" for word in words] for level in levels]
    means = [f"mean of {word}" for word in words]
    others = [f"{what} of {word}" for what in ("deviation", "largest", "smallest") for word in words]
    whole = [*means, *others, *(name for share in shares for name in share)]
    thirds = [f"{name}, {third}" for names in (means, *shares[::2]) for third in _THIRDS for name in names]
    head = f"{view.lift} dilation {view.dilation}{' base point' if view.base_point else ''}"
    return [f"{head}: {name}" for name in (*whole, *thirds)]
