"""Scales of the channels of paths."""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.series import SeriesBatch


def channel_scales(paths: SeriesBatch, time_scale: float, path_length: float) -> Tensor:
    """Scales theta (channels,) at which the median length of the paths is `path_length`.

    All channels have the same scale but time, channel 0, whose scale is `time_scale` times that of the others.
    """
    weights = torch.ones(paths.channels, dtype=torch.float64, device=paths.values.device)
    weights[0] = time_scale
    lengths = (paths.values * weights).diff(dim=1).norm(dim=2).sum(dim=1)
    median = float(lengths.median())
    return weights * (path_length / median if median > 0 else 1.0)
