"""WindowFeatures: the pooled statistics of all views, fitted to training series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from siggpde.numerics.windows import PooledWindows, WindowView, pool_windows
from siggpde.series.batch import SeriesBatch
from siggpde.series.statistics import mean_and_spread
from siggpde.windows.fitting import FittedView, fit_view, lift_scale
from siggpde.windows.settings import WindowSettings


class Block(NamedTuple):
    """The features of one view that belong to one block.

    - `name`: of the block, the lift and "1" for statistics over the whole series or "3" for those over its thirds;
    - `view`: the number of the view;
    - `values`: (n, p), statistic by statistic (and third by third), in each the words of the view.
    """

    name: str
    view: int
    values: Tensor


@dataclass(frozen=True)
class WindowFeatures:
    """Statistics of window signatures of series, for many views (`siggpde.numerics.windows`).

    Made by `fit`. What comes of a series depends on it alone, and on what was learned: `mean` and `spread` of the
    channels (d,), by which series are standardised, `lift_scales` (d,) of each lift, and the scales of each view. All
    is computed in float64: a share of windows above a threshold jumps where a word passes it, and rounding in float32
    would move words past thresholds.

    Examples:
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
        points = batch.values.flatten(0, 1) if batch.lengths is None else batch.values[batch.inside()]
        mean, spread = mean_and_spread(lambda: [points])
        x, lengths = _standardised(batch, mean, spread), batch.counts()
        scales = {lift: lift_scale(x, lengths, lift) for lift in settings.lifts}
        fitted = [
            fit_view(x, batch.lengths, view, scales[view.lift], settings.path_length, settings.thresholds)
            for view in settings.views(batch.channels, lengths.cpu())
        ]
        return WindowFeatures(settings, mean.cpu(), spread.cpu(), scales, tuple(fitted))

    def blocks(self, batch: SeriesBatch, dtype: torch.dtype = torch.float32) -> Iterator[Block]:
        """The blocks of all views, two a view, one at a time: memory is that of one view. Features are of `dtype`."""
        x = self._standardised(batch)
        for number, fitted in enumerate(self.views):
            pooled = self._pooled(x, batch, fitted)
            yield Block(f"{fitted.view.lift}1", number, pooled.whole.flatten(1).to(dtype))
            yield Block(f"{fitted.view.lift}3", number, pooled.thirds.flatten(1).to(dtype))

    def widths(self) -> list[int]:
        """The number of features of each block, in the order of `blocks`."""
        q = self.settings.thresholds
        each = (4 + q, 3 * (1 + (q + 1) // 2))
        return [statistics * fitted.view.columns for fitted in self.views for statistics in each]

    def transform(self, batch: SeriesBatch, dtype: torch.dtype = torch.float32) -> Tensor:
        """All features, (n, sum of `widths`), block beside block."""
        out = torch.empty(len(batch), sum(self.widths()), dtype=dtype, device=batch.values.device)
        for columns, block in zip(out.split(self.widths(), 1), self.blocks(batch, torch.float64), strict=True):
            columns.copy_(block.values)
        return out

    def _pooled(self, x: Tensor, batch: SeriesBatch, fitted: FittedView) -> PooledWindows:
        return pool_windows(
            x,
            fitted.view,
            path_scales=fitted.path_scales,
            thresholds=fitted.thresholds,
            lift_scale=self.lift_scales[fitted.view.lift],
            lengths=batch.lengths,
        )

    def _standardised(self, batch: SeriesBatch) -> Tensor:
        if batch.channels != len(self.mean):
            raise ValueError(f"the series have {batch.channels} channels, but those of fit had {len(self.mean)}")
        return _standardised(batch, self.mean, self.spread)

    def state(self) -> dict[str, Any]:
        """Everything learned as plain values and tensors; `from_state` is the way back."""
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
            FittedView(_view(given["view"]), given["path_scales"], given["thresholds"]) for given in state["views"]
        )
        settings = WindowSettings(**{**state["settings"], "lifts": tuple(state["settings"]["lifts"])})
        return WindowFeatures(settings, state["mean"], state["spread"], dict(state["lift_scales"]), views)


def _view(fields: dict[str, Any]) -> WindowView:
    return WindowView(**{**fields, "groups": tuple(tuple(group) for group in fields["groups"])})


def _standardised(batch: SeriesBatch, mean: Tensor, spread: Tensor) -> Tensor:
    """(n, length, channels), float64: at mean 0 and spread 1 over the training series; padding holds the last."""
    values = batch.hold_last().values.double()
    return ((values - mean.to(values.device)) / spread.to(values.device)).contiguous()
