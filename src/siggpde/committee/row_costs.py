"""What the rows of a series cost, by a model that was calibrated once: the same series have the same committee on every
machine, on every rank and with any load.

Seconds are those of one core with AVX-512. A kernel of p features against m landmarks takes a time for the features,
which grows with p and, for signatures, with the points of the series, and one for the p m products; a kernel by its PDE
takes that of its cells. A member beside these takes its m² products of normal equations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from siggpde.series import SeriesBatch
from siggpde.views.base import Block, FeatureBlock
from siggpde.views.defaults import kernel_seconds
from siggpde.views.kernel import KernelBlock
from siggpde.views.windows import WindowsBlock
from siggpde.windows import WindowSettings

PRODUCT = 4.5e-11
"""Of one feature with one landmark, or of two features of a member's regression, conversions included."""

_LANDMARK = 1e-8  # of centring and mixing a kernel, a landmark
_SERIES = 4e-6  # of a view, a series
_STANDARDISED = 1.4e-8  # of a feature of windows
_POOLED = 5e-11  # the same, a point
_WORD = 6e-10  # of a word of a whole path, a point


def row_seconds(blocks: Sequence[Block], landmarks: SeriesBatch, measured: Mapping[str, float]) -> dict[str, float]:
    """Seconds of one series by the name of the kernel, one of a block among several having its share.

    Of a view of the user's own nothing is known but what was `measured` when its landmarks were transformed.
    """
    points, m = landmarks.values.shape[1], len(landmarks)
    seconds: dict[str, float] = {}
    for block in blocks:
        names = list(block.centring)
        if isinstance(block, KernelBlock):
            whitened = PRODUCT * block.width * (block.width + m)
            seconds[names[0]] = kernel_seconds(block.view, landmarks, 1) + whitened + _LANDMARK * m
        elif isinstance(block, FeatureBlock) and block.kind != "features":
            each = _STANDARDISED + _POOLED * points if isinstance(block, WindowsBlock) else _WORD * points
            for name in names:
                width = sum(part.values.shape[1] for part in block.landmarks if part.name == name)
                seconds[name] = _SERIES / len(names) + width * (each + PRODUCT * m) + _LANDMARK * m
        else:
            seconds |= {name: measured[name] for name in names}
    return seconds


def member_seconds(landmarks: int) -> float:
    """Seconds of one series for the regression of a member: features are whitened, (m, r), and squared, (r, r)."""
    return 2 * PRODUCT * landmarks**2


def landmarks_within(seconds: float, points: int, channels: int) -> int:
    """The most landmarks m with which a series of so many points takes a member of all windows so many seconds:
    p (a + c m) + 2 c m², of p features that take a seconds each, and c a product. None, 0, where features take longer.

    Examples:
        >>> [landmarks_within(seconds, 46, 1) for seconds in (1e-4, 5e-4, 1e-3)]
        [0, 454, 1136]
    """
    settings = WindowSettings()
    statistics = 4 + settings.thresholds + 3 * (1 + (settings.thresholds + 1) // 2)
    columns = sum(view.columns for view in settings.views(channels, torch.tensor([points])))
    features = statistics * columns
    left = (seconds - features * (_STANDARDISED + _POOLED * points)) / PRODUCT
    return 0 if left <= 0 else int((math.sqrt(features**2 + 8 * left) - features) / 4)
