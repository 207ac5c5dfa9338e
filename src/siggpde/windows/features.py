"""WindowFeatures: the pooled statistics of all views, fitted to training series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from siggpde.numerics.window_view import WindowView
from siggpde.numerics.windows import PooledWindows, pool_windows
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
    channels (d,), by which series are standardised, `lift_scales` (d,) of each lift, and the scales of each view.

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
    def fit(
        batch: SeriesBatch, settings: WindowSettings | None = None, dtype: torch.dtype = torch.float32
    ) -> WindowFeatures:
        """Learns from training series without gaps, computing in `dtype`."""
        settings = WindowSettings() if settings is None else settings
        points = batch.values.flatten(0, 1) if batch.lengths is None else batch.values[batch.inside()]
        mean, spread = mean_and_spread(lambda: [points])
        x, lengths = _standardised(batch, mean, spread, dtype), batch.counts()
        scales = {lift: lift_scale(x, lengths, lift) for lift in settings.lifts}
        fitted = [
            fit_view(x, batch.lengths, view, scales[view.lift], settings.path_length, settings.thresholds)
            for view in settings.views(batch.channels, lengths.cpu())
        ]
        return WindowFeatures(settings, mean.cpu(), spread.cpu(), scales, tuple(fitted))

    def blocks(self, batch: SeriesBatch, dtype: torch.dtype = torch.float32) -> Iterator[Block]:
        """The blocks of all views, two a view, one at a time: memory is that of one view."""
        x = self._standardised(batch, dtype)
        for number, fitted in enumerate(self.views):
            pooled = self._pooled(x, batch, fitted, None)
            yield Block(f"{fitted.view.lift}1", number, pooled.whole.flatten(1))
            yield Block(f"{fitted.view.lift}3", number, pooled.thirds.flatten(1))

    def widths(self) -> list[int]:
        """The number of features of each block, in the order of `blocks`."""
        q = self.settings.thresholds
        each = (4 + q, 3 * (1 + (q + 1) // 2))
        return [statistics * fitted.view.columns for fitted in self.views for statistics in each]

    def transform(self, batch: SeriesBatch, dtype: torch.dtype = torch.float32) -> Tensor:
        """All features, (n, sum of `widths`), block beside block."""
        x, q = self._standardised(batch, dtype), self.settings.thresholds
        out = x.new_empty(len(batch), sum(self.widths()))
        columns = iter(out.split(self.widths(), 1))  # views of the table, which is written to directly
        for fitted in self.views:
            words = fitted.view.columns
            whole = next(columns).unflatten(1, (4 + q, words))
            thirds = next(columns).unflatten(1, (1 + (q + 1) // 2, 3, words))
            self._pooled(x, batch, fitted, PooledWindows(whole, thirds))
        return out

    def _pooled(self, x: Tensor, batch: SeriesBatch, fitted: FittedView, out: PooledWindows | None) -> PooledWindows:
        return pool_windows(
            x,
            fitted.view,
            path_scales=fitted.path_scales,
            thresholds=fitted.thresholds,
            lift_scale=self.lift_scales[fitted.view.lift],
            lengths=batch.lengths,
            out=out,
        )

    def _standardised(self, batch: SeriesBatch, dtype: torch.dtype) -> Tensor:
        if batch.channels != len(self.mean):
            raise ValueError(f"the series have {batch.channels} channels, but those of fit had {len(self.mean)}")
        return _standardised(batch, self.mean, self.spread, dtype)

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


def _standardised(batch: SeriesBatch, mean: Tensor, spread: Tensor, dtype: torch.dtype) -> Tensor:
    """(n, length, channels), contiguous: at mean 0 and spread 1 over the training series; padding holds the last."""
    values = batch.hold_last().values
    return ((values - mean.to(values.device)) / spread.to(values.device)).to(dtype).contiguous()
