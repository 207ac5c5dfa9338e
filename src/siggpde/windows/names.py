"""Names of window features that a person understands."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from siggpde.numerics.windows import WindowView
from siggpde.numerics.words import word_names
from siggpde.windows.features import WindowFeatures

_THIRDS = ("first third", "middle third", "last third")


def feature_names(features: WindowFeatures, channels: Sequence[str], clock: str = "time") -> list[str]:
    """The name of every feature, in the order of `WindowFeatures.transform`; `channels` are names of the channels.

    A name is "<lift> dilation <D>[ base point]: <statistic of a word>[, <third>]"; a word is the channels (and "time",
    or what `clock` calls it) of its iterated integral, in order.

    Examples:
        >>> import torch
        >>> from siggpde.series import SeriesBatch
        >>> from siggpde.windows import WindowSettings
        >>> batch = SeriesBatch(torch.randn(9, 30, 1).double())
        >>> settings = WindowSettings(lifts=("x",), max_dilations=1, thresholds=1)
        >>> names = feature_names(WindowFeatures.fit(batch, settings), ["level"])
        >>> names[1], names[26 * 4 + 2]
        ('x dilation 1: mean of time–level', 'x dilation 1: share of level–time above q1/2')
    """
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
